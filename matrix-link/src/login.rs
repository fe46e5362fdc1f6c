//! Logs in, or has a device made for a virtual user: at the first start, and when a new device is to take an old one's place.
//!
//! Without a store, and before anything in the state folder is touched: a login that is refused leaves no trace. It is
//! tried once, since homeservers allow few, and a refusal for that reason says how long to wait.

use std::fmt;

use matrix_sdk::{
    Client, HttpError, SessionMeta, SessionTokens, authentication::matrix::MatrixSession, config::RequestConfig,
    store::RoomLoadSettings,
};
use ruma::{
    UserId,
    api::{
        client::{
            session::login::v3::{LoginInfo, Password, Request as LogIn},
            uiaa::{MatrixUserIdentifier, UserIdentifier},
        },
        error::{ErrorKind, FromHttpResponseError, RetryAfter},
    },
};
use secrecy::{ExposeSecret, SecretString};

use crate::{Account, Appservice, Credentials, OpenError, roots, session::REQUEST_TIMEOUT};

/// A session that was made and is not kept yet: [`crate::Link::begin`] does that.
pub struct Login(pub(crate) MatrixSession);

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Login").field(&self.0.meta).finish()
    }
}

/// Makes a session of the account: a new device by the password, or the one of an access token.
///
/// # Errors
/// See [`OpenError`]. Nothing of the state folder is touched in any case.
pub async fn log_in(account: &Account) -> Result<Login, OpenError> {
    match &account.credentials {
        None => Err(OpenError::NoCredentials(account.user.clone())),
        Some(Credentials::Password(password)) => {
            let mut request = request(&account.user, password);
            request.initial_device_display_name = Some(account.device_name.clone());
            let made = without_store(account).await?.send(request).await.map_err(|error| classify(account, error))?;
            Ok(Login((&made).into()))
        }
        Some(Credentials::Token(token)) => who_is(account, token).await.map(Login),
        Some(Credentials::Appservice(appservice)) => virtual_user(account, appservice).await.map(Login),
    }
}

/// A new device of a virtual user, who is made where it is not there. Where the appservice's token serves for it, it has
/// none in what is kept.
async fn virtual_user(account: &Account, appservice: &Appservice) -> Result<MatrixSession, OpenError> {
    let user_id = account.user.clone();
    let failed = |source| OpenError::Virtual { user: account.user.clone(), source };
    appservice.register(&user_id).await.map_err(failed)?;
    let (device_id, token) = appservice.new_device(&user_id, &account.device_name).await.map_err(failed)?;
    let tokens = SessionTokens { access_token: token.unwrap_or_default(), refresh_token: None };
    Ok(MatrixSession { meta: SessionMeta { user_id, device_id }, tokens })
}

/// A login by the password, with refresh tokens where the homeserver has them.
pub(crate) fn request(user: &UserId, password: &SecretString) -> LogIn {
    let user = UserIdentifier::Matrix(MatrixUserIdentifier::new(user.to_string()));
    let mut request = LogIn::new(LoginInfo::Password(Password::new(user, password.expose_secret().to_owned())));
    request.refresh_token = true;
    request
}

/// Asks the homeserver whose token it is, before it is bound to a store.
async fn who_is(account: &Account, token: &SecretString) -> Result<MatrixSession, OpenError> {
    let client = without_store(account).await?;
    let tokens = SessionTokens { access_token: token.expose_secret().to_owned(), refresh_token: None };
    let asking = SessionMeta { user_id: account.user.clone(), device_id: "UNKNOWN".into() };
    let asking = MatrixSession { meta: asking, tokens: tokens.clone() };
    client
        .matrix_auth()
        .restore_session(asking, RoomLoadSettings::default())
        .await
        .map_err(|error| OpenError::Sdk(Box::new(error)))?;
    let answer = client.whoami().await.map_err(|error| classify(account, error))?;
    if answer.user_id != account.user {
        return Err(OpenError::OtherAccount {
            folder: account.state_dir.clone(),
            kept: answer.user_id,
            asked: account.user.clone(),
        });
    }
    let device_id = answer.device_id.ok_or_else(|| OpenError::Forbidden(account.user.clone()))?;
    Ok(MatrixSession { meta: SessionMeta { user_id: answer.user_id, device_id }, tokens })
}

async fn without_store(account: &Account) -> Result<Client, OpenError> {
    let builder = roots::builder().map_err(OpenError::Build)?.homeserver_url(&account.homeserver);
    let once = RequestConfig::new().timeout(REQUEST_TIMEOUT).disable_retry();
    builder.request_config(once).build().await.map_err(|error| OpenError::Build(Box::new(error)))
}

fn classify(account: &Account, error: HttpError) -> OpenError {
    match error.client_api_error_kind() {
        Some(ErrorKind::Forbidden | ErrorKind::UnknownToken(_)) => OpenError::Forbidden(account.user.clone()),
        Some(ErrorKind::LimitExceeded(limit)) => OpenError::RateLimited(match limit.retry_after {
            Some(RetryAfter::Delay(delay)) => delay,
            _ => REQUEST_TIMEOUT,
        }),
        Some(_) => OpenError::Sdk(Box::new(error.into())),
        None => {
            let homeserver = account.homeserver.clone();
            match no_homeserver(&error) {
                Some(answer) => OpenError::NoHomeserver { homeserver, answer },
                None => OpenError::Unreachable { homeserver, source: Box::new(error.into()) },
            }
        }
    }
}

/// What was answered, where no homeserver would answer so: one that does not know an address says so in Matrix's own way.
pub(crate) fn no_homeserver(error: &HttpError) -> Option<String> {
    if let HttpError::Api(error) = error
        && let FromHttpResponseError::Deserialization(_) = **error
    {
        return Some("something that is not Matrix".to_owned());
    }
    let error = error.as_client_api_error()?;
    let status = error.status_code.as_u16();
    (error.error_kind().is_none() && matches!(status, 404 | 405)).then(|| format!("HTTP {status}"))
}
