//! What can go wrong with a model, and whether it is worth another attempt.

use std::time::Duration;

use serde_json::Value;

/// A server's own words are cut to this many characters.
pub const MAX_TEXT: usize = 300;

/// What a time limit was set on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The connection to the endpoint.
    Connect,
    /// The first word of an answer.
    FirstToken,
    /// The next word of an answer.
    Idle,
    /// Finding out how the model calls tools.
    Probe,
}

impl std::fmt::Display for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "the connection",
            Self::FirstToken => "the first word",
            Self::Idle => "the next word",
            Self::Probe => "the probe",
        })
    }
}

/// A failed step of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The endpoint's address or its TLS can't be used at all.
    #[error("the model's endpoint can't be used: {0}")]
    Endpoint(String),
    /// No connection, or a broken one before the answer began.
    #[error("the model can't be reached: {0}")]
    Unreachable(String),
    /// A time limit ran out.
    #[error("the model took too long: waited for {what}")]
    Timeout {
        /// What was waited for.
        what: Wait,
    },
    /// Too many requests (429).
    #[error("the model is busy: {text}")]
    RateLimited {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// The server's words.
        text: String,
    },
    /// The server failed (5xx, or an error in the middle of an answer).
    #[error("the model's server failed ({status}): {text}")]
    Server {
        /// The HTTP status.
        status: u16,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
        /// The server's words.
        text: String,
    },
    /// The server does not take the request: a wrong key, an unknown model, a bad request (3xx, 4xx).
    #[error("the model refused the request ({status}): {text}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's words.
        text: String,
    },
    /// The request is longer than the model's context.
    #[error("the request is too long for the model: {text}")]
    TooLong {
        /// The server's words.
        text: String,
    },
    /// The answer broke off.
    #[error("the model's answer broke off")]
    Cut,
    /// The answer is not in the API's form.
    #[error("the model's answer is malformed: {0}")]
    Malformed(String),
}

impl ModelError {
    /// Whether the same request may succeed on the same endpoint a little later.
    #[must_use]
    pub fn retryable(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::Timeout { .. }
            | Self::RateLimited { .. }
            | Self::Server { .. }
            | Self::Cut
            | Self::Malformed(_) => true,
            Self::Endpoint(_) | Self::Refused { .. } | Self::TooLong { .. } => false,
        }
    }

    /// How long the server asks to wait before the next attempt.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Server { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The error that an HTTP status and the body beside it stand for.
    pub(super) fn from_status(status: u16, retry_after: Option<Duration>, body: &str) -> Self {
        let json = serde_json::from_str::<Value>(body).unwrap_or_default();
        let error = if json["error"].is_null() { &json } else { &json["error"] };
        Self::classify(status, retry_after, error, body)
    }

    /// The error that an `error` member in a 200 answer stands for. Servers put a status into its `code`; without one,
    /// something failed on their side.
    pub(super) fn from_stream(error: &Value) -> Self {
        let status = match &error["code"] {
            Value::Number(code) => code.as_u64().and_then(|code| u16::try_from(code).ok()),
            Value::String(code) if code == "rate_limit_exceeded" => Some(429),
            Value::String(code) => code.parse().ok(),
            _ => None,
        };
        let status = status.filter(|status| (300..600).contains(status)).unwrap_or(500);
        Self::classify(status, None, error, &error.to_string())
    }

    fn classify(status: u16, retry_after: Option<Duration>, error: &Value, whole: &str) -> Self {
        let words = error.as_str().or_else(|| error["message"].as_str()).unwrap_or(whole);
        let text = shorten(words);
        match status {
            413 => Self::TooLong { text },
            400 | 422 | 500 if says_too_long(error, words) => Self::TooLong { text },
            429 => Self::RateLimited { retry_after, text },
            // 408 and 425 ask for the same request again, as 5xx do.
            408 | 425 | 500.. => Self::Server { status, retry_after, text },
            _ => Self::Refused { status, text },
        }
    }
}

