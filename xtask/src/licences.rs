//! Every dependency must be under a licence that `deny.toml` allows.
//!
//! `cargo deny check` does the same and more (advisories, sources); this check needs no tool but
//! Cargo, so that the test command has no other prerequisite.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail};

use crate::workspace::{metadata, root};

/// Checks every package in the tree against the allow list.
pub(crate) fn check() -> Result<()> {
    let allowed = allow_list()?;
    let metadata = metadata()?;
    let mut faults = Vec::new();
    for package in &metadata.packages {
        let verdict = match &package.license {
            None => Err("it names no licence".to_owned()),
            Some(expression) => is_allowed(expression, &allowed)
                .map_err(|error| format!("`{expression}`: {error}"))
                .and_then(|good| if good { Ok(()) } else { Err(format!("`{expression}`")) }),
        };
        if let Err(reason) = verdict {
            faults.push(format!("{} {}: {reason}", package.name, package.version));
        }
    }
    if faults.is_empty() {
        return Ok(());
    }
    bail!("licences that deny.toml does not allow:\n{}", faults.join("\n"))
}

/// `licenses.allow` of `deny.toml`.
fn allow_list() -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(root().join("deny.toml")).context("deny.toml")?;
    let deny: toml::Table = text.parse().context("deny.toml")?;
    deny.get("licenses")
        .and_then(|table| table.get("allow"))
        .and_then(|list| list.as_array())
        .context("deny.toml has no licenses.allow")?
        .iter()
        .map(|value| Ok(value.as_str().context("licenses.allow holds a non-string")?.to_owned()))
        .collect()
}

/// Whether an SPDX expression (or the older `A/B`, which means `A OR B`) can be satisfied.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> Result<bool, &'static str> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, allowed };
    let verdict = parser.alternatives()?;
    if parser.words.is_empty() { Ok(verdict) } else { Err("unexpected text after the expression") }
}

/// Recursive descent over the words of an expression: WITH binds tighter than AND, and AND tighter
/// than OR.
struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a BTreeSet<String>,
}

impl Parser<'_> {
    fn alternatives(&mut self) -> Result<bool, &'static str> {
        let mut verdict = self.conjunction()?;
        while self.take("OR") {
            verdict |= self.conjunction()?;
        }
        Ok(verdict)
    }

    fn conjunction(&mut self) -> Result<bool, &'static str> {
        let mut verdict = self.licence()?;
        while self.take("AND") {
            verdict &= self.licence()?;
        }
        Ok(verdict)
    }

    fn licence(&mut self) -> Result<bool, &'static str> {
        if self.take("(") {
            let verdict = self.alternatives()?;
            return if self.take(")") { Ok(verdict) } else { Err("a parenthesis is not closed") };
        }
        let mut name = self.next()?.to_owned();
        if self.take("WITH") {
            name = format!("{name} WITH {}", self.next()?);
        }
        Ok(self.allowed.contains(&name))
    }

    fn take(&mut self, word: &str) -> bool {
        match self.words.split_first() {
            Some((first, rest)) if *first == word => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) -> Result<&str, &'static str> {
        let (first, rest) = self.words.split_first().ok_or("a licence is missing")?;
        self.words = rest;
        Ok(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for (expression, verdict) in [
            ("MIT", Ok(true)),
            ("GPL-3.0-only", Ok(false)),
            ("MIT OR GPL-3.0-only", Ok(true)),
            ("MIT/GPL-3.0-only", Ok(true)),
            ("MIT AND GPL-3.0-only", Ok(false)),
            ("ISC AND (GPL-3.0-only OR MIT)", Ok(true)),
            ("GPL-3.0-only OR MIT AND ISC", Ok(true)),
            ("(GPL-3.0-only OR MIT) AND Zlib", Ok(false)),
            ("Apache-2.0 WITH LLVM-exception", Ok(true)),
            ("Apache-2.0", Ok(false)),
        ] {
            assert_eq!(is_allowed(expression, &allowed), verdict, "{expression}");
        }
        for expression in ["", "(MIT", "MIT OR", "MIT MIT"] {
            assert!(is_allowed(expression, &allowed).is_err(), "{expression}");
        }
    }
}
