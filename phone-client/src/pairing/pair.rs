//! `waybread-phone pair`: both ends show the other's key, the person compares, and the agent's is pinned.

use anyhow::{Context, bail};
use matrix_link::{Link, in_groups};
use ruma::UserId;

use super::Pairings;

/// How the person compares.
pub(crate) enum Compare<'a> {
    /// The key that the other end shows, typed or copied.
    Key(&'a str),
    /// The person looks at both, and says whether they are the same.
    Eyes(&'a mut (dyn FnMut(&Keys) -> anyhow::Result<bool> + Send)),
    /// Nobody: who runs both ends knows them.
    Nobody,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The agent's master key.
    pub(crate) agent: String,
    /// The person's own.
    pub(crate) own: Option<String>,
}

impl Keys {
    /// What the person reads.
    pub(crate) fn text(&self, agent: &UserId) -> String {
        let own = self.own.as_deref().map_or("(none yet)".to_owned(), in_groups);
        format!(
            "The key of {agent} is\n\n  {}\n\nand yours is\n\n  {own}\n\nWrite `!phone` to the agent: it shows the same two.",
            in_groups(&self.agent)
        )
    }
}

/// Pairs with an agent: pins its key, once the person has compared it.
///
/// # Errors
/// The agent has no identity, the keys differ, or the pin can't be written.
pub(crate) async fn with(
    link: &Link,
    own: &UserId,
    agent: &UserId,
    pairings: &mut Pairings,
    compare: Compare<'_>,
) -> anyhow::Result<()> {
    let key = link.identity_key(agent).await.with_context(|| {
        format!("{agent} has no identity to be known by: start it once, and look at its `waybread check`")
    })?;
    let keys = Keys { agent: key, own: link.identity_key(own).await };
    if !same(agent, &keys, compare)? {
        bail!("not paired: the keys differ, so somebody may be listening in");
    }
    pairings.pin(agent, &keys.agent)?;
    Ok(())
}

fn same(agent: &UserId, keys: &Keys, compare: Compare<'_>) -> anyhow::Result<bool> {
    match compare {
        Compare::Key(key) => Ok(without_space(key) == keys.agent),
        Compare::Eyes(look) => look(keys).with_context(|| format!("the key of {agent} was not compared")),
        Compare::Nobody => Ok(true),
    }
}

fn without_space(key: &str) -> String {
    key.chars().filter(|letter| !letter.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ruma::user_id;

    use super::*;

    fn keys() -> Keys {
        Keys { agent: "abcdefgh1".to_owned(), own: Some("xyz12345".to_owned()) }
    }

    #[test]
    fn a_key_is_the_same_however_it_is_grouped() {
        let agent = user_id!("@agent:example.org");
        assert!(same(agent, &keys(), Compare::Key("abcd efgh 1\n")).unwrap());
        assert!(!same(agent, &keys(), Compare::Key("abcd efgh 2")).unwrap());
        assert!(!same(agent, &keys(), Compare::Key("")).unwrap());
        assert!(!same(agent, &keys(), Compare::Eyes(&mut |_| Ok(false))).unwrap());
        assert!(same(agent, &keys(), Compare::Eyes(&mut |keys| Ok(keys.agent.len() == 9))).unwrap());
    }

    #[test]
    fn both_keys_are_shown() {
        insta::assert_snapshot!(keys().text(user_id!("@agent:example.org")));
    }
}
