//! Who may talk to the account, and which of their devices count.
//!
//! An [`AccessList`] admits by what cannot be forged in a room: the full user id that the homeserver vouches for.
//! Display names admit nobody, since everybody chooses their own. Ids and server names are compared as they stand,
//! case included: the specification makes user ids opaque and case-sensitive.

use std::{collections::BTreeSet, fmt, str::FromStr};

use ruma::{OwnedServerName, OwnedUserId, ServerName, UserId};

/// One line of an [`AccessList`]: `@name:server`, or `*:server` for everybody on that server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessEntry {
    /// One person.
    User(OwnedUserId),
    /// Everybody whose account is on this server.
    Server(OwnedServerName),
}

/// Why a text is no [`AccessEntry`]. The text itself is left to the caller, who knows where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessEntryError {
    /// Nothing, or blanks only.
    #[error("an empty entry; expected {EXPECTED}")]
    Empty,
    /// `*` or `*:*`: meant as everybody anywhere. There is no such entry.
    #[error("everybody on every server can't be admitted; expected {EXPECTED}")]
    Everybody,
    /// `@*:server`, `@al*:server` or `*:*.server`: a pattern in a place where none is known.
    #[error("a pattern that isn't known; expected {EXPECTED}")]
    Pattern,
    /// A display name, or a name without its server.
    #[error("a name alone says nothing about whose it is; expected {EXPECTED}")]
    BareName,
    /// Begins like a user id, and is none.
    #[error("not a valid user id; expected {EXPECTED}")]
    UserId,
    /// Begins with `*:`, and goes on with no server name.
    #[error("not a valid server name; expected {EXPECTED}")]
    ServerName,
}

const EXPECTED: &str = r#""@name:server" or "*:server""#;

impl FromStr for AccessEntry {
    type Err = AccessEntryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        if text.is_empty() {
            return Err(AccessEntryError::Empty);
        }
        if matches!(text, "*" | "*:*" | "@*" | "@*:*") {
            return Err(AccessEntryError::Everybody);
        }
        if let Some(server) = text.strip_prefix("*:") {
            return match ServerName::parse(server) {
                Ok(server) => Ok(Self::Server(server)),
                Err(_) if server.contains('*') => Err(AccessEntryError::Pattern),
                Err(_) => Err(AccessEntryError::ServerName),
            };
        }
        if !text.starts_with('@') {
            return Err(AccessEntryError::BareName);
        }
        // The historical grammar lets "*" into a name; here it can only be a pattern that would match nobody.
        if text.contains('*') {
            return Err(AccessEntryError::Pattern);
        }
        if !text.contains(':') {
            return Err(AccessEntryError::BareName);
        }
        match UserId::parse(text) {
            Ok(user) if user.validate_historical().is_ok() => Ok(Self::User(user)),
            _ => Err(AccessEntryError::UserId),
        }
    }
}

impl fmt::Display for AccessEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "{user}"),
            Self::Server(server) => write!(f, "*:{server}"),
        }
    }
}

/// Who is admitted. Whoever no entry names is not: an empty list admits nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessList {
    users: BTreeSet<OwnedUserId>,
    servers: BTreeSet<OwnedServerName>,
}

impl AccessList {
    /// Reads a list from its entries' texts; one bad entry refuses the whole.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Self, AccessEntryError> {
        entries.into_iter().map(str::parse).collect()
    }

    /// Whether an entry names this user or the user's server.
    #[must_use]
    pub fn allows(&self, user: &UserId) -> bool {
        self.users.contains(user) || self.servers.contains(user.server_name())
    }
}

impl FromIterator<AccessEntry> for AccessList {
    fn from_iter<I: IntoIterator<Item = AccessEntry>>(entries: I) -> Self {
        let mut list = Self::default();
        for entry in entries {
            match entry {
                AccessEntry::User(user) => list.users.insert(user),
                AccessEntry::Server(server) => list.servers.insert(server),
            };
        }
        list
    }
}

/// Which devices' messages count in encrypted rooms, and with which devices message keys are shared.
/// Each level asks for more than the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Every device of an admitted user.
    Any,
    /// Devices that their owner has signed with the cross-signing identity.
    CrossSigned,
    /// Signed devices of people whose identity this account has verified.
    Verified,
}

/// A text that names no [`Trust`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(r#"expected "any", "cross_signed" or "verified""#)]
pub struct UnknownTrust;

impl Trust {
    /// All levels, the least demanding first.
    pub const ALL: [Self; 3] = [Self::Any, Self::CrossSigned, Self::Verified];

    /// The level as written in a configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::CrossSigned => "cross_signed",
            Self::Verified => "verified",
        }
    }
}

