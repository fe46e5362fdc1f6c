//! The homeservers that `cargo xtask test` has started.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use hmac::{Hmac, Mac};
use ruma::{OwnedEventId, OwnedRoomId, OwnedUserId, UserId};
use serde_json::{Value, json};
use sha1::Sha1;

/// A Synapse.
pub struct Homeserver {
    pub url: String,
    http: reqwest::Client,
    /// The variable that names the folder of its appservices.
    appservices: &'static str,
}

/// An account that was made for a test.
#[derive(Clone)]
pub struct Account {
    pub user: OwnedUserId,
    pub password: String,
    /// A session without encryption, to look at what the homeserver has.
    pub token: String,
}

enum Role {
    User,
    Admin,
}

fn from_environment(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run these tests by `cargo xtask test`"))
}

impl Homeserver {
    /// One that does not limit anybody.
    pub fn relaxed() -> Self {
        Self {
            url: from_environment("WAYBREAD_TEST_HOMESERVER"),
            http: reqwest::Client::new(),
            appservices: "WAYBREAD_TEST_APPSERVICES",
        }
    }

    /// One with Synapse's own limits.
    pub fn default_limits() -> Self {
        let url = from_environment("WAYBREAD_TEST_HOMESERVER_DEFAULT_LIMITS");
        Self { url, http: reqwest::Client::new(), appservices: "WAYBREAD_TEST_APPSERVICES_DEFAULT_LIMITS" }
    }

    /// The same homeserver at another address.
    pub fn at(&self, url: String) -> Self {
        Self { url, http: self.http.clone(), appservices: self.appservices }
    }

    /// Makes an account whose name begins with `name`.
    pub async fn account(&self, name: &str) -> Account {
        self.register(name, Role::User).await
    }

    /// Makes an account that may administer the homeserver.
    pub async fn admin(&self) -> Account {
        self.register("admin", Role::Admin).await
    }

    /// Sets the name that others see of an account.
    pub async fn is_called(&self, account: &Account, name: &str) {
        let url = format!("{}/_matrix/client/v3/profile/{}/displayname", self.url, account.user);
        let request = self.http.put(url).bearer_auth(&account.token).json(&json!({ "displayname": name }));
        request.send().await.unwrap().error_for_status().unwrap();
    }

    /// Takes all limits from a user (every kind that Synapse has but logins), or gives them back.
    pub async fn set_limited(&self, admin: &Account, user: &UserId, limited: bool) {
        let url = format!("{}/_synapse/admin/v1/users/{user}/override_ratelimit", self.url);
        let request = if limited {
            self.http.delete(url)
        } else {
            // Zero stands for no limit.
            self.http.post(url).json(&json!({"messages_per_second": 0, "burst_count": 0}))
        };
        request.bearer_auth(&admin.token).send().await.unwrap().error_for_status().unwrap();
    }

