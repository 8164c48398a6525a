//! An author who tries to sign tokens without the issuer.

use std::fs;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_crypto::note::NoteKey;
use sotto_protocol::admission::Admitted;
use sotto_protocol::client::produce_report;
use sotto_protocol::recipe::derive_task;
use sotto_tests::http::{Connection, Response, head};
use sotto_tests::token_services::ISSUERS;
use sotto_tests::world::{LEADER_TOKEN, World};
use sotto_vdaf::Measurement;
use sotto_wire::recipe::{EndorsedKey, Recipe, Tokens};
use sotto_wire::{Entry, EntryKind, MediaType, Note, PublicKey, Role, taskprov};

use crate::tokens::rogue::present;
use crate::tokens::{Scene, until_equal};

const UNRECOGNIZED: &str = "urn:ietf:params:ppm:dap:error:unrecognizedTask";

fn key(world: &World, file: &str) -> NoteKey {
    let key: toml::Table = fs::read_to_string(world.path(file)).unwrap().parse().unwrap();
    let seed = URL_SAFE_NO_PAD.decode(key["seed"].as_str().unwrap()).unwrap();
    let name = key["name"].as_str().unwrap().parse().unwrap();
    NoteKey::from_seed(name, Secret::new(seed.try_into().unwrap()))
}

/// The keys of a recipe's tokens.
fn keys(recipe: &Recipe) -> (EndorsedKey, EndorsedKey) {
    match &recipe.parties.tokens {
        Tokens::RateLimited { leader, helper } => (leader.clone(), helper.clone()),
        other => panic!("{other:?}"),
    }
}

fn with_keys(recipe: &Recipe, leader: EndorsedKey, helper: EndorsedKey) -> Recipe {
    let mut recipe = recipe.clone();
    recipe.parties.tokens = Tokens::RateLimited { leader, helper };
    recipe
}

/// Recipes like `good` with keys that the issuer has not endorsed for them.
fn bad_recipes(world: &World, good: &Recipe) -> Vec<(&'static str, Recipe)> {
    let (leader, helper) = keys(good);
    let issuer = key(world, "issuer-a.key");
    let own = EndorsedKey::key_text(IssuerKey::generate().unwrap().token_key().spki());
    let stolen = EndorsedKey { public_key: own.clone(), ..leader.clone() };
    // The author's own signature, under the issuer's name.
    let seed = Secret::new([1; 32]);
    let imposter = NoteKey::from_seed(ISSUERS[0].parse().unwrap(), seed);
    let signed_himself = imposter.endorse_for(good, Role::Leader, &own, leader.expires);
    // Genuine keys that the issuer gave to another author.
    let mut theirs = good.clone();
    theirs.author.key = PublicKey::new([9; 32]);
    let of_another = issuer.endorse_for(&theirs, Role::Leader, &own, leader.expires);
    // The issuer of the leader's tokens endorses a key of the helper's, too.
    let by_one_issuer = issuer.endorse_for(good, Role::Helper, &own, leader.expires);
    let longer = EndorsedKey { expires: leader.expires + 1, ..leader.clone() };
    vec![
        ("not-endorsed", with_keys(good, stolen, helper.clone())),
        ("signed-himself", with_keys(good, signed_himself, helper.clone())),
        ("roles-changed", with_keys(good, helper.clone(), leader.clone())),
        ("one-issuer-for-both", with_keys(good, leader, by_one_issuer)),
        ("of-another-author", with_keys(good, of_another, helper.clone())),
        ("longer-life", with_keys(good, longer, helper)),
    ]
}

/// Signs and publishes it.
fn publish(world: &World, name: &str, mut recipe: Recipe) -> Recipe {
    recipe.name = name.to_owned();
    let text = Entry::text(EntryKind::Recipe, std::str::from_utf8(&recipe.to_json()).unwrap());
    let signature = key(world, "author.key").sign(&text);
    let entry = Entry::from_note(Note::new(text).unwrap().with_signature(signature)).unwrap();
    let (file, log) = (format!("{name}.signed"), world.log.url());
    fs::write(world.path(&file), entry.to_bytes()).unwrap();
    world.run_json(&["recipe", "publish", &file, "--force", "--log", &log]).unwrap();
    recipe
}

/// An aggregator's answer to a request for a task that it may not serve.
fn problem(response: &Response) -> String {
    let document: Value = serde_json::from_slice(&response.body).unwrap();
    document["type"].as_str().unwrap().to_owned()
}

