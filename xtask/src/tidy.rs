//! House rules that no other tool checks.
//!
//! - No words that mark unfinished work.
//! - No tabs, no trailing space, a newline at the end.
//! - No `mod.rs`, no source file above [`MAX_LINES`] lines.
//! - No path from a developer's machine.
//! - Links between documents resolve, and paths that documents name exist ([`links`]).
//! - Prose in documents is wrapped at [`MAX_COLUMNS`] columns.

mod links;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::root;

/// A longer file should be split.
const MAX_LINES: usize = 900;

/// Where prose in documents is wrapped. Code, tables, headings and the targets of links are exempt.
const MAX_COLUMNS: usize = 100;

/// Folders without hand-written text.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "node_modules"];

/// File extensions of hand-written text.
const EXTENSIONS: [&str; 4] = ["rs", "md", "toml", "sh"];

// Written in two pieces, so that this file passes its own check.
const UNFINISHED: [&str; 7] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("HA", "CK:"),
    concat!("TO", "DO"),
];
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("C:", "\\"),
];

/// Checks every text file of the repository.
pub(crate) fn check() -> Result<()> {
    let mut files = Vec::new();
    collect(root(), &mut files)?;
    let mut faults = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let name = file.strip_prefix(root()).unwrap_or(file);
        for (line, fault) in text_faults(name, &text) {
            faults.push(format!("{}:{line}: {fault}", name.display()));
        }
        if name.extension().is_some_and(|extension| extension == "md") {
            links::check(name, &text, &mut faults);
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("{}", faults.join("\n"))
}

/// All hand-written text below a folder.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() {
            if !SKIPPED.iter().any(|skipped| entry.file_name() == *skipped) {
                collect(&path, files)?;
            }
        } else if kind.is_file() && is_text(&path) {
            files.push(path);
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) || path.ends_with(".ci/run")
}

/// What is wrong with one file, by line.
fn text_faults(name: &Path, text: &str) -> Vec<(usize, String)> {
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut fault = |what: String| faults.push((index + 1, what));
        if line.contains('\t') {
            fault("a tab".into());
        }
        if line.ends_with([' ', '\r']) {
            fault("trailing space".into());
        }
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            fault(format!("`{word}`"));
        }
        for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
            fault(format!("a path of one machine, `{path}`"));
        }
    }
    let lines = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push((lines, "no newline at the end".into()));
    }
    if name.extension().is_some_and(|extension| extension == "md") {
        for line in long_prose(text) {
            faults.push((line, format!("prose beyond {MAX_COLUMNS} columns")));
        }
    }
    if name.extension().is_some_and(|extension| extension == "rs") {
        if lines > MAX_LINES {
            faults.push((lines, format!("more than {MAX_LINES} lines")));
        }
        if name.ends_with("mod.rs") {
            faults.push((1, "`foo.rs` beside `foo/`, never `mod.rs`".into()));
        }
    }
    faults
}

/// The line numbers of prose lines that are too long.
fn long_prose(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !start.starts_with(['|', '#']) && width(line) > MAX_COLUMNS {
            found.push(index + 1);
        }
    }
    found
}

/// The length of a line without the targets of links, which cannot be wrapped.
fn width(line: &str) -> usize {
    let mut parts = line.split("](");
    let first = parts.next().unwrap_or_default().chars().count();
    let rest = parts.map(|part| part.split_once(')').map_or(part, |(_, after)| after));
    first + rest.map(|part| part.chars().count()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_the_rest_is_not() {
        let long = "x".repeat(MAX_COLUMNS + 1);
        let fits = "y".repeat(MAX_COLUMNS - 1);
        assert_eq!(long_prose(&format!("{fits}\n{long}\n  {long}\n")), [2, 3]);
        assert_eq!(long_prose(&format!("# {long}\n| {long} |\n```\n{long}\n```\n")), [0; 0]);
        assert_eq!(long_prose(&format!("{fits}[]({long})\n{fits}[ab]({long})\n")), [2]);
    }

    #[test]
    fn faults_are_found_and_clean_text_passes() {
        let lines = |name: &str, text: &str| -> Vec<usize> {
            text_faults(Path::new(name), text).iter().map(|(line, _)| *line).collect()
        };
        assert_eq!(lines("a.rs", "fn a() {}\n"), [0; 0]);
        assert_eq!(lines("a.rs", "fn a() {}\n\tb\nc \nd"), [2, 3, 4]);
        assert_eq!(lines("a.md", concat!("fine\nsee /ho", "me/me\nFIX", "ME\n")), [2, 3]);
        assert_eq!(lines("a/mod.rs", "\n"), [1]);
        assert_eq!(lines("a.rs", &"\n".repeat(MAX_LINES + 1)), [MAX_LINES + 1]);
        assert_eq!(lines("a.md", &"\n".repeat(MAX_LINES + 1)), [0; 0]);
    }
}
