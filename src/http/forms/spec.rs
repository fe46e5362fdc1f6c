//! A form: its fields, and what may be given for them.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

/// The longest secret that is typed, in characters.
pub const MAX_SECRET: usize = 8192;
/// The longest text, in characters.
pub const MAX_TEXT: usize = 4000;
/// The largest file, in bytes.
pub const MAX_FILE: usize = 256 * 1024;

/// A form as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormSpec {
    /// What it is for.
    pub title: String,
    /// A paragraph before the fields.
    pub text: Option<String>,
    /// What stands on the button.
    pub submit: String,
    /// The fields, in order.
    pub fields: Vec<Field>,
}

/// A field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its own name.
    pub name: String,
    /// What stands before it.
    pub label: String,
    /// What stands under it.
    pub help: Option<String>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What it takes.
    pub kind: FieldKind,
}

/// What a field takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldKind {
    /// Words.
    Text {
        /// Characters, at most.
        max: usize,
    },
    /// Words that go into the secret store and nowhere else.
    Secret {
        /// Under which name.
        secret: String,
    },
    /// One of several.
    Choice {
        /// Value and label of each.
        choices: Vec<(String, String)>,
    },
    /// Yes or no.
    Checkbox,
    /// A file that goes into the secret store and nowhere else.
    File {
        /// Under which name.
        secret: String,
        /// Its size in bytes, at most.
        max_bytes: usize,
    },
}

/// What a browser has sent, by field.
pub type Sent = BTreeMap<String, Vec<u8>>;

/// What was given, checked.
#[derive(Debug, Default)]
pub struct Given {
    /// The names of the fields that were filled in.
    pub fields: Vec<String>,
    /// The values of the plain ones.
    pub plain: BTreeMap<String, String>,
    /// What goes into the secret store, by its name there.
    pub secrets: Vec<(String, SecretString)>,
}

/// What is wrong, by field, for the person.
pub type Faults = BTreeMap<String, String>;

impl FormSpec {
    /// The largest request that the form can lead to, in bytes.
    pub fn max_body(&self) -> usize {
        let field = |field: &Field| match &field.kind {
            FieldKind::Text { max } => max * 4,
            FieldKind::Secret { .. } => MAX_SECRET * 4,
            FieldKind::Choice { .. } | FieldKind::Checkbox => 512,
            FieldKind::File { max_bytes, .. } => *max_bytes,
        };
        // Each part has a head, and a bit more must come in for the person to hear what is too long.
        self.fields.iter().map(|one| field(one) + 1024).sum::<usize>() + 4096
    }

    /// Checks what was sent.
    ///
    /// # Errors
    /// What is wrong with each field.
    pub fn check(&self, sent: &Sent) -> Result<Given, Faults> {
        let mut given = Given::default();
        let mut faults = Faults::new();
        for field in &self.fields {
            let value = sent.get(&field.name).map(Vec::as_slice).unwrap_or_default();
            if let Err(fault) = take(field, value, &mut given) {
                faults.insert(field.name.clone(), fault);
            }
        }
        if faults.is_empty() { Ok(given) } else { Err(faults) }
    }
}

