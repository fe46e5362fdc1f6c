//! What a browser is answered, request by request, and over a real connection where that matters.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Request, StatusCode, header},
};
use jiff::Timestamp;
use ruma::{event_id, owned_event_id, owned_room_id, owned_user_id, user_id};
use secrecy::ExposeSecret as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tower::ServiceExt as _;

use super::{spec::tests::all_kinds, *};
use crate::store::SecretOwner;

const BASE: &str = "https://forms.example.org/";
const TOKEN: &str = "t0ken-0f-alice-4711";

struct Now(std::sync::Mutex<Timestamp>);

impl Clock for Now {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

struct Site {
    forms: Forms,
    router: Router,
    store: Store,
    clock: Arc<Now>,
    ask: Ask,
    /// The form's path.
    path: String,
}

/// What was answered.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl Answer {
    fn title(&self) -> &str {
        self.html.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).unwrap_or_default()
    }

    fn csrf(&self) -> String {
        let (_, rest) = self.html.split_once("name=\"waybread-page\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

fn settings() -> config::Forms {
    config::Config::load(None, std::iter::empty()).unwrap().forms
}

async fn site_with(bounds: Bounds, settings: config::Forms) -> Site {
    let store = Store::in_memory(user_id!("@bot:example.org")).await.unwrap();
    let clock = Arc::new(Now(std::sync::Mutex::new("2026-03-29T00:30:00Z".parse().unwrap())));
    let forms = Forms::with(store.clone(), clock.clone(), settings, bounds);
    let opened = Opened {
        spec: all_kinds(),
        owner: SecretOwner::Person(owned_user_id!("@alice:example.org")),
        command: "connect-git".into(),
        asked_in: owned_room_id!("!group:example.org"),
        agent: "Waybread".into(),
        person: "alice".into(),
        room_name: Some("The group".into()),
        digest: String::new(),
    };
    let new =
        NewForm { opened, room: owned_room_id!("!direct:example.org"), person: owned_user_id!("@alice:example.org") };
    let call = Call { origin: owned_event_id!("$q"), arguments: "form".into() };
    let (ask, address) = forms.open(new, &BASE.parse().unwrap(), &call).await.unwrap();
    let until = clock.now().saturating_add(forms.open_for()).unwrap();
    store.asked(&ask.id, event_id!("$link"), until).await.unwrap();
    let path = address.strip_prefix(BASE.trim_end_matches('/')).unwrap().to_owned();
    Site { router: router(forms.clone()), forms, store, clock, ask, path }
}

async fn site() -> Site {
    let site = site_with(Bounds::default(), settings()).await;
    site.forms.pretend_to_be_at(BASE);
    site
}

impl Site {
    async fn asks(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        Answer { status, headers, html: String::from_utf8(body.to_vec()).unwrap() }
    }

    async fn get(&self, path: &str, cookie: &str) -> Answer {
        self.asks(Request::get(path).header(header::COOKIE, cookie).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Answer {
        let request = Request::post(path)
            .header(header::COOKIE, cookie)
            .header(header::CONTENT_TYPE, "multipart/form-data; boundary=XX")
            .header(header::USER_AGENT, "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0");
        self.asks(request.body(multipart(fields).into()).unwrap()).await
    }

    /// A browser opens the form; gives its cookie.
    async fn opens(&self) -> String {
        let first = self.get(&self.path, "").await;
        let opened = self.post(&format!("{}/open", self.path), "", &[("waybread-page", &first.csrf())]).await;
        assert_eq!(opened.status, StatusCode::SEE_OTHER, "{}", opened.html);
        let cookie = opened.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600"), "{cookie}");
        cookie.split(';').next().unwrap().to_owned()
    }

    /// It fills in what is asked for.
    async fn sends(&self, cookie: &str, token: &str) -> Answer {
        let csrf = self.get(&self.path, cookie).await.csrf();
        self.post(
            &self.path,
            cookie,
            &[
                ("waybread-page", &csrf),
                ("repository", "example/app"),
                ("token", token),
                ("access", "read"),
                ("agree", "on"),
            ],
        )
        .await
    }

    async fn stored(&self) -> Option<String> {
        let owner = SecretOwner::Person(owned_user_id!("@alice:example.org"));
        let secret = self.store.secret(&owner, "git-token").await.unwrap();
        secret.map(|secret| secret.expose_secret().to_owned())
    }

    async fn verdict(&self) -> Option<FormVerdict> {
        self.store.ask_by_id(&self.ask.id).await.unwrap().unwrap().verdict.as_ref().map(FormVerdict::read)
    }
}

fn multipart(fields: &[(&str, &str)]) -> String {
    let part = |(name, value): &(&str, &str)| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    fields.iter().map(part).chain(["--XX--\r\n".to_owned()]).collect()
}

#[tokio::test]
async fn a_form_is_opened_filled_in_and_done() {
    let site = site().await;
    let first = site.get(&site.path, "").await;
    assert_eq!((first.status, first.title()), (StatusCode::OK, "Connect a Git repository"));
    let cookie = site.opens().await;
    let sent = site.sends(&cookie, TOKEN).await;
    assert_eq!((sent.status, sent.headers[header::LOCATION].to_str().unwrap()), (StatusCode::SEE_OTHER, &*site.path));
    assert_eq!(site.stored().await.as_deref(), Some(TOKEN));
    let Some(FormVerdict::Given(given)) = site.verdict().await else { panic!("it was given") };
    assert_eq!(given.fields, ["repository", "token", "access", "agree"]);
    assert_eq!((given.secrets, given.browser.as_str()), (vec!["git-token".to_owned()], "Firefox on Linux"));
    assert!(given.plain.values().all(|value| value != TOKEN));
    let done = site.get(&site.path, &cookie).await;
    assert_eq!((done.status, done.title()), (StatusCode::OK, "Connect a Git repository: done"));
}

#[tokio::test]
async fn every_answer_has_the_headers_that_keep_it_to_itself() {
    let site = site().await;
    for path in [&*site.path, "/form.css", "/nothing", "/form/a/b"] {
        let answer = site.get(path, "").await;
        let shown: Vec<_> = ["content-security-policy", "cache-control", "referrer-policy", "x-frame-options"]
            .map(|name| answer.headers[name].to_str().unwrap().to_owned())
            .into();
        assert_eq!(
            shown,
            [
                "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
                "no-store",
                "no-referrer",
                "DENY"
            ],
            "{path}"
        );
    }
}

#[tokio::test]
async fn looking_at_the_link_changes_nothing() {
    let site = site().await;
    for _ in 0..3 {
        assert!(site.get(&site.path, "").await.html.contains("Open the form"));
    }
    let head = Request::head(&site.path).body(Body::empty()).unwrap();
    assert_eq!(site.asks(head).await.status, StatusCode::OK);
    assert_eq!(site.store.form_browser(&site.ask.id).await.unwrap(), None);
    site.opens().await;
}

#[tokio::test]
async fn a_second_browser_sees_nothing_and_sends_nothing() {
    let site = site().await;
    let first = site.get(&site.path, "").await.csrf();
    let cookie = site.opens().await;
    for other in ["", &format!("{cookie}x"), "waybread-form-other=1"] {
        let answer = site.get(&site.path, other).await;
        assert_eq!((answer.status, answer.title()), (StatusCode::FORBIDDEN, "Open in another browser"));
        let opened = site.post(&format!("{}/open", site.path), other, &[("waybread-page", &first)]).await;
        assert_eq!(opened.status, StatusCode::FORBIDDEN);
        let sent = site.post(&site.path, other, &[("waybread-page", &first), ("token", "x")]).await;
        assert_eq!(sent.status, StatusCode::FORBIDDEN);
    }
    assert_eq!(site.stored().await, None);
    assert_eq!(site.sends(&cookie, TOKEN).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_second_submission_changes_nothing() {
    let site = site().await;
    let cookie = site.opens().await;
    let csrf = site.get(&site.path, &cookie).await.csrf();
    site.sends(&cookie, TOKEN).await;
    let again = site.post(&site.path, &cookie, &[("waybread-page", &csrf), ("token", "another-token")]).await;
    assert_eq!(again.status, StatusCode::SEE_OTHER, "it leads to the page that says done");
    assert_eq!(site.stored().await.as_deref(), Some(TOKEN));
    assert_eq!(site.get(&site.path, "").await.status, StatusCode::GONE, "another browser learns that it is over");
}

#[tokio::test]
async fn two_submissions_at_once_are_one() {
    let site = site().await;
    let cookie = site.opens().await;
    let (one, other) =
        tokio::join!(site.sends(&cookie, "first-of-two-tokens"), site.sends(&cookie, "second-of-two-tokens"));
    assert_eq!([one.status, other.status], [StatusCode::SEE_OTHER; 2]);
    let Some(FormVerdict::Given(given)) = site.verdict().await else { panic!("it was given") };
    assert_eq!(given.secrets, ["git-token"]);
}

#[tokio::test]
async fn what_is_wrong_is_told_and_the_rest_is_kept_but_for_secrets() {
    let site = site().await;
    let cookie = site.opens().await;
    let csrf = site.get(&site.path, &cookie).await.csrf();
    let fields = [("waybread-page", &*csrf), ("repository", "example/app"), ("token", TOKEN), ("access", "all")];
    let answer = site.post(&site.path, &cookie, &fields).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.html.contains("value=\"example/app\"") && !answer.html.contains(TOKEN));
    assert!(answer.html.contains("Please choose one of these.") && answer.html.contains("Please tick this box."));
    assert_eq!((site.stored().await, site.verdict().await), (None, None));
    assert_eq!(site.sends(&cookie, TOKEN).await.status, StatusCode::SEE_OTHER, "it can be sent again");
}

#[tokio::test]
async fn what_does_not_come_from_the_forms_own_page_is_not_taken() {
    let site = site().await;
    let open = format!("{}/open", site.path);
    assert_eq!(site.post(&open, "", &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(site.post(&open, "", &[("waybread-page", "guess")]).await.status, StatusCode::FORBIDDEN);
    let first = site.get(&site.path, "").await.csrf();
    let cookie = site.opens().await;
    for wrong in ["", "guess", &first] {
        let fields =
            [("waybread-page", wrong), ("repository", "r"), ("token", TOKEN), ("access", "read"), ("agree", "on")];
        let answer = site.post(&site.path, &cookie, &fields).await;
        assert_eq!((answer.status, answer.title()), (StatusCode::FORBIDDEN, "Not taken"), "{wrong:?}");
    }
    let csrf = site.get(&site.path, &cookie).await.csrf();
    let fields =
        [("waybread-page", &*csrf), ("repository", "r"), ("token", TOKEN), ("access", "read"), ("agree", "on")];
    let request = Request::post(&site.path)
        .header(header::COOKIE, &cookie)
        .header("sec-fetch-site", "cross-site")
        .header(header::CONTENT_TYPE, "multipart/form-data; boundary=XX")
        .body(multipart(&fields).into())
        .unwrap();
    assert_eq!(site.asks(request).await.status, StatusCode::FORBIDDEN, "the browser says that another site sends it");
    let request = Request::post(&site.path)
        .header(header::COOKIE, &cookie)
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body("token=x".into())
        .unwrap();
    assert_eq!(site.asks(request).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(site.stored().await, None);
}

#[tokio::test]
async fn a_form_is_over_when_its_time_is() {
    let site = site().await;
    let cookie = site.opens().await;
    let csrf = site.get(&site.path, &cookie).await.csrf();
    *site.clock.0.lock().unwrap() += jiff::SignedDuration::from_secs(600);
    let answer = site.get(&site.path, &cookie).await;
    assert_eq!((answer.status, answer.title()), (StatusCode::GONE, "This form is closed"));
    let sent = site.post(&site.path, &cookie, &[("waybread-page", &csrf), ("token", TOKEN)]).await;
    assert_eq!(sent.status, StatusCode::GONE);
    assert_eq!(site.stored().await, None);
}

#[tokio::test]
async fn a_form_that_was_taken_back_is_over() {
    let site = site().await;
    let cookie = site.opens().await;
    site.forms.asks().close(&site.ask.id, &FormVerdict::Withdrawn.to_value()).await.unwrap();
    assert_eq!(site.sends_nothing(&cookie).await, StatusCode::GONE);
}

impl Site {
    async fn sends_nothing(&self, cookie: &str) -> StatusCode {
        self.post(&self.path, cookie, &[]).await.status
    }
}

#[tokio::test]
async fn a_file_that_is_too_large_is_told_or_not_read_to_its_end() {
    let site = site().await;
    let cookie = site.opens().await;
    let csrf = site.get(&site.path, &cookie).await.csrf();
    let with_file = async |bytes: usize| {
        let file = "x".repeat(bytes);
        let fields = [
            ("waybread-page", &*csrf),
            ("repository", "r"),
            ("token", TOKEN),
            ("access", "read"),
            ("agree", "on"),
            ("key", &file),
        ];
        site.post(&site.path, &cookie, &fields).await
    };
    let answer = with_file(101).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.html.contains("The file is too large: 100 bytes at most."));
    for bytes in [100_000, 3_000_000] {
        let answer = with_file(bytes).await;
        assert_eq!((answer.status, answer.title()), (StatusCode::PAYLOAD_TOO_LARGE, "Too large"), "{bytes}");
    }
    assert_eq!(site.stored().await, None);
    assert_eq!(with_file(100).await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn a_thousand_guesses_find_nothing_and_end_in_a_refusal_while_the_form_works_for_others() {
    let mut settings = settings();
    settings.behind_proxy = true;
    let site = site_with(Bounds::default(), settings).await;
    site.forms.pretend_to_be_at(BASE);
    let right = site.path.rsplit('/').next().unwrap().to_owned();
    let mut answers = std::collections::BTreeMap::<u16, usize>::new();
    let guess = async |path: String| {
        let request = Request::get(path).header("x-forwarded-for", "203.0.113.9").body(Body::empty()).unwrap();
        site.asks(request).await
    };
    for number in 0..1000 {
        // The right id, and a secret that is nearly right: the hardest case.
        let mut secret = right.clone();
        let digit = secret.pop().unwrap();
        secret.push(if digit == 'A' { 'B' } else { 'A' });
        let path =
            if number % 2 == 0 { format!("/form/{}/{secret}", site.ask.id) } else { format!("/form/{number}/{right}") };
        let answer = guess(path).await;
        *answers.entry(answer.status.as_u16()).or_default() += 1;
        assert!(!answer.html.contains("Connect"), "nothing is told");
    }
    assert!(answers[&404] <= 20 && answers[&429] >= 980, "{answers:?}");
    assert_eq!(guess(site.path.clone()).await.status, StatusCode::TOO_MANY_REQUESTS, "that address waits");
    let other = Request::get(&site.path).header("x-forwarded-for", "198.51.100.7").body(Body::empty()).unwrap();
    assert_eq!(site.asks(other).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_ended_and_costs_nobody_else() {
    let bounds = Bounds { request: Duration::from_millis(300), ..Bounds::default() };
    let mut local = settings();
    local.listen = "127.0.0.1:0".parse().unwrap();
    let site = site_with(bounds, local).await;
    let base = site.forms.address().await.unwrap();
    let address = (base.host_str().unwrap().to_owned(), base.port().unwrap());
    let mut slow = TcpStream::connect(address.clone()).await.unwrap();
    let head = format!(
        "POST {}/open HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=XX\r\ncontent-length: 5000\r\n\r\n--XX",
        site.path
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut other = TcpStream::connect(address).await.unwrap();
    other
        .write_all(format!("GET {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", site.path).as_bytes())
        .await
        .unwrap();
    let mut text = String::new();
    other.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK") && text.contains("Open the form"), "{text}");
    let mut text = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), slow.read_buf(&mut text)).await;
    ended.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&text).starts_with("HTTP/1.1 408"), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn an_address_has_256_random_bits() {
    let made: std::collections::BTreeSet<_> = (0..200).map(|_| random(32)).collect();
    assert_eq!(made.len(), 200);
    assert!(
        made.iter().all(|one| one.len() == 43 && one.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)))
    );
}
