//! Keeps a session alive: tokens are saved when they change, and after a soft logout the same device logs in again.
//!
//! A soft logout ends the token and not the device: the crypto store stays as it is, and the same device id with it. After
//! a hard one the device is gone, and its id must never be used again.
//!
//! The SDK's client takes a session once in its life, so a renewed one is written down and the caller opens it anew.

use std::{path::PathBuf, time::Duration};

use matrix_sdk::{Client, Error, HttpError, RefreshTokenError, SessionChange, config::RequestConfig};
use ruma::api::error::{ErrorKind, RetryAfter};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

use crate::{
    Credentials, Link, login,
    session::{REQUEST_TIMEOUT, write_session},
    sync::SyncError,
};

/// The wait after a login that failed doubles from the first to the second: homeservers allow few logins.
const RETRY_FIRST: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(600);

/// How the homeserver has ended a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logout {
    /// The token has ended, the device stays.
    Soft,
    /// The device is gone.
    Hard,
}

impl Logout {
    fn of(soft: bool) -> Self {
        if soft { Self::Soft } else { Self::Hard }
    }

    /// Whether `error` says that the session is over, and how.
    ///
    /// When a refresh was refused, the error is the refresh's; what ended the token was broadcast before.
    pub(crate) fn found_in(error: &Error, changes: &mut Receiver<SessionChange>) -> Option<Self> {
        if let Some(ErrorKind::UnknownToken(data)) = error.client_api_error_kind() {
            return Some(Self::of(data.soft_logout));
        }
        // What a virtual user is told, who has no token of its own.
        if error.client_api_error_kind().is_some_and(|kind| kind.errcode().as_str() == "M_UNKNOWN_DEVICE") {
            return Some(Self::Hard);
        }
        let Error::Http(http) = error else { return None };
        let HttpError::RefreshToken(RefreshTokenError::MatrixAuth(refused)) = &**http else { return None };
        let refused = refused.as_client_api_error()?;
        if !matches!(refused.status_code.as_u16(), 400 | 401 | 403) {
            return None;
        }
        let mut found = Self::Hard;
        loop {
            match changes.try_recv() {
                Ok(SessionChange::UnknownToken(data)) => found = Self::of(data.soft_logout),
                Ok(SessionChange::TokensRefreshed) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return Some(found),
            }
        }
    }
}

/// Writes the tokens down each time that the homeserver gives new ones, before they are used.
pub(crate) fn save_changes(client: &Client, folder: PathBuf) -> Result<(), Error> {
    client.set_session_callbacks(
        // Asked for where several processes share a session, which ours never do.
        Box::new(|client| client.session_tokens().ok_or_else(|| "no session".into())),
        Box::new(move |client| {
            let session = client.matrix_auth().session().ok_or("no session")?;
            Ok(write_session(&folder, &session)?)
        }),
    )
}

impl Link {
    /// Logs the same device in again after a soft logout; waits as long as the homeserver is away.
    pub(crate) async fn renew(&self, ended: Error) -> SyncError {
        let (Some(Credentials::Password(password)), Some(device)) = (&self.credentials, self.device_id()) else {
            return SyncError::NoPassword(Box::new(ended));
        };
        tracing::warn!(%device, "soft logout: logging in again");
        let mut request = login::request(&self.user, password);
        request.device_id = Some(device);
        let mut retry = RETRY_FIRST;
        loop {
            let config = RequestConfig::new().disable_retry().timeout(REQUEST_TIMEOUT);
            let wait = match self.client.send(request.clone()).with_request_config(config).await {
                Ok(session) => match write_session(&self.state_dir, &(&session).into()) {
                    Ok(()) => return SyncError::SessionRenewed,
                    Err(error) => return SyncError::NotSaved(error),
                },
                Err(error) => match error.client_api_error_kind() {
                    Some(ErrorKind::Forbidden | ErrorKind::UserDeactivated) => {
                        return SyncError::LoggedOut(Box::new(error.into()));
                    }
                    Some(ErrorKind::LimitExceeded(limit)) => match &limit.retry_after {
                        Some(RetryAfter::Delay(delay)) => (*delay).max(retry),
                        _ => retry,
                    },
                    _ => {
                        tracing::warn!(%error, wait = ?retry, "login failed");
                        retry
                    }
                },
            };
            tokio::time::sleep(wait).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use ruma::api::error::UnknownTokenErrorData;
    use tokio::sync::broadcast;

    use super::*;

    #[test]
    fn an_error_of_another_kind_ends_no_session() {
        let (sender, mut changes) = broadcast::channel(1);
        sender.send(SessionChange::UnknownToken(UnknownTokenErrorData::new())).unwrap();
        assert_eq!(Logout::found_in(&Error::AuthenticationRequired, &mut changes), None);
    }

    #[test]
    fn a_refresh_that_could_not_be_asked_for_ends_no_session() {
        let (_sender, mut changes) = broadcast::channel(1);
        let failed =
            RefreshTokenError::MatrixAuth(Arc::new(HttpError::RefreshToken(RefreshTokenError::RefreshTokenRequired)));
        let error = Error::Http(Box::new(HttpError::RefreshToken(failed)));
        assert_eq!(Logout::found_in(&error, &mut changes), None);
    }
}