fn take(field: &Field, value: &[u8], given: &mut Given) -> Result<(), String> {
    if let FieldKind::File { secret, max_bytes } = &field.kind {
        if value.is_empty() {
            return if field.required { Err("Please choose a file.".to_owned()) } else { Ok(()) };
        }
        if value.len() > *max_bytes {
            return Err(format!("The file is too large: {max_bytes} bytes at most."));
        }
        let Ok(text) = std::str::from_utf8(value) else {
            return Err("This is no text file.".to_owned());
        };
        given.secrets.push((secret.clone(), SecretString::from(text.to_owned())));
        given.fields.push(field.name.clone());
        return Ok(());
    }
    let Ok(text) = std::str::from_utf8(value) else { return Err("This is no text.".to_owned()) };
    let text = text.trim();
    if text.is_empty() {
        return match (&field.kind, field.required) {
            (FieldKind::Checkbox, true) => Err("Please tick this box.".to_owned()),
            (FieldKind::Checkbox, false) => {
                given.plain.insert(field.name.clone(), "no".to_owned());
                Ok(())
            }
            (FieldKind::Choice { .. }, true) => Err("Please choose one.".to_owned()),
            (_, true) => Err("Please fill this in.".to_owned()),
            (_, false) => Ok(()),
        };
    }
    match &field.kind {
        FieldKind::Text { max } => {
            if text.chars().count() > *max {
                return Err(format!("This is too long: {max} characters at most."));
            }
            given.plain.insert(field.name.clone(), text.replace("\r\n", "\n"));
        }
        FieldKind::Secret { secret } => {
            if text.chars().count() > MAX_SECRET {
                return Err(format!("This is too long: {MAX_SECRET} characters at most."));
            }
            if text.contains(char::is_control) {
                return Err("This must be on one line.".to_owned());
            }
            given.secrets.push((secret.clone(), SecretString::from(text.to_owned())));
        }
        FieldKind::Choice { choices } => {
            if !choices.iter().any(|(value, _)| value == text) {
                return Err("Please choose one of these.".to_owned());
            }
            given.plain.insert(field.name.clone(), text.to_owned());
        }
        FieldKind::Checkbox => {
            given.plain.insert(field.name.clone(), "yes".to_owned());
        }
        FieldKind::File { .. } => {}
    }
    given.fields.push(field.name.clone());
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;

    /// A form with every kind of field.
    pub(crate) fn all_kinds() -> FormSpec {
        let field = |name: &str, label: &str, required, kind| Field {
            name: name.to_owned(),
            label: label.to_owned(),
            help: None,
            required,
            kind,
        };
        let choices =
            vec![("read".to_owned(), "Read only".to_owned()), ("write".to_owned(), "Read & write".to_owned())];
        let mut spec = FormSpec {
            title: "Connect a Git repository".to_owned(),
            text: Some("The token goes into my secret store.\nNobody in the chat sees it.".to_owned()),
            submit: "Connect".to_owned(),
            fields: vec![
                field("repository", "Repository", true, FieldKind::Text { max: 40 }),
                field("token", "Access token", true, FieldKind::Secret { secret: "git-token".to_owned() }),
                field("access", "Access", true, FieldKind::Choice { choices }),
                field("agree", "I may share this repository", true, FieldKind::Checkbox),
                field("key", "Deploy key", false, FieldKind::File { secret: "git-key".to_owned(), max_bytes: 100 }),
            ],
        };
        spec.fields[1].help = Some("Made under Settings, Access tokens. It needs the scope \"repo\".".to_owned());
        spec
    }

    fn sent(values: &[(&str, &str)]) -> Sent {
        values.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect()
    }

    #[test]
    fn what_was_given_is_taken_apart_into_plain_values_and_secrets() {
        let sent = sent(&[
            ("repository", " example/app "),
            ("token", "t0k3n"),
            ("access", "read"),
            ("agree", "on"),
            ("key", "k\n"),
        ]);
        let given = all_kinds().check(&sent).unwrap();
        assert_eq!(given.fields, ["repository", "token", "access", "agree", "key"]);
        assert_eq!(given.plain["repository"], "example/app");
        assert!(!given.plain.contains_key("token") && !given.plain.contains_key("key"));
        let secrets: Vec<_> = given.secrets.iter().map(|(name, value)| (&**name, value.expose_secret())).collect();
        assert_eq!(secrets, [("git-token", "t0k3n"), ("git-key", "k\n")]);
    }

    #[test]
    fn each_field_says_what_is_wrong_with_it() {
        let long = "x".repeat(101);
        let sent = sent(&[("repository", &long), ("token", "two\nlines"), ("access", "all"), ("key", &long)]);
        insta::assert_debug_snapshot!(all_kinds().check(&sent).unwrap_err());
        insta::assert_debug_snapshot!(all_kinds().check(&Sent::new()).unwrap_err());
    }

    proptest! {
        #[test]
        fn a_secret_never_becomes_a_plain_value(token in "[!-~]{1,60}") {
            let token = format!("S{token}");
            let sent = sent(&[("repository", "r"), ("token", &token), ("access", "read"), ("agree", "on")]);
            let given = all_kinds().check(&sent).unwrap();
            prop_assert!(given.plain.values().all(|value| *value != token));
            let shown = format!("{given:?}");
            prop_assert!(!shown.contains(&token) || token.len() < 4);
        }
    }
}
