//! A command of `am`, put together. Each option takes the arguments behind it as they are, whatever they look like.

/// A program and its arguments.
pub(super) type Argv = Vec<String>;

/// A command of fixed words.
pub(super) fn argv<const N: usize>(words: [&str; N]) -> Argv {
    words.map(str::to_owned).to_vec()
}

/// An intent for `am`.
pub(super) struct Intent(Argv);

impl Intent {
    /// Starts what answers to an action, such as `android.intent.action.VIEW`.
    pub(super) fn start(action: &str) -> Self {
        Self(argv(["am", "start", "-a", action]))
    }

    /// Tells it to whoever listens.
    pub(super) fn broadcast(action: &str) -> Self {
        Self(argv(["am", "broadcast", "-a", action]))
    }

    pub(super) fn data(self, uri: &str) -> Self {
        self.with(["-d", uri])
    }

    pub(super) fn mime(self, kind: &str) -> Self {
        self.with(["-t", kind])
    }

    pub(super) fn category(self, category: &str) -> Self {
        self.with(["-c", category])
    }

    /// Only this app gets it.
    pub(super) fn package(self, package: &str) -> Self {
        self.with(["-p", package])
    }

    pub(super) fn component(self, component: &str) -> Self {
        self.with(["-n", component])
    }

    pub(super) fn text(self, key: &str, value: &str) -> Self {
        self.with(["--es", key, value])
    }

    pub(super) fn flag(self, key: &str, value: bool) -> Self {
        self.with(["--ez", key, if value { "true" } else { "false" }])
    }

    /// Decimal, without leading zeros: `am` reads those as octal.
    pub(super) fn int(self, key: &str, value: i64) -> Self {
        self.with(["--ei", key, &value.to_string()])
    }

    pub(super) fn long(self, key: &str, value: i64) -> Self {
        self.with(["--el", key, &value.to_string()])
    }

    pub(super) fn ints(self, key: &str, values: &[i64]) -> Self {
        let values: Vec<_> = values.iter().map(i64::to_string).collect();
        self.with(["--eial", key, &values.join(",")])
    }

    /// A list of texts, if `am` can carry it. It splits at each comma without a backslash before it, takes that backslash
    /// away, and drops empty texts at the end. So no text may be empty or end in a backslash.
    pub(super) fn texts(self, key: &str, values: &[&str]) -> Option<Self> {
        if values.iter().any(|value| value.is_empty() || value.ends_with('\\')) {
            return None;
        }
        let values: Vec<_> = values.iter().map(|value| value.replace(',', "\\,")).collect();
        Some(self.with(["--esal", key, &values.join(",")]))
    }

    fn with<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.0.extend(words.map(str::to_owned));
        self
    }

    pub(super) fn argv(self) -> Argv {
        self.0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// How `am` reads a list of texts.
    fn read(list: &str) -> Vec<String> {
        let mut texts = vec![String::new()];
        let mut before = None;
        for c in list.chars() {
            match texts.last_mut() {
                Some(text) if c == ',' && before == Some('\\') => {
                    text.pop();
                    text.push(',');
                }
                _ if c == ',' => texts.push(String::new()),
                Some(text) => text.push(c),
                None => {}
            }
            before = Some(c);
        }
        while texts.len() > 1 && texts.last().is_some_and(String::is_empty) {
            texts.pop();
        }
        texts
    }

    proptest! {
        #[test]
        fn a_list_of_texts_comes_back_as_it_was_or_is_not_sent(texts in prop::collection::vec("[a,\\\\ \\-\n]{0,4}", 1..4)) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            match Intent::broadcast("x").texts("key", &texts) {
                Some(intent) => prop_assert_eq!(read(&intent.argv()[6]), texts),
                None => prop_assert!(texts.iter().any(|text| text.is_empty() || text.ends_with('\\'))),
            }
        }
    }
}
