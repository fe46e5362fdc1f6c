//! Which agents are open.
//!
//! An open agent has a thread and a runtime of its own. When it is closed or opened anew, all that works for it ends with
//! them, as in a crash: two clients on one store of keys would spoil it.
//!
//! At most `max_open` are open at once. One that waits for a seat takes the seat of one that has nothing to do, however
//! lately it had; else an agent stays for `close_after_seconds`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use matrix_link::{Appservice, Link, SyncError, SyncState, has_lost_its_store};
use ruma::{OwnedUserId, UserId};
use tokio::{
    runtime,
    sync::{Semaphore, SemaphorePermit, oneshot, watch},
    time::{Instant, sleep},
};

use super::{
    super::{
        Start,
        agent::{Agent, Commons, Hears, Left},
        models, open,
    },
    avatar,
};
use crate::{
    config::{Config, Persona},
    inbox::Inbox,
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
    /// Those that are on the homeserver with their name and picture, as far as this run knows.
    introduced: Mutex<BTreeSet<OwnedUserId>>,
    store: Store,
    appservice: Appservice,
    commons: Commons,
    start: Start,
    began: Timestamp,
    /// One for each agent that may be open at once.
    seats: Arc<Semaphore>,
    /// How many idle agents are to leave for others that wait for a seat.
    wanted: AtomicUsize,
    residents: Mutex<HashMap<OwnedUserId, Resident>>,
    /// Held while a transaction is taken in.
    taking: tokio::sync::Mutex<()>,
}

/// An agent that is open, or about to be.
struct Resident {
    /// When there was last something for it.
    woken_at: Instant,
    /// When there was last something for its sync to bring.
    rung_at: watch::Sender<Instant>,
    /// What it works with, when it is open.
    open: Option<Open>,
}

struct Open {
    link: Arc<Link>,
    inbox: Inbox,
    outbox: Outbox,
}

/// What there is for an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum For {
    /// Something in its inbox.
    Inbox,
    /// Something that its sync is to bring.
    Sync,
}

/// How an agent was closed.
enum Closed {
    /// It has nothing to do.
    Idle,
    /// To be opened anew, as this device or a new one.
    Anew { new_device: bool },
}

