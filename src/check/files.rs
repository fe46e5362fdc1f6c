//! The state folder: ours alone, closed to others, with a store that opens.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::Report;
use crate::{
    app::open::{STORE, store_key},
    config::{self, Config},
    state_dir::{StateDir, StateDirError},
    store::Store,
};

/// The permission bits of everybody but the owner.
const GROUP_AND_OTHERS: u32 = 0o077;
/// What is secret in the folder.
const SECRETS: [&str; 3] = ["session.json", "store.key", RECOVERY_KEY];
const RECOVERY_KEY: &str = "recovery-key";

/// The folder, held until the check is over, and the store in it where there is one already.
pub(super) struct State {
    _held: StateDir,
    path: PathBuf,
    store: Option<Store>,
}

impl State {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What there is of one agent of an appservice.
    pub(super) fn of_agent(self, agent: &config::Matrix) -> Self {
        let store = self.store.map(|store| store.of(&agent.user));
        Self { path: agent.state_dir.clone(), store, ..self }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// What is kept here of an earlier device, whose session is not here.
    pub(super) async fn of_an_earlier_device(&self) -> Option<&'static str> {
        let bound = match &self.store {
            Some(store) => store.device().await.ok().flatten(),
            None => None,
        };
        if bound.is_some() {
            return Some(STORE);
        }
        self.path().join(RECOVERY_KEY).exists().then_some(RECOVERY_KEY)
    }
}

/// None where the session can't be opened.
pub(super) async fn check(report: &mut Report, config: &Config) -> Option<State> {
    let folder = &config.matrix.state_dir;
    let held = match StateDir::open(folder) {
        Ok(held) => held,
        Err(error) => {
            let advice = match &error {
                StateDirError::InUse(_) => "stop it, or set matrix.state_dir if it is another account's".to_owned(),
                StateDirError::Files { .. } => format!(
                    "see to it that {} can be made and written by this user, or set matrix.state_dir",
                    folder.display()
                ),
            };
            report.fail("state folder", super::told(&error.into()), advice);
            report.not_checked("store");
            return None;
        }
    };
    let open: Vec<_> = [""].into_iter().chain(SECRETS).map(|name| folder.join(name)).filter(|it| is_open(it)).collect();
    if open.is_empty() {
        report.ok("state folder", folder.display());
    } else {
        let list = open.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" ");
        report.warn("state folder", format!("open to group or others: {list}"), format!("run: chmod go= {list}"));
    }
    match store(config, folder).await {
        Ok(store) => {
            report.ok("store", if store.is_some() { "opens with its key" } else { "none yet: the first run makes it" });
            Some(State { path: folder.clone(), _held: held, store })
        }
        Err(error) => {
            report.fail(
                "store",
                super::told(&error),
                "nothing was changed; docs/operate.md, \"When something is wrong\"",
            );
            None
        }
    }
}

fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & GROUP_AND_OTHERS != 0)
}

/// A store that is not there is left to the first run: it binds itself to an account, whose name may still be wrong.
async fn store(config: &Config, folder: &Path) -> anyhow::Result<Option<Store>> {
    let file = folder.join(STORE);
    if !file.exists() {
        return Ok(None);
    }
    Ok(Some(Store::open(&file, &config.matrix.user, &store_key(folder)?).await?))
}
