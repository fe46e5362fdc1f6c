//! Acting as the virtual users of an appservice.
//!
//! An appservice has one token for all of its users, and says in each request as which user and device it acts. Such
//! requests have no rate limit, and their transaction ids stay known to the homeserver as any device's. The SDK knows only
//! sessions with a token of their own, so its requests go through the [`proxy`], which makes the one of the other.
//!
//! Users and devices are made here, without a password. A homeserver that makes no devices for an appservice may still log
//! one in ([`Devices::LoggedIn`]): that session has a token of its own, and the limits of an ordinary account.

mod proxy;

use std::{fmt, io, sync::Arc, time::Duration};

use rand::RngExt as _;
use reqwest::{Client, Method, RequestBuilder, StatusCode, header::CONTENT_TYPE};
use ruma::{DeviceId, OwnedDeviceId, UserId};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use crate::session::REQUEST_TIMEOUT;
use proxy::Proxy;

/// What a device's id begins with, and how many random characters follow.
const DEVICE_PREFIX: &str = "WAYBREAD";
const DEVICE_RANDOM: usize = 10;

/// An appservice, and the way to its homeserver. A handle: clones share it.
#[derive(Clone)]
pub struct Appservice(Arc<Inner>);

struct Inner {
    /// The homeserver's client address, without "/" at its end.
    homeserver: String,
    token: SecretString,
    devices: Devices,
    http: Client,
    proxy: Proxy,
}

/// How virtual users come to their devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// The homeserver makes them where it is asked to (MSC4190), and all requests have the appservice's token.
    Made,
    /// By the appservice's kind of login, which gives each device a token of its own.
    LoggedIn,
}

impl fmt::Debug for Appservice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Appservice").field(&self.0.homeserver).finish()
    }
}

/// Why the homeserver did not do what its appservice asked for.
#[derive(Debug, thiserror::Error)]
pub enum AppserviceError {
    /// No answer.
    #[error("the homeserver can't be reached")]
    Unreachable(#[from] reqwest::Error),
    /// It does not know the appservice.
    #[error("the homeserver does not accept the appservice's token")]
    Token,
    /// It says no.
    #[error("the homeserver refused it: {status} {code}: {message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error's code, such as `M_FORBIDDEN`.
        code: String,
        /// What it says.
        message: String,
    },
}

impl Appservice {
    /// The appservice with this token, at the homeserver with this client address.
    ///
    /// # Errors
    /// When nothing can be listened on at this machine.
    pub async fn open(homeserver: &str, token: SecretString, devices: Devices) -> io::Result<Self> {
        let homeserver = homeserver.trim_end_matches('/').to_owned();
        let client = || Client::builder().redirect(reqwest::redirect::Policy::none());
        let proxy =
            Proxy::start(homeserver.clone(), token.clone(), client().build().map_err(io::Error::other)?).await?;
        // Agents ask from runtimes of their own: a connection that outlives its request would end with one of them.
        let http = client().pool_max_idle_per_host(0).build().map_err(io::Error::other)?;
        Ok(Self(Arc::new(Inner { homeserver, token, devices, http, proxy })))
    }

    /// Makes the user, unless it is there.
    ///
    /// # Errors
    /// When the homeserver does not make it.
    pub async fn register(&self, user: &UserId) -> Result<(), AppserviceError> {
        let body = json!({
            "type": "m.login.application_service",
            "username": user.localpart(),
            "inhibit_login": true,
        });
        match self.ask(Method::POST, "/_matrix/client/v3/register", None, Some(body)).await {
            Err(AppserviceError::Refused { code, .. }) if code == "M_USER_IN_USE" => Ok(()),
            made => made.map(drop),
        }
    }

    /// Gives the user this picture, one that was uploaded, unless it has it.
    ///
    /// # Errors
    /// When the homeserver does not do it.
    pub async fn picture(&self, user: &UserId, mxc: &str) -> Result<(), AppserviceError> {
        self.profile(user, "avatar_url", mxc).await
    }

    /// Gives the user this display name, unless it has it.
    ///
    /// # Errors
    /// When the homeserver does not do it.
    pub async fn name(&self, user: &UserId, name: &str) -> Result<(), AppserviceError> {
        self.profile(user, "displayname", name).await
    }