impl FromStr for Trust {
    type Err = UnknownTrust;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|trust| trust.as_str() == text).ok_or(UnknownTrust)
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use proptest::prelude::*;
    use ruma::{server_name, user_id};

    use super::*;

    #[test]
    fn an_empty_list_admits_nobody() {
        assert!(!AccessList::parse([]).unwrap().allows(user_id!("@alice:example.org")));
    }

    #[test]
    fn a_user_id_admits_exactly_that_user() {
        let list = AccessList::parse(["@alice:example.org"]).unwrap();
        assert!(list.allows(user_id!("@alice:example.org")));
        for stranger in [
            user_id!("@Alice:example.org"),
            user_id!("@alice:Example.org"),
            user_id!("@alice:example.org:8448"),
            user_id!("@alice:sub.example.org"),
            user_id!("@alice2:example.org"),
            user_id!("@bob:example.org"),
        ] {
            assert!(!list.allows(stranger), "{stranger}");
        }
    }

    #[test]
    fn a_server_entry_admits_its_users_and_no_other_server() {
        let list = AccessList::parse(["*:example.org"]).unwrap();
        assert!(list.allows(user_id!("@alice:example.org")));
        assert!(list.allows(user_id!("@Bob.OLD:example.org")));
        for stranger in [
            user_id!("@alice:sub.example.org"),
            user_id!("@alice:example.org:8448"),
            user_id!("@alice:badexample.org"),
            user_id!("@example.org:evil.example"),
        ] {
            assert!(!list.allows(stranger), "{stranger}");
        }
    }

    #[test]
    fn entries_are_read_with_blanks_around_them() {
        let entry = |text: &str| text.parse::<AccessEntry>();
        assert_eq!(entry(" @alice:example.org\n"), Ok(AccessEntry::User(user_id!("@alice:example.org").to_owned())));
        assert_eq!(entry("\t*:[::1]:8448 "), Ok(AccessEntry::Server(server_name!("[::1]:8448").to_owned())));
    }

    #[test]
    fn what_is_no_entry_is_refused_with_the_reason() {
        use AccessEntryError::*;
        for (text, reason) in [
            ("", Empty),
            (" \t", Empty),
            ("*", Everybody),
            ("*:*", Everybody),
            ("@*", Everybody),
            ("@*:*", Everybody),
            ("@*:example.org", Pattern),
            ("@al*:example.org", Pattern),
            ("*:*.example.org", Pattern),
            ("alice", BareName),
            ("Alice Example", BareName),
            ("alice:example.org", BareName),
            ("@alice", BareName),
            ("example.org", BareName),
            ("@alice:", UserId),
            ("@:example.org", UserId),
            ("@alice smith:example.org", UserId),
            ("@alice:exa mple.org", UserId),
            ("@alice:example.org,@bob:example.org", UserId),
            ("*:", ServerName),
            ("*:exa mple.org", ServerName),
        ] {
            assert_eq!(text.parse::<AccessEntry>(), Err(reason), "{text:?}");
        }
    }

    #[test]
    fn one_bad_entry_refuses_the_list() {
        assert_eq!(AccessList::parse(["@alice:example.org", "bob"]), Err(AccessEntryError::BareName));
    }

    #[test]
    fn a_refusal_says_what_was_wrong_and_what_is_expected() {
        assert_eq!(
            AccessEntryError::BareName.to_string(),
            r#"a name alone says nothing about whose it is; expected "@name:server" or "*:server""#
        );
    }

    #[test]
    fn trust_reads_what_it_writes() {
        for trust in Trust::ALL {
            assert_eq!(trust.to_string().parse(), Ok(trust));
        }
        assert_eq!("Any".parse::<Trust>(), Err(UnknownTrust));
    }

    proptest! {
        #[test]
        fn any_text_is_an_entry_that_reads_back_or_a_refusal(text in ".{0,300}|[@*a-z:. ]{0,30}") {
            if let Ok(entry) = text.parse::<AccessEntry>() {
                prop_assert_eq!(entry.to_string(), text.trim());
                prop_assert_eq!(entry.to_string().parse(), Ok(entry));
            }
        }

        #[test]
        fn a_list_admits_who_is_named_and_nobody_else(
            named in proptest::collection::vec(("[a-c]", "[x-z]\\.org"), 0..4),
            servers in proptest::collection::vec("[x-z]\\.org", 0..2),
            (name, server) in ("[a-c]", "[x-z]\\.org"),
        ) {
            let entries: Vec<String> = named
                .iter()
                .map(|(name, server)| format!("@{name}:{server}"))
                .chain(servers.iter().map(|server| format!("*:{server}")))
                .collect();
            let list = AccessList::parse(entries.iter().map(String::as_str)).unwrap();
            let user = UserId::parse(format!("@{name}:{server}")).unwrap();
            let expected = servers.contains(&server) || named.contains(&(name, server));
            prop_assert_eq!(list.allows(&user), expected);
        }
    }
}
