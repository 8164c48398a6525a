//! Faults that only stores with files can have.

use std::path::Path;
use std::sync::Arc;

use futures_executor::block_on;
use sotto_store::{
    HelperStore, LeaderStore, Record, SegmentFiles, SqliteOptions, SqliteStore, StoreError,
    StoredTask, TaskStore,
};
use sotto_wire::{BatchSelector, ReportIdChecksum};

use super::bench::{Bench, Kind};
use super::driver::{decoded, digest, rejected, run};
use super::forgetful::ForgetfulFiles;
use super::helper::commit_of;
use super::reports::{Report, batch_id, interval, interval_task, report, reports};

/// Uploads one report after another. Each is its own group, and a few fill a segment.
fn fill(store: &dyn LeaderStore, all: &[Report]) {
    for report in all {
        assert_eq!(run(store.accept_reports(vec![report.upload()])), [Ok(())]);
    }
}

fn padded_reports(count: u8) -> Vec<Report> {
    reports(interval_task(1), 0..count, 10).iter().map(|report| report.padded(200)).collect()
}

fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir.join("segments")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

fn options() -> SqliteOptions {
    SqliteOptions { segment_bytes: 1_000, ..SqliteOptions::default() }
}

fn backlog(store: &dyn LeaderStore) -> Result<Vec<Record>, StoreError> {
    block_on(store.backlog(usize::MAX, usize::MAX, Arc::new(|_| true)))
        .map(|backlog| backlog.records)
}

#[test]
fn no_file_is_left_of_reports_that_are_done_with() {
    for kind in [Kind::Sqlite, Kind::SqliteKilled] {
        let mut bench = Bench::new(kind).unwrap();
        let all = padded_reports(20);
        fill(&**bench.store(), &all);
        assert!(segments(bench.dir().unwrap()).len() > 3);
        let on_disk: u64 =
            segments(bench.dir().unwrap()).iter().map(|path| path.metadata().unwrap().len()).sum();
        assert_eq!(bench.load().segment_bytes, on_disk);
        bench.form_with(7, batch_id(1));
        bench.work();
        assert_eq!(segments(bench.dir().unwrap()), Vec::<std::path::PathBuf>::new());
        bench.assert_no_reports();
    }
}

#[test]
fn a_directory_is_opened_by_one_store_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path(), options()).unwrap();
    let Err(StoreError::Backend(why)) = SqliteStore::open(dir.path(), options()) else {
        panic!("two stores in one directory");
    };
    assert!(why.contains("in use"), "{why}");
    fill(&store, &padded_reports(3));
    drop(store);
    let store = SqliteStore::open(dir.path(), options()).unwrap();
    assert_eq!(decoded(&backlog(&store).unwrap()), padded_reports(3));
}

#[test]
fn an_upload_in_which_the_power_goes_is_whole_or_not_acknowledged() {
    let all = padded_reports(12);
    for seed in 0..20 {
        // Creating a segment, writing, syncing, sealing: the power fails at each of them.
        for operations in 0..14 {
            let mut bench = Bench::seeded(Kind::SqlitePowerless, seed).unwrap();
            bench.files().cut_power_after(operations);
            let mut acknowledged = Vec::new();
            let mut doubtful = Vec::new();
            for pair in all.chunks(2) {
                let uploads = pair.iter().map(Report::upload).collect();
                match block_on(bench.store().accept_reports(uploads)) {
                    Ok(_) => acknowledged.extend_from_slice(pair),
                    Err(_) => doubtful.extend_from_slice(pair),
                }
            }
            assert!(!doubtful.is_empty(), "the power was never cut");
            bench.restart();
            let found = decoded(&backlog(&**bench.store()).unwrap());
            assert_eq!(found[..acknowledged.len()], acknowledged);
            let rest = &found[acknowledged.len()..];
            assert_eq!(*rest, doubtful[..rest.len()], "only the upload in which it went");
            assert!(rest.len() <= 2);
            bench.accept(&doubtful);
            let replayed = rejected(sotto_protocol::Rejection::ReportReplayed, rest.len() as u64);
            assert_eq!(bench.form().1, replayed);
            bench.work();
            assert_eq!(bench.counters(interval_task(1)).aggregated, 12);
            bench.assert_no_reports();
        }
    }
}

#[test]
fn the_power_may_go_while_the_store_is_opened() {
    let all = padded_reports(12);
    for seed in 0..20 {
        for operations in 0..8 {
            let mut bench = Bench::seeded(Kind::SqlitePowerless, seed).unwrap();
            fill(&**bench.store(), &all[..8]);
            bench.files().cut_power_after(1);
            let torn = all[8..].iter().map(Report::upload).collect();
            assert!(block_on(bench.store().accept_reports(torn)).is_err());
            bench.restart_interrupted(operations);
            bench.restart();
            let found = decoded(&backlog(&**bench.store()).unwrap());
            assert_eq!(found[..8], all[..8]);
            assert_eq!(found[8..], all[8..found.len()]);
        }
    }
}

