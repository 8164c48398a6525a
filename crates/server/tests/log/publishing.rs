//! From a submission to a published, witnessed tree.

use std::time::Duration;

use reqwest::StatusCode;
use sotto_crypto::note;
use sotto_protocol::log::Reader;
use sotto_store::FolderFetch;
use sotto_wire::{Checkpoint, Entry, TlogPolicy};

use crate::background::eventually;
use crate::log::harness::{ORIGIN, WitnessedLog, problem};

#[tokio::test(flavor = "multi_thread")]
async fn entries_become_public_with_a_quorum() {
    let mut world = WitnessedLog::new(1).await;
    for index in 0..3 {
        let entry = world.entry();
        let proof = world.publish(&entry).await;
        assert_eq!(proof.index, index);
        let checkpoint = Checkpoint::parse(proof.checkpoint.text()).unwrap();
        assert_eq!((checkpoint.origin.as_str(), checkpoint.size), (ORIGIN, index + 1));
        // The files on disk say the same.
        let public = world.log_folder().join("public");
        let mut reader = Reader::new(FolderFetch::new(&public));
        assert_eq!(reader.checkpoint().unwrap().unwrap().text(), proof.checkpoint.text());
        assert_eq!(reader.first_checkpoint(index).unwrap(), proof.checkpoint);
        assert_eq!(reader.entry(index, &checkpoint).unwrap(), entry);
        let id = Entry::parse(&entry).unwrap().id();
        eventually("the entry is found by its id", || async {
            Reader::new(FolderFetch::new(&public)).find(&id).unwrap() == Some(index)
        })
        .await;
    }
    let (status, document) = world.log().readyz().await;
    assert_eq!((status, &document["status"]), (StatusCode::OK, &"ready".into()));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_log_has_a_cosigned_checkpoint() {
    let world = WitnessedLog::new(2).await;
    eventually("the first checkpoint is published", || async {
        let response = world.http.get(world.url("checkpoint")).send().await.unwrap();
        response.status() == StatusCode::OK
    })
    .await;
    let verified = note::verify_checkpoint(&world.checkpoint().await, &world.policy).unwrap();
    assert_eq!(verified.checkpoint.size, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_witness_may_be_away() {
    let mut world = WitnessedLog::new(3).await;
    world.witnesses[1].stop().await;
    let entry = world.entry();
    world.publish(&entry).await;
    eventually("the operator is told", || async {
        let (status, document) = world.log().readyz().await;
        let reason = &document["reasons"][0];
        status == StatusCode::OK
            && reason["name"] == "witnesses"
            && reason["detail"].as_str().is_some_and(|detail| detail.starts_with("w1: "))
    })
    .await;
    // It catches up from the size that it has.
    let (second, third) = (world.entry(), world.entry());
    world.publish(&second).await;
    world.witnesses[1].start().await;
    world.witnesses[0].stop().await;
    world.publish(&third).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_an_entry_waits_and_keeps_its_place() {
    let mut world = WitnessedLog::new(4).await;
    let (before, waits, after) = (world.entry(), world.entry(), world.entry());
    world.publish(&before).await;
    world.witnesses[0].stop().await;
    world.witnesses[2].stop().await;
    for entry in [&waits, &after, &waits] {
        let response = world.submit(entry).await;
        assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
        let (status, detail) = problem(response).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(detail.contains("witnesses"), "{detail}");
    }
    // A retry for what is already public is still answered.
    assert_eq!(world.publish(&before).await.index, 0);
    assert_eq!(Checkpoint::parse(world.checkpoint().await.text()).unwrap().size, 1);
    let (status, document) = world.log().readyz().await;
    assert_eq!((status, &document["status"]), (StatusCode::OK, &"degraded".into()));

    world.stop_log().await;
    world.start_log().await;
    assert_eq!(world.submit(&after).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    world.witnesses[0].start().await;
    assert_eq!(world.publish_eventually(&after).await.index, 2);
    assert_eq!(world.publish(&waits).await.index, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_pending_is_finished_without_another_submission() {
    let mut world = WitnessedLog::new(5).await;
    let first = world.entry();
    world.publish(&first).await;
    for number in 0..3 {
        world.witnesses[number].stop().await;
    }
    let entry = world.entry();
    assert_eq!(world.submit(&entry).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    world.stop_log().await;
    for number in 0..2 {
        world.witnesses[number].start().await;
    }
    world.start_log().await;
    eventually("the pending tree is published", || async {
        Checkpoint::parse(world.checkpoint().await.text()).unwrap().size == 2
    })
    .await;
    assert_eq!(world.publish(&entry).await.index, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_witnessed_time_moves_on() {
    let mut world = WitnessedLog::new(6).await;
    let entry = world.entry();
    let proof = world.publish(&entry).await;
    world.stop_log().await;
    let mut config = world.config();
    config.refresh = Duration::from_secs(1);
    world.start_log_with(config).await;
    let time = |note| note::quorum(&note, &world.policy).unwrap();
    let start = time(world.checkpoint().await);
    eventually("a newer time is witnessed", || async {
        let note = world.checkpoint().await;
        assert_eq!(note.text(), proof.checkpoint.text());
        time(note).proven > start.newest
    })
    .await;
    // The oldest proof of an entry proves most, and stays.
    assert_eq!(world.publish(&entry).await, proof);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_answers_those_who_wait() {
    let mut world = WitnessedLog::new(7).await;
    let entry = world.entry();
    world.publish(&entry).await;
    world.stop_log().await;
    let mut config = world.config();
    config.batch_delay = Duration::from_secs(1);
    world.start_log_with(config).await;
    let entry = world.entry();
    let submit = world.http.post(world.url("add")).body(entry.clone());
    let waiting = tokio::spawn(submit.send());
    // It waits once the sequencer has accepted it; the point is that it is accepted at all.
    tokio::time::sleep(Duration::from_millis(300)).await;
    world.log.as_mut().unwrap().begin_stop();
    let response = waiting.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(world.check(&entry, &response.bytes().await.unwrap()).index, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_about_another_log_is_refused() {
    let mut world = WitnessedLog::new(8).await;
    world.stop_log().await;
    let other = crate::log::harness::key("other.example").verifier();
    let dir =
        sotto_store::LogDir::open(&world.log_folder(), crate::log::harness::key(ORIGIN)).unwrap();
    let mut config = world.config();
    config.policy = TlogPolicy::parse(&format!("log {other}\nquorum none\n")).unwrap();
    let error = sotto_server::Log::bind(config, dir).await.unwrap_err();
    assert!(error.to_string().contains(ORIGIN), "{error}");
    world.start_log().await;
    world.stop().await;
}
