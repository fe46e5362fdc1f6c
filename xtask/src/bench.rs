//! `cargo xtask bench`: what the agent costs, measured with its release build against two real homeservers. The
//! measuring itself is `benches/road`; here it gets what it needs, and its tables go into the documentation.

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use anyhow::{Context, Result};

use crate::{
    cache::Cache,
    cargo,
    homeserver::Synapse,
    process::{self, Output},
    progress::{Step, say},
    testbed::Testbed,
    toolchain::Tools,
};

/// Where the figures go, between these lines.
const DOCUMENT: &str = "docs/performance.md";
const BEGIN: &str = "<!-- figures: written by cargo xtask bench -->\n";
const END: &str = "<!-- end of the figures -->\n";

/// Builds, measures, prints, writes.
pub fn run() -> Result<ExitCode> {
    let Tools { python, cache } = Tools::find()?;
    let _hold = cache.hold_target()?;
    let synapse = Synapse::install(&cache, &python, Step::begin)?;
    say("  Building for release (about a quarter of an hour the first time)");
    let messages = cache.root().join("bench.jsonl");
    let build = bench(&cache, &["--no-run", "--message-format=json-render-diagnostics"]);
    process::run("cargo bench", &build, Output::Capture(&messages))?;
    let agent = cargo::executable(&fs::read_to_string(&messages)?, "waybread").context("cargo built no agent")?;

    let testbed = Testbed::start(&synapse, &agent)?;
    say("  Measuring (about 20 minutes; the less the machine does meanwhile, the better)");
    let figures = cache.root().join("figures.md");
    let mut measure = bench(&cache, &[]);
    measure.envs(testbed.environment());
    process::run("benches/road", &measure, Output::Capture(&figures))?;

    let figures = fs::read_to_string(&figures)?;
    say(&figures);
    let document = cargo::workspace().join(DOCUMENT);
    write(&document, &figures).with_context(|| format!("can't write the figures into {}", document.display()))?;
    say(format_args!("  Written to {DOCUMENT}"));
    Ok(ExitCode::SUCCESS)
}

/// `cargo bench` of the road, with the whole workspace's features like every other build.
fn bench(cache: &Cache, arguments: &[&str]) -> Command {
    let mut command = cargo::command(cache, ["bench", "--workspace", "--bench", "road"]);
    command.args(arguments);
    command
}

fn write(document: &Path, figures: &str) -> Result<()> {
    let text = fs::read_to_string(document)?;
    let text = replace(&text, figures).context("the lines between which they go are not there")?;
    Ok(fs::write(document, text)?)
}

/// The document with these figures instead of the earlier ones.
fn replace(document: &str, figures: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n\n{END}{after}", figures.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_take_the_place_of_the_earlier_ones_and_nothing_else_changes() {
        let document = format!("# Title\n\n{BEGIN}\nold\n\n{END}\nThe end.\n");
        let expected = format!("# Title\n\n{BEGIN}\nnew\n\n{END}\nThe end.\n");
        assert_eq!(replace(&document, "new\n\n"), Some(expected));
        assert_eq!(replace("# Title\n", "new"), None);
    }
}
