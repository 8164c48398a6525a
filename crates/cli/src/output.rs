//! What the commands print, and their exit codes.
//!
//! Data goes to stdout, progress and remarks to stderr. With `--json`, stdout carries exactly one
//! JSON object, even if the command fails; its words are in [`crate::vocabulary`]. Colour and
//! progress bars appear on terminals only.
//!
//! Text for people is wrapped here, and nowhere else: a document at the width of the terminal, or
//! at 80 columns if there is none. Events and errors are wrapped only where somebody reads them, on
//! a terminal or with `COLUMNS`: in a journal or a pipe, each stays one line.

mod wrap;

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::connection;

pub(crate) use self::wrap::{columns, hang};

/// The version of all JSON that is printed. `docs/json.md` says what may change without a new one.
const SCHEMA: &str = sotto_client::query_result::FORMAT;

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
    /// The columns of a document.
    width: usize,
    /// The columns of events on stdout and of remarks on stderr; `None`: one line each.
    events: Option<usize>,
    remarks: Option<usize>,
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

/// The columns of a document on stdout.
pub(crate) fn width() -> usize {
    wrap::width(Table::new().width())
}

impl Output {
    /// Reads the terminal and the environment (`NO_COLOR`, `TERM`, `COLUMNS`).
    pub(crate) fn new(json: bool, command: Option<String>) -> Self {
        let colour = !json
            && io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let read = |terminal: Option<u16>| {
            let is_read = terminal.is_some() || wrap::set().is_some();
            is_read.then(|| wrap::width(terminal))
        };
        let events = read(Table::new().width());
        let remarks = read(Table::new().use_stderr().width());
        Self { json, colour, command, width: width(), events, remarks }
    }

    /// Whether `--json` was given.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// The columns of a document, for what is not text: bars.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Prints a line of data, as it is.
    pub(crate) fn line(&self, text: impl fmt::Display) -> Result<()> {
        writeln!(io::stdout().lock(), "{text}")?;
        Ok(())
    }

    /// Prints text for people.
    pub(crate) fn prose(&self, text: impl fmt::Display) -> Result<()> {
        self.entry("", text)
    }

    /// The same beside a head: all lines of the text begin in the column where the head ends.
    pub(crate) fn entry(&self, head: impl fmt::Display, text: impl fmt::Display) -> Result<()> {
        self.line(wrap::hang(&head.to_string(), &text.to_string(), self.width))
    }

    /// Prints a heading after an empty line.
    pub(crate) fn heading(&self, text: &str) -> Result<()> {
        self.line("")?;
        self.title(text)
    }

    /// Prints the first heading.
    pub(crate) fn title(&self, text: &str) -> Result<()> {
        wrap::hang("", text, self.width).lines().try_for_each(|line| self.line(self.bold(line)))
    }

    /// Prints a place with a caret below it, indented by this text.
    pub(crate) fn place(&self, indent: &str, place: &Place) -> Result<()> {
        self.line(place.shown(indent, self.width))
    }

    /// Prints something that has just happened, beside a head.
    pub(crate) fn event(&self, head: impl fmt::Display, text: impl fmt::Display) -> Result<()> {
        self.line(hung(&head, &text, self.events))
    }

    /// Prints a table. Cells are wrapped if it is too wide.
    pub(crate) fn table(&self, mut table: Table) -> Result<()> {
        self.line(fitted(&mut table, self.width))
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
        self.remark_beside("", text);
    }

    /// The same beside a head.
    pub(crate) fn remark_beside(&self, head: impl fmt::Display, text: impl fmt::Display) {
        if !self.json {
            let _ = writeln!(io::stderr().lock(), "{}", hung(&head, &text, self.remarks));
        }
    }

    /// Prints a warning to stderr, like a remark.
    pub(crate) fn warning(&self, text: impl fmt::Display) {
        self.remark_beside("warning: ", text);
    }

    /// Prints a usage error. `clap` wraps help, but not errors.
    pub(crate) fn usage(&self, error: &clap::Error) {
        let text = error.to_string();
        match self.remarks.filter(|width| text.lines().any(|line| columns(line) > *width)) {
            None => drop(error.print()),
            Some(_) => text.trim_end().lines().for_each(|line| {
                let indent = line.len() - line.trim_start().len();
                self.remark_beside(" ".repeat(indent), line.trim_start());
            }),
        }
    }

    /// Says on stderr which commands come next. They are not wrapped, so that they can be pasted.
    pub(crate) fn next(&self, commands: &[String]) {
        if !self.json {
            let text = commands.join("\n      ");
            let _ = writeln!(io::stderr().lock(), "next: {text}");
        }
    }

