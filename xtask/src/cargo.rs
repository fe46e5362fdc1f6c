//! Cargo as this program calls it: one target folder and one profile for demo and test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    cache::Cache,
    process::{self, Output},
};

/// The workspace's root.
pub fn workspace() -> PathBuf {
    let own_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    own_folder.parent().unwrap_or(own_folder).to_path_buf()
}

/// `cargo ARGUMENTS` in the workspace.
pub fn command<const N: usize>(cache: &Cache, arguments: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    if let Some(target) = cache.target_folder() {
        command.env("CARGO_TARGET_DIR", target);
    }
    command
}

/// The programs that a person runs: the bot and the phone client.
pub struct Programs {
    /// `waybread`
    pub bot: PathBuf,
    /// `waybread-phone`
    pub phone: PathBuf,
}

/// Builds them, and learns from cargo itself where they are.
pub fn build_programs(cache: &Cache) -> Result<Programs> {
    let messages = cache.root().join("build.jsonl");
    // The whole workspace, so that dependencies have the features here that they have in the tests, and
    // are not built twice.
    let build = command(cache, ["build", "--workspace", "--bins", "--message-format=json-render-diagnostics"]);
    process::run("cargo build", &build, Output::Capture(&messages))?;
    let messages = fs::read_to_string(&messages)?;
    let program = |name| executable(&messages, name).with_context(|| format!("cargo built no \"{name}\""));
    Ok(Programs { bot: program("waybread")?, phone: program("waybread-phone")? })
}

/// The executable of the binary target `name` in cargo's JSON messages.
pub fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_cargos_messages_by_its_targets_name() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"waybread","kind":["lib"]},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"waybread","kind":["bin"]},"executable":"/t/waybread"}"#,
            "\nnot json\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        assert_eq!(executable(messages, "waybread"), Some("/t/waybread".into()));
        assert_eq!(executable(messages, "waybread-phone"), None);
    }
}
