//! Appends, duplicates, names, first checkpoints and the lock.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::merkle::{leaf_hash, verify_consistency};
use sotto_crypto::note::verify_proof;
use sotto_protocol::log::admit::{
    AdmissionRules, AdmitError, Admitted, Held, Refused, Signers, admit,
};
use sotto_protocol::log::witnessing::Halt;
use sotto_protocol::log::{Reader, ReaderError};
use sotto_store::{FolderFetch, LogDirError, Placed};
use sotto_testing::arbitrary;
use sotto_wire::{Checkpoint, Entry, EntryKind, TlogProof};

use crate::tlog::party::*;

#[test]
fn appended_entries_are_read_back_and_proved() {
    let folder = folder();
    let mut log = open(folder.path());
    let mut size = 0;
    for (time, count) in [1, 254, 1, 1, 255, 300, 7, 512].into_iter().enumerate() {
        let staged = append(&mut log, &results(size..size + count), 100 + time as u64).unwrap();
        assert_eq!(new_indices(&staged.placed), (size..size + count).collect::<Vec<_>>());
        size += count;
        assert_eq!((staged.size, log.signed_size()), (size, size));
    }
    assert_clean(folder.path());
    let mut reader = Reader::new(FolderFetch::new(log.public()));
    let note = reader.checkpoint().unwrap().unwrap();
    let tree = Checkpoint::parse(note.text()).unwrap();
    assert_eq!(tree.size, size);
    let entries = reader.entries(0..size, &tree).unwrap();
    for (bytes, index) in entries.iter().zip(0..) {
        assert_eq!(*bytes, result(index).to_bytes());
    }
    for index in [0, 1, 255, 256, 511, 512, 1000, size - 1] {
        assert_eq!(reader.find(&result(index).id()).unwrap(), Some(index));
        assert_eq!(reader.entry(index, &tree).unwrap(), result(index).to_bytes());
        let proof = reader.proof(index, &note).unwrap();
        let proof = TlogProof::parse(&proof.to_bytes()).unwrap();
        let leaf = leaf_hash(&result(index).to_bytes());
        assert!(verify_proof(&leaf, &proof, &policy()).is_ok());
        assert!(verify_proof(&leaf_hash(b"other"), &proof, &policy()).is_err());
    }
    assert_eq!(reader.find(&result(size).id()).unwrap(), None);
    assert!(matches!(reader.entry(size, &tree), Err(ReaderError::OutOfRange(_))));
}

#[test]
fn the_first_checkpoint_of_an_entry_keeps_its_time() {
    let folder = folder();
    let mut log = open(folder.path());
    let sizes = [3_u64, 4, 300, 300, 301, 600];
    let mut size = 0;
    for (time, next) in sizes.into_iter().enumerate() {
        append(&mut log, &results(size..next), 1000 + time as u64).unwrap();
        size = next;
    }
    assert_clean(folder.path());
    let mut reader = Reader::new(FolderFetch::new(log.public()));
    let first = |index: u64| sizes.into_iter().position(|size| size > index).unwrap();
    for index in 0..size {
        let note = reader.first_checkpoint(index).unwrap();
        let leaf = leaf_hash(&result(index).to_bytes());
        let proof = reader.proof(index, &note).unwrap();
        let verified = verify_proof(&leaf, &proof, &policy()).unwrap();
        assert_eq!(verified.checkpoint.size, sizes[first(index)]);
        assert_eq!(verified.quorum.unwrap().proven, 1000 + first(index) as u64, "entry {index}");
    }
}

#[test]
fn every_pair_of_published_sizes_is_consistent() {
    let folder = folder();
    let mut log = open(folder.path());
    let mut trees = Vec::new();
    let mut size = 0;
    for count in [0, 5, 251, 1, 700, 65] {
        let staged = append(&mut log, &results(size..size + count), 1).unwrap();
        size += count;
        trees.push(Checkpoint::parse(staged.note.text()).unwrap());
    }
    for (place, old) in trees.iter().enumerate() {
        for new in &trees[place..] {
            let proof = log.consistency(old.size, new.size).unwrap();
            verify_consistency(old.size, &old.root, new.size, &new.root, &proof).unwrap();
        }
    }
    assert!(log.consistency(5, size + 1).is_err());
}

