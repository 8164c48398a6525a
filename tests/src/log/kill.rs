//! Repeated `kill -9` of a process that appends to one log with one witness.
//!
//! The process reports each checkpoint when it is signed and each batch when it is acknowledged.
//! The next start must honour everything that was reported before the kill.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_crypto::merkle::verify_consistency;
use sotto_protocol::Moment;
use sotto_protocol::log::witnessing::{
    Cosigned, Next, Question, consume_witness_answer, produce_add_checkpoint,
};
use sotto_protocol::log::{Reader, admit::Held};
use sotto_store::{FolderFetch, LogDir, Placed, Staged, WitnessDir, fsck};
use sotto_wire::{Checkpoint, Entry, TreeHash};

use super::{ORIGIN, WITNESS, entry, key, policy};

/// The counts of a run of kills.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kills {
    /// The number of processes killed.
    pub kills: u64,
    /// Kills after which a signed checkpoint waited for its witness.
    pub unpublished: u64,
    /// Checkpoints that were reported as signed.
    pub signed: u64,
    /// Entries that were acknowledged.
    pub acknowledged: u64,
}

/// The process that gets killed: appends batches until then. `run` makes its entries unique.
pub fn appender(folder: &Path, run: u64, out: &mut dyn Write) -> Result<()> {
    let mut rng = ChaCha20Rng::seed_from_u64(run);
    let mut log = LogDir::open(&folder.join("log"), key(ORIGIN)?)?;
    let witness = WitnessDir::open(&folder.join("witness"), key(WITNESS)?)?;
    writeln!(out, "open")?;
    if let Some(pending) = log.pending() {
        publish(&mut log, &witness, &pending, out)?;
        writeln!(out, "acknowledged-size {}", pending.size)?;
    }
    for first in (0..).step_by(1000) {
        let numbers = first..first + 1 + rng.next_u64() % 60;
        let entries = numbers.clone().map(|number| entry(run, number));
        let entries: Vec<Entry> = entries.collect::<Result<_>>()?;
        let staged = log.stage(&entries)?;
        let tree = Checkpoint::parse(staged.note.text())?;
        writeln!(out, "signed {} {}", tree.size, tree.root)?;
        publish(&mut log, &witness, &staged, out)?;
        for (placed, number) in staged.placed.iter().zip(numbers) {
            let Placed::New(index) = placed else { bail!("entry {number} is not new") };
            writeln!(out, "acknowledged {run} {number} {index}")?;
        }
        out.flush()?;
        log.write_index()?;
    }
    Ok(())
}

/// Gets a checkpoint cosigned and publishes it.
fn publish(
    log: &mut LogDir,
    witness: &WitnessDir,
    staged: &Staged,
    out: &mut dyn Write,
) -> Result<()> {
    let (policy, cosigner) = (policy()?, key(WITNESS)?.cosigner());
    let mut question = Question { size: staged.size, from: staged.from };
    loop {
        let proof = log.consistency(question.from, question.size)?;
        let request = produce_add_checkpoint(&question, proof, &staged.note);
        let answer = witness.add_checkpoint(&request.to_bytes(), &policy, Moment(staged.size))?;
        let (status, body) = (answer.status, answer.body);
        match consume_witness_answer(&question, &staged.note, &cosigner, status, &body) {
            Next::Cosigned(signature) => {
                let note = staged.note.clone().with_signature(signature);
                return Ok(log.publish(&Cosigned::new(note, &policy)?)?);
            }
            Next::AskFrom(size) => question.from = size,
            Next::Halt(halt) => {
                writeln!(out, "fork {halt}")?;
                bail!("{halt}");
            }
            // The witness is honest and has no other clients, so its claim is true.
            Next::Inspect(claim) => {
                writeln!(out, "fork {claim}")?;
                bail!("{claim}");
            }
            Next::Disputed(dispute) => {
                writeln!(out, "fork {dispute}")?;
                bail!("{dispute}");
            }
            Next::Without(reason) => bail!("status {status}: {reason}"),
        }
    }
}

