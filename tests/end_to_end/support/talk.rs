//! What most tests begin with: alice and the agent in a direct room, and a proxy between the agent and its homeserver.

use ruma::{OwnedEventId, OwnedRoomId};
use waybread::model::scripted::Step;

use super::{Agent, AgentSetup, Homeserver, ModelServer, Person, Proxy, Seen, say};

/// A talk, of which nothing is said yet.
pub struct Talk {
    pub agent: Agent,
    pub model: ModelServer,
    pub proxy: Proxy,
    pub setup: AgentSetup,
    pub alice: Person,
    pub room: OwnedRoomId,
}

impl Talk {
    /// With a model that plays these steps.
    pub async fn begin(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(ModelServer::start(steps).await, |_| {}).await
    }

    /// With this model, and something set for the agent.
    pub async fn with(model: ModelServer, set: impl FnOnce(&mut AgentSetup)) -> Self {
        let homeserver = Homeserver::relaxed();
        let proxy = Proxy::start(&homeserver).await;
        let mut setup = AgentSetup::new(&proxy.homeserver, &model).await;
        set(&mut setup);
        let agent = setup.start().await;
        let alice = Person::new(&homeserver, "alice").await;
        let room = alice.direct_room(setup.user()).await;
        Self { agent, model, proxy, setup, alice, room }
    }

    /// Alice says something.
    pub async fn say(&self, text: &str) -> OwnedEventId {
        self.alice.say(&self.room, text).await
    }

    /// Waits until the agent has `count` finished messages and gives the last one.
    pub async fn answer(&self, count: usize) -> Seen {
        self.alice.answer(&self.room, self.setup.user(), count).await
    }

    /// A further question is answered, and its answer is the agent's `count`th message.
    pub async fn goes_on(&self, count: usize) {
        self.model.add([say("Here.", 0)]);
        self.say("Are you there?").await;
        assert_eq!(self.answer(count).await.text(), "Here.");
    }

    /// All that the agent has said.
    pub fn messages(&self) -> Vec<Seen> {
        self.alice.messages(&self.room, self.setup.user())
    }

    /// Kills the agent, where it runs, and starts it with its state and these options.
    pub async fn start_again(&mut self, options: &[&str]) {
        self.agent.stop();
        self.agent = self.setup.start_with(options).await;
    }

    /// A join shows that a new device of the agent has shown its keys.
    pub async fn until_keys_are_shown(&self) {
        self.alice.direct_room(self.setup.user()).await;
    }
}
