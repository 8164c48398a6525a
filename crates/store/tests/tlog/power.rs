//! The power fails: what was not synced may be there completely, in part, or not at all.
//!
//! All changes of a log's life are recorded. Then, for every moment, a disk is constructed as a
//! file system may leave it: some of the latest names of each folder, and some of the bytes of each
//! unsynced file.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sotto_crypto::merkle::verify_consistency;
use sotto_store::{DiskOp, DiskWatch, LogDir, Step};
use sotto_wire::Checkpoint;

use crate::tlog::party::*;

#[derive(Clone, Debug)]
enum Change {
    CreateDir(PathBuf),
    Write(PathBuf, Vec<u8>),
    SyncFile(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncDir(PathBuf),
    Remove(PathBuf),
}

type Record = Arc<Mutex<Vec<(Step, Change)>>>;

struct Recorder {
    root: PathBuf,
    record: Record,
}

impl DiskWatch for Recorder {
    fn before(&mut self, step: Step, op: &DiskOp<'_>) -> io::Result<()> {
        let below = |path: &Path| path.strip_prefix(&self.root).unwrap().to_owned();
        let change = match op {
            DiskOp::CreateDir(path) => Change::CreateDir(below(path)),
            DiskOp::Write(path, bytes) => Change::Write(below(path), bytes.to_vec()),
            DiskOp::SyncFile(path) => Change::SyncFile(below(path)),
            DiskOp::Rename(from, to) => Change::Rename(below(from), below(to)),
            DiskOp::SyncDir(path) => Change::SyncDir(below(path)),
            DiskOp::Remove(path) => Change::Remove(below(path)),
        };
        self.record.lock().unwrap().push((step, change));
        Ok(())
    }
}

/// A file by its number, or a folder.
type Node = Option<usize>;

/// What is durable on a disk, and what it has yet to write.
#[derive(Default)]
struct Disk {
    files: Vec<(Vec<u8>, bool)>,
    names: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    waiting: BTreeMap<PathBuf, Vec<(PathBuf, Option<Node>)>>,
}

impl Disk {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::CreateDir(path) => self.name(path, Some(None)),
            Change::Write(path, bytes) => {
                self.files.push((bytes.clone(), false));
                self.name(path, Some(Some(self.files.len() - 1)));
            }
            Change::SyncFile(path) => {
                let file = self.names[path].unwrap();
                self.files[file].1 = true;
            }
            Change::Rename(from, to) => {
                let node = self.names[from];
                self.name(from, None);
                self.name(to, Some(node));
            }
            Change::SyncDir(folder) => {
                for (path, node) in self.waiting.remove(folder).unwrap_or_default() {
                    set(&mut self.durable, &path, node);
                }
            }
            Change::Remove(path) => self.name(path, None),
        }
    }

    fn name(&mut self, path: &Path, node: Option<Node>) {
        set(&mut self.names, path, node);
        let folder = path.parent().unwrap().to_owned();
        self.waiting.entry(folder).or_default().push((path.to_owned(), node));
    }

    /// Writes what remains after the power failure.
    fn cut(&self, folder: &Path, rng: &mut ChaCha20Rng) {
        let mut left = self.durable.clone();
        for waiting in self.waiting.values() {
            let some = rng.next_u64() as usize % (waiting.len() + 1);
            for (path, node) in &waiting[..some] {
                set(&mut left, path, *node);
            }
        }
        for (path, node) in &left {
            // If a folder is gone, so are its files.
            let place = folder.join(path);
            if !place.parent().unwrap().is_dir() {
                continue;
            }
            let Some(file) = node else {
                fs::create_dir(place).unwrap();
                continue;
            };
            let (bytes, synced) = &self.files[*file];
            let len =
                if *synced { bytes.len() } else { rng.next_u64() as usize % (bytes.len() + 1) };
            fs::write(place, &bytes[..len]).unwrap();
        }
    }
}

fn set(names: &mut BTreeMap<PathBuf, Node>, path: &Path, node: Option<Node>) {
    match node {
        Some(node) => drop(names.insert(path.to_owned(), node)),
        None => names.retain(|name, _| !name.starts_with(path)),
    }
}

/// A checkpoint and the number of changes after which it was signed and published.
struct Promise {
    tree: Checkpoint,
    signed: usize,
    published: usize,
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_and_never_forks() {
    let folder = folder();
    let record = Record::default();
    let watch = Recorder { root: folder.path().to_owned(), record: Arc::clone(&record) };
    let mut log = LogDir::open_watched(folder.path(), log_key(), Some(Box::new(watch))).unwrap();
    let moment = || record.lock().unwrap().len();
    let mut promises = Vec::new();
    for range in [0..3, 3..250, 250..270, 270..271] {
        let staged = log.stage(&results(range)).unwrap();
        let signed = moment();
        log.publish(&cosign(&staged.note, 1)).unwrap();
        let published = moment();
        log.write_index().unwrap();
        let tree = Checkpoint::parse(staged.note.text()).unwrap();
        promises.push(Promise { tree, signed, published });
    }
    drop(log);
    let record = record.lock().unwrap().clone();
    let mut disk = Disk::default();
    for (moment, (step, change)) in record.iter().enumerate() {
        // Of the many changes to rows, a few are enough: rows are derived.
        if *step != Step::Index || moment % 61 == 0 {
            for seed in 0..2 {
                let mut rng = ChaCha20Rng::seed_from_u64(seed << 32 | moment as u64);
                after_cut(&disk, moment, &promises, &mut rng);
            }
        }
        disk.apply(change);
    }
}

fn after_cut(disk: &Disk, moment: usize, promises: &[Promise], rng: &mut ChaCha20Rng) {
    let folder = folder();
    disk.cut(folder.path(), rng);
    let mut log = open(folder.path());
    for promise in promises {
        if promise.signed <= moment {
            let (old, size) = (&promise.tree, log.signed_size());
            assert!(size >= old.size, "moment {moment}: signed size {} is lost", old.size);
        }
        if promise.published <= moment {
            let published = Checkpoint::parse(log.published().unwrap().text()).unwrap();
            assert!(published.size >= promise.tree.size, "moment {moment}: a loss");
        }
    }
    if let Some(pending) = log.pending() {
        log.publish(&cosign(&pending.note, 2)).unwrap();
        log.write_index().unwrap();
    }
    let staged = append(&mut log, &results(2000..2003), 3).unwrap();
    let new = Checkpoint::parse(staged.note.text()).unwrap();
    for promise in promises.iter().filter(|promise| promise.signed <= moment) {
        let old = &promise.tree;
        let proof = log.consistency(old.size, new.size).unwrap();
        verify_consistency(old.size, &old.root, new.size, &new.root, &proof)
            .unwrap_or_else(|_| panic!("moment {moment}: a fork from size {}", old.size));
    }
    drop(log);
    assert_clean(folder.path());
}
