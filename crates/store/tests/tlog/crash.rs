//! The process dies before any one of its changes to the disk, or in the middle of writing a file.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use sotto_crypto::merkle::verify_consistency;
use sotto_protocol::log::Reader;
use sotto_protocol::log::admit::Held;
use sotto_store::{DiskOp, DiskWatch, FolderFetch, LogDir, LogDirError, Step};
use sotto_wire::Checkpoint;

use crate::tlog::party::*;

/// Allows `left` changes and none after them. The next one may be half done.
struct Death {
    left: u64,
    half: bool,
    dead: bool,
    /// The step of the first change that did not happen, and whether that change was writing a
    /// file.
    at: Arc<Mutex<Option<(Step, bool)>>>,
}

impl DiskWatch for Death {
    fn before(&mut self, step: Step, op: &DiskOp<'_>) -> io::Result<()> {
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return Ok(());
        }
        if !std::mem::replace(&mut self.dead, true) {
            *self.at.lock().unwrap() = Some((step, matches!(op, DiskOp::Write(..))));
            if self.half
                && let DiskOp::Write(path, bytes) = op
            {
                std::fs::write(path, &bytes[..bytes.len() / 2])?;
            }
        }
        Err(io::Error::other("the process is dead"))
    }
}

const BASE: u64 = 250;
const NEXT: u64 = 265;

/// What the dying process completed.
#[derive(Default)]
struct Done {
    staged: bool,
    published: bool,
    indexed: bool,
}

fn live(folder: &Path, death: Death) -> Result<Done, LogDirError> {
    let mut done = Done::default();
    let Ok(mut log) = LogDir::open_watched(folder, log_key(), Some(Box::new(death))) else {
        return Ok(done);
    };
    let Ok(staged) = log.stage(&results(BASE..NEXT)) else { return Ok(done) };
    done.staged = true;
    if log.publish(&cosign(&staged.note, 50)).is_err() {
        return Ok(done);
    }
    done.published = true;
    done.indexed = log.write_index().is_ok();
    Ok(done)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        match file.file_type().unwrap().is_dir() {
            true => copy(&file.path(), &to.join(file.file_name())),
            false => drop(std::fs::copy(file.path(), to.join(file.file_name())).unwrap()),
        }
    }
}

#[test]
fn death_before_any_change_loses_nothing_and_never_forks() {
    let base = folder();
    let mut log = open(base.path());
    append(&mut log, &results(0..BASE), 1).unwrap();
    drop(log);
    // What a process that does not die signs.
    let undisturbed = folder();
    copy(base.path(), undisturbed.path());
    let truth = open(undisturbed.path()).stage(&results(BASE..NEXT)).unwrap();
    let mut steps = BTreeSet::new();
    for number in 0.. {
        let at = Arc::new(Mutex::new(None));
        for half in [false, true] {
            let folder = folder();
            copy(base.path(), folder.path());
            let death = Death { left: number, half, dead: false, at: Arc::clone(&at) };
            let done = live(folder.path(), death).unwrap();
            after_death(folder.path(), &done, &truth.note, number);
            if !matches!(*at.lock().unwrap(), Some((_, true))) {
                break;
            }
        }
        let Some((step, _)) = *at.lock().unwrap() else { break };
        steps.insert(step);
    }
    let expected = [
        Step::Open,
        Step::Intent,
        Step::Tiles,
        Step::Pending,
        Step::First,
        Step::Checkpoint,
        Step::Index,
        Step::Prune,
    ];
    assert_eq!(steps, BTreeSet::from(expected));
}

fn after_death(folder: &Path, done: &Done, truth: &sotto_wire::Note, number: u64) {
    let mut log = open(folder);
    let size = log.signed_size();
    assert!(size == BASE || size == NEXT, "change {number}: size {size}");
    assert!(!done.staged || size == NEXT, "change {number}: a signed checkpoint is lost");
    let pending = log.pending();
    assert!(!done.published || pending.is_none(), "change {number}");
    if let Some(pending) = pending {
        assert_eq!(pending.note, *truth, "change {number}: a fork");
        log.publish(&cosign(&pending.note, 60)).unwrap();
        log.write_index().unwrap();
    }
    // Other entries arrive meanwhile. If nothing was signed, they replace the lost ones.
    let others = results(1000..1020);
    append(&mut log, &others, 70).unwrap();
    let staged = append(&mut log, &results(BASE..NEXT), 80).unwrap();
    let tree = Checkpoint::parse(staged.note.text()).unwrap();
    assert_eq!(tree.size, NEXT + 20);
    let mut reader = Reader::new(FolderFetch::new(log.public()));
    for entry in results(0..NEXT).iter().chain(&others) {
        let index = reader.find(&entry.id()).unwrap().unwrap();
        assert_eq!(log.index_of(&entry.id()).unwrap(), Some(index));
        assert_eq!(reader.entry(index, &tree).unwrap(), entry.to_bytes());
    }
    let old = Checkpoint::parse(truth.text()).unwrap();
    let proof = log.consistency(old.size, tree.size).unwrap();
    let extends = verify_consistency(old.size, &old.root, tree.size, &tree.root, &proof).is_ok();
    assert_eq!(extends, size == NEXT, "change {number}");
    let first = sotto_crypto::note::quorum(&reader.first_checkpoint(BASE).unwrap(), &policy());
    let proven = first.unwrap().proven;
    assert!(if size == NEXT { proven <= 60 } else { proven == 70 }, "change {number}: {proven}");
    let temporary = std::fs::read_dir(folder.join("state/tmp")).unwrap().count();
    assert_eq!(temporary, 0, "change {number}");
    drop(log);
    assert_clean(folder);
}

#[test]
fn a_full_disk_is_survived_without_a_restart() {
    /// Fails one change, once.
    struct Once(u64);
    impl DiskWatch for Once {
        fn before(&mut self, _: Step, _: &DiskOp<'_>) -> io::Result<()> {
            self.0 = self.0.wrapping_sub(1);
            if self.0 == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }
    for number in 1..300 {
        let folder = folder();
        let watch = Box::new(Once(number));
        let Ok(mut log) = LogDir::open_watched(folder.path(), log_key(), Some(watch)) else {
            continue;
        };
        for round in 0..3 {
            let entries = results(round * 20..round * 20 + 20);
            // It fails once; then it must work.
            let mut stage = || log.pending().map_or_else(|| log.stage(&entries), Ok);
            let staged = stage().or_else(|_| stage()).unwrap();
            let cosigned = cosign(&staged.note, round);
            log.publish(&cosigned).or_else(|_| log.publish(&cosigned)).unwrap();
            log.write_index().or_else(|_| log.write_index()).unwrap();
        }
        assert_eq!(log.signed_size(), 60, "change {number}");
        assert_clean(folder.path());
    }
}
