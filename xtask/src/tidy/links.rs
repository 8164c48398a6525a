//! Links and paths in the documents.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::workspace::root;

/// Words in backticks with these prefixes are paths from the root of the repository.
const ROOTED: [&str; 7] = ["crates/", "docs/", "tests/", "bench/", "xtask/", "fuzz/", ".ci/"];

/// Checks one document, named from the root of the repository.
pub(super) fn check(name: &Path, text: &str, faults: &mut Vec<String>) {
    let folder = name.parent().unwrap_or(Path::new(""));
    for target in targets(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() { root().join(name) } else { root().join(folder).join(file) };
        if !path.exists() {
            faults.push(format!(
                "{}: the target of the link `{target}` does not exist",
                name.display()
            ));
        } else if !anchor.is_empty() && !anchors(&path).contains(anchor) {
            faults.push(format!("{}: `{target}` has no such heading", name.display()));
        }
    }
    for path in named_paths(text) {
        if !root().join(path).exists() {
            faults.push(format!("{}: `{path}` does not exist", name.display()));
        }
    }
}

/// The targets of `[text](target)`, outside code.
fn targets(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        for (index, _) in line.match_indices("](") {
            let rest = &line[index + 2..];
            if let Some(end) = rest.find(')') {
                found.push(rest[..end].trim());
            }
        }
    }
    found
}

/// Words in backticks that are paths of the repository.
fn named_paths(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|word| ROOTED.iter().any(|prefix| word.starts_with(prefix)))
        .filter(|word| !word.contains([' ', '*', '{', '<', '$']))
        .collect()
}

/// Lines outside fenced code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The anchors that headings make: lower case, spaces as hyphens, other characters dropped.
fn anchors(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    prose(&text)
        .filter(|line| line.starts_with('#'))
        .map(|line| slug(line.trim_start_matches('#').trim()))
        .collect()
}

fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|sign| sign.is_alphanumeric() || [' ', '-', '_'].contains(sign))
        .map(|sign| if sign == ' ' { '-' } else { sign })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_paths_are_found_outside_code_blocks() {
        let text =
            "See [a](x.md#b) and `crates/wire`.\n```\n[no](y.md) `docs/none`\n```\n[c](#d)\n";
        assert_eq!(targets(text), ["x.md#b", "#d"]);
        assert_eq!(named_paths(text), ["crates/wire"]);
    }

    #[test]
    fn headings_make_anchors() {
        assert_eq!(slug("Absent, on purpose"), "absent-on-purpose");
    }

    #[test]
    fn a_broken_link_is_a_fault() {
        let mut faults = Vec::new();
        check(Path::new("docs/a.md"), "[x](nowhere.md) `crates/nowhere.rs`", &mut faults);
        assert_eq!(faults.len(), 2);
    }
}
