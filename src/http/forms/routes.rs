//! What is asked of a form, and what is answered.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /form/ID/SECRET` | the first page with its button; the form, in the browser that pressed it; how it ended |
//! | `POST /form/ID/SECRET/open` | binds this browser, by a cookie |
//! | `POST /form/ID/SECRET` | takes the form |
//! | `GET /form.css` | how the pages look |

use std::net::{IpAddr, Ipv4Addr};

use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, FromRequest as _, Multipart, Path, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use subtle::ConstantTimeEq as _;

use super::{
    Faults, FormVerdict, Forms, Opened, Sent, Submitted, browser,
    page::{self, Page},
    random,
    serve::Peer,
};
use crate::store::{Ask, AskKind, NewSecret, StoreError, Submission};

/// A request that is larger than any form is not read at all.
const MAX_BODY: usize = 2 * 1024 * 1024;
/// What the button of the first page sends, in bytes, at most.
const OPEN_BODY: usize = 16 * 1024;
/// Parts of one submission.
const MAX_PARTS: usize = 64;

/// Only what we serve ourselves, no script, in no other page's frame.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
];

/// The parts of an address.
#[derive(Debug, Deserialize)]
struct Address {
    id: String,
    secret: String,
}

pub(crate) fn router(forms: Forms) -> Router {
    Router::new()
        .route("/form/{id}/{secret}", get(show).post(submit))
        .route("/form/{id}/{secret}/open", post(open))
        .route("/form.css", get(style))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .fallback(|State(forms): State<Forms>| async move { forms.answer(StatusCode::NOT_FOUND, &Page::Gone) })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(forms.clone(), guard))
        .with_state(forms)
}

/// Around every request: how often, how long, and with which headers.
async fn guard(State(forms): State<Forms>, request: Request, next: Next) -> Response {
    let peer = client(&forms, &request);
    let mut response = if !forms.0.site.visits.admit(peer) {
        forms.answer(StatusCode::TOO_MANY_REQUESTS, &Page::Slow)
    } else {
        match tokio::time::timeout(forms.0.site.bounds.request, next.run(request)).await {
            Ok(response) => response,
            Err(_) => forms.answer(StatusCode::REQUEST_TIMEOUT, &Page::TooSlow),
        }
    };
    if response.status() == StatusCode::NOT_FOUND {
        forms.0.site.visits.wrong(peer);
    }
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Who asks. What stands before us adds its own view at the end of the list.
fn client(forms: &Forms, request: &Request) -> IpAddr {
    let peer = request.extensions().get::<Peer>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0.ip());
    if !forms.0.site.settings.behind_proxy {
        return peer;
    }
    let forwarded = request.headers().get_all("x-forwarded-for").iter().next_back();
    let named = forwarded.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    named.unwrap_or(peer)
}

async fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], page::STYLE).into_response()
}

/// A form as it stands for one browser.
struct Visit {
    forms: Forms,
    ask: Ask,
    opened: Opened,
    browser: Bound,
}

/// Which browser has opened a form.
enum Bound {
    Nobody,
    ThisOne(String),
    Another,
}

impl Visit {
    /// Looks the form up. An unknown id and a wrong secret are the same.
    async fn find(forms: &Forms, address: &Address, headers: &HeaderMap) -> Result<Option<Self>, StoreError> {
        let Some(forms) = forms.with_form(&address.id).await? else { return Ok(None) };
        let ask = forms.0.store.ask_by_id(&address.id).await?.filter(|ask| ask.kind == AskKind::Form);
        let given = forms.digest_of(&address.id, &address.secret)?;
        let Some(ask) = ask else { return Ok(None) };
        let Ok(opened) = serde_json::from_value::<Opened>(ask.question.clone()) else { return Ok(None) };
        if !bool::from(given.as_bytes().ct_eq(opened.digest.as_bytes())) {
            return Ok(None);
        }
        let browser = match forms.0.store.form_browser(&ask.id).await? {
            None => Bound::Nobody,
            Some(bound) => match cookie(headers, &ask.id) {
                Some(own) if bool::from(forms.digest_of(&ask.id, own)?.as_bytes().ct_eq(bound.as_bytes())) => {
                    Bound::ThisOne(own.to_owned())
                }
                _ => Bound::Another,
            },
        };
        Ok(Some(Self { forms, ask, opened, browser }))
    }

