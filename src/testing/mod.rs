//! The whole loop without a homeserver: inbox, hub, turns and outbox as the app puts them together, between a
//! [`Server`] that keeps what it is given and a model that plays a script.
//!
//! Time is paused and passes in small steps, and only while nothing can happen without it: [`House::settle`] lets all
//! tasks run until none can go on and the store's threads, which know no paused clock, are idle. While a test waits for
//! the store it yields and never sleeps, so that the runtime does not move the clock by itself. So what happens, and at
//! which second, is the same at each run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod incoming;
mod pause;
mod server;
mod shown;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use matrix_link::{AccessList, Batch, Event, Sink};
use ruma::{OwnedEventId, owned_user_id};
use serde_json::Value;
use tokio::{
    sync::{Notify, Semaphore},
    task::{JoinSet, yield_now},
    time::{Instant, advance},
};

pub(crate) use incoming::Incoming;
pub(crate) use server::{Answer, Sent, Server};
pub(crate) use shown::shown;

use crate::{
    clock::Clock,
    config::{Config, Switch},
    conversation::{BotTurns, Hub, NamedModel, Settings, Shared},
    http::forms::Forms,
    inbox::Inbox,
    model::{Chain, Model, Retry, Scripted},
    observe::{Health, Watched},
    outbox::Outbox,
    phone::Phones,
    rich::Desk,
    room_commands::{self, Commands},
    store::Store,
    tools::{Now, Toolbox},
    turn::Typing,
};

/// The agent.
pub(crate) const BOT: &str = "@waybread:example.org";
/// May talk to it.
pub(crate) const ALICE: &str = "@alice:example.org";
/// May talk to it too.
pub(crate) const BOB: &str = "@bob:example.org";
/// May not.
pub(crate) const STRANGER: &str = "@mallory:elsewhere.org";
/// Another bot, which may talk to it.
pub(crate) const ROBOT: &str = "@robot:example.org";

/// An encrypted direct room. The server takes all rooms whose ids begin like this one's for direct.
pub(crate) const DIRECT: &str = "!direct:example.org";
/// An encrypted room with several people.
pub(crate) const GROUP: &str = "!group:example.org";
/// A room that is not encrypted.
pub(crate) const PLAIN: &str = "!plain:example.org";

/// When the tests take place.
const BEGINNING: &str = "2026-03-29T00:30:00Z";
/// Time passes in steps of this length.
const TICK: Duration = Duration::from_millis(50);
/// Rounds through all tasks without the store being asked, after which nothing more happens by itself.
const CALM: u32 = 48;
/// What has not happened after this time never will.
const LONGEST: Duration = Duration::from_secs(1200);

/// The house at work.
pub(crate) struct House {
    pub server: Arc<Server>,
    /// The first model.
    pub model: Scripted,
    pub store: Store,
    pub outbox: Outbox,
    pub health: Health,
    pub forms: Forms,
    typing: Typing,
    clock: Arc<TestClock>,
    inbox: Inbox,
    _tasks: JoinSet<()>,
}

/// What a test may have otherwise than usual.
pub(crate) struct Setup {
    pub config: Config,
    /// By name, the usual one first.
    pub models: Vec<(&'static str, Scripted)>,
    pub server: Arc<Server>,
    pub store: Store,
    /// How long after the beginning it begins: for a house that takes up another's store.
    pub after: Duration,
    /// What the first round of sync brings, in order.
    pub past: Vec<Incoming>,
}

impl Setup {
    /// All tools are on offer.
    pub fn offer_tools(&mut self) {
        self.config.rich.tools = Switch::On;
        self.config.later.tool = Switch::On;
    }
}

/// Follows the paused clock, so that ages and waits agree.
struct TestClock {
    began: Instant,
    after: Duration,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        BEGINNING.parse::<Timestamp>().unwrap() + self.after + self.began.elapsed()
    }
}

/// A model that plays `script`.
pub(crate) fn scripted(script: &Value) -> Scripted {
    Scripted::new(script.to_string().parse().unwrap())
}

