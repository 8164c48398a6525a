//! What the log accepts, and from whom.

use std::collections::BTreeSet;

use futures_join::join_all;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use reqwest::StatusCode;
use sotto_crypto::note::NoteKey;
use sotto_testing::arbitrary;
use sotto_wire::{EntryKind, Note, Receipt, Recipe, Role};

use crate::log::harness::{WitnessedLog, entry, key, problem, signer};

#[tokio::test(flavor = "multi_thread")]
async fn the_same_bytes_have_one_place() {
    let mut world = WitnessedLog::new(21).await;
    let (one, other) = (world.entry(), world.entry());
    let proof = world.publish(&one).await;
    world.publish(&other).await;
    assert_eq!(world.publish(&one).await, proof);
    world.stop_log().await;
    world.start_log().await;
    assert_eq!(world.publish(&one).await, proof);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_submit_at_once() {
    let mut world = WitnessedLog::new(22).await;
    let first = world.entry();
    world.publish(&first).await;
    let entries: Vec<Vec<u8>> = (0..40).map(|_| world.entry()).collect();
    let submissions = entries.iter().chain(&entries[..10]).map(|entry| world.publish(entry));
    let proofs = join_all(submissions).await;
    let indices: BTreeSet<u64> = proofs.iter().map(|proof| proof.index).collect();
    assert_eq!(indices, (1..=40).collect());
    for (one, again) in proofs[..10].iter().zip(&proofs[40..]) {
        assert_eq!(one.index, again.index);
    }
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_signed_entry_is_refused() {
    let mut world = WitnessedLog::new(23).await;
    let good = world.entry();
    let unsigned = Note::parse(&good).unwrap().text().to_owned().into_bytes();
    let mut torn = good.clone();
    torn.truncate(good.len() / 2);
    for garbage in [&b""[..], b"garbage", &[0xff; 1000], &torn, &unsigned] {
        assert_eq!(world.submit(garbage).await.status(), StatusCode::BAD_REQUEST);
    }
    // The log answers without reading all of it and closes: the answer may be lost if the client is
    // still writing.
    let oversized = vec![b'a'; 64 * 1024 + 1];
    let mut refused = world.try_submit(&oversized).await;
    for _ in 0..50 {
        if refused.is_err() {
            refused = world.try_submit(&oversized).await;
        }
    }
    assert_eq!(refused.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    // Connections that are about to be closed must not be used again.
    world.http = crate::background::client(None);

    // Signed by somebody else under the author's name, and by somebody in addition to the author.
    let recipe = world.recipe();
    let forger = key("forger.example");
    let forged = entry(&recipe, &forger);
    assert_eq!(problem(world.submit(&forged).await).await.0, StatusCode::FORBIDDEN);
    let note = Note::parse(&entry(&recipe, &world.author)).unwrap();
    let extra = note.clone().with_signature(forger.sign(note.text())).to_bytes();
    assert_eq!(problem(world.submit(&extra).await).await.0, StatusCode::BAD_REQUEST);

    let mut stranger = world.recipe();
    stranger.author = signer(&forger);
    let (status, detail) = problem(world.submit(&entry(&stranger, &forger)).await).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(detail.contains("forger.example may not"), "{detail}");

    let mut elsewhere = world.recipe();
    elsewhere.parties.log = "other.example".to_owned();
    let (status, _) = problem(world.submit(&entry(&elsewhere, &world.author)).await).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);

    // None of this took an index.
    assert_eq!(world.publish(&good).await.index, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_given_once() {
    let mut world = WitnessedLog::new(24).await;
    // Rounds of a series have the name of their header.
    let mut named = || loop {
        let recipe = world.recipe();
        if recipe.round().is_none() {
            return recipe;
        }
    };
    let (recipe, mut second) = (named(), named());
    second.name.clone_from(&recipe.name);
    let (recipe, second) = (entry(&recipe, &world.author), entry(&second, &world.author));
    // In the same batch, and later.
    let both = join_all([&recipe, &second].map(|entry| world.submit(entry))).await;
    let mut statuses: Vec<StatusCode> = both.iter().map(reqwest::Response::status).collect();
    statuses.sort();
    assert_eq!(statuses, [StatusCode::OK, StatusCode::CONFLICT]);
    let taken =
        if both[0].status() == StatusCode::OK { (recipe, second) } else { (second, recipe) };
    assert_eq!(problem(world.submit(&taken.1).await).await.0, StatusCode::CONFLICT);
    assert_eq!(world.publish(&taken.0).await.index, 0);
    world.stop().await;
}

/// Runs futures at once on this task; the servers have their own threads.
mod futures_join {
    pub(super) async fn join_all<F: Future>(
        futures: impl IntoIterator<Item = F>,
    ) -> Vec<F::Output> {
        let mut futures: Vec<_> = futures.into_iter().map(|future| Box::pin(future)).collect();
        let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
        std::future::poll_fn(|cx| {
            for (future, done) in futures.iter_mut().zip(&mut done) {
                if done.is_none()
                    && let std::task::Poll::Ready(output) = future.as_mut().poll(cx)
                {
                    *done = Some(output);
                }
            }
            match done.iter().all(Option::is_some) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
        done.into_iter().flatten().collect()
    }
}

/// Operators may say what they released, of recipes that are in the log and name them, and each
/// number once.
#[tokio::test(flavor = "multi_thread")]
async fn receipts_are_for_public_recipes_of_their_operator() {
    let mut world = WitnessedLog::new(26).await;
    // The only one who is listed.
    let operator = key("author.example");
    let mut recipe = world.recipe();
    recipe.parties.leader.operator = operator.name().clone();
    let receipt = |recipe: &Recipe, role: Role, seq: u64| {
        let receipt = Receipt { recipe: recipe.id(), role, seq, ..receipt_of(&operator) };
        sotto_testing::log::entry(EntryKind::Receipt, &receipt.to_json(), &[&operator])
    };
    let first = receipt(&recipe, Role::Leader, 1);
    let (status, detail) = problem(world.submit(&first).await).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(detail.contains("not in this log"), "{detail}");
    world.publish(&entry(&recipe, &world.author)).await;
    // Its id is found a moment later.
    let proof = world.publish_eventually(&first).await;
    assert_eq!((proof.index, world.publish(&first).await), (1, proof));

    let (status, detail) = problem(world.submit(&receipt(&recipe, Role::Helper, 2)).await).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(detail.contains("another operator as its helper"), "{detail}");
    let stranger = key("stranger.example");
    let theirs = Receipt { recipe: recipe.id(), role: Role::Leader, ..receipt_of(&stranger) };
    let theirs = sotto_testing::log::entry(EntryKind::Receipt, &theirs.to_json(), &[&stranger]);
    let (status, detail) = problem(world.submit(&theirs).await).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(detail.contains("stranger.example may not have entries"), "{detail}");

    assert_eq!(world.publish(&receipt(&recipe, Role::Leader, 3)).await.index, 2);
    let (status, detail) = problem(world.submit(&receipt(&recipe, Role::Leader, 2)).await).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(detail.contains("receipt with this or a higher"), "{detail}");
    world.stop().await;
}

fn receipt_of(operator: &NoteKey) -> Receipt {
    let receipt = arbitrary::receipt(&mut ChaCha20Rng::seed_from_u64(1));
    Receipt { operator: signer(operator), seq: 1, ..receipt }
}