    /// How it has ended, if it has.
    fn end(&self) -> Option<(StatusCode, Page<'_>)> {
        match (&self.ask.verdict, &self.browser) {
            (Some(verdict), browser) => Some(match (FormVerdict::read(verdict), browser) {
                (FormVerdict::Given(_), Bound::ThisOne(_)) => (StatusCode::OK, Page::Done { opened: &self.opened }),
                _ => (StatusCode::GONE, Page::Over),
            }),
            (None, _) if self.ask.expires_at <= self.forms.0.site.clock.now() => Some((StatusCode::GONE, Page::Over)),
            (None, Bound::Another) => Some((StatusCode::FORBIDDEN, Page::Elsewhere)),
            (None, Bound::Nobody | Bound::ThisOne(_)) => None,
        }
    }
}

async fn show(State(forms): State<Forms>, Path(address): Path<Address>, headers: HeaderMap) -> Response {
    let visit = match Visit::find(&forms, &address, &headers).await {
        Ok(Some(visit)) => visit,
        Ok(None) => return forms.answer(StatusCode::NOT_FOUND, &Page::Gone),
        Err(error) => return forms.broken(&error),
    };
    let forms = &visit.forms;
    if let Some((status, page)) = visit.end() {
        return forms.answer(status, &page);
    }
    let path = forms.path(&address);
    match &visit.browser {
        Bound::ThisOne(own) => match forms.csrf(&visit.ask.id, own) {
            Ok(csrf) => forms.answer(StatusCode::OK, &Page::form(&visit.opened, &path, &csrf, None)),
            Err(error) => forms.broken(&error),
        },
        _ => match forms.csrf(&visit.ask.id, "") {
            Ok(csrf) => forms.answer(StatusCode::OK, &Page::Open { opened: &visit.opened, path: &path, csrf: &csrf }),
            Err(error) => forms.broken(&error),
        },
    }
}

