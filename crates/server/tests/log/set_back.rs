//! A log whose folder is older than what its witnesses have seen must stop.

use std::collections::BTreeSet;
use std::fs;

use reqwest::StatusCode;
use sotto_crypto::merkle::empty_root;
use sotto_store::LogDir;
use sotto_wire::{Checkpoint, Note};

use crate::log::harness::{ORIGIN, WitnessedLog, copy_folder, key, problem};

/// A world whose log was at size 1 when its folder was copied and is now at size 3, and stopped.
/// Also returns the texts of all checkpoints that it published.
async fn world_with_copy(seed: u64) -> (WitnessedLog, BTreeSet<String>) {
    let mut world = WitnessedLog::new(seed).await;
    let mut texts = BTreeSet::new();
    texts.insert(Checkpoint::new(ORIGIN, 0, empty_root()).to_text());
    let first = world.entry();
    texts.insert(world.publish(&first).await.checkpoint.text().to_owned());
    world.stop_log().await;
    copy_folder(&world.log_folder(), &world.folder.path().join("copy"));
    world.start_log().await;
    for _ in 0..2 {
        let entry = world.entry();
        texts.insert(world.publish(&entry).await.checkpoint.text().to_owned());
    }
    world.stop_log().await;
    (world, texts)
}

fn restore(world: &WitnessedLog) {
    fs::remove_dir_all(world.log_folder()).unwrap();
    fs::rename(world.folder.path().join("copy"), world.log_folder()).unwrap();
}

async fn refuses_for_good(world: &mut WitnessedLog) {
    world.halted().await;
    let entry = world.entry();
    let (status, detail) = problem(world.submit(&entry).await).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(detail.contains("stopped for good"), "{detail}");
}

/// What each witness has stored.
fn witnessed(world: &WitnessedLog) -> Vec<Note> {
    let mut notes = Vec::new();
    for name in crate::log::harness::WITNESSES {
        for file in fs::read_dir(world.folder.path().join(name)).unwrap() {
            let path = file.unwrap().path().join("checkpoint");
            notes.extend(fs::read(path).ok().map(|bytes| Note::parse(&bytes).unwrap()));
        }
    }
    notes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_from_an_old_copy_halts() {
    let (mut world, texts) = world_with_copy(41).await;
    restore(&world);
    world.start_log().await;
    refuses_for_good(&mut world).await;
    // Reading still works.
    let note = world.checkpoint().await;
    assert_eq!(Checkpoint::parse(note.text()).unwrap().size, 1);
    // A restart does not help, not even without witnesses.
    world.stop_log().await;
    for number in 0..3 {
        world.witnesses[number].stop().await;
    }
    world.start_log().await;
    refuses_for_good(&mut world).await;
    // No witness has cosigned anything outside of the one history.
    let witnessed = witnessed(&world);
    assert_eq!(witnessed.len(), 3);
    assert!(witnessed.iter().all(|note| texts.contains(note.text())), "{witnessed:?}");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_lost_its_folder_halts() {
    let (mut world, _) = world_with_copy(42).await;
    fs::remove_dir_all(world.log_folder()).unwrap();
    world.start_log().await;
    refuses_for_good(&mut world).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_was_set_back_signs_nothing_before_it_has_heard_its_witnesses() {
    let (mut world, _) = world_with_copy(43).await;
    restore(&world);
    for number in 0..3 {
        world.witnesses[number].stop().await;
    }
    world.start_log().await;
    let entry = world.entry();
    assert_eq!(world.submit(&entry).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    // One witness that knows is enough.
    world.witnesses[2].start().await;
    refuses_for_good(&mut world).await;
    world.stop_log().await;
    let dir = LogDir::open(&world.log_folder(), key(ORIGIN)).unwrap();
    assert_eq!(dir.signed_size(), 1);
    drop(dir);
    world.start_log().await;
    world.stop().await;
}
