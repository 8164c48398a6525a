//! `sotto log verify`: is this recipe public, and does it keep its promise?

mod checks;
mod subject;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use sotto_protocol::log::Accused;
use sotto_protocol::trust::Trust;
use sotto_wire::TlogPolicy;

use self::checks::Verified;
use self::subject::Subject;
use super::findings::{Findings, Party, Verdict};
use super::memory::{Memory, PlaceArgs};
use super::misbehaviour;
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output, WithHint};
use crate::trust_file;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0: verified; 1: proved bad; 2: undecided. With a proof, nothing is \
    fetched. The newest checkpoint of each log is remembered; a log that contradicts it, or a \
    recipe that breaks its promise, is reported in a file that anyone can check with \
    --misbehaviour. What was proved once is remembered too, and stays the answer: see `sotto log \
    memory`."
)]
pub(super) struct VerifyArgs {
    /// A signed entry, or the id or name of a recipe in the log.
    #[arg(value_name = "RECIPE", required_unless_present = "misbehaviour")]
    recipe: Option<String>,
    /// A proof bundle (C2SP tlog-proof) [default: without --log, the file beside the entry that
    /// ends in .proof]
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
    /// Log, witnesses and quorum (C2SP tlog-policy).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A trust file: use its policy, and show what a device with this file would decide.
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    memory: PlaceArgs,
    /// Neither use what is remembered nor remember anything.
    #[arg(long, conflicts_with = "remember")]
    forget: bool,
    /// Where misbehaviour files are written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Check a misbehaviour file again: exit code 1 if it proves its claim, 2 if not.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["recipe", "proof", "policy", "trust"]
    )]
    misbehaviour: Option<PathBuf>,
}

impl VerifyArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let memory = if self.forget { None } else { self.memory.open() };
        if let Some(path) = &self.misbehaviour {
            return recheck(path, memory.as_ref(), output);
        }
        let (policy, trust) = self.trusted()?;
        let mut subject = self.subject(&policy, trust.as_ref())?;
        let found = checks::verify(&mut subject, &policy, trust.as_ref(), memory.as_ref())?;
        // The finding is printed even if its proof cannot be written.
        if !output.json() {
            print(&found, output)?;
        }
        if let Some(memory) = &memory {
            found.evidence.iter().try_for_each(|evidence| memory.accuse(evidence))?;
        }
        let mut files = Vec::new();
        for evidence in &found.evidence {
            files.push(misbehaviour::write(&self.out, evidence)?);
        }
        if output.json() {
            output.value(&value(&subject, &found.findings, &files))?;
        }
        for path in &files {
            output.remark(format!("The proof is in {}; anyone can check it.", path.display()));
        }
        Ok(found.findings.outcome())
    }

    fn trusted(&self) -> Result<(TlogPolicy, Option<Trust>)> {
        if let Some(path) = &self.trust {
            let trust = trust_file::read(path)?;
            return Ok((trust.policy().clone(), Some(trust)));
        }
        let path = self.policy.as_ref().context("no trust policy is given");
        let path = path.hint("give --policy or --trust: the keys of the log and its witnesses")?;
        Ok((super::read_policy(path)?, None))
    }
}

fn recheck(path: &Path, memory: Option<&Memory>, output: &Output) -> Result<Outcome> {
    let evidence = misbehaviour::read(path)?;
    let checked = evidence.check();
    if let (Ok(_), Some(memory)) = (&checked, memory)
        && let Err(error) = memory.accuse(&evidence)
    {
        output.remark(format!("This could not be remembered: {error:#}"));
    }
    let (outcome, proved, words) = match checked {
        Ok(charge) => (Outcome::No, true, charge),
        Err(reason) => (Outcome::Undecided, false, reason),
    };
    let blame = match evidence.accused() {
        Ok(Accused::Log(_)) if proved => vec![Party::Log],
        Ok(Accused::Author { .. }) if proved => vec![Party::Author],
        _ => Vec::new(),
    };
    if output.json() {
        output.value(&json!({ "proved": proved, "words": words, "blame": blame }))?;
    } else if proved {
        output.prose(format!("Proved: {words}"))?;
        output.remark("It says nothing against anybody else.");
        output.remark("The file cannot prove whose key this is: compare it with the key you know.");
    } else {
        output.prose(format!("Not proved: {words}"))?;
    }
    Ok(outcome)
}

fn print(found: &Verified, output: &Output) -> Result<()> {
    let Verified { findings, parties, .. } = found;
    findings.print(output)?;
    if findings.outcome() == Outcome::No {
        let names = |some: Vec<Party>| {
            let named = Party::ALL.iter().zip(parties).filter(|(party, _)| some.contains(party));
            named.map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ")
        };
        output.prose(format!("To blame: {}.", names(findings.blame())))?;
        let not_blamed = names(findings.not_blamed());
        if !not_blamed.is_empty() {
            output.prose(format!("Nothing here speaks against {not_blamed}."))?;
        }
    }
    output.prose(match findings.outcome() {
        Outcome::Yes => {
            "Verified: public, and within the limits above. Devices also compare its URLs with the \
             key sets."
        }
        Outcome::No => "Bad. This is proved, not suspected.",
        Outcome::Undecided => {
            "Undecided: see the lines with a question mark. Nothing is proved against anybody."
        }
    })
}

fn value(subject: &Subject, findings: &Findings, files: &[PathBuf]) -> serde_json::Value {
    let verdict = match findings.outcome() {
        Outcome::Yes => Verdict::Ok,
        Outcome::No => Verdict::Bad,
        Outcome::Undecided => Verdict::Unknown,
    };
    json!({
        "verdict": verdict,
        "recipe_id": subject.entry.id(),
        "index": subject.proof.index,
        "findings": findings,
        "blame": findings.blame(),
        "not_blamed": findings.not_blamed(),
        "misbehaviour_files": files,
    })
}