/// Awaits what only the store's threads hold up, without time passing.
pub(crate) async fn at_once<T>(work: impl Future<Output = T>) -> T {
    let busy = async {
        loop {
            yield_now().await;
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        () = busy => unreachable!("busy never ends"),
    }
}

impl House {
    /// With the default configuration and a model that plays `script`.
    pub async fn new(script: Value) -> Self {
        Self::with(script, |_| {}).await
    }

    /// With all tools on offer.
    pub async fn with_tools(script: Value) -> Self {
        Self::with(script, Setup::offer_tools).await
    }

    /// With something changed.
    pub async fn with(script: Value, change: impl FnOnce(&mut Setup)) -> Self {
        let mut config = Config::load(None, std::iter::empty()).unwrap();
        config.access.allow = AccessList::parse(["*:example.org"]).unwrap();
        config.access.bots = AccessList::parse([ROBOT]).unwrap();
        // What most tests are not about, and would only be shown.
        config.rich.tools = Switch::Off;
        config.later.tool = Switch::Off;
        let mut setup = Setup {
            config,
            models: vec![("scripted", scripted(&script))],
            server: Arc::new(Server::new()),
            store: at_once(Store::in_memory(&owned_user_id!("@waybread:example.org"))).await.unwrap(),
            after: Duration::ZERO,
            past: Vec::new(),
        };
        change(&mut setup);
        Self::begin(setup).await
    }

    async fn begin(setup: Setup) -> Self {
        let Setup { config, models, server, store, after, past } = setup;
        let clock = Arc::new(TestClock { began: Instant::now(), after });
        let outbox = Outbox::new(server.clone(), store.clone(), &config.outbox, &config.draft);
        let inbox = Inbox::new(store.clone(), config.inbox.max_queued);
        let retry = Retry {
            attempts: config.model.attempts.try_into().unwrap(),
            first: config.model.retry_first,
            max: config.model.retry_max,
        };
        let health = Health::new();
        let named = |(name, model): &(&str, Scripted)| {
            let model: Arc<dyn Model> =
                Arc::new(Chain::new(Arc::new(Watched::new(Arc::new(model.clone()), health.clone())), retry));
            NamedModel { name: (*name).to_owned(), model }
        };
        let now = Now::new(clock.clone(), config.agent.time_zone.clone());
        let places = Arc::new(Semaphore::new(config.turn.max_concurrent));
        let rich = Desk::new(
            outbox.clone(),
            store.clone(),
            server.clone(),
            config.rich.clone(),
            config.outbox.max_event_bytes,
        );
        let phones = Phones::new(store.clone(), outbox.clone(), server.clone(), clock.clone(), config.phone.clone());
        at_once(phones.resume()).await;
        let forms = Forms::new(store.clone(), clock.clone(), config.forms.clone());
        forms.pretend_to_be_at("https://forms.example.org/");
        store.guard().set_patterns(config.secrets.redact.clone());
        let needs = room_commands::Needs {
            store: store.clone(),
            outbox: outbox.clone(),
            rooms: server.clone(),
            clock: clock.clone(),
            desk: rich.clone(),
            forms: forms.clone(),
        };
        let commands = Commands::new(needs, room_commands::Settings::of(&config));
        at_once(commands.resume()).await;
        let Config {
            access,
            agent,
            colleagues,
            model,
            turn,
            draft,
            outbox: sending,
            inbox: receiving,
            later,
            rich: blocks,
            ..
        } = config;
        let typing = Typing::new(server.clone());
        let shared = Shared {
            rich,
            commands,
            phones,
            bots: BotTurns::default(),
            set_later: Notify::new(),
            settings: Settings {
                access,
                agent,
                colleagues,
                model,
                turn,
                draft,
                outbox: sending,
                inbox: receiving,
                later,
                rich: blocks,
            },
            typing: typing.clone(),
            rooms: server.clone(),
            outbox: outbox.clone(),
            store: store.clone(),
            models: models.iter().map(named).collect(),
            tools: Toolbox::new(vec![Arc::new(now), Arc::new(pause::Pause)]),
            clock: clock.clone(),
            places,
        };
        let mut hub = Hub::new(Arc::new(shared));
        // What the first round of sync brings was said to nobody; tests bring theirs behind it.
        let position = at_once(store.position()).await.unwrap().unwrap_or_default();
        let events = past.into_iter().map(|one| one.event(server.number(), clock.now())).collect();
        at_once(inbox.commit(&Batch { position, events, ..Batch::default() })).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn({
            let inbox = inbox.clone();
            async move { inbox.run(&mut hub).await }
        });
        tasks.spawn({
            let outbox = outbox.clone();
            async move { outbox.run().await }
        });
        let model = models.into_iter().next().unwrap().1;
        let house = Self { server, model, store, outbox, health, forms, typing, clock, inbox, _tasks: tasks };
        house.settle().await;
        house
    }

    /// Somebody writes a message; gives its event. What follows from it at once has happened when this returns.
    pub async fn say(&self, sender: &str, room: &str, body: &str) -> OwnedEventId {
        self.receive(Incoming::message(sender, room, body)).await
    }

    /// Something comes in.
    pub async fn receive(&self, incoming: Incoming) -> OwnedEventId {
        let event = self.event(incoming);
        let id = event.id.clone();
        self.commit(vec![event]).await;
        id
    }

    /// An event with the next id, sent now; it has not come in yet.
    pub fn event(&self, incoming: Incoming) -> Event {
        incoming.event(self.server.number(), self.clock.now())
    }

    /// Events come in together.
    pub async fn commit(&self, events: Vec<Event>) {
        let position = events.last().map(|event| format!("after {}", event.id)).unwrap_or_default();
        let batch = Batch { position, events, ..Batch::default() };
        at_once(self.inbox.commit(&batch)).await.unwrap();
        self.settle().await;
    }

    /// All happens that can happen without time passing.
    pub async fn settle(&self) {
        let mut calm = 0;
        while calm < CALM {
            yield_now().await;
            calm = if self.store.is_idle() { calm + 1 } else { 0 };
        }
    }

    /// Time passes.
    pub async fn pass(&self, time: Duration) {
        let end = Instant::now() + time;
        self.settle().await;
        while Instant::now() < end {
            advance(TICK.min(end - Instant::now())).await;
            self.settle().await;
        }
    }

    /// Time passes until something is so; at most [`LONGEST`].
    pub async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LONGEST;
        self.settle().await;
        while !is_so(self) {
            assert!(Instant::now() < end, "never so: {what}; sent: {:#?}", self.server.sent());
            advance(TICK).await;
            self.settle().await;
        }
    }

    /// Time passes until no turn runs.
    pub async fn quiet(&self) {
        self.until("no turn runs", |house| !house.typing.anybody_works()).await;
    }

    /// A question and what follows until no turn runs.
    pub async fn ask(&self, sender: &str, room: &str, body: &str) -> OwnedEventId {
        let event = self.say(sender, room, body).await;
        self.quiet().await;
        event
    }

    /// What the model was shown at its request with this number, from 0.
    pub fn shown(&self, request: usize) -> String {
        let requests = self.model.requests();
        let request = requests.get(request).unwrap_or_else(|| panic!("only {} requests", requests.len()));
        shown(request)
    }

    /// How many times the model was asked.
    pub fn requests(&self) -> usize {
        self.model.requests().len()
    }

    /// The messages of the agent in a room as they stand now.
    pub fn room(&self, room: &str) -> Vec<String> {
        self.server.room(room)
    }
}
