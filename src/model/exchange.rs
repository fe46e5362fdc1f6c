//! One HTTP exchange: a request body out, the [`Part`]s of the answer in.
//!
//! Every wait has a limit, and so has the size of the answer; a server that says nothing and one that never ends come
//! to an end here. Comments and empty chunks keep no clock from running.

use std::time::Duration;

use eventsource_stream::{EventStreamError, Eventsource as _};
use futures_util::stream::{self, BoxStream, Stream, StreamExt as _};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, timeout_at};

use super::chunk::{Part, parts};
use super::error::{ModelError, Wait, shorten};
use super::{Finish, Limits};

/// After the model has stopped, the token count is waited for so long.
const TAIL: Duration = Duration::from_secs(2);
/// The bytes of an answer's packing for each byte of the answer, at most.
const MAX_PACKING: usize = 128;
/// The bytes of packing that are always allowed.
const MIN_PACKING: usize = 64 * 1024;
/// The bytes that one byte of an answer may take in JSON, at most; it bounds one line of the stream, which has to be
/// held until it is complete.
const MAX_ESCAPE: usize = 8;
/// The bytes of an error's body that are read.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// What OpenAI and Azure send beside `Retry-After`.
const RETRY_AFTER_MS: &str = "retry-after-ms";

type Bytes = BoxStream<'static, Result<Vec<u8>, ModelError>>;

/// Sends `request` and reads the answer. The last item is [`Part::Finish`] or an error, but for a
/// [`Part::Usage`] that may follow.
pub(super) fn exchange(
    request: reqwest::RequestBuilder,
    key: Option<SecretString>,
    limits: Limits,
) -> impl Stream<Item = Result<Part, ModelError>> + Send {
    async_stream::try_stream! {
        let first_token = Instant::now() + limits.first_token;
        let response = timeout_at(first_token, request.send())
            .await
            .map_err(|_| ModelError::Timeout { what: Wait::FirstToken })?
            .map_err(transport)?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            let retry_after = retry_after(response.headers());
            let body = error_body(bytes(response), first_token).await;
            Err(ModelError::from_status(status, retry_after, &redact(&body, key.as_ref())))?;
            return;
        }
        let mut events = Box::pin(events(bytes(response), limits.max_reply_bytes));
        let mut budget = limits.max_reply_bytes;
        let mut deadline = first_token;
        let mut what = Wait::FirstToken;
        let mut finished = false;
        loop {
            let event = match timeout_at(deadline, events.next()).await {
                Err(_) if finished => break,
                Err(_) => Err(ModelError::Timeout { what }),
                Ok(None) if finished => break,
                Ok(None) => Err(ModelError::Cut),
                Ok(Some(event)) => event,
            };
            let chunk = match event.and_then(|event| event.read(key.as_ref())) {
                // What goes wrong after the model has stopped takes nothing from its answer.
                Err(_) if finished => break,
                Err(error) => Err(error)?,
                Ok(Chunk::End) => {
                    if !finished {
                        yield Part::Finish(Finish::Stop);
                    }
                    break;
                }
                Ok(Chunk::TooLarge) if what == Wait::FirstToken => Err(too_large())?,
                Ok(Chunk::TooLarge) => {
                    if !finished {
                        yield Part::Finish(Finish::Length);
                    }
                    break;
                }
                Ok(Chunk::Parts(parts)) => parts,
            };
            for part in chunk {
                if matches!(part, Part::Usage(_)) {
                    yield part;
                    continue;
                }
                if finished {
                    continue;
                }
                if part.bytes() > budget {
                    if let Part::Text(mut text) = part {
                        text.truncate(text.floor_char_boundary(budget));
                        yield Part::Text(text);
                    }
                    yield Part::Finish(Finish::Length);
                    return;
                }
                budget -= part.bytes();
                finished = matches!(part, Part::Finish(_));
                what = Wait::Idle;
                yield part;
                // After the yield: the time that the reader takes is not the server's.
                deadline = Instant::now() + if finished { TAIL } else { limits.idle };
            }
        }
    }
}

/// A piece of the answer's body.
enum Event {
    /// One event of the stream.
    Streamed(String),
    /// The whole answer: the server does not stream.
    Whole(String),
    /// The body is larger than any answer needs.
    TooLarge,
}

/// What a piece says.
enum Chunk {
    Parts(Vec<Part>),
    End,
    TooLarge,
}

impl Event {
    fn read(self, key: Option<&SecretString>) -> Result<Chunk, ModelError> {
        // Only an error's words are for people to read: there a key is taken out, before they are cut to size.
        let parts = |json: &str| parts(json).or_else(|_| parts(&redact(json, key)));
        match self {
            Self::Streamed(data) if data.trim() == "[DONE]" => Ok(Chunk::End),
            Self::Streamed(data) => parts(&data).map(Chunk::Parts),
            Self::Whole(body) => {
                let mut parts = parts(&body)?;
                if !parts.iter().any(|part| matches!(part, Part::Finish(_))) {
                    parts.push(Part::Finish(Finish::Stop));
                }
                Ok(Chunk::Parts(parts))
            }
            Self::TooLarge => Ok(Chunk::TooLarge),
        }
    }
}

