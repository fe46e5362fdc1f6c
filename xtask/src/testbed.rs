//! Two real homeservers for tests and measurements: one with Synapse's own rate limits and one without. Their data
//! is gone at the end.

use std::path::PathBuf;

use anyhow::Result;

use crate::{
    cache,
    homeserver::{Homeserver, Limits, REGISTRATION_SECRET, Synapse},
    net,
    progress::Step,
    secret,
};

/// The homeservers, running and ready.
pub struct Testbed<'a> {
    relaxed: Homeserver<'a>,
    default: Homeserver<'a>,
    registration_secret: String,
    // Behind the homeservers, so that they end before their data goes.
    _folder: Scratch,
}

impl<'a> Testbed<'a> {
    /// Starts them and waits until they answer.
    pub fn start(synapse: &'a Synapse) -> Result<Self> {
        let folder = Scratch::make()?;
        let registration_secret = secret::generate();
        let start = |name: &str, limits| {
            let data = folder.0.join(name);
            secret::folder(&data)?;
            secret::write(&data.join(REGISTRATION_SECRET), &registration_secret)?;
            synapse.start(&data, net::any_free()?, limits)
        };
        let mut relaxed = start("relaxed", Limits::Relaxed)?;
        let mut default = start("default", Limits::Default)?;
        let starting = Step::begin("Starting two homeservers");
        starting.finish(relaxed.wait_until_ready().and_then(|()| default.wait_until_ready()))?;
        Ok(Self { relaxed, default, registration_secret, _folder: folder })
    }

    /// How tests find the homeservers; they make their users by the admin API.
    pub fn environment(&self) -> [(&'static str, &str); 3] {
        [
            ("WAYBREAD_TEST_HOMESERVER", self.relaxed.url()),
            ("WAYBREAD_TEST_HOMESERVER_DEFAULT_LIMITS", self.default.url()),
            ("WAYBREAD_TEST_REGISTRATION_SECRET", &self.registration_secret),
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
