//! Two real homeservers for tests and measurements: one with Synapse's own rate limits and one without. Their data
//! is gone at the end.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{
    appservices, cache,
    homeserver::{Homeserver, Limits, REGISTRATION_SECRET, Synapse},
    net,
    progress::Step,
    secret,
};

/// The folder of appservices in a homeserver's data.
const APPSERVICES: &str = "appservices";

/// The homeservers, running and ready.
pub struct Testbed<'a> {
    relaxed: Homeserver<'a>,
    default: Homeserver<'a>,
    registration_secret: String,
    appservices: [String; 2],
    // Behind the homeservers, so that they end before their data goes.
    _folder: Scratch,
}

impl<'a> Testbed<'a> {
    /// Starts them and waits until they answer. They know appservices, whose registrations the agent's program makes.
    pub fn start(synapse: &'a Synapse, program: &Path) -> Result<Self> {
        let folder = Scratch::make()?;
        let registration_secret = secret::generate();
        let start = |name: &str, limits| {
            let data = folder.0.join(name);
            secret::folder(&data)?;
            secret::write(&data.join(REGISTRATION_SECRET), &registration_secret)?;
            let port = net::any_free()?;
            let registrations = appservices::make(program, &data.join(APPSERVICES), &net::local_url(port))?;
            synapse.start(&data, port, limits, &registrations)
        };
        let mut relaxed = start("relaxed", Limits::Relaxed)?;
        let mut default = start("default", Limits::Default)?;
        let starting = Step::begin("Starting two homeservers");
        starting.finish(relaxed.wait_until_ready().and_then(|()| default.wait_until_ready()))?;
        let appservices =
            ["relaxed", "default"].map(|name| folder.0.join(name).join(APPSERVICES).display().to_string());
        Ok(Self { relaxed, default, registration_secret, appservices, _folder: folder })
    }

    /// How tests find the homeservers; they make their users by the admin API.
    pub fn environment(&self) -> [(&'static str, &str); 5] {
        let [relaxed, default] = &self.appservices;
        [
            ("WAYBREAD_TEST_HOMESERVER", self.relaxed.url()),
            ("WAYBREAD_TEST_HOMESERVER_DEFAULT_LIMITS", self.default.url()),
            ("WAYBREAD_TEST_REGISTRATION_SECRET", &self.registration_secret),
            ("WAYBREAD_TEST_APPSERVICES", relaxed),
            ("WAYBREAD_TEST_APPSERVICES_DEFAULT_LIMITS", default),
        ]
    }
}

/// A folder of this run, gone at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("waybread-test-{}", secret::generate()));
        secret::folder(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in the system's temporary folder is all that a failure here can mean.
        let _ = cache::remove(&self.0);
    }
}
