//! The checks of a recipe. Each adds one line.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use sotto_crypto::merkle::{self, ProofError};
use sotto_crypto::note::{self, NoteError};
use sotto_protocol::Moment;
use sotto_protocol::admission::Silence;
use sotto_protocol::log::{Accused, Fetch, Misbehaviour};
use sotto_protocol::recipe::{Assessment, needs_audience, show_micro};
use sotto_protocol::trust::Trust;
use sotto_wire::{Note, Recipe, TlogPolicy};

use super::subject::Subject;
use crate::log::findings::{Findings, Party, Verdict};
use crate::log::fork::{self, Compared, SignedTree};
use crate::log::memory::{self, Memory};
use crate::time_text::show_moment;

/// What was found.
pub(super) struct Verified {
    pub(super) findings: Findings,
    /// The parties by name, in the order of [`Party::ALL`].
    pub(super) parties: [String; 4],
    pub(super) evidence: Vec<Misbehaviour>,
}

/// Runs all checks.
pub(super) fn verify(
    subject: &mut Subject,
    policy: &TlogPolicy,
    trust: Option<&Trust>,
    memory: Option<&Memory>,
) -> Result<Verified> {
    let mut findings = Findings::default();
    let mut evidence = Vec::new();
    let recipe = subject.entry.recipe().context("the entry is not a recipe")?.clone();
    findings.add("recipe", Verdict::Note, format!("{}  {}", recipe.name, subject.entry.id()));
    let new =
        SignedTree::new(subject.proof.checkpoint.clone()).context("the proof's checkpoint")?;
    let parties = [
        if subject.fetch.is_some() { "what was fetched" } else { "this file" }.to_owned(),
        format!("the author {}", recipe.author.name),
        format!("the log {}", new.tree.origin),
        format!(
            "the operators {} and {}",
            recipe.parties.leader.operator, recipe.parties.helper.operator
        ),
    ];
    let inclusion = inclusion(subject, &new);
    // Whoever changed the file, it was not its author. But a log must not publish what the author
    // did not sign.
    let published = inclusion.is_ok() && note::verify_log(&new.note, policy).is_ok();
    let forger = if published { Party::Log } else { Party::File };
    let signed = note::verify(subject.entry.note(), &recipe.author.verifier());
    match &signed {
        Ok(()) => findings.add("signed", Verdict::Ok, format!("by {}", recipe.author.name)),
        Err(error) => findings.against(forger, "signed", Verdict::Bad, error.to_string()),
    }
    included(subject, &new, inclusion, &mut findings);
    if recipe.parties.log != new.tree.origin {
        let words = format!("the recipe is for the log {}: devices look there", recipe.parties.log);
        findings.add("place", Verdict::Unknown, words);
    }
    // A fetched file may have been changed in transit, so it proves nothing about anyone.
    let broken = if subject.fetch.is_some() { Verdict::Unknown } else { Verdict::Bad };
    if log_and_witnesses(&new.note, policy, broken, &mut findings) {
        match memory {
            Some(memory) => {
                evidence.extend(history(subject, &new, policy, memory, &mut findings)?);
            }
            None => findings.add("consistent", Verdict::Note, "not compared with earlier views"),
        }
    }
    let (name, author) = (recipe.name.clone(), recipe.author.verifier());
    let breaker = if signed.is_ok() { Party::Author } else { forger };
    if !promise(recipe, trust, breaker, &mut findings) {
        let entry = String::from_utf8(subject.entry.to_bytes())?;
        let bad = Misbehaviour::BadRecipe { entry };
        // Without the author's signature, it proves nothing about the author.
        evidence.extend(bad.check().is_ok().then_some(bad));
    }
    let found = evidence.iter().map(memory::name).collect::<Result<Vec<_>>>()?;
    for proof in memory.map_or(Ok(Vec::new()), Memory::proofs)? {
        // What was found again has its line already.
        if found.contains(&proof.name) {
            continue;
        }
        let (party, verdict) = match &proof.accused {
            Accused::Log(_) if proof.accuses_log(policy, &new.tree.origin) => {
                (Party::Log, Verdict::Bad)
            }
            Accused::Author { key, recipe } if *key == author => match proof.evidence {
                Misbehaviour::NameReuse { .. } if *recipe == name => (Party::Author, Verdict::Bad),
                // Says something about the author, but nothing about this recipe.
                _ => (Party::Author, Verdict::Note),
            },
            _ => continue,
        };
        match proof.check() {
            Ok(words) => findings.against(party, "remembered", verdict, words),
            Err(words) => findings.add("remembered", Verdict::Unknown, words),
        }
    }
    Ok(Verified { findings, parties, evidence })
}

/// Whether the checkpoint's tree contains the entry.
fn inclusion(subject: &Subject, new: &SignedTree) -> Result<(), ProofError> {
    let leaf = merkle::leaf_hash(&subject.entry.to_bytes());
    let (index, size) = (subject.proof.index, new.tree.size);
    merkle::verify_inclusion(&leaf, index, size, &subject.proof.hashes, &new.tree.root)
}

