//! Which agents are open.
//!
//! An open agent has a thread and a runtime of its own. When it is closed or opened anew, all that works for it ends with
//! them, as in a crash: two clients on one store of keys would spoil it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use matrix_link::{Appservice, Link, SyncError, SyncState};
use ruma::{OwnedUserId, UserId};
use tokio::{
    runtime,
    sync::{Semaphore, oneshot},
    time::sleep,
};

use super::super::{
    Start,
    agent::{Agent, Hears, Left},
    models, open,
};
use crate::{
    config::{Config, Persona},
    inbox::Inbox,
    observe::Health,
    outbox::Outbox,
    store::{Store, StoreError},
};

/// The wait before an agent that could not be opened is opened again doubles from the first to the second.
const RETRY_FIRST: Duration = Duration::from_secs(2);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// How often an open agent looks whether it may be closed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long what still runs on a blocking thread may take when an agent is closed.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// The SDK's futures are nested deep.
const STACK_BYTES: usize = 8 << 20;

/// The agents of the appservice. A handle: clones share it.
#[derive(Clone)]
pub(super) struct Agents(Arc<Inner>);

struct Inner {
    config: Config,
    personas: BTreeMap<OwnedUserId, Persona>,
    store: Store,
    appservice: Appservice,
    health: Health,
    start: Start,
    began: Timestamp,
    /// One for each turn that may run at once.
    places: Arc<Semaphore>,
    /// One for each agent that may be open at once.
    seats: Arc<Semaphore>,
    /// How many wait for a seat.
    standing: AtomicUsize,
    open: Mutex<HashMap<OwnedUserId, Resident>>,
    /// Held while a transaction is taken in.
    taking: tokio::sync::Mutex<()>,
}

/// An agent that is open, or about to be.
struct Resident {
    /// When there was last something for it.
    rung_at: Instant,
    /// Its session, when it is open.
    link: Option<Arc<Link>>,
    inbox: Option<Inbox>,
    outbox: Option<Outbox>,
}

/// How an agent was closed.
enum Closed {
    /// It has nothing to do.
    Idle,
    /// To be opened anew, as this device or a new one.
    Anew { new_device: bool },
}

impl Agents {
    pub(super) fn new(config: Config, store: Store, appservice: Appservice, health: Health, start: Start) -> Self {
        let personas = config.agents.iter().map(|persona| (persona.user().to_owned(), persona.clone())).collect();
        Self(Arc::new(Inner {
            personas,
            store,
            appservice,
            health,
            start,
            began: Timestamp::now(),
            places: Arc::new(Semaphore::new(config.turn.max_concurrent)),
            seats: Arc::new(Semaphore::new(config.appservice.max_open)),
            standing: AtomicUsize::new(0),
            open: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
            config,
        }))
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(super) fn taking(&self) -> &tokio::sync::Mutex<()> {
        &self.0.taking
    }

    /// Whether this is one of us.
    pub(super) fn is_agent(&self, user: &UserId) -> bool {
        self.0.personas.contains_key(user)
    }

    /// Makes one of us on the homeserver, with its name; nothing happens where it is there.
    pub(super) async fn introduce(&self, user: &UserId) -> anyhow::Result<()> {
        let persona = self.0.personas.get(user).ok_or_else(|| anyhow!("{user} is no agent"))?;
        self.0.appservice.register(user).await?;
        if let Some(name) = &persona.display_name {
            self.0.appservice.name(user, name).await?;
        }
        Ok(())
    }

    /// The session of an agent that is open and has heard of the homeserver.
    pub(super) fn live(&self, user: &UserId) -> Option<Arc<Link>> {
        let link = self.open().get(user)?.link.clone()?;
        (*link.sync_state().borrow() == SyncState::Live).then_some(link)
    }

    /// Messages with something to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.open().values().filter_map(|one| one.outbox.as_ref()).map(Outbox::waiting).sum()
    }

    /// Opens the agents that have something to do.
    pub(super) async fn wake_those_at_work(&self) -> Result<(), StoreError> {
        for user in self.0.store.at_work().await? {
            self.wake(&user);
        }
        Ok(())
    }

    /// There is something for an agent: it is opened, unless it is.
    pub(super) fn wake(&self, user: &UserId) {
        if !self.is_agent(user) {
            // One that an earlier configuration had.
            return;
        }
        let mut open = self.open();
        if let Some(resident) = open.get_mut(user) {
            resident.rung_at = Instant::now();
            if let Some(inbox) = &resident.inbox {
                inbox.arrived();
            }
            return;
        }
        open.insert(user.to_owned(), Resident { rung_at: Instant::now(), link: None, inbox: None, outbox: None });
        drop(open);
        let (agents, user) = (self.clone(), user.to_owned());
        tokio::spawn(async move { agents.keep_open(&user).await });
    }

