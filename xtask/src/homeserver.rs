//! Synapse on loopback: installed by pip, one data folder and one process each.
//!
//! No federation, no outside traffic, SQLite. Every secret is a random 0600 file in the data folder, made
//! at the first start; the configuration names the files only.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;
use serde_json::{Value, json};

use crate::{
    cache::{self, Cache},
    net,
    process::{self, Output, Process},
    progress::Step,
    python::{Python, Venv},
    secret,
};

/// The version that the project's facts and tests stand for.
const SYNAPSE: &str = "1.163.2";

/// A fresh database takes 4 s on a free machine; a loaded one gets its time.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The part of every user id after the colon.
pub const SERVER_NAME: &str = "localhost";

/// How much an account may do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// As Synapse comes: 0.2 messages a second, five logins.
    Default,
    /// None that a test would notice.
    Relaxed,
}

/// An installed Synapse.
pub struct Synapse {
    venv: Venv,
}

impl Synapse {
    /// Installs it, unless it is there.
    pub fn install(cache: &Cache, python: &Python, begin: fn(String) -> Step) -> Result<Self> {
        let name = format!("synapse-{SYNAPSE}");
        let venv = python.venv(cache, &name, "synapse", begin, |venv| {
            let step = begin(format!("Installing Synapse {SYNAPSE} (about a minute)"));
            let package = format!("matrix-synapse=={SYNAPSE}");
            step.finish(venv.pip(["install", "--prefer-binary", &package], None, || {}))
        })?;
        Ok(Self { venv })
    }

    /// Starts a homeserver with this data folder, which knows the appservices of these registrations. It is ready after
    /// [`Homeserver::wait_until_ready`].
    pub fn start(&self, data: &Path, port: u16, limits: Limits, registrations: &[PathBuf]) -> Result<Homeserver<'_>> {
        secret::folder(data)?;
        for file in [REGISTRATION_SECRET, MACAROON_SECRET, FORM_SECRET] {
            secret::in_file(&data.join(file))?;
        }
        self.make_signing_key(&data.join(SIGNING_KEY))?;
        let config = data.join("homeserver.yaml");
        // JSON is YAML, with quoting that is always right.
        fs::write(&config, format!("{:#}\n", configuration(data, port, limits, registrations)))?;
        fs::write(data.join(LOG_CONFIG), format!("{:#}\n", log_configuration()))?;
        let log = data.join("homeserver.log");
        process::clear_log(&log)?;
        let mut command = self.venv.module("synapse.app.homeserver");
        command.arg("--config-path").arg(&config).current_dir(data);
        let process = Process::start("Synapse", &command, Output::Log(&log))?;
        Ok(Homeserver { synapse: self, process, url: net::local_url(port), config, log })
    }

    fn make_signing_key(&self, path: &Path) -> Result<()> {
        if path.exists() {
            return Ok(());
        }
        let made = path.with_added_extension("made");
        cache::remove(&made)?;
        let mut generate = self.venv.module("synapse._scripts.generate_signing_key");
        generate.arg("--output_file").arg(&made);
        process::run("generate_signing_key", &generate, Output::Inherit)?;
        secret::write(path, &fs::read_to_string(&made)?)?;
        cache::remove(&made)
    }
}

/// A running homeserver. It is ended when this is dropped.
pub struct Homeserver<'a> {
    synapse: &'a Synapse,
    process: Process,
    url: String,
    config: PathBuf,
    log: PathBuf,
}

impl Homeserver<'_> {
    /// Its client address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Waits until it answers.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let health = format!("{}/health", self.url);
        self.process.wait_until(START_LIMIT, || net::answers(&health).then_some(()))
    }

    /// Makes an ordinary account, if there is none, with the password in this file.
    pub fn ensure_user(&self, name: &str, password_file: &Path) -> Result<()> {
        secret::in_file(password_file)?;
        process::run("register_new_matrix_user", &self.registration(name, password_file), Output::Log(&self.log))
    }

    fn registration(&self, name: &str, password_file: &Path) -> Command {
        let mut register = self.synapse.venv.module("synapse._scripts.register_new_matrix_user");
        register.args(["--user", name, "--no-admin", "--exists-ok"]);
        // Files, not arguments: anybody on the machine can read a command line.
        register.arg("--password-file").arg(password_file).arg("--config").arg(&self.config).arg(&self.url);
        register
    }
}

