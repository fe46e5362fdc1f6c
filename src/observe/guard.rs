//! Keeps secrets out of what is written down and shown: values that are known, and what the operator's patterns match.
//!
//! It is the second line: secrets are not written there in the first place. It stands before the log's writer, the
//! transcript and what the model is shown, for the case that one comes back from elsewhere: a person repeats it, a server
//! quotes it in an error.

use std::{
    borrow::Cow,
    io,
    sync::{Arc, LazyLock, RwLock},
};

use regex::Regex;
use tracing_subscriber::fmt::MakeWriter;

/// A value that is shorter is not looked for: it would be found in ordinary words.
const MIN_VALUE: usize = 6;
/// Lines of a longer secret, such as a key file, are looked for each, from this length on.
const MIN_LINE: usize = 16;

/// What is kept out. A handle: clones share it.
#[derive(Clone, Default)]
pub struct Guard(Arc<RwLock<Known>>);

#[derive(Default)]
struct Known {
    /// Needle and what stands in its place, the longest first.
    values: Vec<(String, String)>,
    patterns: Vec<Regex>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard(..)")
    }
}

impl Guard {
    /// The one of this process: its log has one writer, whatever stores are open.
    pub fn of_process() -> Self {
        static PROCESS: LazyLock<Guard> = LazyLock::new(Guard::default);
        PROCESS.clone()
    }

    /// Keeps a value out from now on, in the forms in which it may be written.
    pub fn keep(&self, name: &str, value: &str) {
        let value = value.trim();
        let lines = value.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE);
        let forms = std::iter::once(value).filter(|value| value.len() >= MIN_VALUE).chain(lines).flat_map(forms);
        let Ok(mut known) = self.0.write() else { return };
        for form in forms {
            if !known.values.iter().any(|(needle, _)| *needle == form) {
                known.values.push((form, format!("[secret {name}]")));
            }
        }
        known.values.sort_by_key(|(needle, _)| std::cmp::Reverse(needle.len()));
    }

    /// Sets the operator's patterns.
    pub fn set_patterns(&self, patterns: Vec<Regex>) {
        if let Ok(mut known) = self.0.write() {
            known.patterns = patterns;
        }
    }

    /// The text without what is kept out.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Ok(known) = self.0.read() else { return Cow::Borrowed("[unreadable]") };
        let mut text = Cow::Borrowed(text);
        for (needle, instead) in &known.values {
            if text.contains(needle.as_str()) {
                text = Cow::Owned(text.replace(needle.as_str(), instead));
            }
        }
        for pattern in &known.patterns {
            if pattern.is_match(&text) {
                text = Cow::Owned(pattern.replace_all(&text, "[redacted]").into_owned());
            }
        }
        text
    }

    /// Whether the text holds something that is kept out.
    pub fn hits(&self, text: &str) -> bool {
        matches!(self.redact(text), Cow::Owned(_))
    }
}

/// A value as it stands, in JSON, and in an address.
fn forms(value: &str) -> impl Iterator<Item = String> {
    let json = serde_json::Value::from(value).to_string();
    let json = json.trim_matches('"').to_owned();
    let debug = format!("{value:?}").trim_matches('"').to_owned();
    let in_address: String = value
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    [value.to_owned(), json, debug, in_address].into_iter()
}

/// Writes a log, guarded. A line comes in one piece.
pub struct GuardedLog<W> {
    guard: Guard,
    inner: W,
}

impl<W> GuardedLog<W> {
    /// Before this writer.
    pub fn new(guard: Guard, inner: W) -> Self {
        Self { guard, inner }
    }
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for GuardedLog<W> {
    type Writer = GuardedWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        GuardedWriter { guard: self.guard.clone(), inner: self.inner.make_writer() }
    }
}

/// One line's writer.
pub struct GuardedWriter<W> {
    guard: Guard,
    inner: W,
}

impl<W: io::Write> io::Write for GuardedWriter<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.inner.write_all(self.guard.redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_known_value_is_kept_out_in_whatever_form_it_is_written() {
        let guard = Guard::default();
        guard.keep("token", " p\"ss/w\\rd ");
        for text in ["it is p\"ss/w\\rd.", r#"{"t": "p\"ss/w\\rd"}"#, "?t=p%22ss%2Fw%5Crd"] {
            assert!(guard.redact(text).contains("[secret token]"), "{text}: {}", guard.redact(text));
        }
        assert!(matches!(guard.redact("an ordinary line"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_short_value_does_not_tear_words_apart_and_each_line_of_a_key_is_looked_for() {
        let guard = Guard::default();
        guard.keep("pin", "1234");
        guard.keep("key", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n");
        assert_eq!(guard.redact("room 1234"), "room 1234");
        assert_eq!(guard.redact("x MIIEvQIBADANBgkqhkiG9w0B y"), "x [secret key] y");
    }

    #[test]
    fn what_a_pattern_matches_is_kept_out() {
        let guard = Guard::default();
        guard.set_patterns(vec![Regex::new("gh[pousr]_[A-Za-z0-9]{36}").unwrap()]);
        let token = format!("ghp_{}", "a1".repeat(18));
        assert_eq!(guard.redact(&format!("use {token} now")), "use [redacted] now");
    }

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_is_written_without_it() {
        let (guard, buffer) = (Guard::default(), Buffer::default());
        guard.keep("token", "s3cr3t-t0k3n");
        let written = buffer.clone();
        let log = GuardedLog::new(guard, move || written.clone());
        let subscriber = tracing_subscriber::fmt().with_writer(log).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(value = "s3cr3t-t0k3n", "it says s3cr3t-t0k3n")
        });
        let line = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert!(line.contains("it says [secret token]") && !line.contains("s3cr3t"), "{line}");
    }

    proptest! {
        #[test]
        fn no_known_value_is_left_in_any_text(value in "[!-~]{6,40}", before in "\\PC{0,20}", after in "\\PC{0,20}") {
            let guard = Guard::default();
            guard.keep("x", &value);
            let redacted = guard.redact(&format!("{before}{value}{after}")).into_owned();
            prop_assert!(!redacted.contains(&value) || "[secret x]".contains(&value), "{}", redacted);
        }
    }
}
