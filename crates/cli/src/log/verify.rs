//! `sotto log verify`: is this recipe public, and does it keep its promise?

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use serde_json::json;
use sotto_crypto::merkle;
use sotto_crypto::note::{self, NoteError};
use sotto_protocol::Moment;
use sotto_protocol::device::Silence;
use sotto_protocol::log::{Fetch, ForeignRoot, Misbehaviour, Reader};
use sotto_protocol::recipe::{Assessment, show_micro};
use sotto_protocol::trust::Trust;
use sotto_wire::{Checkpoint, Entry, Note, TlogPolicy, TlogProof, VerifierKey};

use super::findings::{Findings, Verdict};
use super::memory::Memory;
use super::misbehaviour;
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output, WithHint};
use crate::time_text::show_moment;
use crate::{recipe_file, trust_file};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0: verified; 1: proved bad; 2: could not be told. With --proof nothing \
    is fetched. The newest checkpoint of each log is remembered, and a log that goes back or \
    contradicts itself is reported in a file that anybody can check again with --misbehaviour."
)]
pub(super) struct VerifyArgs {
    /// A signed entry, or the id or name of a recipe in the log.
    #[arg(value_name = "RECIPE", required_unless_present = "misbehaviour")]
    recipe: Option<String>,
    /// A proof bundle (C2SP tlog-proof) [default: the file beside the entry that ends in .proof, if there is one]
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
    /// Log, witnesses and quorum (C2SP tlog-policy).
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// A trust file: its policy, and what a device that trusts it would say.
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    trust: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
    /// Where checkpoints are remembered [default: in the state folder of this user]
    #[arg(long, value_name = "DIR")]
    remember: Option<PathBuf>,
    /// Neither look at remembered checkpoints nor remember this one.
    #[arg(long, conflicts_with = "remember")]
    forget: bool,
    /// Where a misbehaviour file is written.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// Check a misbehaviour file again.
    #[arg(long, value_name = "FILE", exclusive = true)]
    misbehaviour: Option<PathBuf>,
}

/// What is to be verified.
struct Subject {
    entry: Entry,
    proof: TlogProof,
    /// The files of the log, unless everything came from files.
    fetch: Option<Box<dyn Fetch>>,
}

/// What was found.
struct Verified {
    findings: Findings,
    evidence: Option<Misbehaviour>,
}

impl VerifyArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        if let Some(path) = &self.misbehaviour {
            return recheck(path, output);
        }
        let (policy, trust) = self.trusted()?;
        let mut subject = self.subject(&policy, trust.as_ref())?;
        let memory = if self.forget { None } else { Memory::open(self.remember.as_deref()) };
        let found = verify(&mut subject, &policy, trust.as_ref(), memory.as_ref())?;
        let written = match found.evidence {
            Some(evidence) => Some(misbehaviour::write(&self.out, evidence)?),
            None => None,
        };
        let outcome = found.findings.outcome();
        print(output, &subject, &found.findings, written.as_deref())?;
        Ok(outcome)
    }

    fn trusted(&self) -> Result<(TlogPolicy, Option<Trust>)> {
        if let Some(path) = &self.trust {
            let trust = trust_file::read(path)?;
            return Ok((trust.policy().clone(), Some(trust)));
        }
        let path = self.policy.as_ref().context("whom to trust?");
        let path = path.hint("give --policy or --trust: the keys of the log and its witnesses")?;
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let policy = TlogPolicy::parse(&text)
            .with_context(|| format!("{} cannot be used", path.display()))?;
        Ok((policy, None))
    }

    fn subject(&self, policy: &TlogPolicy, trust: Option<&Trust>) -> Result<Subject> {
        let recipe = self.recipe.as_deref().unwrap_or_default();
        if let Some(proof) = self.proof_file(recipe) {
            let entry = recipe_file::load(Path::new(recipe))?.entry;
            let entry = entry.context("the recipe is not signed, so no log can hold it");
            let entry = entry.hint("give the signed entry that `recipe publish` wrote")?;
            let bytes = std::fs::read(&proof)
                .with_context(|| format!("cannot read {}", proof.display()))?;
            let proof = TlogProof::parse(&bytes)
                .with_context(|| format!("{} is no proof bundle", proof.display()))?;
            return Ok(Subject { entry, proof, fetch: None });
        }
        let listed = policy.logs().iter().find_map(|log| log.url.clone());
        let log = LogArgs { log: self.log.log.clone().or(listed), ..self.log.clone() };
        let source = log.source(trust)?.context("where is the proof?");
        let source = source.hint("give --proof for a bundle, or --log for the log")?;
        let loaded = recipe_file::find(recipe, &log, trust)?;
        let mut reader = Reader::new(source.fetch());
        let newest = reader.checkpoint()?.ok_or_else(|| anyhow!("the log is empty"))?;
        let id = loaded.recipe.id();
        let index = match loaded.index {
            Some(index) => index,
            None => reader.find(&id)?.ok_or_else(|| anyhow!("the log holds no recipe {id}"))?,
        };
        let proof = reader.proof(index, &newest)?;
        let entry = match loaded.entry {
            Some(entry) => entry,
            None => {
                let tree = Checkpoint::parse(newest.text())?;
                Entry::parse(&reader.entry(index, &tree)?)?
            }
        };
        Ok(Subject { entry, proof, fetch: Some(source.fetch()) })
    }

    /// The proof that was given, or lies beside the entry.
    fn proof_file(&self, recipe: &str) -> Option<PathBuf> {
        if self.proof.is_some() {
            return self.proof.clone();
        }
        let beside = Path::new(recipe).with_extension("proof");
        (self.log.log.is_none() && Path::new(recipe).is_file() && beside.is_file())
            .then_some(beside)
    }
}