/// The events of a body. One that begins with `{` is no event stream: some servers answer with one JSON object to a
/// request for a stream.
fn events(mut body: Bytes, max_reply_bytes: usize) -> impl Stream<Item = Result<Event, ModelError>> + Send {
    let max_body = max_reply_bytes.saturating_mul(MAX_PACKING).saturating_add(MIN_PACKING);
    let max_line = max_reply_bytes.saturating_mul(MAX_ESCAPE).saturating_add(MIN_PACKING);
    async_stream::try_stream! {
        let mut head = Vec::new();
        while head.iter().all(u8::is_ascii_whitespace) && head.len() < MIN_PACKING {
            let Some(bytes) = body.next().await else { break };
            head.extend(bytes?);
        }
        if head.trim_ascii_start().starts_with(b"{") {
            while let Some(bytes) = body.next().await {
                head.extend(bytes?);
                if head.len() > max_body {
                    Err(too_large())?;
                }
            }
            yield Event::Whole(String::from_utf8_lossy(&head).into_owned());
            return;
        }
        let (mut read, mut line) = (0, 0);
        let bounded = stream::iter([Ok(head)]).chain(body).map(move |bytes| {
            let bytes: Vec<u8> = bytes.map_err(Stop::Failed)?;
            read += bytes.len();
            line = match bytes.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')) {
                Some(end) => bytes.len() - end,
                None => line + bytes.len(),
            };
            if read > max_body || line > max_line { Err(Stop::TooLarge) } else { Ok(bytes) }
        });
        let mut events = bounded.eventsource();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => yield Event::Streamed(event.data),
                Err(EventStreamError::Transport(Stop::TooLarge)) => {
                    yield Event::TooLarge;
                    return;
                }
                Err(EventStreamError::Transport(Stop::Failed(error))) => Err(error)?,
                Err(EventStreamError::Utf8(error)) => Err(ModelError::Malformed(error.to_string()))?,
                Err(EventStreamError::Parser(error)) => Err(ModelError::Malformed(error.to_string()))?,
            }
        }
    }
}

/// Nothing but packing.
fn too_large() -> ModelError {
    ModelError::Malformed("the answer is too large".to_owned())
}

/// Why a body was not read to its end.
enum Stop {
    TooLarge,
    Failed(ModelError),
}

/// A response's body. A connection that breaks inside of it cuts the answer.
fn bytes(response: reqwest::Response) -> Bytes {
    let cut = |error: reqwest::Error| {
        tracing::debug!(error = %chain(&error.without_url()), "the connection to the model broke");
        ModelError::Cut
    };
    response.bytes_stream().map(move |bytes| bytes.map(|bytes| bytes.to_vec()).map_err(cut)).boxed()
}

/// As much of an error's body as comes in time.
async fn error_body(mut body: Bytes, deadline: Instant) -> String {
    let mut read = Vec::new();
    while let Ok(Some(Ok(bytes))) = timeout_at(deadline, body.next()).await {
        read.extend(bytes);
        if read.len() > MAX_ERROR_BODY {
            break;
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

fn transport(error: reqwest::Error) -> ModelError {
    if error.is_connect() && error.is_timeout() {
        return ModelError::Timeout { what: Wait::Connect };
    }
    // The address is not for people in a room, and may hold a secret.
    ModelError::Unreachable(shorten(&chain(&error.without_url())))
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        causes.push(error.to_string());
        next = error.source();
    }
    causes.join(": ")
}

/// Some servers show a wrong key in their words.
fn redact(text: &str, key: Option<&SecretString>) -> String {
    match key.map(|key| key.expose_secret()).filter(|key| !key.is_empty()) {
        Some(key) => text.replace(key, "[key]"),
        None => text.to_owned(),
    }
}

/// How long the server asks to wait: `retry-after-ms`, or `Retry-After` in seconds (RFC 9110, 10.2.3), with a unit, or
/// as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str, unit: f64| Duration::try_from_secs_f64(text.trim().parse::<f64>().ok()? * unit).ok();
    if let Some(wait) = value(RETRY_AFTER_MS).and_then(|text| number(text, 0.001)) {
        return Some(wait);
    }
    let text = value(RETRY_AFTER.as_str())?;
    if let Some(milliseconds) = text.strip_suffix("ms") {
        return number(milliseconds, 0.001);
    }
    number(text.strip_suffix('s').unwrap_or(text), 1.0).or_else(|| {
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_wait_is_read_in_every_spelling() {
        let read = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            retry_after(&headers)
        };
        let ms = Duration::from_millis;
        let cases = [
            ("retry-after", "3", Some(ms(3000))),
            ("retry-after", "0.5", Some(ms(500))),
            ("retry-after", "7s", Some(ms(7000))),
            ("retry-after", "250ms", Some(ms(250))),
            ("retry-after-ms", "250", Some(ms(250))),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", Some(ms(0))),
            ("retry-after", "-3", None),
            ("retry-after", "1e99", None),
            ("retry-after", "soon", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(read(name, value), expected, "{name}: {value}");
        }
        let wait = read("retry-after", "Wed, 21 Oct 2099 07:28:00 GMT").unwrap();
        assert!(wait > Duration::from_secs(3600));
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
