//! What a running turn is told: interruptions at once, further words when they are taken in.

use tokio::sync::mpsc;

use super::{Origin, Signal};

/// What a turn is told.
pub(super) struct Steering {
    signals: mpsc::Receiver<Signal>,
    /// The newest message of the person that is not taken in yet.
    newest: Option<(i64, Origin)>,
    origin: Origin,
}

/// What can't wait for the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// The prompt was edited.
    Replaced,
    /// A person ends the turn.
    Stop,
}

impl Steering {
    pub(super) fn new(signals: mpsc::Receiver<Signal>, origin: Origin) -> Self {
        Self { signals, newest: None, origin }
    }

    /// Waits for an interruption; None when none can come any more. Nothing is lost when it is dropped.
    pub(super) async fn interruption(&mut self) -> Option<Interruption> {
        loop {
            match self.signals.recv().await? {
                Signal::Steer { handle, origin } => self.newest = Some((handle, origin)),
                Signal::Replaced => return Some(Interruption::Replaced),
                Signal::Stop => return Some(Interruption::Stop),
            }
        }
    }

    /// The model is shown all lines up to this handle.
    pub(super) fn taken_in(&mut self, handle: i64) {
        if let Some((_, origin)) = self.newest.take_if(|(newest, _)| *newest <= handle) {
            self.origin = origin;
        }
    }

    /// Where the turn comes from: the newest message of the person that was taken in.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn unattended(why: &str) -> Origin {
        Origin::Unattended { why: why.into() }
    }

    #[tokio::test]
    async fn further_words_become_the_origin_when_they_are_taken_in_and_not_before() {
        let (tell, told) = mpsc::channel(4);
        let mut steering = Steering::new(told, unattended("first"));
        tell.send(Signal::Steer { handle: 5, origin: unattended("second") }).await.unwrap();
        tell.send(Signal::Replaced).await.unwrap();
        assert_eq!(steering.interruption().await, Some(Interruption::Replaced));
        steering.taken_in(4);
        assert_eq!(steering.origin(), &unattended("first"));
        steering.taken_in(5);
        assert_eq!(steering.origin(), &unattended("second"));
        drop(tell);
        assert_eq!(steering.interruption().await, None);
    }
}
