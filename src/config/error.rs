//! What can be wrong with a configuration, in one line each: the place, what is expected there, what was found.

use std::{fmt, io};

use matrix_link::AccessEntryError;

/// Characters of a found value that an error shows.
const MAX_SHOWN: usize = 60;

/// Why a configuration is refused. The text is one line and holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{file}: expected a configuration file: {reason}")]
    Unreadable {
        /// The file, as named by the operator.
        file: String,
        /// What the system says.
        reason: io::Error,
    },
    /// The file is no TOML.
    #[error("{file}:{line}:{column}: {message}")]
    Syntax {
        /// The file, as named by the operator.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A value of the wrong type, form or size.
    #[error("{place}: expected {expected}, found {found}")]
    Value {
        /// Where it stands.
        place: Place,
        /// What would be right there.
        expected: String,
        /// The value, shortened.
        found: String,
    },
    /// A list of people with an entry that names nobody.
    #[error("{place}: {reason}, found {found}")]
    Access {
        /// Where the entry stands, with its index.
        place: Place,
        /// What is wrong with it.
        reason: AccessEntryError,
        /// The entry, shortened.
        found: String,
    },
    /// A key or a variable that means nothing here.
    #[error("{place}: unknown {what}; {hint}", what = place.what())]
    Unknown {
        /// Where it stands.
        place: Place,
        /// What may have been meant.
        hint: String,
    },
    /// Two values that don't go together, or one that can't stand alone.
    #[error("{place}: {rule}")]
    Conflict {
        /// Where one of them was set.
        place: Place,
        /// What must hold.
        rule: String,
    },
    /// A secret that can't be used.
    #[error("{place}: {problem}")]
    Secret {
        /// The variable that holds it, or the key that names its file.
        place: Place,
        /// Why not, and what to do.
        problem: String,
    },
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The operator's file.
    File {
        /// The file, as named by the operator.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key's path, such as `model.url`.
        key: String,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// The built-in default.
    Default {
        /// The key's path, such as `model.url`.
        key: String,
    },
}

impl Place {
    /// The place of a list's element.
    pub(super) fn element(&self, index: usize) -> Self {
        let mut place = self.clone();
        match &mut place {
            Self::File { key: name, .. } | Self::Environment { variable: name } | Self::Default { key: name } => {
                *name = format!("{name}[{index}]");
            }
        }
        place
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Environment { .. } => "variable",
            Self::File { .. } | Self::Default { .. } => "key",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, key } => write!(f, "{file}:{line}: {key}"),
            Self::Environment { variable } => f.write_str(variable),
            Self::Default { key } => write!(f, "{key} (default)"),
        }
    }
}

/// The text with its control characters escaped, so that it stays on one line.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// The text on one line, cut to [`MAX_SHOWN`] characters.
pub(super) fn shown(text: &str) -> String {
    // An escape only lengthens: what lies behind the first MAX_SHOWN + 1 characters can't be shown anyway.
    let head: String = text.chars().take(MAX_SHOWN + 1).collect();
    let line = one_line(&head);
    if line.chars().count() <= MAX_SHOWN {
        return line;
    }
    line.chars().take(MAX_SHOWN - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_value_is_cut_with_an_ellipsis() {
        assert_eq!(shown(&"x".repeat(60)), "x".repeat(60));
        assert_eq!(shown(&"x".repeat(61)), format!("{}…", "x".repeat(59)));
        assert_eq!(shown("a\nb\u{1b}"), r"a\nb\u{1b}");
    }

    proptest! {
        #[test]
        fn any_value_is_shown_on_one_line_within_the_bound(text in "\\PC{0,100}|[\\x00-\\x7f]{0,100}") {
            let shown = shown(&text);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert!(shown.chars().count() <= MAX_SHOWN);
        }
    }
}
