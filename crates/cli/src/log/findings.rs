//! What an audit found, line by line.

use anyhow::Result;
use serde::{Deserialize, Serialize};

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

/// Whom something may speak against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Party {
    /// The file in question, or its proof: somebody changed it.
    File,
    /// Who signed the recipe.
    Author,
    /// The log.
    Log,
    /// Who runs a server.
    Operator,
}

impl Party {
    /// All parties.
    pub(super) const ALL: [Self; 4] = [Self::File, Self::Author, Self::Log, Self::Operator];
}

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    #[serde(rename = "check")]
    what: &'static str,
    verdict: Verdict,
    /// Whom it speaks against, if anybody.
    #[serde(skip_serializing_if = "Option::is_none")]
    against: Option<Party>,
    words: String,
}

/// All lines.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a line that speaks against nobody.
    pub(super) fn add(&mut self, what: &'static str, verdict: Verdict, words: impl Into<String>) {
        self.0.push(Finding { what, verdict, against: None, words: words.into() });
    }

    /// Adds a line that speaks against somebody.
    pub(super) fn against(
        &mut self,
        party: Party,
        what: &'static str,
        verdict: Verdict,
        words: impl Into<String>,
    ) {
        self.0.push(Finding { what, verdict, against: Some(party), words: words.into() });
    }

    /// Who is proved to be to blame.
    pub(super) fn blame(&self) -> Vec<Party> {
        let proved = |party: &Party| {
            self.0.iter().any(|line| line.verdict == Verdict::Bad && line.against == Some(*party))
        };
        Party::ALL.into_iter().filter(proved).collect()
    }

    /// Whom no line speaks against.
    pub(super) fn not_blamed(&self) -> Vec<Party> {
        let clear = |party: &Party| self.0.iter().all(|line| line.against != Some(*party));
        Party::ALL.into_iter().filter(clear).collect()
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
        for Finding { what, verdict, words, .. } in &self.0 {
            let mark = match verdict {
                Verdict::Ok => "ok  ",
                Verdict::Bad => "BAD ",
                Verdict::Unknown => "?   ",
                Verdict::Note => "    ",
            };
            output.entry(format!("  {mark} {what:<11} "), words)?;
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
        findings.against(Party::Log, "d", Verdict::Unknown, "");
        assert_eq!(findings.blame(), []);
        findings.against(Party::File, "e", Verdict::Bad, "");
        assert_eq!(findings.outcome(), Outcome::No);
        assert_eq!(findings.blame(), [Party::File]);
        assert_eq!(findings.not_blamed(), [Party::Author, Party::Operator]);
    }
}
