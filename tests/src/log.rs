//! The public log at length: a million entries against independent implementations, and `kill -9`.

mod grow;
mod kill;

pub use grow::{Growth, grow};
pub use kill::{Kills, appender, kills};

use anyhow::Result;
use sotto_crypto::Secret;
use sotto_crypto::note::NoteKey;
use sotto_wire::{
    Entry, EntryId, EntryKind, Note, NoteSignature, PopulationResult, PublicKey, Signer, TlogPolicy,
};

const ORIGIN: &str = "log.example/campaign";
const WITNESS: &str = "witness.example/campaign";

fn key(name: &str) -> Result<NoteKey> {
    let mut seed = [1; 32];
    for (byte, other) in seed.iter_mut().zip(name.bytes()) {
        *byte = other;
    }
    Ok(NoteKey::from_seed(name.parse()?, Secret::new(seed)))
}

fn policy() -> Result<TlogPolicy> {
    let (log, witness) = (key(ORIGIN)?.verifier(), key(WITNESS)?.cosigner());
    Ok(TlogPolicy::parse(&format!("log {log}\nwitness w {witness}\nquorum w\n"))?)
}

/// A small entry, different for each pair of numbers. Its signatures are placeholders: a log's
/// files do not depend on their validity.
fn entry(run: u64, number: u64) -> Result<Entry> {
    let signer = |name: &str, byte| -> Result<Signer> {
        Ok(Signer { name: name.parse()?, key: PublicKey::new([byte; 32]) })
    };
    let (leader, helper) = (signer("leader.example", 2)?, signer("helper.example", 3)?);
    let placeholder = |signer: &Signer| NoteSignature {
        name: signer.name.clone(),
        key_id: [9; 4],
        signature: vec![7; 64],
    };
    let (first, second) = (placeholder(&leader), placeholder(&helper));
    let result = PopulationResult {
        version: 1,
        recipe: EntryId::new([4; 32]),
        predicate: "true".to_owned(),
        attributes: Default::default(),
        population: number + 1,
        measured_at: run,
        leader,
        helper,
    };
    let text = Entry::text(EntryKind::Result, std::str::from_utf8(&result.to_json())?);
    Ok(Entry::from_note(Note::new(text)?.with_signature(first).with_signature(second))?)
}
