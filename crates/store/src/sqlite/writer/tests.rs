//! A disk that fails now and then while the process keeps running: full, or with a bad sector.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_executor::block_on;
use sotto_wire::{HpkeConfigId, TaskId};

use super::super::files::{DiskFiles, SegmentFile, SegmentFiles};
use crate::{LeaderStore, NewReport, Record, SqliteOptions, SqliteStore, StoreError, TaskStore};

/// Files on which one change fails, and perhaps the next ones.
#[derive(Clone, Debug)]
struct FlakyFiles {
    disk: Arc<DiskFiles>,
    fault: Arc<Fault>,
}

#[derive(Debug)]
struct Fault {
    /// The number of changes until the first failure, and how many fail.
    countdown: AtomicU64,
    length: u64,
}

#[derive(Debug)]
struct FlakyFile {
    file: Box<dyn SegmentFile>,
    fault: Arc<Fault>,
}

impl Fault {
    fn change(&self) -> io::Result<()> {
        let left = self.countdown.fetch_sub(1, Ordering::SeqCst) as i64;
        let fails = left <= 0 && left > -(self.length as i64);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}

impl SegmentFiles for FlakyFiles {
    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        self.fault.change()?;
        Ok(Box::new(FlakyFile { file: self.disk.create(name)?, fault: self.fault.clone() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(FlakyFile { file: self.disk.open(name)?, fault: self.fault.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.fault.change().and_then(|()| self.disk.remove(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        self.fault.change().and_then(|()| self.disk.sync_names())
    }
}

impl SegmentFile for FlakyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // A failing write may have done half of its work.
        let outcome = self.fault.change();
        let done = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 };
        self.file.write_at(&bytes[..done], offset).and(outcome)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.fault.change().and_then(|()| self.file.truncate(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.fault.change().and_then(|()| self.file.sync())
    }
}

fn report(number: u8) -> NewReport {
    NewReport {
        task_id: TaskId::new([1; 32]),
        bucket: None,
        hpke_config_id: HpkeConfigId::new(1),
        // Shorter and shorter, so that the remains of a failed write reach beyond the next write.
        report: vec![number; 100 + 60 * usize::from(12_u8.saturating_sub(number))].into(),
    }
}

fn found(store: &SqliteStore) -> Vec<u8> {
    let backlog = block_on(store.backlog(usize::MAX, usize::MAX, Arc::new(|_| true))).unwrap();
    let number = |record: &Record| {
        let number = record.report[0];
        assert_eq!(record.report, report(number).report);
        number
    };
    backlog.records.iter().map(number).collect()
}

/// Uploads reports one by one to a disk with a fault, then reopens the store without it. Returns
/// how many reports were acknowledged.
fn upload_with_fault(begin: u64, length: u64) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(DiskFiles::new(&dir.path().join("segments")).unwrap());
    let fault = Arc::new(Fault { countdown: AtomicU64::new(begin), length });
    let files = FlakyFiles { disk: disk.clone(), fault };
    let options = SqliteOptions { segment_bytes: 1_500, ..SqliteOptions::default() };
    let store = SqliteStore::open_with_files(dir.path(), options.clone(), Arc::new(files)).unwrap();
    let mut acknowledged = Vec::new();
    let mut doubtful = Vec::new();
    for number in 0..12 {
        match block_on(store.accept_reports(vec![report(number)])) {
            Ok(verdicts) => {
                assert_eq!(verdicts, [Ok(())]);
                acknowledged.push(number);
            }
            Err(StoreError::Backend(_)) => doubtful.push(number),
            Err(other) => panic!("{other}"),
        }
    }
    assert!(!doubtful.is_empty(), "no fault at {begin}");
    // A failed report is not returned while the store is open. If even undoing it failed, it may
    // come back.
    assert_eq!(found(&store), acknowledged);
    let segment_bytes = block_on(store.load()).unwrap().segment_bytes;
    drop(store);
    let store = SqliteStore::open_with_files(dir.path(), options, disk).unwrap();
    let again = found(&store);
    let rest: Vec<u8> = again.iter().copied().filter(|n| !acknowledged.contains(n)).collect();
    assert_eq!(again[..acknowledged.len()], acknowledged);
    assert!(rest.is_empty() || (length > 1 && rest == doubtful[..rest.len()]), "{rest:?}");
    assert!(block_on(store.load()).unwrap().segment_bytes >= segment_bytes);
    assert_eq!(block_on(store.accept_reports(vec![report(99)])), Ok(vec![Ok(())]));
    acknowledged.len()
}

#[test]
fn a_failed_write_is_undone_and_the_next_one_works() {
    // Creating, writing, syncing, sealing: each step of several segments fails once.
    for begin in 0..30 {
        assert_eq!(upload_with_fault(begin, 1), 11, "fault at {begin}");
    }
}

#[test]
fn what_cannot_be_undone_ends_the_writing() {
    let mut ended = 0;
    for begin in 0..30 {
        let acknowledged = upload_with_fault(begin, 2);
        ended += u32::from(acknowledged < 10);
    }
    assert!(ended > 10, "the undoing never failed");
}
