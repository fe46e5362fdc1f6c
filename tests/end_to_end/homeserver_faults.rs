//! Whatever the homeserver does: one answer, whole, nothing doubled.

use crate::support::{Talk, Trouble, Which, say};

impl Talk {
    /// Asks; the answer takes about four seconds: a first event, an edit and the last word.
    async fn ask(&self) -> String {
        let answer = format!("It begins well. {}", "And it goes on. ".repeat(10));
        self.model.add([say(&answer, 100)]);
        self.say("Well?").await;
        answer.trim().to_owned()
    }

    async fn is_whole_and_alone(&self, answer: &str) {
        assert_eq!(self.answer(1).await.text(), answer);
        self.goes_on(2).await;
        assert_eq!(self.messages().iter().map(|one| one.text()).collect::<Vec<_>>(), [answer, "Here."]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_homeserver_to_the_first_a_middle_and_the_last_event_are_lost() {
    let talk = Talk::begin([]).await;
    for skip in [0, 1, 2] {
        talk.proxy.trouble(Which::Send, skip, 1, Trouble::LoseAnswer);
    }
    let answer = talk.ask().await;
    talk.is_whole_and_alone(&answer).await;
    talk.proxy.happened(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_a_middle_and_the_last_event_are_limited() {
    let talk = Talk::begin([]).await;
    for skip in [0, 1, 2] {
        talk.proxy.trouble(Which::Send, skip, 1, Trouble::Limit(1000));
    }
    let answer = talk.ask().await;
    talk.is_whole_and_alone(&answer).await;
    talk.proxy.happened(3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateway_is_broken_for_a_while() {
    let talk = Talk::begin([]).await;
    let answer = talk.ask().await;
    talk.alice
        .until(&talk.room, talk.setup.user(), "a draft", |all| all.last().filter(|one| one.is_live()).map(|_| ()))
        .await;
    talk.proxy.trouble(Which::All, 0, usize::MAX, Trouble::BadGateway);
    talk.proxy.happened(8).await;
    talk.proxy.peace();
    talk.is_whole_and_alone(&answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_and_syncs_are_slow() {
    let talk = Talk::begin([]).await;
    talk.proxy.trouble(Which::Send, 0, usize::MAX, Trouble::Slow(1500));
    talk.proxy.trouble(Which::Sync, 0, 5, Trouble::Slow(1500));
    let answer = talk.ask().await;
    talk.is_whole_and_alone(&answer).await;
}
