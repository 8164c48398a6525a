//! Damage is detected, named, and never built upon.

use std::fs;
use std::path::Path;

use sotto_protocol::log::{Reader, ReaderError, admit::Held};
use sotto_store::{FolderFetch, LogDir, LogDirError};
use sotto_wire::Checkpoint;

use crate::tlog::party::*;

const SIZE: u64 = 700;

fn grown() -> tempfile::TempDir {
    let folder = folder();
    let mut log = open(folder.path());
    append(&mut log, &results(0..300), 1).unwrap();
    append(&mut log, &results(300..SIZE), 2).unwrap();
    folder
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    // Near the beginning: in a tile this is a hash that the proof of an entry in another tile
    // needs.
    bytes[5] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn fsck_names_every_damaged_file() {
    let folder = grown();
    let public = folder.path().join("public");
    assert_clean(folder.path());
    let id = result(17).id().to_string();
    let by_id = format!("by-id/{}", &id[..4]);
    for path in [
        "tile/0/000",
        "tile/0/002.p/188",
        "tile/1/000.p/2",
        "tile/entries/001",
        "tile/entries/002.p/188",
        "first/000",
        "first/002",
        "checkpoint",
        &by_id,
    ] {
        let file = public.join(path);
        let good = fs::read(&file).unwrap();
        for removed in [false, true] {
            match removed {
                true => fs::remove_file(&file).unwrap(),
                false => flip(&file),
            }
            let found = check(folder.path());
            let name = path.split('/').next().unwrap();
            let named = found.differences.iter().any(|difference| difference.contains(name));
            let entry = found.differences.iter().any(|difference| difference.contains("entry"));
            assert!(named || entry, "{path}: {:?}", found.differences);
            fs::write(&file, &good).unwrap();
        }
    }
    for stray in ["tile/0/003", "tile/entries/002.p/200", "first/003", "by-id/00g0", "note.txt"] {
        fs::write(public.join(stray), b"x").unwrap();
        let found = check(folder.path());
        assert!(found.differences.iter().any(|line| line.starts_with(stray)), "{found:?}");
        fs::remove_file(public.join(stray)).unwrap();
    }
    assert_clean(folder.path());
}

#[test]
fn fsck_counts_what_it_does_not_say() {
    let folder = folder();
    append(&mut open(folder.path()), &results(0..1100), 1).unwrap();
    fs::remove_dir_all(folder.path().join("public/by-id")).unwrap();
    fs::create_dir(folder.path().join("public/by-id")).unwrap();
    let found = check(folder.path());
    assert_eq!((found.differences.len(), found.more), (1000, 100));
}

#[test]
fn rows_are_made_anew_when_they_are_lost_or_damaged() {
    let folder = grown();
    let by_id = folder.path().join("public/by-id");
    let names = folder.path().join("state/names");
    let file = by_id.join(&result(5).id().to_string()[..4]);
    for round in 0..5 {
        match round {
            0 => fs::remove_file(&file).unwrap(),
            1 => flip(&file),
            2 => fs::remove_dir_all(&by_id).unwrap(),
            3 => fs::write(by_id.join("strange"), b"").unwrap(),
            _ => fs::write(names.join("0000"), [0; 40]).unwrap(),
        }
        let log = open(folder.path());
        for index in 0..SIZE {
            assert_eq!(log.index_of(&result(index).id()).unwrap(), Some(index), "round {round}");
        }
        assert_clean(folder.path());
    }
}

#[test]
fn a_log_does_not_go_on_from_damaged_files() {
    for path in ["public/tile/0/002.p/188", "public/tile/1/000.p/2", "state/pending"] {
        let folder = grown();
        flip(&folder.path().join(path));
        let error = LogDir::open(folder.path(), log_key()).unwrap_err();
        let refused = matches!(error, LogDirError::Damaged(_) | LogDirError::OtherKey);
        assert!(refused, "{path}: {error}");
    }
}

#[test]
fn a_lost_or_older_state_is_no_ground_to_sign_on() {
    let folder = folder();
    let mut log = open(folder.path());
    append(&mut log, &results(0..3), 1).unwrap();
    let older = fs::read(folder.path().join("state/pending")).unwrap();
    append(&mut log, &results(3..9), 2).unwrap();
    drop(log);
    let pending = folder.path().join("state/pending");
    fs::write(&pending, older).unwrap();
    assert!(matches!(LogDir::open(folder.path(), log_key()), Err(LogDirError::Damaged(_))));
    fs::remove_file(&pending).unwrap();
    assert!(matches!(LogDir::open(folder.path(), log_key()), Err(LogDirError::Damaged(_))));
}

#[test]
fn a_reader_takes_no_entry_from_damaged_tiles() {
    // The leaf tile beside a bundle is not read: entries are proved by their own hashes.
    for path in ["tile/entries/001", "tile/1/000.p/2", "tile/0/002.p/188"] {
        let folder = grown();
        let public = folder.path().join("public");
        let mut reader = Reader::new(FolderFetch::new(&public));
        let note = reader.checkpoint().unwrap().unwrap();
        let tree = Checkpoint::parse(note.text()).unwrap();
        flip(&public.join(path));
        let mut reader = Reader::new(FolderFetch::new(&public));
        let found = reader.entry(300, &tree);
        let refused = matches!(
            found,
            Err(ReaderError::Mismatch(_) | ReaderError::Malformed { .. } | ReaderError::Missing(_))
        );
        assert!(refused, "{path}: {found:?}");
    }
}
