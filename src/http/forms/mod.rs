//! One-time forms: pages for one person, one browser, one submission. What is secret on them never passes through a chat.
//!
//! - The address has 256 random bits; the store keeps their digest. It is compared in constant time, and whoever guesses is
//!   slowed down by their address.
//! - A GET changes nothing, so a client that looks at links for a preview does no harm. The first page has one button: the
//!   browser that presses it is the only one that sees the form.
//! - The submission is one transaction: the form's verdict and its secrets, or neither.
//! - Pages are made here, need no script and load nothing from elsewhere (`page`); `serve` is the listener with its
//!   bounds, `routes` what is asked.
//!
//! The question behind a form is an ask like any other: a deadline, one verdict, known after a restart.

mod browser;
mod limits;
mod page;
mod routes;
mod serve;
mod spec;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rand::Rng as _;
use reqwest::Url;
use ruma::{OwnedRoomId, OwnedUserId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{runtime::Handle, sync::OnceCell};

#[cfg(test)]
pub(crate) use routes::router;
pub use spec::{Faults, Field, FieldKind, FormSpec, Given, MAX_FILE, MAX_SECRET, MAX_TEXT, Sent};

use crate::{
    asks::Asks,
    clock::Clock,
    config,
    store::{Ask, AskKind, Call, Store, StoreError},
};

/// Forms at an agent; all agents of a process serve theirs at one place. A handle: clones share them.
#[derive(Clone)]
pub struct Forms(Arc<Parts>);

struct Parts {
    store: Store,
    asks: Asks,
    site: Arc<Site>,
}

/// Where forms are served.
struct Site {
    clock: Arc<dyn Clock>,
    settings: config::Forms,
    bounds: Bounds,
    /// The address, once somebody needs it.
    served: OnceCell<Url>,
    visits: limits::Visits,
    /// The listener outlives the agent that needs it first.
    runtime: Handle,
}

/// Bounds of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How long a whole request may take.
    pub(crate) request: Duration,
    /// Requests of one address at once, and how many it gets back in a second.
    pub(crate) burst: f64,
    pub(crate) per_second: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { request: Duration::from_secs(30), burst: 60.0, per_second: 1.0 }
    }
}

/// A form that is open: what the question behind it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// The form.
    pub spec: FormSpec,
    /// Whose its secrets become.
    pub owner: crate::store::SecretOwner,
    /// The command that has opened it.
    pub command: String,
    /// The room that the person has asked in.
    pub asked_in: OwnedRoomId,
    /// The agent's name.
    pub agent: String,
    /// The person's name.
    pub person: String,
    /// The name of the room, where it has one.
    pub room_name: Option<String>,
    /// The digest of the address's secret part.
    pub digest: String,
}

/// A form to open.
#[derive(Debug, Clone)]
pub struct NewForm {
    /// What it is; its digest is made here.
    pub opened: Opened,
    /// The private room that its address is sent to.
    pub room: OwnedRoomId,
    /// Who it is for.
    pub person: OwnedUserId,
}

/// What came of a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormVerdict {
    /// It was sent.
    Given(Submitted),
    /// It was not sent in time.
    Expired,
    /// It was taken back.
    Withdrawn,
}

/// What was sent, without the secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submitted {
    /// The names of the fields that were filled in.
    pub fields: Vec<String>,
    /// The values of the plain ones.
    pub plain: std::collections::BTreeMap<String, String>,
    /// The names of the secrets that were stored.
    pub secrets: Vec<String>,
    /// The kind of browser.
    pub browser: String,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

impl FormVerdict {
    /// As it is kept.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// What a store has kept; what can't be read counts as no answer.
    pub fn read(value: &Value) -> Self {
        serde_json::from_value(value.clone()).unwrap_or(Self::Expired)
    }
}

impl Forms {
    /// The forms of the store's agent; nothing is listened on before one is opened. To be called in the runtime that is to
    /// serve them.
    pub fn new(store: Store, clock: Arc<dyn Clock>, settings: config::Forms) -> Self {
        Self::with(store, clock, settings, Bounds::default())
    }

