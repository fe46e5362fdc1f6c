//! A model behind an OpenAI-compatible endpoint.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::stream::{Stream, StreamExt as _};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use reqwest::{RequestBuilder, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Serialize;
use serde_json::Value;

use super::chunk::Part;
use super::exchange::exchange;
use super::think::Think;
use super::{Delta, DeltaStream, Finish, Form, Model, ModelError, Request, constrained, native};

/// Where a model is and how it is asked.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address up to and with `/v1`.
    pub url: String,
    /// The model's name there.
    pub name: String,
    /// Sent as a bearer token.
    pub key: Option<SecretString>,
    /// 0 to 2.
    pub temperature: f64,
    /// The most that the model may write in one step, in tokens.
    pub reply_tokens: u32,
    /// How long and how much is waited for.
    pub limits: Limits,
}

/// The bounds of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the request to the first word.
    pub first_token: Duration,
    /// From word to word.
    pub idle: Duration,
    /// The size of an answer, thoughts and calls included; it is cut off there.
    pub max_reply_bytes: usize,
}

/// A model behind an [`Endpoint`].
#[derive(Debug, Clone)]
pub struct OpenAi {
    client: reqwest::Client,
    url: Url,
    authorization: Option<HeaderValue>,
    endpoint: Endpoint,
    form: Form,
}

/// The body of a request.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<constrained::Forced<'a>>,
    temperature: f64,
    max_tokens: u32,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl OpenAi {
    /// # Errors
    ///
    /// [`ModelError::Endpoint`] where the address or the key can't be sent, or TLS can't be set up.
    pub fn new(endpoint: Endpoint, form: Form) -> Result<Self, ModelError> {
        let unusable = |error: String| ModelError::Endpoint(error);
        let address = format!("{}/chat/completions", endpoint.url.trim_end_matches('/'));
        let url = Url::parse(&address).map_err(|error| unusable(error.to_string()))?;
        let authorization = endpoint.key.as_ref().map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))
                .map_err(|_| unusable("the key has characters that can't be sent".to_owned()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        // A redirect would turn the POST into a GET; the operator shall see it instead.
        let mut client = reqwest::Client::builder()
            .connect_timeout(endpoint.limits.connect)
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&url) {
            client = client.no_proxy();
        }
        let client = client.build().map_err(|error| unusable(error.without_url().to_string()))?;
        Ok(Self { client, url, authorization: authorization.transpose()?, endpoint, form })
    }

    fn body<'a>(&'a self, request: &'a Request) -> Body<'a> {
        let (messages, tools, response_format) = match self.form {
            Form::Native => (native::messages(request), native::tools(&request.tools), None),
            Form::Constrained(format) => {
                let forced = (!request.tools.is_empty()).then(|| constrained::Forced::new(format, &request.tools));
                (constrained::messages(request), Vec::new(), forced.flatten())
            }
        };
        Body {
            model: &self.endpoint.name,
            messages,
            tools,
            response_format,
            temperature: self.endpoint.temperature,
            max_tokens: self.endpoint.reply_tokens,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
        }
    }

    /// A question about the server itself.
    pub(super) fn get(&self, url: Url) -> RequestBuilder {
        let get = self.client.get(url);
        match &self.authorization {
            Some(authorization) => get.header(AUTHORIZATION, authorization),
            None => get,
        }
    }

    fn send(&self, body: &Body<'_>) -> impl Stream<Item = Result<Part, ModelError>> + use<> {
        let mut post =
            self.client.post(self.url.clone()).header(ACCEPT, "text/event-stream, application/json").json(body);
        if let Some(authorization) = &self.authorization {
            post = post.header(AUTHORIZATION, authorization);
        }
        exchange(post, self.endpoint.key.clone(), self.endpoint.limits)
    }

    /// The answer's parts as they come, to a request in which only `response_format` speaks of the form.
    pub(super) fn unexplained(&self, request: &Request) -> impl Stream<Item = Result<Part, ModelError>> + use<> {
        self.send(&Body { messages: native::messages(request), ..self.body(request) })
    }
}