/// The file in a data folder whose content allows to make users by the admin API.
pub const REGISTRATION_SECRET: &str = "registration-secret";
const MACAROON_SECRET: &str = "macaroon-secret";
const FORM_SECRET: &str = "form-secret";
const SIGNING_KEY: &str = "signing.key";
const LOG_CONFIG: &str = "log.yaml";

fn configuration(data: &Path, port: u16, limits: Limits, registrations: &[PathBuf]) -> Value {
    let mut configuration = json!({
        "server_name": SERVER_NAME,
        "public_baseurl": net::local_url(port),
        "pid_file": data.join("homeserver.pid"),
        "listeners": [{
            "port": port,
            "bind_addresses": ["127.0.0.1"],
            "type": "http",
            "tls": false,
            "resources": [{ "names": ["client"], "compress": false }],
        }],
        "database": { "name": "sqlite3", "args": { "database": data.join("homeserver.db") } },
        "media_store_path": data.join("media"),
        "log_config": data.join(LOG_CONFIG),
        "signing_key_path": data.join(SIGNING_KEY),
        "registration_shared_secret_path": data.join(REGISTRATION_SECRET),
        "macaroon_secret_key_path": data.join(MACAROON_SECRET),
        "form_secret_path": data.join(FORM_SECRET),
        "enable_registration": false,
        "trusted_key_servers": [],
        "suppress_key_server_warning": true,
        "report_stats": false,
        "app_service_config_files": registrations,
    });
    if let (Limits::Relaxed, Some(configuration)) = (limits, configuration.as_object_mut()) {
        configuration.extend(relaxed_limits());
    }
    configuration
}

fn relaxed_limits() -> serde_json::Map<String, Value> {
    let limit = json!({ "per_second": 10_000, "burst_count": 10_000 });
    let limits = [
        ("rc_message", limit.clone()),
        ("rc_registration", limit.clone()),
        ("rc_login", json!({ "address": limit, "account": limit, "failed_attempts": limit })),
        ("rc_joins", json!({ "local": limit, "remote": limit })),
        ("rc_joins_per_room", limit.clone()),
        ("rc_invites", json!({ "per_room": limit, "per_user": limit, "per_issuer": limit })),
        ("rc_admin_redaction", limit.clone()),
        ("rc_room_creation", limit.clone()),
        ("rc_key_requests", limit.clone()),
        ("rc_media_create", limit.clone()),
        ("rc_profile", limit),
    ];
    limits.into_iter().map(|(key, limit)| (key.to_owned(), limit)).collect()
}

fn log_configuration() -> Value {
    json!({
        "version": 1,
        "disable_existing_loggers": false,
        "formatters": { "line": { "format": "%(asctime)s %(levelname)s %(name)s: %(message)s" } },
        "handlers": { "console": { "class": "logging.StreamHandler", "formatter": "line" } },
        "root": { "level": "WARNING", "handlers": ["console"] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_homeserver_listens_on_loopback_alone_and_talks_to_no_other_server() {
        let configuration = configuration(Path::new("/data"), 8008, Limits::Default, &[]);
        let expected = json!([{
            "port": 8008,
            "bind_addresses": ["127.0.0.1"],
            "type": "http",
            "tls": false,
            "resources": [{ "names": ["client"], "compress": false }],
        }]);
        assert_eq!(configuration["listeners"], expected);
        assert_eq!(configuration["trusted_key_servers"], json!([]));
        assert_eq!(configuration["registration_shared_secret_path"], "/data/registration-secret");
    }

    #[test]
    fn relaxed_limits_are_the_only_difference_between_the_two_kinds() {
        let default = configuration(Path::new("/data"), 1, Limits::Default, &[]);
        let mut relaxed = configuration(Path::new("/data"), 1, Limits::Relaxed, &[]);
        if let Some(settings) = relaxed.as_object_mut() {
            settings.retain(|key, _| !key.starts_with("rc_"));
        }
        assert_eq!(relaxed, default);
    }
}