impl Agents {
    pub(super) fn new(
        mut config: Config,
        store: Store,
        appservice: Appservice,
        commons: Commons,
        start: Start,
    ) -> Self {
        let personas = std::mem::take(&mut config.agents);
        Self(Arc::new(Inner {
            personas: personas.into_iter().map(|persona| (persona.user().to_owned(), persona)).collect(),
            introduced: Mutex::default(),
            store,
            appservice,
            commons,
            start,
            began: Timestamp::now(),
            seats: Arc::new(Semaphore::new(config.appservice.max_open)),
            wanted: AtomicUsize::new(0),
            residents: Mutex::default(),
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

    /// Makes one of us on the homeserver, with its name and picture; nothing happens where it is there.
    pub(super) async fn introduce(&self, user: &UserId) -> anyhow::Result<()> {
        let persona = self.0.personas.get(user).ok_or_else(|| anyhow!("{user} is no agent"))?;
        if lock(&self.0.introduced).contains(user) {
            return Ok(());
        }
        self.0.appservice.register(user).await?;
        if let Some(name) = &persona.display_name {
            self.0.appservice.name(user, name).await?;
        }
        if let Some(avatar) = &persona.avatar
            && let Err(error) = avatar::give(&self.0.appservice, &self.0.store.of(user), user, avatar).await
        {
            tracing::warn!(%user, error = &*error as &dyn std::error::Error, "an agent without its picture");
        }
        lock(&self.0.introduced).insert(user.to_owned());
        Ok(())
    }

    /// The session of an agent that is open and has heard of the homeserver.
    pub(super) fn live(&self, user: &UserId) -> Option<Arc<Link>> {
        let link = self.residents().get(user)?.open.as_ref()?.link.clone();
        (*link.sync_state().borrow() == SyncState::Live).then_some(link)
    }

    /// Messages with something to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.residents().values().filter_map(|one| one.open.as_ref()).map(|open| open.outbox.waiting()).sum()
    }

    /// Opens the agents that have something to do, and those whose keys were lost: the sooner they have new ones, the fewer
    /// messages nobody can read.
    pub(super) async fn wake_those_at_work(&self) -> Result<(), StoreError> {
        for user in self.0.store.at_work().await? {
            self.wake(&user, For::Sync);
        }
        for (user, persona) in &self.0.personas {
            if has_lost_its_store(&persona.config.matrix.state_dir) {
                self.wake(user, For::Sync);
            }
        }
        Ok(())
    }

    /// There is something for an agent: it is opened, unless it is.
    pub(super) fn wake(&self, user: &UserId, what: For) {
        if !self.is_agent(user) {
            // One that an earlier configuration had.
            return;
        }
        let now = Instant::now();
        let mut residents = self.residents();
        if let Some(resident) = residents.get_mut(user) {
            resident.woken_at = now;
            if what == For::Sync {
                resident.rung_at.send_replace(now);
            }
            if let Some(open) = &resident.open {
                open.inbox.arrived();
            }
            return;
        }
        let resident = Resident { woken_at: now, rung_at: watch::Sender::new(now), open: None };
        residents.insert(user.to_owned(), resident);
        drop(residents);
        let (agents, user) = (self.clone(), user.to_owned());
        tokio::spawn(async move { agents.keep_open(&user).await });
    }

    /// Opens an agent, again where it must be, until it has nothing to do.
    async fn keep_open(&self, user: &UserId) {
        let (mut retry, mut new_device) = (RETRY_FIRST, false);
        loop {
            let Some(seat) = self.seat().await else { return };
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
            // One that can't be opened keeps no other from it.
            drop(seat);
            if opened_at.elapsed() > RETRY_MAX {
                retry = RETRY_FIRST;
            }
            sleep(retry).await;
            retry = (retry * 2).min(RETRY_MAX);
        }
    }

    /// Waits for a seat, which one that is idle leaves. None where there will be no more.
    async fn seat(&self) -> Option<SemaphorePermit<'_>> {
        if let Ok(seat) = self.0.seats.try_acquire() {
            return Some(seat);
        }
        self.0.wanted.fetch_add(1, Ordering::Relaxed);
        self.0.seats.acquire().await.ok()
    }

    /// Whether an idle agent is to leave for another that waits: this one does, when this says so.
    fn is_asked_to_leave(&self) -> bool {
        let take_one = |wanted: usize| wanted.checked_sub(1);
        self.0.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_one).is_ok()
    }

    /// Runs an agent in a runtime of its own, and waits until nothing of it is left.
    async fn on_a_thread(&self, user: &UserId, new_device: bool) -> anyhow::Result<Closed> {
        let (agents, of, (ended, end)) = (self.clone(), user.to_owned(), oneshot::channel());
        let run = move || {
            // All that works for it, works on this thread.
            let _span = tracing::info_span!("agent", user = %of).entered();
            let outcome =
                runtime::Builder::new_current_thread().enable_all().build().context("no runtime").and_then(|runtime| {
                    // The SDK's stores are closed by tasks, wherever the last handle of one is dropped.
                    let handle = runtime.handle().clone();
                    let _entered = handle.enter();
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
        let Inner { personas, appservice, commons, start, began, .. } = &*self.0;
        let persona = personas.get(user).ok_or_else(|| anyhow!("{user} is no agent"))?;
        let (config, store) = (&persona.config, self.0.store.of(user));
        self.introduce(user).await?;
        let start = Start { new_device, ..*start };
        let link = Arc::new(open::link(config, &store, start, Some(appservice)).await?);
        let models = models::build(&config.model, &store, &commons.health)?;
        let rung_at = self.residents().get(user).map(|resident| resident.rung_at.subscribe());
        let rung_at = rung_at.context("closed before it was open")?;
        let hears = Hears::Rung { since: *began, rung_at };
        let mut agent = Agent::new(config, link.clone(), store, models, commons.clone(), hears);
        if let Some(resident) = self.residents().get_mut(user) {
            let (inbox, outbox) = (agent.inbox.clone(), agent.outbox.clone());
            resident.open = Some(Open { link: link.clone(), inbox, outbox });
        }
        tracing::info!("open");
        tokio::select! {
            left = agent.run() => match left {
                Left::Sync(reason) if reason.begin_anew() => {
                    tracing::warn!(reason = &reason as &dyn std::error::Error, "opened anew");
                    Ok(Closed::Anew { new_device: false })
                }
                Left::Sync(reason @ (SyncError::LoggedOut(_) | SyncError::StoreLost)) => {
                    tracing::warn!(reason = &reason as &dyn std::error::Error, "opened anew, as a new device");
                    Ok(Closed::Anew { new_device: true })
                }
                Left::Sync(reason) => Err(reason.into()),
                Left::Other(reason) => Err(anyhow!(reason)),
            },
            () = self.idle(user, &link) => Ok(Closed::Idle),
        }
    }

    /// Ends when an agent has had nothing to do for long enough, or is asked to leave when it has nothing to do.
    async fn idle(&self, user: &UserId, link: &Link) {
        let patience = self.0.config.appservice.close_after;
        let mut looks = 0;
        loop {
            sleep(LOOK_EVERY).await;
            let quiet = self.residents().get(user).is_none_or(|one| one.woken_at.elapsed() >= patience);
            if !quiet && self.0.wanted.load(Ordering::Relaxed) == 0 {
                looks = 0;
                continue;
            }
            // What a round of sync has brought may be between two hands at one of them.
            looks = if link.is_answering_invites() || self.is_at_work(user).await { 0 } else { looks + 1 };
            if looks >= 2 && (self.is_asked_to_leave() || quiet) {
                return;
            }
        }
    }

    async fn is_at_work(&self, user: &UserId) -> bool {
        self.0.store.of(user).is_at_work().await.unwrap_or_else(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "what is to be done can't be read");
            true
        })
    }

    /// Takes an agent off the open ones, unless it was rung meanwhile.
    async fn leave(&self, user: &UserId) -> bool {
        // A transaction is on disk before it rings.
        let _taking = self.0.taking.lock().await;
        if self.is_at_work(user).await {
            return false;
        }
        self.residents().remove(user);
        true
    }

    fn forget_session(&self, user: &UserId) {
        if let Some(resident) = self.residents().get_mut(user) {
            resident.open = None;
        }
    }

    fn residents(&self) -> MutexGuard<'_, HashMap<OwnedUserId, Resident>> {
        lock(&self.0.residents)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
