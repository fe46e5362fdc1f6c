//! `webhook`: an HTTP request that the operator has listed, with secrets in its headers by their names.
//!
//! It goes where the operator says and nowhere else: no redirect to another host, no address of the local network unless
//! it is listed, no proxy, one attempt. A secret stands in a header only, never in the address or the body, which servers
//! write down. The model hears the status.

use std::{
    error::Error as _,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::StreamExt;
use ipnet::IpNet;
use reqwest::{
    Client, Method, RequestBuilder, StatusCode, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    redirect,
};
use secrecy::ExposeSecret as _;
use serde_json::Value;

use super::{Action, By, Fields, Kind, Made, Reading, Refusal, Step, post::Filling};
use crate::{
    room_commands::{
        fields::quoted,
        template::{From, Template},
    },
    store::SecretOwner,
};

pub(super) const KIND: Kind = Kind { name: "webhook", by: By::OperatorOnly, read };

const METHODS: [(&str, &str); 5] =
    [("POST", "POST"), ("GET", "GET"), ("PUT", "PUT"), ("PATCH", "PATCH"), ("DELETE", "DELETE")];
const MAX_SECONDS: i64 = 60;
const DEFAULT_SECONDS: i64 = 10;
/// The largest body that is sent, in bytes.
const MAX_BODY: usize = 64 * 1024;
/// The largest answer that is waited for, in bytes.
const MAX_ANSWER: usize = 256 * 1024;
const MAX_REDIRECTS: usize = 3;
const MAX_HEADERS: usize = 16;
/// Headers that are not the list's to set.
const OWN_HEADERS: [&str; 5] = ["host", "content-length", "transfer-encoding", "connection", "cookie"];

#[derive(Debug)]
struct Webhook {
    method: Method,
    url: Url,
    headers: Vec<(HeaderName, Template)>,
    body: Option<Filling>,
    timeout: Duration,
}

fn read(fields: &Fields<'_>, reading: &mut Reading<'_>) -> Result<Arc<dyn Action>, String> {
    let method = fields.choice("method", &METHODS)?;
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "method is none".to_owned())?;
    let url = Url::parse(&fields.text("url", 1..=2000)?)
        .ok()
        .filter(|url| matches!(url.scheme(), "https" | "http") && url.has_host())
        .ok_or("url must be an https:// or http:// address")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a user or password does not belong into url: use a header with {{secret:NAME}}".to_owned());
    }
    let headers = match fields.find("headers") {
        None => Vec::new(),
        Some(Value::Object(map)) if map.len() <= MAX_HEADERS => {
            map.iter().map(|(name, value)| header(name, value, reading)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(format!("headers must be an object with at most {MAX_HEADERS} texts")),
    };
    let text = |written: &str| {
        Template::read(written, &|from, name| match from {
            From::Input => reading.input(name),
            From::Form => reading.form_field(name),
            From::Secret => Err("{{secret:...}} may stand in headers only".to_owned()),
        })
    };
    let body = match fields.find("body") {
        None => None,
        Some(_) if method == Method::GET => return Err("a GET has no body".to_owned()),
        Some(value) if value.to_string().len() > MAX_BODY => return Err(format!("body is over {MAX_BODY} bytes")),
        Some(value) => Some(Filling::read(value, &text)?),
    };
    let seconds = fields.maybe_whole("timeout_seconds", 1..=MAX_SECONDS)?.unwrap_or(DEFAULT_SECONDS);
    let timeout = Duration::from_secs(seconds.unsigned_abs());
    Ok(Arc::new(Webhook { method, url, headers, body, timeout }))
}

fn header(name: &str, value: &Value, reading: &Reading<'_>) -> Result<(HeaderName, Template), String> {
    let refused = || format!("headers: {} can't be set", quoted(name));
    let header = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).map_err(|_| refused())?;
    if OWN_HEADERS.contains(&header.as_str()) {
        return Err(refused());
    }
    let text = value.as_str().ok_or_else(|| format!("headers: {} must be a text", quoted(name)))?;
    let template = Template::read(text, &|from, name| match from {
        From::Input => reading.input(name),
        From::Form => reading.form_field(name),
        From::Secret => Ok(()),
    })?;
    Ok((header, template))
}

