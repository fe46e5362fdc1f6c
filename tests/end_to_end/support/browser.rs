//! A real browser without a window, driven over WebDriver; and, for what needs none, a visitor that speaks HTTP.

use std::{
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use reqwest::{Client, StatusCode, header, redirect};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

/// How long the driver may take to be ready, and a page to show what is looked for.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What WebDriver calls an element in its answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser. Ends when it is dropped.
pub struct Browser {
    driver: Child,
    session: String,
    http: Client,
    _profile: TempDir,
}

impl Browser {
    /// A new browser with an empty profile; None where this machine has none, which is said.
    pub async fn start() -> Option<Self> {
        let (Some(driver), Some(browser)) = (program("CHROMEDRIVER"), program("CHROMIUM")) else {
            eprintln!("NOT TRIED: no browser; cargo xtask test says what to install");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let profile = tempfile::tempdir().unwrap();
        let driver = Command::new(driver)
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let http = Client::builder().no_proxy().build().unwrap();
        let mut started = Self { driver, session: format!("http://127.0.0.1:{port}"), http, _profile: profile };
        started.until_ready().await;
        let folder = format!("--user-data-dir={}", started._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            &folder,
        ];
        let options = json!({"binary": browser, "args": arguments});
        let capabilities = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let made = started.does("/session", capabilities).await;
        let id = made["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {made}")).to_owned();
        started.session = format!("{}/session/{id}", started.session);
        Some(started)
    }

    async fn until_ready(&self) {
        let ready = async {
            while self.http.get(format!("{}/status", self.session)).send().await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(READY_WITHIN, ready).await.expect("the driver is not ready");
    }

    /// A command to the driver, which succeeds.
    async fn does(&self, path: &str, body: Value) -> Value {
        let answer = self.http.post(format!("{}{path}", self.session)).json(&body).send().await.unwrap();
        let (status, body): (_, Value) = (answer.status(), answer.json().await.unwrap());
        assert!(status.is_success(), "{path}: {body}");
        body["value"].clone()
    }

    async fn asks(&self, path: &str) -> Value {
        let answer: Value =
            self.http.get(format!("{}{path}", self.session)).send().await.unwrap().json().await.unwrap();
        answer["value"].clone()
    }

    /// Goes to an address.
    pub async fn goes_to(&self, url: &str) {
        self.does("/url", json!({ "url": url })).await;
    }

    /// Presses the button that leads to the page before.
    pub async fn goes_back(&self) {
        self.does("/back", json!({})).await;
    }

    /// The page as it stands.
    pub async fn source(&self) -> String {
        self.asks("/source").await.as_str().unwrap_or_default().to_owned()
    }

    /// What stands in an element; nothing where the page is just being left.
    async fn text(&self, selector: &str) -> String {
        let element = self.element(selector).await;
        self.asks(&format!("/element/{element}/text")).await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an element says this.
    pub async fn shows(&self, selector: &str, text: &str) {
        let shown = async {
            while self.text(selector).await != text {
                sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(READY_WITHIN, shown).await.is_err() {
            panic!("{selector} never says {text:?}: {}", self.source().await);
        }
    }

    /// The value of a field.
    pub async fn value(&self, selector: &str) -> String {
        let element = self.element(selector).await;
        self.asks(&format!("/element/{element}/property/value")).await.as_str().unwrap_or_default().to_owned()
    }

    /// Types into a field.
    pub async fn types(&self, selector: &str, text: &str) {
        let element = self.element(selector).await;
        self.does(&format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// Clicks on something.
    pub async fn clicks(&self, selector: &str) {
        let element = self.element(selector).await;
        self.does(&format!("/element/{element}/click"), json!({})).await;
    }

    /// Waits until the page has an element.
    async fn element(&self, selector: &str) -> String {
        let found = async {
            loop {
                let body = json!({"using": "css selector", "value": selector});
                let answer = self.http.post(format!("{}/element", self.session)).json(&body).send().await.unwrap();
                let answer: Value = answer.json().await.unwrap();
                if let Some(element) = answer["value"][ELEMENT].as_str() {
                    return element.to_owned();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        match tokio::time::timeout(READY_WITHIN, found).await {
            Ok(element) => element,
            Err(_) => panic!("no {selector} in {}", self.source().await),
        }
    }

    /// Shows pages as a phone does, light or dark.
    pub async fn is_a_phone(&self, scheme: &str) {
        for (command, parameters) in [
            (
                "Emulation.setDeviceMetricsOverride",
                json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true}),
            ),
            ("Emulation.setEmulatedMedia", json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]})),
        ] {
            self.does("/goog/cdp/execute", json!({"cmd": command, "params": parameters})).await;
        }
    }

    /// Runs a script that only looks, and gives what it gives.
    pub async fn looks(&self, script: &str) -> Value {
        self.does("/execute/sync", json!({"script": script, "args": []})).await
    }

    /// Keeps a picture of the page, where the one who runs the tests wants pictures.
    pub async fn pictures(&self, name: &str) {
        let Some(folder) = std::env::var_os("WAYBREAD_TEST_PICTURES") else { return };
        let picture = self.asks("/screenshot").await;
        let bytes = decoded(picture.as_str().unwrap());
        std::fs::write(PathBuf::from(folder).join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browsers when it is told to end, and not when it is killed.
        let pid = self.driver.id().to_string();
        let _ = Command::new("kill").arg(&pid).status();
        for _ in 0..100 {
            if matches!(self.driver.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn program(name: &str) -> Option<PathBuf> {
    std::env::var_os(format!("WAYBREAD_TEST_{name}")).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn decoded(base64: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in base64.bytes().filter_map(|byte| DIGITS.iter().position(|one| *one == byte)) {
        (bits, held) = ((bits << 6) | digit as u32, held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

/// Somebody who opens a form without a browser.
pub struct Visitor {
    http: Client,
    address: String,
    cookie: String,
}

impl Visitor {
    /// Opens a form.
    pub async fn opens(address: &str) -> Self {
        let http = Client::builder().no_proxy().redirect(redirect::Policy::none()).build().unwrap();
        let mut visitor = Self { http, address: address.to_owned(), cookie: String::new() };
        let page = visitor.page().await;
        let answer = visitor.posts(&format!("{address}/open"), &[("waybread-page", &csrf(&page))]).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()[header::SET_COOKIE].to_str().unwrap();
        visitor.cookie = cookie.split(';').next().unwrap().to_owned();
        visitor
    }

    /// The page as it stands.
    pub async fn page(&self) -> String {
        let request = self.http.get(&self.address).header(header::COOKIE, &self.cookie);
        request.send().await.unwrap().text().await.unwrap()
    }

    /// Sends the form, which is taken.
    pub async fn sends(&self, fields: &[(&str, &str)]) {
        let own = csrf(&self.page().await);
        let fields: Vec<_> = [("waybread-page", &*own)].into_iter().chain(fields.iter().copied()).collect();
        let answer = self.posts(&self.address, &fields).await;
        assert_eq!(answer.status(), StatusCode::SEE_OTHER, "{}", answer.text().await.unwrap());
    }

    async fn posts(&self, address: &str, fields: &[(&str, &str)]) -> reqwest::Response {
        let part = |(name, value): &(&str, &str)| {
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let body: String = fields.iter().map(part).chain(["--XX--\r\n".to_owned()]).collect();
        let request = self.http.post(address).header(header::COOKIE, &self.cookie);
        request.header(header::CONTENT_TYPE, "multipart/form-data; boundary=XX").body(body).send().await.unwrap()
    }
}

fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"waybread-page\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
    rest.split('"').next().unwrap().to_owned()
}