async fn open(State(forms): State<Forms>, Path(address): Path<Address>, request: Request) -> Response {
    let headers = request.headers().clone();
    let visit = match Visit::find(&forms, &address, &headers).await {
        Ok(Some(visit)) => visit,
        Ok(None) => return forms.answer(StatusCode::NOT_FOUND, &Page::Gone),
        Err(error) => return forms.broken(&error),
    };
    let forms = &visit.forms;
    if let Some((status, page)) = visit.end() {
        return forms.answer(status, &page);
    }
    let sent = match forms.read(request, OPEN_BODY).await {
        Ok(sent) => sent,
        Err(response) => return response,
    };
    match forms.is_ours(&visit.ask.id, "", &sent, &headers) {
        Ok(true) => {}
        Ok(false) => return forms.answer(StatusCode::FORBIDDEN, &Page::Foreign),
        Err(error) => return forms.broken(&error),
    }
    if matches!(visit.browser, Bound::ThisOne(_)) {
        return see_other(&forms.path(&address));
    }
    match forms.bind(&visit.ask.id).await {
        Ok(Some(own)) => {
            let mut response = see_other(&forms.path(&address));
            let secure = if forms.is_public_https() { "; Secure" } else { "" };
            // "Lax", so that the link in the chat leads to the form again; nothing is taken by a GET.
            let id = &visit.ask.id;
            let cookie = format!("waybread-form-{id}={own}; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600{secure}");
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        // Another browser was faster.
        Ok(None) => forms.answer(StatusCode::FORBIDDEN, &Page::Elsewhere),
        Err(error) => forms.broken(&error),
    }
}

async fn submit(State(forms): State<Forms>, Path(address): Path<Address>, request: Request) -> Response {
    let headers = request.headers().clone();
    let visit = match Visit::find(&forms, &address, &headers).await {
        Ok(Some(visit)) => visit,
        Ok(None) => return forms.answer(StatusCode::NOT_FOUND, &Page::Gone),
        Err(error) => return forms.broken(&error),
    };
    let forms = &visit.forms;
    if let Some((status, page)) = visit.end() {
        // A second press on the button leads to what the first has led to.
        return if status == StatusCode::OK { see_other(&forms.path(&address)) } else { forms.answer(status, &page) };
    }
    let Bound::ThisOne(own) = &visit.browser else { return forms.answer(StatusCode::FORBIDDEN, &Page::Elsewhere) };
    let sent = match forms.read(request, visit.opened.spec.max_body()).await {
        Ok(sent) => sent,
        Err(response) => return response,
    };
    match forms.is_ours(&visit.ask.id, own, &sent, &headers) {
        Ok(true) => {}
        Ok(false) => return forms.answer(StatusCode::FORBIDDEN, &Page::Foreign),
        Err(error) => return forms.broken(&error),
    }
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match forms.take(&visit, &sent, agent).await {
        Ok(Ok(())) => see_other(&forms.path(&address)),
        Ok(Err(faults)) => match forms.csrf(&visit.ask.id, own) {
            Ok(csrf) => {
                let path = forms.path(&address);
                let page = Page::form(&visit.opened, &path, &csrf, Some((&sent, &faults)));
                forms.answer(StatusCode::UNPROCESSABLE_ENTITY, &page)
            }
            Err(error) => forms.broken(&error),
        },
        Err(error) => forms.broken(&error),
    }
}

impl Forms {
    /// Binds the form to a browser, if it is to none. Gives what that browser is to keep.
    async fn bind(&self, id: &str) -> Result<Option<String>, StoreError> {
        let own = random(32);
        let bound = self.0.store.bind_form(id, &self.digest_of(id, &own)?).await?;
        Ok(bound.then_some(own))
    }

    /// What a page of ours puts into its form for this browser; nothing stands for none.
    fn csrf(&self, id: &str, browser: &str) -> Result<String, StoreError> {
        self.0.store.digest(&format!("form's own page {id} {browser}"))
    }

    /// Whether a submission comes from a page of ours in this browser.
    fn is_ours(&self, id: &str, browser: &str, sent: &Sent, headers: &HeaderMap) -> Result<bool, StoreError> {
        // Browsers say where a request comes from; others say nothing.
        let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
        let given = sent.get(page::CSRF).map(Vec::as_slice).unwrap_or_default();
        let csrf = self.csrf(id, browser)?;
        Ok(bool::from(given.ct_eq(csrf.as_bytes())) && site.is_none_or(|site| matches!(site, "same-origin" | "none")))
    }

    /// Takes what was sent, once.
    async fn take(&self, visit: &Visit, sent: &Sent, agent: &str) -> Result<Result<(), Faults>, StoreError> {
        let given = match visit.opened.spec.check(sent) {
            Ok(given) => given,
            Err(faults) => return Ok(Err(faults)),
        };
        let now = self.0.site.clock.now();
        let verdict = FormVerdict::Given(Submitted {
            fields: given.fields,
            plain: given.plain,
            secrets: given.secrets.iter().map(|(name, _)| name.clone()).collect(),
            browser: browser::kind(agent),
            at: now.as_millisecond(),
        });
        let secrets: Vec<_> = given.secrets.into_iter().map(|(name, value)| NewSecret { name, value }).collect();
        let submission = Submission {
            ask: &visit.ask.id,
            verdict: &verdict.to_value(),
            owner: &visit.opened.owner,
            set_by: &visit.ask.person,
            secrets: &secrets,
            at: now,
        };
        if self.0.store.submit_form(&submission).await? {
            self.0.asks.changed(&visit.ask.id);
        }
        Ok(Ok(()))
    }

    /// The form's own address, as its pages name it, behind whatever folder the public address has.
    fn path(&self, Address { id, secret }: &Address) -> String {
        format!("{}form/{id}/{secret}", self.folder())
    }

    /// The fields of a submission, up to so many bytes.
    async fn read(&self, request: Request, most: usize) -> Result<Sent, Response> {
        let malformed = || self.answer(StatusCode::BAD_REQUEST, &Page::Foreign);
        let too_large = || self.answer(StatusCode::PAYLOAD_TOO_LARGE, &Page::TooLarge);
        let mut parts = Multipart::from_request(request, &()).await.map_err(|_| malformed())?;
        let (mut sent, mut size) = (Sent::new(), 0);
        loop {
            let failed = |error: axum::extract::multipart::MultipartError| match error.status() {
                StatusCode::PAYLOAD_TOO_LARGE => too_large(),
                _ => malformed(),
            };
            let Some(mut part) = parts.next_field().await.map_err(failed)? else { return Ok(sent) };
            let name = part.name().unwrap_or_default().to_owned();
            let mut value = Vec::new();
            while let Some(chunk) = part.chunk().await.map_err(failed)? {
                size += chunk.len();
                if size > most {
                    return Err(too_large());
                }
                value.extend_from_slice(&chunk);
            }
            if sent.len() >= MAX_PARTS {
                return Err(malformed());
            }
            sent.insert(name, value);
        }
    }

    fn answer(&self, status: StatusCode, page: &Page<'_>) -> Response {
        (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], page.html(self.folder())).into_response()
    }

    fn broken(&self, error: &StoreError) -> Response {
        tracing::error!(error = error as &dyn std::error::Error, "a form can't be shown");
        self.answer(StatusCode::SERVICE_UNAVAILABLE, &Page::Broken)
    }

    fn folder(&self) -> &str {
        self.0.site.served.get().map_or("/", reqwest::Url::path)
    }

    fn is_public_https(&self) -> bool {
        self.0.site.settings.public_url.as_ref().is_some_and(|url| url.scheme() == "https")
    }
}

fn cookie<'h>(headers: &'h HeaderMap, id: &str) -> Option<&'h str> {
    let name = format!("waybread-form-{id}");
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(own, _)| *own == name)
        .map(|(_, value)| value)
}

fn see_other(path: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}