impl Webhook {
    /// The header's value, with the secrets in it: the person's own, else the room's.
    async fn header(&self, template: &Template, step: &Step<'_>, made: &Made) -> Result<HeaderValue, Refusal> {
        let mut secrets = Vec::new();
        for name in template.names(From::Secret) {
            let own = step.store().secret(&SecretOwner::Person(step.here.person.clone()), name).await?;
            let secret = match own {
                Some(own) => own,
                None => (step.store().secret(&SecretOwner::Room(step.here.room.clone()), name).await?)
                    .ok_or_else(|| Refusal::call(format!("the secret {name:?} is not there")))?,
            };
            secrets.push((name.to_owned(), secret));
        }
        let value = template.fill(|from, name| match from {
            From::Secret => {
                let secret = secrets.iter().find(|(own, _)| own == name);
                secret.map(|(_, secret)| secret.expose_secret().trim().to_owned()).ok_or(())
            }
            from => Ok(plain(from, name, step, made)),
        });
        let value = value.ok().and_then(|value| HeaderValue::from_str(&value).ok());
        let mut value = value.ok_or_else(|| Refusal::call("a header's value has characters that can't be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn plain(from: From, name: &str, step: &Step<'_>, made: &Made) -> String {
    match from {
        From::Input => step.input(name),
        From::Form => made.form.get(name).cloned().unwrap_or_default(),
        From::Secret => String::new(),
    }
}

#[async_trait]
impl Action for Webhook {
    fn summary(&self) -> String {
        format!("calls {}", self.url.host_str().unwrap_or_default())
    }

    fn can_repeat(&self) -> bool {
        false
    }

    async fn run(&self, step: &Step<'_>, made: &mut Made) -> Result<String, Refusal> {
        let mut request = step.web().client(&self.url)?.request(self.method.clone(), self.url.clone());
        if let Some(body) = &self.body {
            let text = |template: &Template| {
                let fill = |from, name: &str| Ok::<_, std::convert::Infallible>(plain(from, name, step, made));
                template.fill(fill).unwrap_or_default()
            };
            let body = body.fill(&text).to_string();
            if body.len() > MAX_BODY {
                return Err(Refusal::call(format!("the request is over {MAX_BODY} bytes")));
            }
            request = request.header(CONTENT_TYPE, "application/json").body(body);
        }
        for (name, template) in &self.headers {
            request = request.header(name, self.header(template, step, made).await?);
        }
        let host = self.url.host_str().unwrap_or_default();
        let status = send(request, self.timeout).await.map_err(|reason| Refusal::call(format!("{host}: {reason}")))?;
        if status.is_success() {
            return Ok(format!("{host} has answered {status}"));
        }
        Err(Refusal::call(format!("{host} has answered {status}")))
    }
}

/// Makes the request, and gives how it was answered.
async fn send(request: RequestBuilder, within: Duration) -> Result<StatusCode, String> {
    let called = async {
        let answer = request.send().await.map_err(|error| failed(&error))?;
        let status = answer.status();
        let mut read = 0;
        let mut body = answer.bytes_stream();
        // Read to its end, so that the server has not written into nothing; what it says is not for the model.
        while let Some(Ok(chunk)) = body.next().await {
            read += chunk.len();
            if read > MAX_ANSWER {
                return Err(format!("the answer is over {MAX_ANSWER} bytes"));
            }
        }
        Ok(status)
    };
    let elapsed = |_| Err(format!("no answer within {} s", within.as_secs()));
    tokio::time::timeout(within, called).await.unwrap_or_else(elapsed)
}

/// What went wrong, without addresses that may hold something.
fn failed(error: &reqwest::Error) -> String {
    if error.is_redirect() {
        return "it sends to another host, where I don't go".to_owned();
    }
    let mut cause = error.source();
    while let Some(one) = cause {
        if let Some(Forbidden(address)) = one.downcast_ref() {
            return forbidden(*address);
        }
        cause = one.source();
    }
    match error {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        _ if error.is_connect() => "it can't be reached".to_owned(),
        _ => "the connection broke off".to_owned(),
    }
}

fn forbidden(address: IpAddr) -> String {
    format!("{address} is an address of a local network, which my operator has not listed in room.private_addresses")
}

/// Makes requests that leave the local network alone.
#[derive(Debug, Clone)]
pub(in crate::room_commands) struct Web {
    listed: Arc<Vec<IpNet>>,
}

/// An address that is not to be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0} is an address of a local network")]
struct Forbidden(IpAddr);

impl Web {
    pub(in crate::room_commands) fn new(listed: Vec<IpNet>) -> Self {
        Self { listed: Arc::new(listed) }
    }

    fn client(&self, url: &Url) -> Result<Client, Refusal> {
        self.check(url).map_err(|Forbidden(address)| {
            Refusal::call(format!("{}: {}", url.host_str().unwrap_or_default(), forbidden(address)))
        })?;
        let web = self.clone();
        let same_host = redirect::Policy::custom(move |attempt| {
            let first = attempt.previous().first();
            let same = first.is_some_and(|first| first.origin() == attempt.url().origin());
            if !same || attempt.previous().len() > MAX_REDIRECTS || web.check(attempt.url()).is_err() {
                return attempt.error("another host");
            }
            attempt.follow()
        });
        Client::builder()
            .redirect(same_host)
            .no_proxy()
            .dns_resolver(self.clone())
            .build()
            .map_err(|_| Refusal::call("no request can be made now"))
    }

    /// A host that is an address is not looked up, so it is checked here.
    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let Ok(address) = host.parse() else { return Ok(()) };
        if self.may_ask(address) { Ok(()) } else { Err(Forbidden(address)) }
    }

    fn may_ask(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.listed.iter().any(|net| net.contains(&address))
    }
}

impl Resolve for Web {
    fn resolve(&self, name: Name) -> Resolving {
        let web = self.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            match found.iter().find(|address| !web.may_ask(address.ip())) {
                Some(address) => Err(Forbidden(address.ip()).into()),
                None => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

/// Whether an address belongs to the open internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Carriers' own networks, protocol assignments, benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Global unicast only, without what wraps an older address or is for documents.
    (first & 0xe000) == 0x2000 && !(first == 0x2001 && (second < 0x200 || second == 0xdb8)) && first != 0x2002
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_local_networks_are_told_from_others() {
        for public in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111"] {
            assert!(is_public(address(public)), "{public}");
        }
        for local in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "64:ff9b::a00:1",
        ] {
            assert!(!Web::new(Vec::new()).may_ask(address(local)), "{local}");
        }
        assert!(!Web::new(Vec::new()).may_ask(address("::ffff:127.0.0.1")), "an older address in a newer one");
    }

    #[test]
    fn a_listed_network_may_be_asked() {
        let web = Web::new(vec!["10.0.0.0/24".parse().unwrap(), "127.0.0.1/32".parse().unwrap()]);
        assert!(web.may_ask(address("10.0.0.9")) && web.may_ask(address("127.0.0.1")));
        assert!(!web.may_ask(address("10.0.1.9")) && !web.may_ask(address("127.0.0.2")));
    }

    #[tokio::test]
    async fn a_name_that_leads_into_the_local_network_is_not_asked() {
        let url: Url = "http://localhost:9/".parse().unwrap();
        let client = Web::new(Vec::new()).client(&url).unwrap();
        let error = send(client.get(url), Duration::from_secs(9)).await.unwrap_err();
        assert!(
            error.ends_with(
                "is an address of a local network, which my operator has not listed in \
            room.private_addresses"
            ),
            "{error}"
        );
        let refused = Web::new(Vec::new()).client(&"http://127.0.0.1:9/".parse().unwrap()).unwrap_err().to_string();
        assert!(refused.starts_with("127.0.0.1: 127.0.0.1 is an address of a local network"), "{refused}");
    }

    /// A server on this machine.
    async fn server(router: axum::Router) -> Url {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        url
    }

    async fn asks(url: Url, within: Duration) -> Result<StatusCode, String> {
        let web = Web::new(vec!["127.0.0.1/32".parse().unwrap()]);
        send(web.client(&url).unwrap().get(url), within).await
    }

    #[tokio::test]
    async fn a_redirect_is_followed_on_the_same_host_only() {
        use axum::{Router, response::Redirect, routing::get};
        let elsewhere = server(Router::new().route("/", get(|| async { "reached" }))).await;
        let there = elsewhere.to_string();
        let here = server(
            Router::new()
                .route("/here", get(|| async { Redirect::temporary("/end") }))
                .route("/end", get(|| async { "reached" }))
                .route("/round", get(|| async { Redirect::temporary("/round") }))
                .route("/there", get(move || async move { Redirect::temporary(&there) })),
        )
        .await;
        let within = Duration::from_secs(9);
        let at = |path: &str| asks(here.join(path).unwrap(), within);
        assert_eq!(at("here").await, Ok(StatusCode::OK));
        let refused = Err("it sends to another host, where I don't go".to_owned());
        assert_eq!(at("there").await, refused);
        assert_eq!(at("round").await, refused);
    }

    #[tokio::test]
    async fn an_answer_that_is_slow_or_large_is_not_waited_for() {
        use axum::{Router, routing::get};
        let here = server(
            Router::new()
                .route("/slow", get(|| async { tokio::time::sleep(Duration::from_secs(60)).await }))
                .route("/large", get(|| async { "x".repeat(MAX_ANSWER + 1) })),
        )
        .await;
        let at = |path: &str| asks(here.join(path).unwrap(), Duration::from_secs(1));
        assert_eq!(at("slow").await, Err("no answer within 1 s".to_owned()));
        assert_eq!(at("large").await, Err("the answer is over 262144 bytes".to_owned()));
        let nobody = asks("http://127.0.0.1:1/".parse().unwrap(), Duration::from_secs(1)).await;
        assert_eq!(nobody, Err("it can't be reached".to_owned()));
    }
}