fn recheck(path: &Path, output: &Output) -> Result<Outcome> {
    let (outcome, proved, words) = match misbehaviour::check(path)? {
        Ok(charge) => (Outcome::No, true, charge),
        Err(reason) => (Outcome::Undecided, false, reason),
    };
    if output.json() {
        output.value(&json!({ "proved": proved, "words": words }))?;
    } else {
        let verdict = if proved { "Proved" } else { "Not proved" };
        output.line(format!("{verdict}: {words}"))?;
    }
    Ok(outcome)
}

fn verify(
    subject: &mut Subject,
    policy: &TlogPolicy,
    trust: Option<&Trust>,
    memory: Option<&Memory>,
) -> Result<Verified> {
    let mut findings = Findings::default();
    let mut evidence = None;
    let recipe = subject.entry.recipe().context("the entry is no recipe")?.clone();
    findings.add("recipe", Verdict::Note, format!("{}  {}", recipe.name, subject.entry.id()));
    let signed = note::verify(subject.entry.note(), &recipe.author.verifier());
    findings.settle("signed", format!("by {}", recipe.author.name), signed);

    let note = subject.proof.checkpoint.clone();
    let checkpoint = Checkpoint::parse(note.text()).context("the proof's checkpoint")?;
    let leaf = merkle::leaf_hash(&subject.entry.to_bytes());
    let (index, size) = (subject.proof.index, checkpoint.size);
    let included =
        merkle::verify_inclusion(&leaf, index, size, &subject.proof.hashes, &checkpoint.root);
    findings.settle("included", format!("leaf {index} of {size}"), included);
    let believed = log_and_witnesses(&note, policy, &mut findings);
    if believed {
        match memory {
            Some(memory) => {
                evidence = compare(subject, &checkpoint, &note, policy, memory, &mut findings)?;
            }
            None => findings.add("consistent", Verdict::Note, "not compared with earlier views"),
        }
    }
    let broken = promise(recipe, trust, &mut findings);
    if broken && evidence.is_none() {
        let entry = String::from_utf8(subject.entry.to_bytes())?;
        let bad = Misbehaviour::BadRecipe { entry };
        evidence = bad.check().is_ok().then_some(bad);
    }
    Ok(Verified { findings, evidence })
}

/// Whether the checkpoint is one that the policy believes.
fn log_and_witnesses(note: &Note, policy: &TlogPolicy, findings: &mut Findings) -> bool {
    let origin = note.text().lines().next().unwrap_or_default().to_owned();
    match note::verify_log(note, policy) {
        Ok(_) => findings.add("log", Verdict::Ok, format!("{origin}, by its key")),
        Err(error @ NoteError::Bad) => {
            findings.add("log", Verdict::Bad, format!("{origin}: {error}"));
            return false;
        }
        Err(error) => {
            findings.add("log", Verdict::Unknown, format!("{origin}: {error}"));
            return false;
        }
    }
    let (mut present, mut missing) = (Vec::new(), Vec::new());
    for witness in policy.witnesses() {
        match note::cosignature_time(note, &witness.key) {
            Ok(_) => present.push(witness.name.as_str()),
            Err(_) => missing.push(witness.name.as_str()),
        }
    }
    let mut words = format!("{} of {}", present.len(), policy.witnesses().len());
    if !present.is_empty() {
        words += &format!(": {}", present.join(", "));
    }
    if !missing.is_empty() {
        words += &format!("; missing: {}", missing.join(", "));
    }
    match note::quorum(note, policy) {
        Ok(time) => {
            let by = show_moment(Moment(time.proven));
            findings.add(
                "witnessed",
                Verdict::Ok,
                format!("{words}; public since {by} at the latest"),
            );
            true
        }
        Err(NoteError::NoTime) => {
            findings.add("witnessed", Verdict::Unknown, "the policy asks for no witness");
            false
        }
        Err(NoteError::Bad) => {
            findings.add("witnessed", Verdict::Bad, format!("{words}; a cosignature is not valid"));
            false
        }
        Err(error) => {
            findings.add("witnessed", Verdict::Unknown, format!("{words}: {error}"));
            false
        }
    }
}