/// Proxies are for the way out: what listens on this machine is asked straight.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Model for OpenAi {
    fn stream(&self, request: Request) -> DeltaStream {
        let parts = self.send(&self.body(&request));
        let mut step = Step::new(self.form, &request);
        let deltas = async_stream::try_stream! {
            let mut parts = std::pin::pin!(parts);
            let mut end = None;
            let mut usage = None;
            while let Some(part) = parts.next().await {
                match part? {
                    Part::Text(text) => {
                        let text = step.push(&text);
                        if !text.is_empty() {
                            yield Delta::Text(text);
                        }
                    }
                    Part::Reasoning(_) => {}
                    Part::Call(fragment) => step.calls.push(fragment),
                    Part::Finish(finish) => end = Some(finish),
                    Part::Usage(counted) => usage = Some(counted),
                }
            }
            let finish = end.ok_or(ModelError::Cut)?;
            for delta in step.finish(finish) {
                yield delta;
            }
            yield Delta::Done { finish, usage };
        };
        deltas.boxed()
    }

    fn name(&self) -> String {
        self.endpoint.name.clone()
    }
}

/// Reads one step out of an answer's parts. Native calls are taken in every form: a server may bring them unasked.
struct Step {
    think: Think,
    /// Set where the step is one JSON object.
    object: Option<constrained::Decoder>,
    calls: native::Calls,
}

impl Step {
    fn new(form: Form, request: &Request) -> Self {
        let constrained = matches!(form, Form::Constrained(_)) && !request.tools.is_empty();
        Self {
            think: Think::default(),
            object: constrained.then(|| constrained::Decoder::new(&request.tools)),
            calls: native::Calls::new(request),
        }
    }

    fn push(&mut self, text: &str) -> String {
        let text = self.think.push(text);
        match &mut self.object {
            Some(object) => object.push(&text),
            None => text,
        }
    }