    /// Bold on a terminal.
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
        let hint = connection::hint(&message).or(hint_of(error));
        if self.json {
            let _ = self.value(&Failure { error: &message, hint, ready: None });
            return;
        }
        self.remark_beside("error: ", message);
        if let Some(place) = place_of(error) {
            let lines = place.shown("       ", self.remarks.unwrap_or(self.width));
            let _ = writeln!(io::stderr().lock(), "{lines}");
        }
        if let Some(hint) = hint {
            self.remark_beside(" hint: ", hint);
        }
    }

    /// Prints that a batch is not ready yet, and what to do. Nothing failed.
    pub(crate) fn not_ready(&self, error: &str, hint: &str) -> Result<Outcome> {
        match self.json {
            true => self.value(&Failure { error, hint: Some(hint), ready: Some(false) })?,
            false => {
                self.remark(error);
                self.remark_beside(" hint: ", hint);
            }
        }
        Ok(Outcome::No)
    }
}

/// One line, or as many as it takes in this many columns.
fn hung(head: &dyn fmt::Display, text: &dyn fmt::Display, width: Option<usize>) -> String {
    match width {
        Some(width) => wrap::hang(&head.to_string(), &text.to_string(), width),
        None => format!("{head}{text}"),
    }
}

/// The table without rules, in at most this many columns.
pub(crate) fn fitted(table: &mut Table, width: usize) -> String {
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.try_into().unwrap_or(u16::MAX));
    table.trim_fmt()
}

/// A place in a text that somebody wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    line: String,
    column: usize,
}

impl Place {
    /// The character `column` of this line of `text`; both count from 1. `None` if there is no such
    /// line.
    pub(crate) fn new(text: &str, line: usize, column: usize) -> Option<Self> {
        let line = text.lines().nth(line.checked_sub(1)?)?.to_owned();
        Some(Self { line, column })
    }

    /// The line, indented, and the caret below it.
    pub(crate) fn shown(&self, indent: &str, width: usize) -> String {
        let lines = wrap::point(&self.line, self.column, width.saturating_sub(indent.len()));
        lines.map(|line| format!("{indent}{line}")).join("\n")
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
    annotated(error.into(), Some(hint.into()), None)
}

/// The error with the place that it is about, if that is known.
pub(crate) fn pointed(error: impl Into<anyhow::Error>, place: Option<Place>) -> anyhow::Error {
    annotated(error.into(), None, place)
}

/// What an error has already stays: it is more specific.
fn annotated(error: anyhow::Error, hint: Option<String>, place: Option<Place>) -> anyhow::Error {
    // `downcast` alone would also find an annotation below a context, and drop the context.
    let is_annotated = error.chain().next().is_some_and(|outermost| outermost.is::<Annotated>());
    let inner = if is_annotated { error.downcast::<Annotated>() } else { Err(error) };
    anyhow::Error::new(match inner {
        Ok(Annotated { error, hint: own_hint, place: own_place }) => {
            Annotated { error, hint: own_hint.or(hint), place: own_place.or(place) }
        }
        Err(error) => Annotated { error, hint, place },
    })
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
    annotations(error).filter_map(|found| found.hint.as_deref()).last()
}

/// The innermost place.
pub(crate) fn place_of(error: &anyhow::Error) -> Option<&Place> {
    annotations(error).filter_map(|found| found.place.as_ref()).last()
}

fn annotations(error: &anyhow::Error) -> impl Iterator<Item = &Annotated> {
    error.chain().filter_map(|cause| cause.downcast_ref())
}

#[derive(Debug)]
struct Annotated {
    error: anyhow::Error,
    hint: Option<String>,
    place: Option<Place>,
}

impl fmt::Display for Annotated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Annotated {
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
        let twice = hinted(hinted(anyhow!("denied"), "run as root"), "look it up");
        assert_eq!(hint_of(&twice), Some("run as root"));
    }

    #[test]
    fn an_error_has_a_place_and_a_hint() {
        let place = Place::new("one\ntwo = 2\n", 2, 5).unwrap();
        let error = hinted(pointed(anyhow!("wrong"), Some(place.clone())), "write 3");
        let error = error.context("the file");
        assert_eq!((place_of(&error), hint_of(&error)), (Some(&place), Some("write 3")));
        assert_eq!(message(&error), "the file: wrong");
        assert_eq!(place.shown("  ", 80), "  two = 2\n      ^");
        assert_eq!((Place::new("one", 0, 1), Place::new("one", 2, 1)), (None, None));
    }
}