/// Compares with the checkpoint that is remembered, and remembers the newer one.
fn compare(
    subject: &mut Subject,
    new: &Checkpoint,
    note: &Note,
    policy: &TlogPolicy,
    memory: &Memory,
    findings: &mut Findings,
) -> Result<Option<Misbehaviour>> {
    let Some(old_note) = memory.recall(&new.origin)? else {
        findings.add("consistent", Verdict::Note, "this log was not seen before");
        memory.keep(new, note)?;
        return Ok(None);
    };
    let old = Checkpoint::parse(old_note.text()).context("the remembered checkpoint")?;
    let Some(key) = policy.log_keys(&new.origin).next() else { return Ok(None) };
    if old.size == new.size {
        if old.root == new.root {
            findings.add("consistent", Verdict::Ok, format!("with size {}, seen before", old.size));
            return Ok(None);
        }
        findings.add("consistent", Verdict::Bad, format!("two trees of {} entries", old.size));
        return Ok(Misbehaviour::split_view(key, &old_note, note));
    }
    let Some(fetch) = &mut subject.fetch else {
        let words = format!("not compared with size {}, for that needs the log", old.size);
        findings.add("consistent", Verdict::Note, words);
        return Ok(None);
    };
    let (small, small_note, large, large_note) = if old.size < new.size {
        (&old, &old_note, new, note)
    } else {
        (new, note, &old, &old_note)
    };
    let found = extends(fetch, key, (small, small_note), (large, large_note))?;
    match &found {
        None => {
            let words = format!("with size {}, seen before", old.size);
            findings.add("consistent", Verdict::Ok, words);
            if new.size > old.size {
                memory.keep(new, note)?;
            }
        }
        Some(_) => {
            let words =
                format!("the tree of {} does not begin with that of {}", large.size, small.size);
            findings.add("consistent", Verdict::Bad, words);
        }
    }
    Ok(found)
}

/// Whether the larger tree begins with the smaller one; if not, the proof of that.
pub(super) fn extends(
    fetch: &mut Box<dyn Fetch>,
    key: &VerifierKey,
    small: (&Checkpoint, &Note),
    large: (&Checkpoint, &Note),
) -> Result<Option<Misbehaviour>> {
    let mut reader = Reader::new(fetch);
    let (from, to) = (small.0.size, large.0.size);
    if from == 0 || (from == to && small.0.root == large.0.root) {
        return Ok(None);
    }
    let text = |note: &Note| String::from_utf8_lossy(&note.to_bytes()).into_owned();
    let proof = if from == to {
        None
    } else {
        let hashes = reader.consistency(from, to)?;
        if merkle::verify_consistency(from, &small.0.root, to, &large.0.root, &hashes).is_ok() {
            return Ok(None);
        }
        Some(ForeignRoot {
            root: reader.root(from)?.to_string(),
            hashes: hashes.iter().map(ToString::to_string).collect(),
        })
    };
    let found = Misbehaviour::SplitView {
        log: key.to_string(),
        one: text(small.1),
        other: text(large.1),
        proof,
    };
    // Tiles that belong to neither tree prove nothing: somebody between may have changed them.
    match found.check() {
        Ok(_) => Ok(Some(found)),
        Err(reason) => Err(anyhow!("the log's files do not belong to its checkpoints: {reason}")),
    }
}

/// Re-runs what a device computes. Whether the promise is broken.
fn promise(recipe: sotto_wire::Recipe, trust: Option<&Trust>, findings: &mut Findings) -> bool {
    let assessment = match Assessment::new(recipe) {
        Ok(assessment) => assessment,
        Err(silence) => {
            findings.add("promise", Verdict::Bad, silence.to_string());
            return true;
        }
    };
    let min_batch = assessment.recipe().aggregation.min_batch;
    let words = match assessment.cost() {
        Some(cost) => format!(
            "epsilon {} recomputed, within the claim; nothing below {min_batch} reports",
            show_micro(cost.epsilon_micro)
        ),
        None => format!("none is made: exact sums of at least {min_batch} reports"),
    };
    findings.add("promise", Verdict::Ok, words);
    if let Some(trust) = trust {
        match assessment.check_limits(trust) {
            Ok(()) => findings.add("device", Verdict::Ok, "within the limits of the trust file"),
            Err(Silence { check, reason }) => {
                let words = format!("would stay silent: {}: {reason}", check.name());
                findings.add("device", Verdict::Note, words);
            }
        }
    }
    false
}

fn print(
    output: &Output,
    subject: &Subject,
    findings: &Findings,
    written: Option<&Path>,
) -> Result<()> {
    let outcome = findings.outcome();
    if output.json() {
        let verdict = match outcome {
            Outcome::Yes => "verified",
            Outcome::No => "bad",
            Outcome::Undecided => "undecided",
        };
        return output.value(&json!({
            "verdict": verdict,
            "recipe_id": subject.entry.id(),
            "index": subject.proof.index,
            "findings": findings,
            "misbehaviour_file": written,
        }));
    }
    findings.print(output)?;
    output.line(match outcome {
        Outcome::Yes => "Verified. This recipe is public and says what devices enforce.",
        Outcome::No => "Bad. This is proved, not suspected.",
        Outcome::Undecided => "Undecided: see the lines with a question mark.",
    })?;
    if let Some(path) = written {
        output.line(format!("The proof is in {}; anybody can check it again.", path.display()))?;
    }
    Ok(())
}
