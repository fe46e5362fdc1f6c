//! The terminal: shows the card, takes y or n, and does nothing.
//!
//! It is for the demo and for trying things out. There is no phone here, so an action that is confirmed is only said to
//! be done: [`Terminal::perform`] writes what a phone would do.
//!
//! The keyboard is read by whoever else uses the terminal, such as the chat, and each line is offered to the card first.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use phone_actions::Action;
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::{Backend, BackendError, Decision, Health, Performed, Prompt};

/// A card in the terminal.
pub(crate) struct Terminal {
    out: Mutex<Box<dyn Write + Send>>,
    keyboard: Keyboard,
}

/// The other end of the keyboard, for whoever reads it.
#[derive(Clone, Default)]
pub(crate) struct Keyboard(Arc<Shared>);

#[derive(Default)]
struct Shared {
    listener: Mutex<Listener>,
    asked: Notify,
}

#[derive(Default)]
enum Listener {
    /// No card is asked about.
    #[default]
    None,
    Card(UnboundedSender<String>),
    /// The input has ended.
    Ended,
}

impl Keyboard {
    /// Offers a line to the card that is asked about; without one the line comes back.
    pub(crate) fn offer(&self, line: String) -> Option<String> {
        match &*self.listener() {
            Listener::Card(card) => card.send(line).err().map(|unsent| unsent.0),
            Listener::None | Listener::Ended => Some(line),
        }
    }

    /// Waits until a card is asked about: for whoever reads lines for cards alone.
    pub(crate) async fn asked(&self) {
        while !matches!(*self.listener(), Listener::Card(_)) {
            self.0.asked.notified().await;
        }
    }

    /// Says that no line will come any more: nobody can be asked here then.
    pub(crate) fn end(&self) {
        *self.listener() = Listener::Ended;
    }

    fn listen(&self) -> Result<UnboundedReceiver<String>, BackendError> {
        let mut listener = self.listener();
        if matches!(*listener, Listener::Ended) {
            return Err(BackendError::InputEnded);
        }
        let (card, lines) = unbounded_channel();
        *listener = Listener::Card(card);
        self.0.asked.notify_one();
        Ok(lines)
    }

    fn leave(&self) {
        let mut listener = self.listener();
        if matches!(*listener, Listener::Card(_)) {
            *listener = Listener::None;
        }
    }

    fn listener(&self) -> MutexGuard<'_, Listener> {
        self.0.listener.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Terminal {
    pub(crate) fn new(out: impl Write + Send + 'static) -> Self {
        Self { out: Mutex::new(Box::new(out)), keyboard: Keyboard::default() }
    }

    /// Where the lines of the keyboard are to be offered.
    pub(crate) fn keyboard(&self) -> Keyboard {
        self.keyboard.clone()
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// A card that is shown: it says so when it is gone unanswered.
struct Open<'a> {
    terminal: &'a Terminal,
    answered: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.terminal.keyboard.leave();
        if !self.answered {
            let _ = self.terminal.write("\n(the card is gone)\n");
        }
    }
}

#[async_trait]
impl Backend for Terminal {
    fn can(&self, _: &str) -> bool {
        true
    }

    async fn confirm(&self, prompt: &Prompt<'_>) -> Result<Decision, BackendError> {
        let mut lines = self.keyboard.listen()?;
        let mut open = Open { terminal: self, answered: false };
        let seconds = prompt.remaining.as_secs();
        self.write(&format!("\n{}\n\n{} asks, for {seconds} s. ", prompt.text(), prompt.agent))?;
        loop {
            self.write("y: do it, n: no, q: no and STOP> ")?;
            let Some(line) = lines.recv().await else {
                return Err(BackendError::InputEnded);
            };
            let decision = match line.trim().to_lowercase().as_str() {
                "y" | "yes" => Decision::Confirmed,
                "n" | "no" => Decision::Declined,
                "q" | "stop" => Decision::Stop,
                _ => continue,
            };
            open.answered = true;
            return Ok(decision);
        }
    }

    async fn perform(&self, action: &Action) -> Performed {
        let text = action.text().plain();
        let title = text.lines().next().unwrap_or_default();
        match self.write(&format!("(here the phone would do it: {title})\n")) {
            Ok(()) => Performed::Done(None),
            Err(_) => Performed::Failed("the terminal can't be written".to_owned()),
        }
    }

    async fn health(&self) -> Health {
        Health::default()
    }

    async fn keep_awake(&self, _: bool) {}

    async fn notice(&self, text: &str) {
        let _ = self.write(&format!("({text})\n"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use phone_actions::{CardId, check};
    use ruma::user_id;
    use serde_json::json;

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn action() -> Action {
        let call = json!({"action": "timer", "seconds": 90, "label": "Tea\u{1b}[2J", "summary": "For your\r\ntea"});
        check(&call).unwrap()
    }

    async fn answered_by(lines: &[&str]) -> (Result<Decision, BackendError>, String) {
        let paper = Paper::default();
        let terminal = Terminal::new(paper.clone());
        let (keyboard, id, action) = (terminal.keyboard(), CardId::from_bytes([0; 16]), action());
        let remaining = Duration::from_secs(118);
        let prompt = Prompt { action: &action, id: &id, agent: user_id!("@agent:example.org"), remaining };
        assert_eq!(keyboard.offer("hello".to_owned()).unwrap(), "hello");
        let typed = async {
            tokio::task::yield_now().await;
            for line in lines {
                assert_eq!(keyboard.offer((*line).to_owned()), None);
            }
            if lines.is_empty() {
                keyboard.end();
            }
        };
        let (decision, ()) = tokio::join!(terminal.confirm(&prompt), typed);
        if decision.is_ok() {
            assert_eq!(keyboard.offer("later".to_owned()).unwrap(), "later");
        }
        (decision, paper.text())
    }

    #[tokio::test]
    async fn a_card_takes_the_lines_until_it_is_answered() {
        for (line, decision) in [
            ("y", Decision::Confirmed),
            (" YES ", Decision::Confirmed),
            ("n", Decision::Declined),
            ("q", Decision::Stop),
        ] {
            assert_eq!(answered_by(&[line]).await.0.unwrap(), decision);
        }
        let (decision, shown) = answered_by(&["", "what?", "no"]).await;
        assert_eq!(decision.unwrap(), Decision::Declined);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
        insta::assert_snapshot!(shown);
    }

    #[tokio::test]
    async fn a_terminal_that_nobody_reads_is_no_answer() {
        let (decision, shown) = answered_by(&[]).await;
        assert!(matches!(decision, Err(BackendError::InputEnded)));
        assert!(shown.ends_with("\n(the card is gone)\n"));
        let terminal = Terminal::new(io::sink());
        terminal.keyboard().end();
        assert_eq!(terminal.keyboard().offer("y".to_owned()).unwrap(), "y");
    }

    #[tokio::test]
    async fn to_do_it_is_to_say_what_would_be_done() {
        let paper = Paper::default();
        let performed = Terminal::new(paper.clone()).perform(&action()).await;
        assert_eq!(performed, Performed::Done(None));
        assert_eq!(paper.text(), "(here the phone would do it: ⏲️ Start a timer of 1 minute 30 seconds)\n");
    }
}