/// Servers name this error in `code` or `type`; some have only words for it.
fn says_too_long(error: &Value, words: &str) -> bool {
    const NAMES: [&str; 2] = ["context_length_exceeded", "exceed_context_size_error"];
    const WORDS: [&str; 5] =
        ["maximum context length", "context window", "context size", "context length", "prompt is too long"];
    let named = ["code", "type"].iter().any(|key| error[key].as_str().is_some_and(|name| NAMES.contains(&name)));
    let words = words.to_lowercase();
    named || WORDS.iter().any(|phrase| words.contains(phrase))
}

/// One line of at most [`MAX_TEXT`] characters.
pub(super) fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "no text".to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_apart_by_what_can_be_done_about_it() {
        let cases = [
            (401, r#"{"error":{"message":"bad key"}}"#, ModelError::Refused { status: 401, text: "bad key".into() }),
            (
                404,
                r#"{"error":"model not found"}"#,
                ModelError::Refused { status: 404, text: "model not found".into() },
            ),
            (307, "", ModelError::Refused { status: 307, text: "no text".into() }),
            (
                503,
                "Loading\n  model",
                ModelError::Server { status: 503, retry_after: None, text: "Loading model".into() },
            ),
            (408, "", ModelError::Server { status: 408, retry_after: None, text: "no text".into() }),
            (429, "slow down", ModelError::RateLimited { retry_after: None, text: "slow down".into() }),
            (413, "big", ModelError::TooLong { text: "big".into() }),
            (
                400,
                r#"{"error":{"message":"x","type":"exceed_context_size_error"}}"#,
                ModelError::TooLong { text: "x".into() },
            ),
            (
                400,
                r#"{"object":"error","message":"This model's maximum context length is 10","code":400}"#,
                ModelError::TooLong { text: "This model's maximum context length is 10".into() },
            ),
            (401, "context window", ModelError::Refused { status: 401, text: "context window".into() }),
        ];
        for (status, body, expected) in cases {
            assert_eq!(ModelError::from_status(status, None, body), expected, "{status} {body}");
        }
    }

    #[test]
    fn an_error_in_the_stream_has_its_status_in_code() {
        let read = |text: &str| ModelError::from_stream(&serde_json::from_str(text).unwrap_or_default());
        assert_eq!(
            read(r#"{"code":429,"message":"m"}"#),
            ModelError::RateLimited { retry_after: None, text: "m".into() }
        );
        assert_eq!(
            read(r#"{"code":"rate_limit_exceeded","message":"m"}"#),
            ModelError::RateLimited { retry_after: None, text: "m".into() }
        );
        assert_eq!(read(r#"{"code":"400","message":"m"}"#), ModelError::Refused { status: 400, text: "m".into() });
        for odd in [r#""m""#, r#"{"code":7,"message":"m"}"#, r#"{"code":"odd","message":"m"}"#] {
            assert_eq!(read(odd), ModelError::Server { status: 500, retry_after: None, text: "m".into() });
        }
    }

    #[test]
    fn only_what_may_pass_is_retryable() {
        let text = String::new;
        let retry_after = Some(Duration::from_secs(3));
        let yes = [
            ModelError::Unreachable(text()),
            ModelError::Timeout { what: Wait::Idle },
            ModelError::RateLimited { retry_after, text: text() },
            ModelError::Server { status: 500, retry_after, text: text() },
            ModelError::Cut,
            ModelError::Malformed(text()),
        ];
        let no = [
            ModelError::Endpoint(text()),
            ModelError::Refused { status: 401, text: text() },
            ModelError::TooLong { text: text() },
        ];
        assert!(yes.iter().all(ModelError::retryable));
        assert!(!no.iter().any(ModelError::retryable));
        let waits: Vec<_> = yes.iter().filter_map(ModelError::retry_after).collect();
        assert_eq!(waits, [Duration::from_secs(3); 2]);
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let cut = shorten(&"ü".repeat(MAX_TEXT + 1));
        assert_eq!(cut, format!("{}…", "ü".repeat(MAX_TEXT)));
        assert_eq!(shorten(&"ü".repeat(MAX_TEXT)), "ü".repeat(MAX_TEXT));
    }
}
