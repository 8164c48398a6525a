//! What an audit found, line by line.

use anyhow::Result;
use serde::Serialize;

use crate::output::{Outcome, Output};

/// The verdict of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// It holds.
    Ok,
    /// It is proved not to hold.
    Bad,
    /// It could not be decided.
    Unknown,
    /// Information only.
    Note,
}

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    what: &'static str,
    verdict: Verdict,
    words: String,
}

/// All lines.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a line.
    pub(super) fn add(&mut self, what: &'static str, verdict: Verdict, words: impl Into<String>) {
        self.0.push(Finding { what, verdict, words: words.into() });
    }

    /// Adds a line for something that either holds or is proved not to hold.
    pub(super) fn settle<E: ToString>(
        &mut self,
        what: &'static str,
        words: impl Into<String>,
        result: std::result::Result<(), E>,
    ) -> bool {
        match &result {
            Ok(()) => self.add(what, Verdict::Ok, words),
            Err(error) => self.add(what, Verdict::Bad, error.to_string()),
        }
        result.is_ok()
    }

    /// Bad if any line is bad; otherwise undecided if any line is undecided.
    pub(super) fn outcome(&self) -> Outcome {
        let any = |verdict| self.0.iter().any(|finding| finding.verdict == verdict);
        if any(Verdict::Bad) {
            Outcome::No
        } else if any(Verdict::Unknown) {
            Outcome::Undecided
        } else {
            Outcome::Yes
        }
    }

    /// Prints the lines.
    pub(super) fn print(&self, output: &Output) -> Result<()> {
        for Finding { what, verdict, words } in &self.0 {
            let mark = match verdict {
                Verdict::Ok => "ok  ",
                Verdict::Bad => "BAD ",
                Verdict::Unknown => "?   ",
                Verdict::Note => "    ",
            };
            output.line(format!("  {mark} {what:<11} {words}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_outweighs_unknown_and_unknown_outweighs_ok() {
        let mut findings = Findings::default();
        findings.add("a", Verdict::Ok, "");
        findings.add("b", Verdict::Note, "");
        assert_eq!(findings.outcome(), Outcome::Yes);
        findings.add("c", Verdict::Unknown, "");
        assert_eq!(findings.outcome(), Outcome::Undecided);
        assert!(!findings.settle("d", "", Err("no")));
        assert_eq!(findings.outcome(), Outcome::No);
    }
}
