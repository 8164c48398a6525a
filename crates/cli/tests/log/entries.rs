//! Entries for logs, dated today.

use std::time::{SystemTime, UNIX_EPOCH};

use sotto_crypto::note::NoteKey;
use sotto_protocol::recipe::judgement;
use sotto_testing::keys::{hybrid, keypair};
pub(crate) use sotto_testing::keys::{key, key_of, signer};
pub(crate) use sotto_testing::log::ORIGIN;
use sotto_testing::log::valid_entry;
pub(crate) use sotto_testing::recipe::DAY;
use sotto_testing::recipe::recipe_at;
use sotto_wire::recipe::{AttributeName, Parties, Privacy, Probability};
use sotto_wire::{Entry, EntryKind, HpkeConfig, KeySet, PopulationResult, Recipe};

/// The current time: the commands under test use the system clock.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// A histogram of four regions by randomized response, which claims exactly what its parameters
/// imply.
pub(crate) fn recipe(name: &str) -> Recipe {
    let mut recipe = recipe_at(name, now());
    recipe.attributes.remove(&"tier".parse::<AttributeName>().unwrap());
    recipe.parties.collector_hpke_config = KeySet::config_text(keypair(99).config());
    claiming(recipe, 1.0)
}

/// The recipe with a claim of `factor` times the epsilon that its parameters imply.
pub(crate) fn claiming(mut recipe: Recipe, factor: f64) -> Recipe {
    let implied = judgement(&recipe).unwrap().unwrap().epsilon;
    if let Privacy::Claim { epsilon_micro, .. } = &mut recipe.privacy {
        *epsilon_micro = ((implied * factor * 1e6).ceil() as u64).max(1);
    }
    recipe
}

/// The recipe with another sampling rate, and the claim that follows.
pub(crate) fn sampled(mut recipe: Recipe, num: u64, den: u64) -> Recipe {
    recipe.sampling.rate = Probability::new(num, den).unwrap();
    claiming(recipe, 1.0)
}

pub(crate) fn recipe_entry(recipe: &Recipe) -> Entry {
    valid_entry(EntryKind::Recipe, &recipe.to_json(), &[&key("author.example")])
}

/// The HPKE configuration with this id.
pub(crate) fn hpke(id: u64) -> HpkeConfig {
    hybrid(id as u8).config().clone()
}

/// A key set whose one key has the set's number as its id.
pub(crate) fn key_set(operator: &NoteKey, seq: u64) -> Entry {
    key_set_at(operator, seq, None)
}

/// The same of an aggregator that is not at its usual URL.
fn key_set_at(operator: &NoteKey, seq: u64, url: Option<&str>) -> Entry {
    let mut set = KeySet {
        hpke_configs: vec![KeySet::config_text(&hpke(seq))],
        ..sotto_testing::recipe::key_set(operator, seq, now() - DAY)
    };
    set.url = url.map(str::to_owned).or(set.url);
    valid_entry(EntryKind::KeySet, &set.to_json(), &[operator])
}

pub(crate) fn result(leader: &NoteKey) -> Entry {
    let result = PopulationResult {
        measured_at: now() - DAY,
        leader: signer(leader),
        ..sotto_testing::recipe::result("tier == 'gold'", 50_000)
    };
    valid_entry(EntryKind::Result, &result.to_json(), &[leader, &key("helper.example")])
}

/// The key sets that devices require.
pub(crate) fn key_sets() -> [Entry; 2] {
    [key_set(&key("leader.example"), 5), key_set(&key("helper.example"), 7)]
}

/// The key sets that devices require for this recipe.
pub(crate) fn key_sets_for(recipe: &Recipe) -> [Entry; 2] {
    let Parties { leader, helper, .. } = &recipe.parties;
    [(leader, 5), (helper, 7)].map(|(aggregator, seq)| {
        key_set_at(&key(aggregator.operator.as_str()), seq, Some(&aggregator.url))
    })
}