/// Kills `program` (which calls [`appender`]) `count` times and checks what is left each time.
pub fn kills(
    folder: &Path,
    count: u64,
    seed: u64,
    program: &dyn Fn(u64) -> Command,
    progress: &mut dyn FnMut(u64),
) -> Result<Kills> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (mut seen, mut kills) = (Seen::default(), Kills::default());
    for run in 0..count {
        let mut child = program(run).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().context("its output")?;
        let reader = std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).collect::<Vec<String>>()
        });
        std::thread::sleep(Duration::from_micros(2_000 + rng.next_u64() % 250_000));
        let early = child.try_wait()?;
        child.kill()?;
        child.wait()?;
        let lines = reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))?;
        ensure!(early.is_none(), "run {run} ended by itself: {:?}", lines.last());
        for line in &lines {
            seen.note(line).with_context(|| format!("run {run}: {line}"))?;
        }
        kills.kills += 1;
        kills.unpublished += u64::from(seen.check(folder).with_context(|| format!("run {run}"))?);
        progress(run + 1);
    }
    kills.signed = seen.signed.len() as u64;
    kills.acknowledged = seen.acknowledged.len() as u64;
    seen.check_entries(folder)?;
    Ok(kills)
}

/// Everything that the processes reported.
#[derive(Default)]
struct Seen {
    signed: BTreeMap<u64, TreeHash>,
    /// The last acknowledged size.
    size: u64,
    acknowledged: BTreeMap<(u64, u64), u64>,
}

impl Seen {
    /// Records a line. The kill may have cut off the last one.
    fn note(&mut self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["fork", ..] => bail!("the witness saw a fork"),
            ["signed", size, root] => {
                let Ok(root) = root.parse() else { return Ok(()) };
                let before = self.signed.insert(size.parse()?, root);
                ensure!(before.is_none_or(|before| before == root), "two trees of one size");
            }
            ["acknowledged", run, number, index] => {
                let index = index.parse()?;
                self.acknowledged.insert((run.parse()?, number.parse()?), index);
            }
            _ => {}
        }
        Ok(())
    }

    /// Opens the log and compares it with what was reported. Returns whether a checkpoint is
    /// unpublished.
    fn check(&mut self, folder: &Path) -> Result<bool> {
        let mut log = LogDir::open(&folder.join("log"), key(ORIGIN)?)?;
        let size = log.signed_size();
        ensure!(size >= self.size, "the log shrank from {} to {size}", self.size);
        self.size = size;
        if let Some(pending) = log.pending() {
            let tree = Checkpoint::parse(pending.note.text())?;
            let before = self.signed.insert(tree.size, tree.root);
            ensure!(before.is_none_or(|before| before == tree.root), "two trees of one size");
        }
        let Some((newest, root)) = self.signed.last_key_value() else { return Ok(false) };
        ensure!(*newest <= size, "signed size {newest} is lost; the log has {size}");
        let mut reader = Reader::new(FolderFetch::new(log.public()));
        let new_root = reader.root(size)?;
        ensure!(*newest < size || *root == new_root, "another tree of size {size}");
        for (old, root) in self.signed.iter().rev().take(20) {
            let proof = log.consistency(*old, size)?;
            verify_consistency(*old, root, size, &new_root, &proof)?;
        }
        Ok(log.pending().is_some())
    }

    /// Finishes, then checks every checkpoint, every acknowledged entry and every file.
    fn check_entries(&self, folder: &Path) -> Result<()> {
        let mut log = LogDir::open(&folder.join("log"), key(ORIGIN)?)?;
        let witness = WitnessDir::open(&folder.join("witness"), key(WITNESS)?)?;
        let staged = match log.pending() {
            Some(pending) => pending,
            None => log.stage(&[])?,
        };
        publish(&mut log, &witness, &staged, &mut std::io::sink())?;
        log.write_index()?;
        let tree = Checkpoint::parse(staged.note.text())?;
        for (old, root) in &self.signed {
            let proof = log.consistency(*old, tree.size)?;
            verify_consistency(*old, root, tree.size, &tree.root, &proof)?;
        }
        let mut reader = Reader::new(FolderFetch::new(log.public()));
        for ((run, number), index) in &self.acknowledged {
            let entry = entry(*run, *number)?;
            ensure!(log.index_of(&entry.id())? == Some(*index), "entry {index} is not found");
            ensure!(reader.find(&entry.id())? == Some(*index), "entry {index} is not found");
            ensure!(reader.entry(*index, &tree)? == entry.to_bytes(), "entry {index} is lost");
        }
        let found = fsck(log.public(), &policy()?, &mut |_, _| {})?;
        ensure!(found.is_clean(), "{:?}", found.differences);
        Ok(())
    }
}