#[test]
fn what_a_killed_process_left_is_synced_before_it_is_used() {
    let all = padded_reports(12);
    for seed in 0..10 {
        for operations in 0..14 {
            let mut bench = Bench::seeded(Kind::SqlitePowerless, seed).unwrap();
            bench.files().cut_power_after(operations);
            for report in &all {
                let upload = block_on(bench.store().accept_reports(vec![report.upload()]));
                if upload.is_err() {
                    break;
                }
            }
            // Written, not synced, not acknowledged: it may be used, but then it must stay.
            bench.restart_process();
            let found = decoded(&backlog(&**bench.store()).unwrap());
            bench.form();
            bench.restart();
            bench.work();
            assert_eq!(bench.counters(interval_task(1)).aggregated, found.len() as u64);
        }
    }
}

#[test]
fn a_damaged_segment_is_an_error_and_nothing_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let all = padded_reports(12);
    let store = SqliteStore::open(dir.path(), options()).unwrap();
    fill(&store, &all);
    drop(store);
    let paths = segments(dir.path());
    assert!(paths.len() > 3);
    for path in &paths {
        let bytes = std::fs::read(path).unwrap();
        // In the header, and in the first report, after which others were synced.
        for offset in [20, 120, 300] {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 1;
            std::fs::write(path, damaged).unwrap();
            let found = SqliteStore::open(dir.path(), options()).and_then(|store| backlog(&store));
            let Err(StoreError::Backend(why)) = found else { panic!("damage went unnoticed") };
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(why.contains(&*name), "{why}");
        }
        std::fs::remove_file(path).unwrap();
        let found = SqliteStore::open(dir.path(), options()).and_then(|store| backlog(&store));
        let is_last = Some(path) == paths.last();
        assert!(found.is_err() || is_last, "a missing segment went unnoticed");
        std::fs::write(path, bytes).unwrap();
    }
    let store = SqliteStore::open(dir.path(), options()).unwrap();
    assert_eq!(decoded(&backlog(&store).unwrap()), all);
}

#[test]
fn segments_of_another_store_are_refused() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for dir in &dirs {
        fill(&SqliteStore::open(dir.path(), options()).unwrap(), &padded_reports(3));
    }
    let [ours, theirs] = dirs.each_ref().map(|dir| segments(dir.path()).remove(0));
    std::fs::copy(theirs, &ours).unwrap();
    let refused = SqliteStore::open(dirs[0].path(), options());
    assert!(matches!(refused, Err(StoreError::Backend(_))), "{refused:?}");
}

#[test]
fn ids_go_with_a_collected_interval() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(dir.path(), options()).unwrap();
    let task = interval_task(1);
    for (time, request) in [(10, "inside"), (11, "outside")] {
        let commit = commit_of(&reports(task, 0..40, time), None, "response");
        run(store.commit_helper_job(task, digest(request), commit));
    }
    assert_eq!(run(store.report_ids()), 80);
    let mut checksum = ReportIdChecksum::default();
    (0..40).for_each(|cell| checksum.add(&report(task, cell, 10).id));
    let selector = BatchSelector::TimeInterval(interval(10, 1));
    let expected = (40, *checksum.as_bytes());
    run(store.collect_batch(task, selector, expected, digest("share"), Vec::new().into()));
    // They are deleted between the following calls.
    for _ in 0..16 {
        run(store.put_task(task, StoredTask::Announced(Vec::new())));
    }
    assert_eq!(run(store.report_ids()), 40);
}

/// The disk under test really forgets; otherwise the suite would prove nothing.
#[test]
fn the_forgetful_disk_forgets() {
    let files = ForgetfulFiles::new(1);
    let synced = files.create("synced").unwrap();
    synced.write_at(b"kept", 0).unwrap();
    synced.sync().unwrap();
    files.sync_names().unwrap();
    synced.write_at(&[7; 1_000], 4).unwrap();
    files.create("unsynced").unwrap().write_at(b"gone", 0).unwrap();
    let mut is_forgotten = [false; 2];
    for _ in 0..50 {
        let files = Arc::new(files.clone()).restart();
        let mut kept = [0; 4];
        assert_eq!(files.open("synced").unwrap().read_at(&mut kept, 0).unwrap(), 4);
        assert_eq!(kept, *b"kept");
        is_forgotten[0] |= files.open("unsynced").is_err();
        is_forgotten[1] |= files.open("synced").unwrap().len().unwrap() < 1_004;
    }
    assert_eq!(is_forgotten, [true; 2]);
    assert!(synced.sync().is_err(), "a file of the time before the power went");
}