fn included(
    subject: &Subject,
    new: &SignedTree,
    inclusion: Result<(), ProofError>,
    findings: &mut Findings,
) {
    let (index, size) = (subject.proof.index, new.tree.size);
    match inclusion {
        Ok(()) => findings.add("included", Verdict::Ok, format!("leaf {index} of {size}")),
        // The files of a log are not signed: they may have been changed in transit.
        Err(error) if subject.fetch.is_some() => {
            let words = format!("the log's files do not show this entry as leaf {index}: {error}");
            findings.add("included", Verdict::Unknown, words);
        }
        Err(error) => {
            findings.against(Party::File, "included", Verdict::Bad, error.to_string());
        }
    }
}

/// Whether the checkpoint satisfies the policy. `broken`: the verdict if a signature does not
/// verify.
fn log_and_witnesses(
    note: &Note,
    policy: &TlogPolicy,
    broken: Verdict,
    findings: &mut Findings,
) -> bool {
    let origin = note.text().lines().next().unwrap_or_default();
    if let Err(error) = note::verify_log(note, policy) {
        let verdict = if error == NoteError::Bad { broken } else { Verdict::Unknown };
        unsigned("log", verdict, format!("{origin}: {error}"), findings);
        return false;
    }
    findings.add("log", Verdict::Ok, format!("{origin}, by its key"));
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
    let quorum = note::quorum(note, policy);
    let (verdict, words) = match &quorum {
        Ok(time) => {
            let by = show_moment(Moment(time.proven));
            (Verdict::Ok, format!("{words}; public since {by} at the latest"))
        }
        Err(NoteError::NoTime) => (Verdict::Unknown, "the policy asks for no witness".to_owned()),
        Err(NoteError::Bad) => (broken, format!("{words}; a cosignature is not valid")),
        Err(error) => (Verdict::Unknown, format!("{words}: {error}")),
    };
    unsigned("witnessed", verdict, words, findings);
    quorum.is_ok()
}

/// Adds a line about the signatures of a checkpoint. If one is bad, somebody changed the proof.
fn unsigned(what: &'static str, verdict: Verdict, words: String, findings: &mut Findings) {
    match verdict {
        Verdict::Bad => findings.against(Party::File, what, verdict, words),
        _ => findings.add(what, verdict, words),
    }
}

/// Compares with the checkpoint that is remembered, and remembers the newer one.
fn history(
    subject: &mut Subject,
    new: &SignedTree,
    policy: &TlogPolicy,
    memory: &Memory,
    findings: &mut Findings,
) -> Result<Option<Misbehaviour>> {
    let Some(old) = memory.recall(&new.tree.origin)? else {
        findings.add("consistent", Verdict::Note, "this log was not seen before");
        memory.keep(new)?;
        return Ok(None);
    };
    let (was, is) = (old.tree.size, new.tree.size);
    let mut no_files = BTreeMap::<String, Vec<u8>>::new();
    let fetch: &mut dyn Fetch = match &mut subject.fetch {
        Some(fetch) => fetch,
        None if was == is => &mut no_files,
        None => {
            let words = format!("not compared with size {was}: that needs the log");
            findings.add("consistent", Verdict::Note, words);
            return Ok(None);
        }
    };
    match fork::compare(fetch, policy, &old, new) {
        // This is no contradiction, but an old tree hides the entries that were added since.
        Compared::Agree if is < was => {
            let words = format!("the log shows {is} entries, but had {was}");
            findings.against(Party::Log, "consistent", Verdict::Unknown, words);
            Ok(None)
        }
        Compared::Agree => {
            findings.add("consistent", Verdict::Ok, format!("with size {was}, seen before"));
            if is > was {
                memory.keep(new)?;
            }
            Ok(None)
        }
        Compared::Contradict(found) => {
            let words = match was == is {
                true => format!("two trees of {is} entries"),
                false => {
                    let (small, large) = (was.min(is), was.max(is));
                    format!("the tree of {large} entries does not begin with that of {small}")
                }
            };
            findings.against(Party::Log, "consistent", Verdict::Bad, words);
            Ok(Some(found))
        }
        Compared::Unclear(reason) => {
            let back = if is < was {
                format!("it has {is} entries, but had {was}; ")
            } else {
                String::new()
            };
            let words = format!("{back}not compared with size {was}: {reason}");
            findings.add("consistent", Verdict::Unknown, words);
            Ok(None)
        }
    }
}

/// Repeats the computation of a device. Returns whether the promise is kept. `breaker`: whose
/// promise it is.
fn promise(recipe: Recipe, trust: Option<&Trust>, breaker: Party, findings: &mut Findings) -> bool {
    let assessment = match Assessment::at_best(recipe) {
        Ok(assessment) => assessment,
        Err(silence) => {
            findings.against(breaker, "promise", Verdict::Bad, silence.to_string());
            return false;
        }
    };
    let min_batch = assessment.recipe().aggregation.min_batch;
    let words = match assessment.cost() {
        Some(_) if needs_audience(assessment.recipe()) => format!(
            "within the claim if the certified audience is large enough; nothing below {min_batch} \
             reports"
        ),
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
    true
}
