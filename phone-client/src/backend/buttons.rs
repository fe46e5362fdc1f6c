//! How a button of a notification reaches the running client.
//!
//! On Android a button runs a command. Ours runs this program again, with nothing in it but paths, the card's random id
//! and one of three words: no word of a card gets near a shell. That run sends the id and the word to a socket in the
//! state folder, which belongs to the person and is there only while a card is open.

use std::{
    fs, io,
    os::unix::{fs::PermissionsExt, net::UnixDatagram as Sender},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use phone_actions::CardId;
use tokio::net::UnixDatagram;

use super::Decision;

/// The socket's name in the state folder.
const SOCKET: &str = "buttons.sock";

/// More than an id and a word.
const MAX_MESSAGE: usize = 64;

/// `waybread-phone answer`: what a button runs.
#[derive(Debug, Args)]
pub(crate) struct Press {
    /// The running client's state folder.
    #[arg(long, value_name = "FOLDER")]
    state_dir: PathBuf,
    /// The card's id.
    #[arg(long, value_name = "ID", value_parser = CardId::parse, allow_hyphen_values = true)]
    card: CardId,
    /// What the person decides.
    answer: Decision,
}

impl Press {
    /// Tells the running client.
    ///
    /// # Errors
    /// No client waits for an answer there.
    pub(crate) fn send(&self) -> io::Result<()> {
        let message = format!("{} {}", self.card, word(self.answer));
        Sender::unbound()?.send_to(message.as_bytes(), self.state_dir.join(SOCKET)).map(|_| ())
    }
}

/// The command of a button, for a shell.
///
/// # Errors
/// A path is not text, so that no command can name it.
pub(super) fn command(program: &Path, state_dir: &Path, card: &CardId, answer: Decision) -> io::Result<String> {
    let quoted = |path: &Path| match path.to_str() {
        // Between single quotes a shell takes everything as it is, but for the quote itself.
        Some(path) => Ok(format!("'{}'", path.replace('\'', r"'\''"))),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not UTF-8", path.display()))),
    };
    let (program, state_dir) = (quoted(program)?, quoted(state_dir)?);
    Ok(format!("{program} answer --state-dir={state_dir} --card={card} {}", word(answer)))
}

fn word(decision: Decision) -> String {
    decision.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The socket on which the buttons of one card are heard. It is gone when this is dropped.
pub(super) struct Buttons {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Buttons {
    pub(super) fn listen(state_dir: &Path) -> io::Result<Self> {
        let path = state_dir.join(SOCKET);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // One that was there is of a client that has ended: the state folder has one client at a time.
            _ => {}
        }
        let socket = UnixDatagram::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(Self { socket, path })
    }

    /// Waits for a button of this card; what is said of another card, or makes no sense, counts for nothing.
    pub(super) async fn pressed(&self, card: &CardId) -> io::Result<Decision> {
        let mut message = [0; MAX_MESSAGE];
        loop {
            let length = self.socket.recv(&mut message).await?;
            let text = message.get(..length).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default();
            let answer = text.split_once(' ').filter(|(id, _)| *id == card.as_str());
            if let Some(Ok(decision)) = answer.map(|(_, word)| Decision::from_str(word, false)) {
                return Ok(decision);
            }
        }
    }
}

impl Drop for Buttons {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        press: Press,
    }

    fn id(text: &str) -> CardId {
        CardId::parse(text).unwrap()
    }

    #[test]
    fn a_command_has_nothing_of_the_card_but_its_id() {
        let command = command(
            Path::new("/bin/waybread-phone"),
            Path::new("/it's/here $(id)"),
            &id("-bcdefghijklmnopqrst-_"),
            Decision::Stop,
        );
        let expected =
            r"'/bin/waybread-phone' answer --state-dir='/it'\''s/here $(id)' --card=-bcdefghijklmnopqrst-_ stop";
        assert_eq!(command.unwrap(), expected);
    }

    #[tokio::test]
    async fn the_command_is_read_again_and_reaches_the_card_that_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("it's $(id)");
        fs::create_dir(&state).unwrap();
        let (card, other) = (id("-bcdefghijklmnopqrst-_"), id("abcdefghijklmnopqrst-_"));
        let press = |card: &CardId, decision| {
            let command = command(Path::new("answer-by-test"), &state, card, decision).unwrap();
            // The shell's own reading of the command, an argument a line.
            let script =
                format!("show() {{ shift; printf '%s\\n' \"$@\"; }}; show {}", command.split_once(' ').unwrap().1);
            let read = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            let read = String::from_utf8(read.stdout).unwrap();
            Cli::try_parse_from(["x"].into_iter().chain(read.lines())).unwrap().press
        };
        assert!(press(&card, Decision::Confirmed).send().is_err(), "nobody listens yet");
        let buttons = Buttons::listen(&state).unwrap();
        press(&other, Decision::Confirmed).send().unwrap();
        let odd = Sender::unbound().unwrap();
        for message in ["", "\u{0}", "-bcdefghijklmnopqrst-_ maybe", "-bcdefghijklmnopqrst-_"] {
            odd.send_to(message.as_bytes(), state.join(SOCKET)).unwrap();
        }
        press(&card, Decision::Declined).send().unwrap();
        assert_eq!(buttons.pressed(&card).await.unwrap(), Decision::Declined);
        drop(buttons);
        assert!(!state.join(SOCKET).exists());
    }

    #[tokio::test]
    async fn a_socket_that_an_earlier_client_left_behind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        drop(Sender::bind(folder.path().join(SOCKET)).unwrap());
        let buttons = Buttons::listen(folder.path()).unwrap();
        assert_eq!(fs::metadata(&buttons.path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