/// Sends a report for a recipe's task to the leader, and a job to the helper.
fn ask_aggregators(scene: &Scene, recipe: &Recipe, good: &Admitted) {
    let task = derive_task(recipe).unwrap();
    let announced = taskprov::header_value(task.encoded_configuration());
    let (leader, helper) = (good.leader_config(), good.helper_config());
    let (measurement, time) = (Measurement::Histogram(0), present(good));
    let mut rng = <rand_chacha::ChaCha20Rng as rand_core::SeedableRng>::seed_from_u64(1);
    let report = produce_report(&task, leader, helper, &measurement, time, None, &mut rng).unwrap();
    let fields =
        [("content-type", MediaType::UploadReq.as_str()), (taskprov::HEADER, announced.as_str())];
    let path = format!("/tasks/{}/reports", task.id());
    let mut connection = Connection::open(scene.world.pair.leader.address()).unwrap();
    let response =
        connection.exchange(&head("POST", &path, &fields, report.len()), &report).unwrap();
    assert_eq!(problem(&response), UNRECOGNIZED, "{}", recipe.name);
    let bearer = format!("Bearer {LEADER_TOKEN}");
    let fields = [
        ("content-type", MediaType::AggregationJobInitReq.as_str()),
        (taskprov::HEADER, announced.as_str()),
        ("authorization", bearer.as_str()),
    ];
    let path = format!("/tasks/{}/aggregation_jobs", task.id());
    let mut connection = Connection::open(scene.world.pair.helper.address()).unwrap();
    let response = connection.exchange(&head("POST", &path, &fields, 0), &[]).unwrap();
    assert_eq!(problem(&response), UNRECOGNIZED, "{}", recipe.name);
}

#[test]
fn keys_that_the_issuer_did_not_endorse_are_refused_by_everybody() {
    let mut scene = Scene::new();
    scene.publish("commute", 4);
    scene.honest(&[5, 20]);
    let admitted = scene.admitted("commute");
    let good = admitted.assessment.recipe().clone();
    let bad: Vec<Recipe> = bad_recipes(&scene.world, &good)
        .into_iter()
        .map(|(name, recipe)| publish(&scene.world, name, recipe))
        .collect();

    // Devices request no tokens for the bad recipes and say why; the good recipe still works.
    let mut phone = scene.phone("a device");
    let done = phone.pass(50).unwrap();
    assert_eq!(phone.recipes().len(), 1 + bad.len());
    assert_eq!(done.tokens.unwrap().asked, 2);
    assert_eq!(done.considered, [good.id()]);
    for (_, silence) in &done.silent {
        assert_eq!(silence.check.name(), "token_keys", "{silence}");
    }
    assert_eq!(done.silent.len(), bad.len());

    // Leader and helper have read all of it.
    let entries = scene.world.run_json(&[
        "recipe",
        "publish",
        "longer-life.signed",
        "--force",
        "--log",
        &scene.world.log.url(),
    ]);
    let size = entries.unwrap()["index"].as_f64().unwrap() + 1.0;
    for aggregator in [&scene.world.pair.leader, &scene.world.pair.helper] {
        until_equal("entries", size, || aggregator.metric("sotto_log_entries").unwrap());
        assert_eq!(aggregator.metric("sotto_recipes_served").unwrap(), 1.0);
    }
    bad.iter().for_each(|recipe| ask_aggregators(&scene, recipe, &admitted));
    scene.honest(&[50]);
    scene.collect("commute", [1, 1, 2]);
}

/// The endorsements of a copied recipe are good: they are for the author, not for the recipe.
#[test]
fn token_keys_of_a_published_recipe_are_not_used_again() {
    let mut scene = Scene::new();
    scene.publish("commute", 2);
    let text = fs::read_to_string(scene.world.path("commute.toml")).unwrap();
    let copy = text.replace("name = \"commute\"", "name = \"copy\"");
    assert_ne!(copy, text);
    fs::write(scene.world.path("copy.toml"), copy).unwrap();
    let log = scene.world.log.url();
    let publish = |file: &str, more: &[&str]| {
        let arguments = ["recipe", "publish", file, "--signer", "author.key", "--log", &log];
        scene.world.exit_code(&[&arguments, more].concat()).unwrap()
    };
    let (code, said) = publish("copy.toml", &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("the recipe commute in the log already uses these token keys"), "{said}");
    // The recipe itself is not another one.
    let (code, said) = publish("commute.toml", &[]);
    assert_eq!(code, Some(0), "{said}");
    // If it is published all the same, nobody takes part in it.
    let (code, said) = publish("copy.toml", &["--force"]);
    assert_eq!(code, Some(0), "{said}");
    let mut phone = scene.phone("a device");
    let done = phone.pass(5).unwrap();
    assert_eq!((done.tokens.unwrap().asked, done.considered.len()), (2, 1));
    let (_, silence) = &done.silent[0];
    assert_eq!(silence.check.name(), "token_keys");
    assert!(silence.reason.contains("belong to the recipe"), "{silence}");
}
