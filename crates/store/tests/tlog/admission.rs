//! What a log accepts and what it rejects.

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::note::NoteKey;
use sotto_protocol::log::admit::{
    AdmissionRules, AdmitError, Admitted, Refused, Signers, admit, check_entry,
};
use sotto_store::{LogDir, Placed};
use sotto_testing::arbitrary;
use sotto_wire::{Entry, EntryKind, Receipt, Recipe, Role};

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

/// A receipt of this operator, as the leader of a recipe.
fn receipt(recipe: &Recipe, operator: &NoteKey, seq: u64) -> Entry {
    let receipt = Receipt {
        recipe: recipe.id(),
        operator: signer(operator),
        role: Role::Leader,
        seq,
        ..arbitrary::receipt(&mut ChaCha20Rng::seed_from_u64(9))
    };
    valid_entry(EntryKind::Receipt, &receipt.to_json(), &[operator])
}

#[test]
fn an_operator_alone_signs_a_receipt() {
    let (leader, other) = (key("leader.example"), key("other.example"));
    let entry = receipt(&recipe(&key("author.example")), &leader, 1);
    assert_eq!(check_entry(&listed(&[&leader]), &entry), Ok(()));
    let unknown = Err(Refused::NotListed("leader.example".to_owned()));
    assert_eq!(check_entry(&listed(&[&other]), &entry), unknown);
    let json = entry.json().as_bytes().to_vec();
    let forged = valid_entry(EntryKind::Receipt, &json, &[&other]);
    let missing = Err(Refused::Signature("leader.example".to_owned()));
    assert_eq!(check_entry(&open_rules(), &forged), missing);
    let extra = valid_entry(EntryKind::Receipt, &json, &[&leader, &other]);
    assert_eq!(check_entry(&open_rules(), &extra), Err(Refused::ExtraSignature));
}

#[test]
fn receipts_are_for_recipes_of_the_log_and_numbered_upwards() {
    let (author, leader) = (key("author.example"), key("leader.example"));
    let mut ours = recipe(&author);
    ours.parties.leader.operator = leader.name().clone();
    let mut theirs = Recipe { name: "theirs".to_owned(), ..ours.clone() };
    theirs.parties.leader.operator = "else.example".parse().unwrap();
    let folder = folder();
    let mut log = open(folder.path());
    let decide = |log: &LogDir, entry: &Entry| match admit(&open_rules(), entry, log) {
        Ok(admitted) => Ok(admitted),
        Err(AdmitError::Refused(refused)) => Err(refused),
        Err(AdmitError::Held(error)) => panic!("{error}"),
    };
    let second = receipt(&ours, &leader, 2);
    assert_eq!(decide(&log, &second), Err(Refused::UnknownRecipe));
    append(&mut log, &[signed(&ours, &[&author]), signed(&theirs, &[&author])], 1).unwrap();
    let foreign = receipt(&theirs, &leader, 1);
    assert_eq!(decide(&log, &foreign), Err(Refused::OtherOperator(Role::Leader)));
    let no_recipe = Recipe { name: "unpublished".to_owned(), ..ours.clone() };
    let unknown = receipt(&no_recipe, &leader, 1);
    assert_eq!(decide(&log, &unknown), Err(Refused::UnknownRecipe));

    assert_eq!(decide(&log, &second), Ok(Admitted::New));
    append(&mut log, std::slice::from_ref(&second), 2).unwrap();
    drop(log);
    let mut log = open(folder.path());
    // The same again is the same entry; another one with this number, or a lower one, is none.
    assert_eq!(decide(&log, &second), Ok(Admitted::Known(2)));
    let mut other = Receipt::parse(second.json().as_bytes()).unwrap();
    other.count = if other.count == 1 { 2 } else { other.count / 2 };
    let other = valid_entry(EntryKind::Receipt, &other.to_json(), &[&leader]);
    let first = receipt(&ours, &leader, 1);
    for outdated in [&other, &first] {
        assert_eq!(decide(&log, outdated), Err(Refused::Outdated));
    }
    let placed = append(&mut log, &[first, other, receipt(&ours, &leader, 9)], 3).unwrap().placed;
    assert_eq!(placed, [Placed::Outdated, Placed::Outdated, Placed::New(3)]);
    // Others count by themselves: another operator, the same one for another recipe.
    let helper = key("helper.example");
    let mut helped = Receipt::parse(receipt(&ours, &helper, 1).json().as_bytes()).unwrap();
    helped.role = Role::Helper;
    let helped = valid_entry(EntryKind::Receipt, &helped.to_json(), &[&helper]);
    assert_eq!(decide(&log, &helped), Err(Refused::OtherOperator(Role::Helper)));
    let placed = append(&mut log, &[helped, foreign], 4).unwrap().placed;
    assert_eq!(placed, [Placed::New(4), Placed::New(5)]);
    assert_clean(folder.path());
}
