//! What a log accepts and what it rejects.

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::note::NoteKey;
use sotto_protocol::log::admit::{AdmissionRules, Refused, Signers, check_entry};
use sotto_testing::arbitrary;
use sotto_wire::{Entry, EntryKind, Recipe};

use crate::tlog::party::*;

fn open_rules() -> AdmissionRules {
    AdmissionRules { origin: ORIGIN.to_owned(), signers: Signers::InsecureOpen }
}

fn listed(keys: &[&NoteKey]) -> AdmissionRules {
    let keys = keys.iter().map(|key| signer(key).key).collect::<BTreeSet<_>>();
    AdmissionRules { origin: ORIGIN.to_owned(), signers: Signers::Listed(keys) }
}

fn recipe(author: &NoteKey) -> Recipe {
    let mut recipe = arbitrary::recipe(&mut ChaCha20Rng::seed_from_u64(8));
    recipe.author = signer(author);
    recipe.parties.log = ORIGIN.to_owned();
    recipe
}

fn signed(recipe: &Recipe, keys: &[&NoteKey]) -> Entry {
    valid_entry(EntryKind::Recipe, &recipe.to_json(), keys)
}

#[test]
fn the_author_alone_signs_a_recipe() {
    let (author, other) = (key("author.example"), key("other.example"));
    let recipe = recipe(&author);
    assert_eq!(check_entry(&open_rules(), &signed(&recipe, &[&author])), Ok(()));
    let missing = Err(Refused::Signature("author.example".to_owned()));
    assert_eq!(check_entry(&open_rules(), &signed(&recipe, &[&other])), missing);
    let extra = signed(&recipe, &[&author, &other]);
    assert_eq!(check_entry(&open_rules(), &extra), Err(Refused::ExtraSignature));
    let twice = signed(&recipe, &[&author, &author]);
    assert_eq!(check_entry(&open_rules(), &twice), Err(Refused::ExtraSignature));
    // The same name with another key is another party.
    let impostor = NoteKey::from_seed(author.name().clone(), sotto_crypto::Secret::new([99; 32]));
    assert_eq!(check_entry(&open_rules(), &signed(&recipe, &[&impostor])), missing);
}

#[test]
fn a_recipe_names_the_log_it_is_for() {
    let author = key("author.example");
    let mut recipe = recipe(&author);
    recipe.parties.log = "elsewhere.example".to_owned();
    let refused = check_entry(&open_rules(), &signed(&recipe, &[&author]));
    assert_eq!(refused, Err(Refused::OtherLog("elsewhere.example".to_owned())));
}

#[test]
fn both_operators_sign_a_result() {
    let (leader, helper) = (key("leader.example"), key("helper.example"));
    let good = result(3);
    let json = good.json().as_bytes().to_vec();
    assert_eq!(check_entry(&listed(&[&leader, &helper]), &good), Ok(()));
    let alone = valid_entry(EntryKind::Result, &json, &[&leader]);
    let missing = Err(Refused::Signature("helper.example".to_owned()));
    assert_eq!(check_entry(&open_rules(), &alone), missing);
    let unknown = Err(Refused::NotListed("helper.example".to_owned()));
    assert_eq!(check_entry(&listed(&[&leader]), &good), unknown);
}

#[test]
fn strangers_have_no_entries() {
    let (author, other) = (key("author.example"), key("other.example"));
    let entry = signed(&recipe(&author), &[&author]);
    assert_eq!(check_entry(&listed(&[&other, &author]), &entry), Ok(()));
    let refused = check_entry(&listed(&[&other]), &entry);
    assert_eq!(refused, Err(Refused::NotListed("author.example".to_owned())));
}