    /// Opens an agent, again where it must be, until it has nothing to do.
    async fn keep_open(&self, user: &UserId) {
        self.0.standing.fetch_add(1, Ordering::Relaxed);
        let seat = self.0.seats.acquire().await;
        self.0.standing.fetch_sub(1, Ordering::Relaxed);
        let Ok(_seat) = seat else { return };
        let (mut retry, mut new_device) = (RETRY_FIRST, false);
        loop {
            let opened_at = Instant::now();
            // Where no new device could be made, the old one says again why it can't be used.
            match self.on_a_thread(user, std::mem::take(&mut new_device)).await {
                Ok(Closed::Idle) if self.leave(user).await => {
                    tracing::debug!(%user, "closed: nothing to do");
                    return;
                }
                Ok(Closed::Idle) => continue,
                Ok(Closed::Anew { new_device: new }) => new_device = new,
                Err(error) => {
                    tracing::error!(%user, error = &*error as &dyn std::error::Error, "the agent is not open");
                }
            }
            if opened_at.elapsed() > RETRY_MAX {
                retry = RETRY_FIRST;
            }
            sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    /// Runs an agent in a runtime of its own, and waits until nothing of it is left.
    async fn on_a_thread(&self, user: &UserId, new_device: bool) -> anyhow::Result<Closed> {
        let (agents, of, (ended, end)) = (self.clone(), user.to_owned(), oneshot::channel());
        let run = move || {
            let outcome =
                runtime::Builder::new_current_thread().enable_all().build().context("no runtime").and_then(|runtime| {
                    let outcome = runtime.block_on(agents.run(&of, new_device));
                    agents.forget_session(&of);
                    runtime.shutdown_timeout(SHUTDOWN);
                    outcome
                });
            let _ = ended.send(outcome);
        };
        thread::Builder::new()
            .name(user.localpart().to_owned())
            .stack_size(STACK_BYTES)
            .spawn(run)
            .context("no thread")?;
        end.await.unwrap_or_else(|_| Err(anyhow!("the agent's thread has ended")))
    }

    async fn run(&self, user: &UserId, new_device: bool) -> anyhow::Result<Closed> {
        let Inner { personas, appservice, health, start, began, places, .. } = &*self.0;
        let persona = personas.get(user).ok_or_else(|| anyhow!("{user} is no agent"))?;
        let (config, store) = (&persona.config, self.0.store.of(user));
        self.introduce(user).await?;
        let start = Start { new_device, ..*start };
        let link = Arc::new(open::link(config, &store, start, Some(appservice)).await?);
        let models = models::build(&config.model, &store, health)?;
        let hears = Hears::Since(*began);
        let mut agent = Agent::new(config, link.clone(), store, models, health.clone(), places.clone(), hears);
        if let Some(resident) = self.open().get_mut(user) {
            resident.link = Some(link.clone());
            resident.inbox = Some(agent.inbox.clone());
            resident.outbox = Some(agent.outbox.clone());
        }
        tracing::info!(%user, "open");
        tokio::select! {
            left = agent.run() => match left {
                Left::Sync(reason) if reason.begin_anew() => {
                    tracing::warn!(%user, reason = &reason as &dyn std::error::Error, "opened anew");
                    Ok(Closed::Anew { new_device: false })
                }
                Left::Sync(reason @ (SyncError::LoggedOut(_) | SyncError::StoreLost)) => {
                    tracing::warn!(%user, reason = &reason as &dyn std::error::Error, "opened anew, as a new device");
                    Ok(Closed::Anew { new_device: true })
                }
                Left::Sync(reason) => Err(reason.into()),
                Left::Other(reason) => Err(anyhow!(reason)),
            },
            () = self.idle(user, &link) => Ok(Closed::Idle),
        }
    }

    /// Ends when an agent has had nothing to do for long enough; where others wait for a seat, for two looks.
    async fn idle(&self, user: &UserId, link: &Link) {
        let patience = self.0.config.appservice.close_after;
        let mut looks = 0;
        loop {
            sleep(LOOK_EVERY).await;
            let quiet = self.open().get(user).is_none_or(|one| one.rung_at.elapsed() >= patience);
            let wanted = self.0.standing.load(Ordering::Relaxed) > 0;
            let idle = (quiet || wanted) && !self.is_at_work(user).await && !link.is_answering_invites();
            // What a round of sync has brought may be between two hands at one of them.
            looks = if idle { looks + 1 } else { 0 };
            if looks >= 2 {
                return;
            }
        }
    }

    async fn is_at_work(&self, user: &UserId) -> bool {
        match self.0.store.at_work().await {
            Ok(at_work) => at_work.contains(user),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "what is to be done can't be read");
                true
            }
        }
    }

    /// Takes an agent off the open ones, unless it was rung meanwhile.
    async fn leave(&self, user: &UserId) -> bool {
        // A transaction is on disk before it rings.
        let _taking = self.0.taking.lock().await;
        if self.is_at_work(user).await {
            return false;
        }
        self.open().remove(user);
        true
    }

    fn forget_session(&self, user: &UserId) {
        if let Some(resident) = self.open().get_mut(user) {
            (resident.link, resident.inbox, resident.outbox) = (None, None, None);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<OwnedUserId, Resident>> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
