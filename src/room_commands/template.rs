//! Texts with places to be filled: `{{input:NAME}}`, `{{form:NAME}}`, `{{secret:NAME}}`.
//!
//! What may stand in which text is checked when the list is read, so that nothing is missing when a command runs. What is
//! filled in is never read as a template again.

use std::fmt;

use super::fields::{is_name, quoted};

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// The command's inputs.
    Input,
    /// The plain fields of a form that the chain has shown before.
    Form,
    /// The secret store.
    Secret,
}

impl From {
    const ALL: [(&'static str, Self); 3] = [("input", Self::Input), ("form", Self::Form), ("secret", Self::Secret)];
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, one)| one == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(From, String),
}

impl Template {
    /// Reads a text; `may` says why a place may not stand there.
    pub(super) fn read(text: &str, may: &dyn Fn(From, &str) -> Result<(), String>) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (place, behind) = after.split_once("}}").ok_or("\"{{\" without \"}}\"")?;
            let known = place.split_once(':').and_then(|(from, name)| {
                let (_, from) = From::ALL.into_iter().find(|(word, _)| *word == from.trim())?;
                is_name(name.trim()).then(|| (from, name.trim().to_owned()))
            });
            let (from, name) = known.ok_or_else(|| {
                format!("{} is no place: {{{{input:NAME}}}}, {{{{form:NAME}}}} or {{{{secret:NAME}}}}", quoted(place))
            })?;
            may(from, &name)?;
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            parts.push(Part::Place(from, name));
            rest = behind;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// The text with its places filled.
    pub(super) fn fill<E>(&self, value: impl Fn(From, &str) -> Result<String, E>) -> Result<String, E> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(one) => text.push_str(one),
                Part::Place(from, name) => text.push_str(&value(*from, name)?),
            }
        }
        Ok(text)
    }

    /// The names of the places of one kind.
    pub(super) fn names(&self, of: From) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(move |part| match part {
            Part::Place(from, name) if *from == of => Some(name.as_str()),
            Part::Place(..) | Part::Text(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn all(_: From, _: &str) -> Result<(), String> {
        Ok(())
    }

    #[test]
    fn places_are_filled_once() {
        let template = Template::read("Bearer {{secret:token}} for {{ input:who }}.", &all).unwrap();
        let filled = template.fill(|from, name| Ok::<_, ()>(format!("<{from} {name} {{{{input:x}}}}>"))).unwrap();
        assert_eq!(filled, "Bearer <secret token {{input:x}}> for <input who {{input:x}}>.");
        assert_eq!(template.names(From::Secret).collect::<Vec<_>>(), ["token"]);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["{{", "a {{x}}", "{{secret:}}", "{{env:HOME}}", "{{input:A}}"] {
            assert!(Template::read(text, &all).is_err(), "{text}");
        }
        let none = |from: From, name: &str| Err(format!("{from} {name}"));
        assert_eq!(Template::read("{{secret:token}}", &none).unwrap_err(), "secret token");
    }

    proptest! {
        #[test]
        fn a_text_without_places_stays_as_it_is(text in "[^{]{0,80}") {
            let template = Template::read(&text, &all).unwrap();
            prop_assert_eq!(template.fill(|_, _| Err(())).unwrap(), text);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "[{}a-z:é ]{0,40}") {
            let _ = Template::read(&text, &all);
        }
    }
}
