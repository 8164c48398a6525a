//! What the commands print, and their exit codes.
//!
//! Data goes to stdout, progress and remarks to stderr. With `--json`, stdout carries exactly one
//! JSON object, even if the command fails; its words are in [`crate::vocabulary`]. Colour and
//! progress bars appear on terminals only.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// The version of all JSON that is printed. `docs/json.md` says what may change without a new one.
const SCHEMA: &str = "sotto/1";

/// The result of a command that ran without errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit code 0.
    Yes,
    /// Exit code 1: the check failed, some reports were refused, or the batch is not ready yet.
    No,
    /// Exit code 2: the question could not be answered either way.
    Undecided,
}

/// Where and how to print.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    json: bool,
    colour: bool,
    /// What was asked, like `log list`; `None` if that is not known.
    command: Option<String>,
}

/// What is printed with `--json`.
#[derive(Serialize)]
struct Printed<'a, T> {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(flatten)]
    value: &'a T,
}

/// Why a command failed.
#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    /// Set if the batch is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
}

impl Output {
    /// Reads the terminal and the environment (`NO_COLOR`, `TERM`).
    pub(crate) fn new(json: bool, command: Option<String>) -> Self {
        let colour = !json
            && io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { json, colour, command }
    }

    /// Whether `--json` was given.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Prints a line of data.
    pub(crate) fn line(&self, text: impl fmt::Display) -> Result<()> {
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(())
    }

    /// Prints the one JSON object of the command.
    pub(crate) fn value(&self, value: &impl Serialize) -> Result<()> {
        self.line(serde_json::to_string_pretty(&self.versioned(value))?)
    }

    /// The same on one line, for other places than stdout.
    pub(crate) fn value_line(&self, value: &impl Serialize) -> Result<String> {
        Ok(serde_json::to_string(&self.versioned(value))?)
    }

    fn versioned<'a, T>(&'a self, value: &'a T) -> Printed<'a, T> {
        Printed { schema: SCHEMA, command: self.command.as_deref(), value }
    }

    /// Prints a remark to stderr; silent with `--json`. Ignores a closed stderr.
    pub(crate) fn remark(&self, text: impl fmt::Display) {
        if !self.json {
            let _ = writeln!(io::stderr().lock(), "{text}");
        }
    }

    /// Heading.
    pub(crate) fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A bar over `length` steps, drawn on stderr if that is a terminal.
    pub(crate) fn bar(&self, name: &'static str, length: u64) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(length), self.draw_target());
        let template = "  {prefix:<10} {bar:32} {human_pos:>7}/{human_len} {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸·"));
        }
        bar.set_prefix(name);
        bar
    }

    /// A spinner for a wait of unknown length.
    pub(crate) fn spinner(&self, message: impl Into<String>) -> ProgressBar {
        let spinner = ProgressBar::with_draw_target(None, self.draw_target());
        if let Ok(style) = ProgressStyle::with_template("  {spinner} {msg} ({elapsed})") {
            spinner.set_style(style);
        }
        spinner.set_message(message.into());
        spinner.enable_steady_tick(Duration::from_millis(120));
        spinner
    }

    /// `indicatif` itself stays silent if stderr is not a terminal.
    fn draw_target(&self) -> ProgressDrawTarget {
        if self.json { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() }
    }

    /// Prints why a command failed: to stdout as `{"error": ...}` with `--json`, else to stderr.
    pub(crate) fn failure(&self, error: &anyhow::Error) {
        let message = message(error);
        let hint = hint_of(error);
        if self.json {
            let _ = self.value(&Failure { error: &message, hint, ready: None });
            return;
        }
        let mut stderr = io::stderr().lock();
        let _ = writeln!(stderr, "error: {message}");
        if let Some(hint) = hint {
            let _ = writeln!(stderr, " hint: {hint}");
        }
    }

    /// Prints that a batch is not ready yet, and what to do. Nothing failed.
    pub(crate) fn not_ready(&self, error: &str, hint: &str) -> Result<Outcome> {
        match self.json {
            true => self.value(&Failure { error, hint: Some(hint), ready: Some(false) })?,
            false => self.remark(format!("{error}\n hint: {hint}")),
        }
        Ok(Outcome::No)
    }
}

/// Adds a hint to an error: what the reader can do about it.
pub(crate) trait WithHint<T> {
    /// Attaches `hint` to the error, if there is one.
    fn hint(self, hint: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithHint<T> for std::result::Result<T, E> {
    fn hint(self, hint: impl Into<String>) -> Result<T> {
        self.map_err(|error| hinted(error, hint))
    }
}

/// The error with a hint.
pub(crate) fn hinted(error: impl Into<anyhow::Error>, hint: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Hinted { error: error.into(), hint: hint.into() })
}

/// Whether the reader of our output closed the pipe (`sotto ... | head`). That is not reported as a
/// failure.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// The error and its causes in one line; a cause that its parent already quotes is not repeated.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let part = cause.to_string();
        if text.is_empty() {
            text = part;
        } else if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
    }
    text
}

/// The innermost hint: it is closest to the cause and so the most specific.
pub(crate) fn hint_of(error: &anyhow::Error) -> Option<&str> {
    error.chain().filter_map(|cause| cause.downcast_ref::<Hinted>()).last().map(|h| h.hint.as_str())
}

#[derive(Debug)]
struct Hinted {
    error: anyhow::Error,
    hint: String,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.chain().nth(1)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, anyhow};

    use super::*;

    #[test]
    fn messages_are_one_line_with_causes() {
        let error = anyhow!("no such file").context("cannot read a.toml");
        assert_eq!(message(&error), "cannot read a.toml: no such file");
        let quoting = anyhow!("no such file").context("cannot read: no such file");
        assert_eq!(message(&quoting), "cannot read: no such file");
    }

    #[test]
    fn the_innermost_hint_wins_and_survives_context() {
        let inner: Result<()> = Err(anyhow!("denied").context("cannot open"));
        let error = inner.hint("run as root").context("cannot start").hint("look it up");
        let error = error.unwrap_err();
        assert_eq!(hint_of(&error), Some("run as root"));
        assert_eq!(message(&error), "cannot start: cannot open: denied");
        assert_eq!(hint_of(&anyhow!("plain")), None);
    }
}