    async fn register(&self, name: &str, role: Role) -> Account {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (name, password) = (format!("{name}-{unique}"), format!("password-{unique}"));
        let url = format!("{}/_synapse/admin/v1/register", self.url);
        let nonce: Value = self.http.get(&url).send().await.unwrap().json().await.unwrap();
        let nonce = nonce["nonce"].as_str().unwrap();
        let secret = from_environment("WAYBREAD_TEST_REGISTRATION_SECRET");
        let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).unwrap();
        let (role, admin) = match role {
            Role::Admin => ("admin", true),
            Role::User => ("notadmin", false),
        };
        mac.update([nonce, &name, &password, role].join("\0").as_bytes());
        let mac: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let body = json!({"nonce": nonce, "username": name, "password": password, "admin": admin, "mac": mac});
        let made: Value = self.http.post(&url).json(&body).send().await.unwrap().json().await.unwrap();
        let text = |key: &str| made[key].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        Account { user: text("user_id").try_into().unwrap(), password, token: text("access_token") }
    }

    /// Sends a message that nothing protects: what anybody with a hand on the homeserver can write.
    pub async fn send_in_clear(&self, room: &str, sender: &Account, content: &Value) -> OwnedEventId {
        let room = room.replace('!', "%21").replace(':', "%3A");
        let txn = ruma::TransactionId::new();
        let url = format!("{}/_matrix/client/v3/rooms/{room}/send/m.room.message/{txn}", self.url);
        let answer: Value =
            self.http.put(url).bearer_auth(&sender.token).json(content).send().await.unwrap().json().await.unwrap();
        answer["event_id"].as_str().unwrap_or_else(|| panic!("{answer}")).try_into().unwrap()
    }

    /// The key backup of an account, as the homeserver describes it.
    pub async fn key_backup(&self, account: &Account) -> Value {
        let url = format!("{}/_matrix/client/v3/room_keys/version", self.url);
        self.http.get(&url).bearer_auth(&account.token).send().await.unwrap().json().await.unwrap()
    }

    /// Waits until the key backup of an account has so many keys.
    pub async fn until_backed_up(&self, account: &Account, keys: u64) {
        let waited = tokio::time::timeout(std::time::Duration::from_secs(180), async {
            loop {
                if self.key_backup(account).await["count"].as_u64().is_some_and(|count| count >= keys) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        });
        waited.await.expect("keys were not backed up");
    }

    /// The folder of an appservice that it knows, and that no other test has.
    pub fn appservice(&self) -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
        let folder = PathBuf::from(from_environment(self.appservices)).join(number);
        assert!(folder.exists(), "more tests want an appservice than there are");
        folder
    }

    /// The folder of the appservice that it knows without device management. One test has it.
    pub fn appservice_that_logs_in(&self) -> PathBuf {
        PathBuf::from(from_environment(self.appservices)).join("logs-in")
    }

    /// What it answers to an account.
    pub async fn get(&self, path: &str, account: &Account) -> Value {
        serde_json::from_slice(&self.bytes(path, account).await).unwrap()
    }

    /// The same, whatever it is.
    pub async fn bytes(&self, path: &str, account: &Account) -> Vec<u8> {
        let request = self.http.get(format!("{}{path}", self.url)).bearer_auth(&account.token);
        request.send().await.unwrap().error_for_status().unwrap().bytes().await.unwrap().to_vec()
    }

    /// A direct room without encryption.
    pub async fn plain_direct_room(&self, creator: &Account, with: &UserId) -> OwnedRoomId {
        self.room(creator, json!({"preset": "trusted_private_chat", "is_direct": true, "invite": [with]})).await
    }

    /// A room without encryption that is not direct.
    pub async fn plain_group_room(&self, creator: &Account, with: &UserId) -> OwnedRoomId {
        self.room(creator, json!({"preset": "private_chat", "invite": [with]})).await
    }

    async fn room(&self, creator: &Account, body: Value) -> OwnedRoomId {
        let url = format!("{}/_matrix/client/v3/createRoom", self.url);
        let made: Value =
            self.http.post(url).bearer_auth(&creator.token).json(&body).send().await.unwrap().json().await.unwrap();
        made["room_id"].as_str().unwrap_or_else(|| panic!("{made}")).try_into().unwrap()
    }

    /// Turns encryption on in a room.
    pub async fn encrypt(&self, room: &str, by: &Account) {
        let room = room.replace('!', "%21").replace(':', "%3A");
        let url = format!("{}/_matrix/client/v3/rooms/{room}/state/m.room.encryption/", self.url);
        let body = json!({"algorithm": "m.megolm.v1.aes-sha2"});
        self.http.put(url).bearer_auth(&by.token).json(&body).send().await.unwrap().error_for_status().unwrap();
    }

    /// Every event and all state of every room on the homeserver, as it stores them.
    pub async fn everything(&self, admin: &Account) -> Vec<Value> {
        let get = async |path: String| -> Value {
            let url = format!("{}/_synapse/admin/v1/{path}", self.url);
            self.http.get(url).bearer_auth(&admin.token).send().await.unwrap().json().await.unwrap()
        };
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let page = get(format!("rooms?limit=100&from={from}")).await;
            for room in page["rooms"].as_array().unwrap_or_else(|| panic!("{page}")) {
                let room = room["room_id"].as_str().unwrap().replace('!', "%21").replace(':', "%3A");
                all.push(get(format!("rooms/{room}/state")).await);
                all.push(get(format!("rooms/{room}/messages?dir=b&limit=1000")).await);
            }
            match page["next_batch"].as_u64() {
                Some(next) => from = next,
                None => return all,
            }
        }
    }

    /// Ends all sessions of an account.
    pub async fn log_out_everywhere(&self, account: &Account) {
        let url = format!("{}/_matrix/client/v3/logout/all", self.url);
        self.http.post(url).bearer_auth(&account.token).send().await.unwrap().error_for_status().unwrap();
    }

    /// All that the homeserver has of a room's timeline, as it stores it, oldest first.
    pub async fn timeline(&self, room: &str, reader: &Account) -> Vec<Value> {
        let room = room.replace('!', "%21").replace(':', "%3A");
        let url = format!("{}/_matrix/client/v3/rooms/{room}/messages?dir=b&limit=500", self.url);
        let answer: Value = self.http.get(url).bearer_auth(&reader.token).send().await.unwrap().json().await.unwrap();
        let mut events = answer["chunk"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        events.reverse();
        events
    }
}