    fn finish(mut self, finish: Finish) -> Vec<Delta> {
        let mut text = self.think.finish();
        if let Some(mut object) = self.object {
            text = object.push(&text);
            match object.finish(finish) {
                constrained::Last::Nothing => {}
                constrained::Last::Text(last) => text.push_str(&last),
                constrained::Last::Call { name, arguments } => self.calls.add(name, arguments),
            }
        }
        let text = Some(text).filter(|text| !text.is_empty()).map(Delta::Text);
        text.into_iter().chain(self.calls.finish(finish).into_iter().map(Delta::Call)).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::super::testing::{self, Bit, Reply, Server, ask, call, done, said, stopped, text};
    use super::super::{ResponseFormat, Usage};
    use super::*;

    const JSON_OBJECT: Form = Form::Constrained(ResponseFormat::JsonObject);

    fn body(form: Form, request: &Request) -> String {
        let endpoint = Endpoint {
            url: "http://localhost/v1/".into(),
            name: "m".into(),
            key: None,
            temperature: 0.7,
            reply_tokens: 100,
            limits: testing::LIMITS,
        };
        serde_json::to_string_pretty(&OpenAi::new(endpoint, form).unwrap().body(request)).unwrap()
    }

    #[test]
    fn requests_are_written_in_each_form() {
        let request = testing::conversation();
        insta::assert_snapshot!("native", body(Form::Native, &request));
        insta::assert_snapshot!("json_object", body(JSON_OBJECT, &request));
        let plain = Request { tools: vec![], messages: request.messages[..2].to_vec() };
        assert_eq!(body(JSON_OBJECT, &plain), body(Form::Native, &plain));
        let free = body(Form::Constrained(ResponseFormat::Free), &request);
        assert!(!free.contains("response_format"));
    }

    #[tokio::test]
    async fn an_answer_is_read_byte_by_byte_with_all_that_servers_add() {
        let stream = format!(
            ": PROCESSING\r\n\r\nevent: x\r\ndata: {}\r\n\r\ndata:{}\r\n\r\ndata: {}\r\n\r\n\r\ndata: {}\r\n\r\ndata: {}\r\n\r\ndata: {}\r\n\r\ndata: [DONE]\r\n\r\n",
            json!({"choices": [{"delta": {"role": "assistant", "content": null}}]}),
            json!({"choices": [{"delta": {"reasoning_content": "hm"}}]}),
            said("<think>mh"),
            said("m</think>\n\nGrüße 😀"),
            stopped("eos"),
            json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
        );
        let items = ask(Reply::bytewise(&stream), Form::Native).await;
        let usage = Some(Usage { prompt: 3, completion: 4 });
        assert_eq!(items, [text("Grüße 😀"), Ok(Delta::Done { finish: Finish::Stop, usage })]);
    }

    #[tokio::test]
    async fn native_calls_come_whole_and_after_the_text() {
        let fragment = |call: Value| json!({"choices": [{"delta": {"tool_calls": [call]}}]}).to_string();
        let reply = Reply::stream(&[
            &said("Let me see."),
            &fragment(json!({"index": 0, "id": "x", "function": {"name": "now", "arguments": ""}})),
            &fragment(json!({"index": 0, "function": {"arguments": "{\"zone\":"}})),
            &fragment(json!({"index": 1, "id": "y", "function": {"name": "fly", "arguments": {"to": "moon"}}})),
            &fragment(json!({"index": 0, "function": {"arguments": "\"UTC\"}"}})),
            &stopped("tool_calls"),
        ]);
        assert_eq!(
            ask(reply, Form::Native).await,
            [
                text("Let me see."),
                call("x", "now", "{\"zone\":\"UTC\"}"),
                call("y", "fly", "{\"to\":\"moon\"}"),
                done(Finish::Stop)
            ]
        );
    }

    #[tokio::test]
    async fn constrained_steps_are_replies_and_calls() {
        let reply = Reply::stream(&[&said("{\"do\":\"reply\",\"text\":\"Hel"), &said("lo\"}"), &stopped("stop")]);
        assert_eq!(ask(reply, JSON_OBJECT).await, [text("Hello"), done(Finish::Stop)]);
        let reply = Reply::stream(&[&said("{\"do\":\"now\",\"zone\":\"U"), &said("TC\"}"), &stopped("stop")]);
        let items = ask(reply, JSON_OBJECT).await;
        let Ok(Delta::Call(found)) = &items[0] else { panic!("{items:?}") };
        assert_eq!(items, [call(&found.id, "now", "{\"zone\":\"UTC\"}"), done(Finish::Stop)]);
        assert!(!found.id.is_empty());
    }

    #[tokio::test]
    async fn a_reply_streams_while_the_object_is_being_written() {
        let reply = Reply {
            bits: vec![Bit::event(&said("{\"do\":\"reply\",\"text\":\"Hello")), Bit::Hang],
            ..Reply::stream(&[])
        };
        let server = Server::start(move |_| reply.clone()).await;
        let model = OpenAi::new(server.endpoint(), JSON_OBJECT).unwrap();
        let mut step = model.stream(testing::conversation());
        assert_eq!(step.next().await, Some(text("Hello")));
    }

    #[tokio::test]
    async fn an_answer_that_is_not_streamed_is_read_too() {
        let answer = json!({
            "choices": [{"message": {"content": "Hi"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4}
        });
        let usage = Some(Usage { prompt: 3, completion: 4 });
        let items = ask(Reply::bytewise(&format!("\n{answer:#}")), Form::Native).await;
        assert_eq!(items, [text("Hi"), Ok(Delta::Done { finish: Finish::Length, usage })]);
        let items = ask(Reply::bytewise(r#"{"choices":[{"message":{"content":"Hi"}}]}"#), Form::Native).await;
        assert_eq!(items, [text("Hi"), done(Finish::Stop)]);
    }

    #[test]
    fn only_this_machine_is_asked_past_a_proxy() {
        let is_loopback = |url: &str| is_loopback(&Url::parse(url).unwrap());
        assert!(["http://127.0.0.1:1/", "http://[::1]/", "http://localhost:8/"].into_iter().all(is_loopback));
        assert!(!["http://10.0.0.1/", "https://localhost.example/"].into_iter().any(is_loopback));
    }
}
