//! A log, its witness and entries for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use sotto_crypto::note::NoteKey;
use sotto_protocol::log::witnessing::Cosigned;
use sotto_store::{Fsck, LogDir, LogDirError, Placed, Staged, fsck};
use sotto_testing::arbitrary;
use sotto_testing::keys::rng;
pub(crate) use sotto_testing::keys::{key, signer};
pub(crate) use sotto_testing::log::valid_entry;
use sotto_wire::{Entry, EntryKind, Note, PopulationResult, TlogPolicy};
use tempfile::TempDir;

pub(crate) const ORIGIN: &str = "log.example/sotto";

pub(crate) fn log_key() -> NoteKey {
    key(ORIGIN)
}

/// One witness, which must sign.
pub(crate) fn policy() -> TlogPolicy {
    let text = sotto_testing::log::policy(&log_key(), &[key("witness.example")], 1);
    TlogPolicy::parse(&text).unwrap()
}

/// The result number `n`, signed by two operators.
pub(crate) fn result(n: u64) -> Entry {
    // Signing takes most of the time of these tests.
    static MADE: Mutex<BTreeMap<u64, Entry>> = Mutex::new(BTreeMap::new());
    MADE.lock().unwrap().entry(n).or_insert_with(|| make_result(n)).clone()
}

fn make_result(n: u64) -> Entry {
    let (leader, helper) = (key("leader.example"), key("helper.example"));
    let mut result: PopulationResult = arbitrary::population_result(&mut rng(n));
    (result.leader, result.helper) = (signer(&leader), signer(&helper));
    result.population = n + 1;
    valid_entry(EntryKind::Result, &result.to_json(), &[&leader, &helper])
}

pub(crate) fn results(range: std::ops::Range<u64>) -> Vec<Entry> {
    range.map(result).collect()
}

pub(crate) fn cosign(note: &Note, time: u64) -> Cosigned {
    let signature = key("witness.example").cosign(note.text(), time);
    Cosigned::new(note.clone().with_signature(signature), &policy()).unwrap()
}

/// A folder, in memory where the system supports it: these tests sync often and cut no real power.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

pub(crate) fn open(folder: &Path) -> LogDir {
    LogDir::open(folder, log_key()).unwrap()
}

/// Stages, publishes and indexes.
pub(crate) fn append(
    log: &mut LogDir,
    entries: &[Entry],
    time: u64,
) -> Result<Staged, LogDirError> {
    let staged = log.stage(entries)?;
    log.publish(&cosign(&staged.note, time))?;
    log.write_index()?;
    Ok(staged)
}

pub(crate) fn check(folder: &Path) -> Fsck {
    fsck(&folder.join("public"), &policy(), &mut |_, _| {}).unwrap()
}

pub(crate) fn assert_clean(folder: &Path) {
    let found = check(folder);
    assert!(found.is_clean(), "{:#?}", found.differences);
}

pub(crate) fn new_indices(placed: &[Placed]) -> Vec<u64> {
    let index = |placed: &Placed| match placed {
        Placed::New(index) => Some(*index),
        _ => None,
    };
    placed.iter().filter_map(index).collect()
}
