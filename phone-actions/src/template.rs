//! Texts with gaps: `{{field}} must be {{what}}.`

use serde::Deserialize;

/// A text with gaps, read once.
///
/// What fills a gap is never searched for gaps itself, so nobody's words can be taken for a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Template(Vec<Piece>);

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Stands as it is.
    Text(String),
    /// A gap, by its name.
    Gap(String),
}

impl Template {
    /// The text with each gap filled by what `word` gives for its name.
    pub(crate) fn fill(&self, word: impl Fn(&str) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Gap(name) => word(name),
        };
        self.0.iter().map(piece).collect()
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The names of its gaps, in order.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Gap(name) => Some(name.as_str()),
        })
    }
}

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after.split_once("}}").ok_or_else(|| format!("{text:?} has a gap without an end"))?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Gap(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn template(text: &str) -> Template {
        text.to_owned().try_into().unwrap()
    }

    #[test]
    fn gaps_are_filled_by_name_and_never_searched_again() {
        let bad = template("{{field}} must be {{what}}.");
        assert_eq!(bad.fill(|name| format!("<{name} {{{{what}}}}>")), "<field {{what}}> must be <what {{what}}>.");
        assert_eq!(bad.gaps().collect::<Vec<_>>(), ["field", "what"]);
        assert_eq!(template("as it is").fill(|_| String::new()), "as it is");
        assert_eq!(template("").pieces(), []);
    }

    #[test]
    fn a_gap_without_an_end_is_refused() {
        assert!(Template::try_from("{{field must be".to_owned()).is_err());
    }
}
