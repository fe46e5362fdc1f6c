//! Words for long steps: a spinner with the time on a terminal, plain lines in a log. All to stderr.

use std::{
    fmt::Display,
    io::{self, IsTerminal, Write},
    time::{Duration, Instant},
};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// Says a line. A terminal that has been closed is no error: what runs is still to be ended in order.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// One step under way.
#[must_use = "a step ends with `finish`"]
pub struct Step {
    text: String,
    start: Instant,
    spinner: Option<ProgressBar>,
}

impl Step {
    /// Begins a step that has the screen for itself.
    pub fn begin(text: impl Into<String>) -> Self {
        let text = text.into();
        if !io::stderr().is_terminal() {
            return Self::begin_in_lines(text);
        }
        let spinner = ProgressBar::new_spinner().with_message(text.clone());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed:>5}") {
            spinner.set_style(style);
        }
        spinner.enable_steady_tick(TICK);
        Self { text, start: Instant::now(), spinner: Some(spinner) }
    }

    /// Begins a step beside another command's output.
    pub fn begin_in_lines(text: impl Into<String>) -> Self {
        let text = text.into();
        say(format_args!("  {text} ..."));
        Self { text, start: Instant::now(), spinner: None }
    }

    /// Shows how far the step is. Only a terminal has the room for it.
    pub fn detail(&self, detail: &str) {
        if let Some(spinner) = &self.spinner {
            spinner.set_message(format!("{}: {detail}", self.text));
        }
    }

    /// Ends the step, says how, and hands the result on.
    pub fn finish<T>(self, result: Result<T>) -> Result<T> {
        if let Some(spinner) = &self.spinner {
            spinner.finish_and_clear();
        }
        let word = if result.is_ok() { "done" } else { "not done" };
        say(format_args!("  {}: {word} ({:.1} s)", self.text, self.start.elapsed().as_secs_f32()));
        result
    }
}