    async fn profile(&self, user: &UserId, key: &str, value: &str) -> Result<(), AppserviceError> {
        let path = format!("/_matrix/client/v3/profile/{}/{key}", encoded(user.as_str()));
        let known = match self.ask(Method::GET, &path, Some(user), None).await {
            Err(AppserviceError::Refused { status: 404, .. }) => Value::Null,
            known => known?,
        };
        if known[key] == value {
            return Ok(());
        }
        self.ask(Method::PUT, &path, Some(user), Some(json!({ key: value }))).await.map(drop)
    }

    /// Uploads a file for everybody, as the user. Gives its `mxc:` address.
    ///
    /// # Errors
    /// When the homeserver does not take it.
    pub async fn upload(&self, user: &UserId, content_type: &str, file: Vec<u8>) -> Result<String, AppserviceError> {
        let request = self.request(Method::POST, "/_matrix/media/v3/upload", Some(user));
        let answer = answer(request.header(CONTENT_TYPE, content_type).body(file)).await?;
        Ok(answer["content_uri"].as_str().unwrap_or_default().to_owned())
    }

    /// A new device of the user, and its token where it has one of its own.
    pub(crate) async fn new_device(
        &self,
        user: &UserId,
        name: &str,
    ) -> Result<(OwnedDeviceId, Option<String>), AppserviceError> {
        let device = new_id();
        match self.0.devices {
            Devices::Made => {
                let path = format!("/_matrix/client/v3/devices/{device}");
                self.ask(Method::PUT, &path, Some(user), Some(json!({ "display_name": name }))).await?;
                Ok((device, None))
            }
            Devices::LoggedIn => {
                let body = json!({
                    "type": "m.login.application_service",
                    "identifier": {"type": "m.id.user", "user": user},
                    "device_id": device,
                    "initial_device_display_name": name,
                });
                let answer = self.ask(Method::POST, "/_matrix/client/v3/login", None, Some(body)).await?;
                Ok((device, answer["access_token"].as_str().map(str::to_owned)))
            }
        }
    }

    /// Asks the homeserver to ask for us, and gives how long that took. Then it also sends at once what it has kept while
    /// we were away.
    ///
    /// # Errors
    /// When it does not reach us, or we don't reach it.
    pub async fn ping(&self, id: &str) -> Result<Duration, AppserviceError> {
        let path = format!("/_matrix/client/v1/appservice/{}/ping", encoded(id));
        let answer = self.ask(Method::POST, &path, None, Some(json!({}))).await?;
        Ok(Duration::from_millis(answer["duration_ms"].as_u64().unwrap_or_default()))
    }

    /// The token by which a client of this process acts as the device, at [`Appservice::address`].
    pub(crate) fn admit(&self, user: &UserId, device: &DeviceId) -> String {
        self.0.proxy.admit(user, device)
    }

    /// The homeserver's address for clients of this process.
    pub(crate) fn address(&self) -> String {
        self.0.proxy.address()
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        user: Option<&UserId>,
        body: Option<Value>,
    ) -> Result<Value, AppserviceError> {
        let request = self.request(method, path, user);
        answer(match body {
            Some(body) => request.json(&body),
            None => request,
        })
        .await
    }

    /// A request with the appservice's token, as this user or as the appservice itself.
    fn request(&self, method: Method, path: &str, user: Option<&UserId>) -> RequestBuilder {
        let Inner { homeserver, token, http, .. } = &*self.0;
        let mut url = format!("{homeserver}{path}");
        if let Some(user) = user {
            url = format!("{url}?user_id={}", encoded(user.as_str()));
        }
        http.request(method, url).bearer_auth(token.expose_secret()).timeout(REQUEST_TIMEOUT)
    }
}

async fn answer(request: RequestBuilder) -> Result<Value, AppserviceError> {
    let answer = request.send().await?;
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or_default();
    if status.is_success() {
        return Ok(body);
    }
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    match text("errcode") {
        code if status == StatusCode::UNAUTHORIZED && code == "M_UNKNOWN_TOKEN" => Err(AppserviceError::Token),
        code => Err(AppserviceError::Refused { status: status.as_u16(), code, message: text("error") }),
    }
}

fn new_id() -> OwnedDeviceId {
    let mut random = rand::rng();
    let letters = (0..DEVICE_RANDOM).map(|_| char::from(random.random_range(b'A'..=b'Z')));
    DEVICE_PREFIX.chars().chain(letters).collect::<String>().into()
}

/// A part of an address.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