    pub(crate) fn with(store: Store, clock: Arc<dyn Clock>, settings: config::Forms, bounds: Bounds) -> Self {
        let asks = Asks::new(store.clone(), clock.clone());
        let visits = limits::Visits::new(bounds.burst, bounds.per_second);
        let site = Site { clock, settings, bounds, served: OnceCell::new(), visits, runtime: Handle::current() };
        Self(Arc::new(Parts { store, asks, site: Arc::new(site) }))
    }

    /// Those of another agent, served at the same place.
    #[must_use]
    pub fn of(&self, agent: &UserId) -> Self {
        let store = self.0.store.of(agent);
        Self(Arc::new(Parts { asks: self.0.asks.of(store.clone()), store, site: self.0.site.clone() }))
    }

    /// Those of the agent that has opened a form.
    async fn with_form(&self, id: &str) -> Result<Option<Self>, StoreError> {
        Ok(self.0.store.form_agent(id).await?.map(|agent| self.of(&agent)))
    }

    /// The questions behind the forms.
    pub fn asks(&self) -> &Asks {
        &self.0.asks
    }

    /// How long a form is open.
    pub fn open_for(&self) -> Duration {
        self.0.site.settings.open_for
    }

    /// Whether the address works on this machine alone.
    pub fn is_local(&self) -> bool {
        self.0.site.settings.public_url.is_none() && self.0.site.settings.listen.ip().is_loopback()
    }

    /// The address that forms stand under. Listens from the first call on.
    ///
    /// # Errors
    /// When it can't be listened there.
    pub async fn address(&self) -> std::io::Result<Url> {
        let served = self.0.site.served.get_or_try_init(|| async {
            let listening = serve::begin(self.clone(), self.0.site.settings.listen);
            let bound = self.0.site.runtime.spawn(listening).await.map_err(std::io::Error::other)??;
            let base = match &self.0.site.settings.public_url {
                Some(url) => url.clone(),
                None => base_of(bound)?,
            };
            if self.0.site.settings.public_url.is_none() {
                tracing::warn!(
                    address = %base,
                    "forms are served without forms.public_url: only who reaches this address can open them, and nothing \
                     encrypts what they send but what stands before it"
                );
            }
            Ok::<_, std::io::Error>(base)
        });
        served.await.cloned()
    }

    /// Serves nowhere, as if under this address: for tests that have no network.
    #[cfg(test)]
    pub(crate) fn pretend_to_be_at(&self, base: &str) {
        let _ = self.0.site.served.set(Url::parse(base).unwrap_or_else(|_| unreachable!("a test's own address")));
    }

    /// Keeps a new form, and gives the question behind it and its address.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn open(&self, new: NewForm, base: &Url, call: &Call) -> Result<(Ask, String), StoreError> {
        let (id, secret) = (random(16), random(32));
        let opened = Opened { digest: self.digest_of(&id, &secret)?, ..new.opened };
        let now = self.0.site.clock.now();
        let ask = Ask {
            id: id.clone(),
            kind: AskKind::Form,
            room: new.room,
            thread: None,
            person: new.person,
            question: serde_json::to_value(&opened)?,
            event: None,
            // Until its address is sent it waits for the homeserver, not for the person.
            expires_at: now.saturating_add(self.open_for() * 2).unwrap_or(now),
            verdict: None,
        };
        self.0.store.ask(&ask, call, now).await?;
        self.0.store.form_opened(&id).await?;
        // It stands in a private room only, and must not come back from there to a model or a log.
        self.0.store.guard().keep("form", &secret);
        Ok((ask, format!("{base}form/{id}/{secret}")))
    }

    fn digest_of(&self, id: &str, secret: &str) -> Result<String, StoreError> {
        self.0.store.digest(&format!("form {id} {secret}"))
    }
}

fn base_of(bound: SocketAddr) -> std::io::Result<Url> {
    Url::parse(&format!("http://{bound}/")).map_err(std::io::Error::other)
}

/// So many random bytes, as characters that stand in an address as they are.
fn random(bytes: usize) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = vec![0; (bytes * 8).div_ceil(6)];
    rand::rng().fill_bytes(&mut random);
    random.iter().filter_map(|byte| DIGITS.get(usize::from(byte & 63))).map(|&digit| char::from(digit)).collect()
}