#[test]
fn an_id_is_held_once_and_a_name_given_once() {
    let folder = folder();
    let author = key("author.example");
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let mut recipe = arbitrary::recipe(&mut rng);
    recipe.author = signer(&author);
    recipe.parties.log = ORIGIN.to_owned();
    let recipe_entry =
        |recipe: &sotto_wire::Recipe| valid_entry(EntryKind::Recipe, &recipe.to_json(), &[&author]);
    let first = recipe_entry(&recipe);
    recipe.purpose = "Another purpose.".to_owned();
    let same_name = recipe_entry(&recipe);
    recipe.name = format!("{}-2", recipe.name);
    let renamed = recipe_entry(&recipe);
    let mut set = arbitrary::key_set(&mut rng);
    set.operator = signer(&author);
    let mut key_set = |seq: u64| {
        set.seq = seq;
        valid_entry(EntryKind::KeySet, &set.to_json(), &[&author])
    };
    let rules = AdmissionRules { origin: ORIGIN.to_owned(), signers: Signers::InsecureOpen };
    let outdated = |log: &sotto_store::LogDir, entry: &Entry| {
        matches!(admit(&rules, entry, log), Err(AdmitError::Refused(Refused::Outdated)))
    };
    let (first_set, set_3, set_4) = (key_set(2), key_set(3), key_set(4));

    let mut log = open(folder.path());
    let batch = [first.clone(), first.clone(), same_name.clone(), set_3.clone(), first_set.clone()];
    let placed = append(&mut log, &batch, 1).unwrap().placed;
    let expected =
        [Placed::New(0), Placed::Known(0), Placed::Outdated, Placed::New(1), Placed::Outdated];
    assert_eq!(placed, expected);
    for restarted in [false, true] {
        if restarted {
            drop(log);
            log = open(folder.path());
        }
        assert_eq!(admit(&rules, &first, &log).unwrap(), Admitted::Known(0));
        assert_eq!(admit(&rules, &renamed, &log).unwrap(), Admitted::New);
        assert_eq!(admit(&rules, &set_4, &log).unwrap(), Admitted::New);
        assert!(outdated(&log, &same_name) && outdated(&log, &first_set));
    }
    let placed = append(&mut log, &[same_name, set_4.clone(), set_3.clone(), renamed], 2);
    let expected = [Placed::Outdated, Placed::New(2), Placed::Known(1), Placed::New(3)];
    assert_eq!(placed.unwrap().placed, expected);
    drop(log);
    let log = open(folder.path());
    assert_eq!(log.index_of(&set_4.id()).unwrap(), Some(2));
    assert!(outdated(&log, &first_set));
    assert_clean(folder.path());
}

#[test]
fn one_process_at_a_time() {
    let folder = folder();
    let log = open(folder.path());
    let second = sotto_store::LogDir::open(folder.path(), log_key());
    assert!(matches!(second, Err(LogDirError::Locked)));
    drop(log);
    open(folder.path());
    let other = sotto_store::LogDir::open(folder.path(), key("other.example"));
    assert!(other.is_ok(), "an empty folder belongs to nobody");
}

#[test]
fn a_folder_belongs_to_its_key() {
    let folder = folder();
    append(&mut open(folder.path()), &results(0..2), 1).unwrap();
    let other = sotto_store::LogDir::open(folder.path(), key("other.example"));
    assert!(matches!(other, Err(LogDirError::OtherKey)));
}

#[test]
fn nothing_is_staged_on_an_unpublished_checkpoint() {
    let folder = folder();
    let mut log = open(folder.path());
    let staged = log.stage(&results(0..3)).unwrap();
    assert!(matches!(log.stage(&results(3..4)), Err(LogDirError::Unpublished)));
    drop(log);
    let mut log = open(folder.path());
    let pending = log.pending().unwrap();
    assert_eq!((&pending.note, pending.from, pending.size), (&staged.note, 0, 3));
    assert_eq!(log.index_of(&result(1).id()).unwrap(), Some(1));
    let other = open(&folder.path().join("other")).stage(&results(1..4)).unwrap();
    let wrong = log.publish(&cosign(&other.note, 1));
    assert!(matches!(wrong, Err(LogDirError::NotPending)), "another tree of the same size");
    log.publish(&cosign(&staged.note, 1)).unwrap();
    log.write_index().unwrap();
    assert!(log.pending().is_none());
    std::fs::remove_dir_all(folder.path().join("other")).unwrap();
    assert_clean(folder.path());
}

#[test]
fn cosignatures_are_renewed_without_an_append() {
    let folder = folder();
    let mut log = open(folder.path());
    append(&mut log, &results(0..300), 10).unwrap();
    let staged = append(&mut log, &[], 20).unwrap();
    assert_eq!(staged.size, 300);
    let mut reader = Reader::new(FolderFetch::new(log.public()));
    let newest = |note| sotto_crypto::note::quorum(&note, &policy()).unwrap().newest;
    assert_eq!(newest(reader.checkpoint().unwrap().unwrap()), 20);
    assert_eq!(newest(reader.first_checkpoint(299).unwrap()), 10);
    assert_clean(folder.path());
}

#[test]
fn a_halted_log_stays_halted() {
    let folder = folder();
    let mut log = open(folder.path());
    append(&mut log, &results(0..3), 1).unwrap();
    log.halt(&Halt::SetBack { seen: 9, signed: 3 }).unwrap();
    for _ in 0..2 {
        assert!(matches!(log.stage(&results(3..4)), Err(LogDirError::Halted(_))));
        assert!(log.halted().unwrap().contains("size 9"));
        drop(log);
        log = open(folder.path());
    }
    assert_eq!(log.consistency(1, 3).unwrap().len(), 2);
}

#[test]
fn incomplete_tiles_go_once_they_are_complete() {
    let folder = folder();
    let mut log = open(folder.path());
    append(&mut log, &results(0..100), 100).unwrap();
    append(&mut log, &results(100..101), 101).unwrap();
    for index in 101..260 {
        append(&mut log, &[result(index)], index).unwrap();
    }
    let public = folder.path().join("public");
    assert!(public.join("tile/0/000").is_file() && public.join("tile/entries/000").is_file());
    assert!(!public.join("tile/0/000.p").exists() && !public.join("tile/entries/000.p").exists());
    assert!(public.join("tile/0/001.p/4").is_file());
    // A reader of an old checkpoint falls back to the full tile.
    let mut reader = Reader::new(FolderFetch::new(&public));
    let note = reader.first_checkpoint(100).unwrap();
    let tree = Checkpoint::parse(note.text()).unwrap();
    assert_eq!(tree.size, 101);
    assert_eq!(reader.entry(100, &tree).unwrap(), result(100).to_bytes());
    assert_clean(folder.path());
}
