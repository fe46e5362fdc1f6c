//! A secret that somebody writes into the chat while a form waits for it: it is left out of all that is kept and shown to
//! the model, and its sender is told to take it back.

use matrix_link::{Event, Message};

use super::Commands;
use crate::store::StoreError;

/// Characters of a word that may be a token.
const MIN_TOKEN: usize = 20;
/// Different characters in it: a long ordinary word or a ruler of dashes has fewer.
const MIN_DIFFERENT: usize = 10;

const TOLD: &str = "⚠ That looks like a token or a password. I have not read it, but it stands in this room: please delete \
                    (redact) that message now, and make a new token if others can read here. Then use the form that I have \
                    sent you.";

impl Commands {
    /// Looks at a message of a person for whom a form is open. Says whether it was left out.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn pasted(&self, event: &Event, message: &Message) -> Result<bool, StoreError> {
        let store = &self.parts().store;
        if !(looks_like_a_secret(&message.body) || store.guard().hits(&message.body))
            || !store.has_open_form(&event.sender, self.parts().clock.now()).await?
        {
            return Ok(false);
        }
        tracing::warn!(room = %event.room, event = %event.id, "a secret in the chat while a form is open: left out");
        store.strike_line(&event.room, &event.id).await?;
        self.say(&event.room, message.thread.clone(), TOLD);
        Ok(true)
    }
}

/// Whether a text holds a word that could be a token: long, of letters and digits, without sense.
fn looks_like_a_secret(text: &str) -> bool {
    text.split_whitespace().any(|word| {
        let word = word.trim_matches(['"', '\'', '`', '<', '>', ',', '.', ';', ':', '(', ')']);
        let plain = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+/=.~".contains(&byte));
        let different: std::collections::BTreeSet<_> = word.bytes().collect();
        word.len() >= MIN_TOKEN
            && plain
            && different.len() >= MIN_DIFFERENT
            && word.bytes().any(|byte| byte.is_ascii_digit())
            && word.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::looks_like_a_secret;

    #[test]
    fn tokens_are_told_from_words() {
        for secret in [
            "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
            "my token is \"AKIAIOSFODNN7EXAMPLE1\".",
            "sk-abc123def456ghi789jkl",
        ] {
            assert!(looks_like_a_secret(secret), "{secret}");
        }
        for words in [
            "please connect the repository",
            "https://git.example.org/alice/app/tree/main/src/2024",
            "@alice-the-second-42:matrix.example.org",
            "--------------------------",
            "Donaudampfschifffahrtsgesellschaft",
            "12345678901234567890123",
        ] {
            assert!(!looks_like_a_secret(words), "{words}");
        }
    }
}
