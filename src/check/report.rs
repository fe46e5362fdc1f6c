//! What was found: a line each, or one JSON object.

use std::{
    fmt::Display,
    io::{self, Write},
};

use serde::Serialize;

/// How the report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// One line for each finding, as it is found.
    Lines,
    /// One JSON object at the end.
    Json,
}

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Ok,
    /// It works, or could not be tried, and the operator should know.
    Warn,
    /// It does not work.
    Fail,
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked.
    pub check: &'static str,
    /// How it stands.
    pub status: Status,
    /// What was found.
    pub what: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// All that was found.
#[derive(Debug)]
pub struct Report {
    findings: Vec<Finding>,
    output: Output,
}

impl Report {
    pub(super) fn new(output: Output) -> Self {
        Self { findings: Vec::new(), output }
    }

    pub(super) fn ok(&mut self, check: &'static str, what: impl Display) {
        self.add(check, Status::Ok, what, None);
    }

    pub(super) fn warn(&mut self, check: &'static str, what: impl Display, advice: impl Display) {
        self.add(check, Status::Warn, what, Some(one_line(advice)));
    }

    pub(super) fn fail(&mut self, check: &'static str, what: impl Display, advice: impl Display) {
        self.add(check, Status::Fail, what, Some(one_line(advice)));
    }

    /// Something before it has failed.
    pub(super) fn not_checked(&mut self, check: &'static str) {
        self.warn(check, "not checked", "mend what failed above first");
    }

    /// Whether everything works that was tried.
    #[must_use]
    pub fn works(&self) -> bool {
        self.findings.iter().all(|finding| finding.status != Status::Fail)
    }

    /// What was found, in order.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Prints what was not printed yet.
    pub(super) fn end(&self) {
        if self.output == Output::Json {
            print(&serde_json::json!({"works": self.works(), "checks": self.findings}).to_string());
        }
    }

    fn add(&mut self, check: &'static str, status: Status, what: impl Display, advice: Option<String>) {
        let finding = Finding { check, status, what: one_line(what), advice };
        if self.output == Output::Lines {
            print(&finding.line());
        }
        self.findings.push(finding);
    }
}

impl Finding {
    fn line(&self) -> String {
        let status = match self.status {
            Status::Ok => "ok",
            Status::Warn => "warn",
            Status::Fail => "fail",
        };
        let advice = self.advice.iter().map(|advice| format!(" -> {advice}")).collect::<String>();
        format!("{status:4}  {:14} {}{advice}", self.check, self.what)
    }
}

/// Servers' words may have any form.
fn one_line(text: impl Display) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "")
}

/// Where nobody reads, the exit code still tells.
fn print(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_with_what_to_do() {
        let mut report = Report::new(Output::Lines);
        report.ok("config", "config.toml");
        report.warn("context", "not\ntold", "ask\u{1b} it");
        assert!(report.works());
        report.fail("homeserver", "no answer", "start it");
        assert!(!report.works());
        let lines: Vec<_> = report.findings().iter().map(Finding::line).collect();
        assert_eq!(
            lines,
            [
                "ok    config         config.toml",
                "warn  context        not told -> ask it",
                "fail  homeserver     no answer -> start it",
            ]
        );
    }
}
