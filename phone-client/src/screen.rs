//! How the chat looks in a terminal: an answer grows in place, as far as lines allow it.

use std::io::{self, IsTerminal, Stdout, Write};

use ruma::{OwnedEventId, UserId};

/// The terminal.
pub(crate) struct Screen<W = Stdout> {
    out: W,
    name: String,
    interactive: bool,
    /// The message that is being shown, and what of it stands there.
    open: Option<(OwnedEventId, String)>,
}

impl Screen {
    pub(crate) fn new(agent: &UserId) -> Self {
        let interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
        Self { out: io::stdout(), name: agent.localpart().to_owned(), interactive, open: None }
    }
}

impl<W: Write> Screen<W> {
    /// Whether the newest message is not finished yet.
    pub(crate) fn is_live(&self) -> bool {
        self.open.is_some()
    }

    /// The sign that a line can be written.
    pub(crate) fn prompt(&mut self) -> io::Result<()> {
        if self.interactive {
            write!(self.out, "you> ")?;
        }
        self.out.flush()
    }

    /// A line that was said without a person at the keyboard.
    pub(crate) fn said(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "you> {line}")
    }

    /// A word of this program.
    pub(crate) fn hint(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    /// A message as it stands now.
    pub(crate) fn show(&mut self, id: &OwnedEventId, text: &str, live: bool) -> io::Result<()> {
        match self.open.take() {
            Some((open, shown)) if open == *id && text.starts_with(&shown) => {
                write!(self.out, "{}", &text[shown.len()..])?;
            }
            Some(_) => write!(self.out, "\n{}> {text}", self.name)?,
            None if self.interactive => write!(self.out, "\r\x1b[K{}> {text}", self.name)?,
            None => write!(self.out, "{}> {text}", self.name)?,
        }
        if live {
            self.open = Some((id.clone(), text.to_owned()));
        } else {
            writeln!(self.out)?;
            self.prompt()?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::owned_event_id;

    use super::*;

    fn screen() -> Screen<Vec<u8>> {
        Screen { out: Vec::new(), name: "waybread".into(), interactive: false, open: None }
    }

    fn text(screen: Screen<Vec<u8>>) -> String {
        String::from_utf8(screen.out).unwrap()
    }

    #[test]
    fn an_answer_grows_in_place_and_ends_its_line() {
        let (mut screen, id) = (screen(), owned_event_id!("$a"));
        screen.said("hello?").unwrap();
        screen.show(&id, "Hello", true).unwrap();
        assert!(screen.is_live());
        screen.show(&id, "Hello, you", true).unwrap();
        screen.show(&id, "Hello, you.", false).unwrap();
        assert!(!screen.is_live());
        assert_eq!(text(screen), "you> hello?\nwaybread> Hello, you.\n");
    }

    #[test]
    fn an_answer_that_changed_is_written_anew() {
        let (mut screen, id) = (screen(), owned_event_id!("$a"));
        screen.show(&id, "Half past six", true).unwrap();
        screen.show(&id, "Seven", false).unwrap();
        assert_eq!(text(screen), "waybread> Half past six\nwaybread> Seven\n");
    }
}
