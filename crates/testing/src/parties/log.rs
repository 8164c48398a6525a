//! A public log in memory.

use std::collections::BTreeMap;

use sotto_crypto::note::NoteKey;
use sotto_protocol::log::first;
use sotto_protocol::log::sequence::{LogState, checkpoint};
use sotto_wire::{Entry, EntryKind, Note};

use super::keys::witness;

pub const ORIGIN: &str = "log.example";

/// The files of a log, by path.
pub type Files = BTreeMap<String, Vec<u8>>;
/// When each of the three witnesses cosigned; two are a quorum.
pub type Times = [Option<u64>; 3];

/// All three at once.
pub fn at(time: u64) -> Times {
    [Some(time); 3]
}

/// A policy for this log: `quorum` of the witnesses must cosign.
pub fn policy(log: &NoteKey, witnesses: &[NoteKey], quorum: usize) -> String {
    let (mut policy, mut names) = (format!("log {}\n", log.verifier()), String::new());
    for (number, witness) in witnesses.iter().enumerate() {
        policy += &format!("witness w{number} {}\n", witness.cosigner());
        names += &format!(" w{number}");
    }
    format!("{policy}group enough {quorum}{names}\nquorum enough\n")
}

/// A text signed by all given signers.
pub fn note(text: &str, signers: &[&NoteKey]) -> Note {
    let note = Note::new(text).unwrap();
    signers.iter().fold(note, |note, key| note.with_signature(key.sign(text)))
}

/// The bytes of a signed entry, valid or not.
pub fn entry(kind: EntryKind, json: &[u8], signers: &[&NoteKey]) -> Vec<u8> {
    note(&Entry::text(kind, std::str::from_utf8(json).unwrap()), signers).to_bytes()
}

/// A valid entry.
pub fn valid_entry(kind: EntryKind, json: &[u8], signers: &[&NoteKey]) -> Entry {
    Entry::parse(&entry(kind, json, signers)).unwrap()
}

/// Entries that were published together.
#[derive(Clone)]
pub struct Batch {
    pub entries: Vec<Vec<u8>>,
    pub times: Times,
}

/// The files of a log and the checkpoints that it has published.
#[derive(Clone)]
pub struct Log {
    pub files: Files,
    pub checkpoints: Vec<Note>,
    pub view: Note,
    state: LogState,
}

impl Log {
    /// Publishes the batches one after another; then the witnesses cosign the last tree again, at
    /// `view`.
    pub fn new(batches: &[Batch], view: Times, log_key: &NoteKey) -> Self {
        let mut log = Self::empty();
        for batch in batches {
            log.publish(&batch.entries, batch.times, log_key);
        }
        log.view = signed(&checkpoint(ORIGIN, &log.state).to_text(), view, log_key);
        log.files.insert("checkpoint".to_owned(), log.view.to_bytes());
        log
    }

    /// A log that has published nothing.
    pub fn empty() -> Self {
        Self {
            files: Files::new(),
            checkpoints: Vec::new(),
            view: Note::new("nothing yet\n").unwrap(),
            state: LogState::new(),
        }
    }

    /// Appends entries and publishes the checkpoint, without the rules of admission: a bad log
    /// accepts anything.
    pub fn publish(&mut self, entries: &[Vec<u8>], times: Times, log_key: &NoteKey) {
        let (old, mut writes) = (self.state.size(), Vec::new());
        entries.iter().for_each(|entry| self.state.push(entry, &mut writes));
        writes.extend(self.state.partial(old));
        self.files.extend(writes.into_iter().map(|write| (write.path, write.bytes)));
        self.view = signed(&checkpoint(ORIGIN, &self.state).to_text(), times, log_key);
        for bundle in old / 256..=(self.state.size() - 1) / 256 {
            let first = self.files.entry(first::path(bundle)).or_default();
            first.extend(first::encode(&self.view));
        }
        self.files.insert("checkpoint".to_owned(), self.view.to_bytes());
        self.checkpoints.push(self.view.clone());
    }
}

/// A signed and cosigned checkpoint.
pub fn signed(text: &str, times: Times, log_key: &NoteKey) -> Note {
    let note = note(text, &[log_key]);
    times.iter().enumerate().fold(note, |note, (number, time)| match time {
        Some(time) => note.with_signature(witness(number).cosign(text, *time)),
        None => note,
    })
}
