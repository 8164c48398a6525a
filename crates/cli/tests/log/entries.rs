//! Keys of fixed seeds, and entries that they sign.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::recipe::{judgement, recipe_vdaf};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeType, Parties, Privacy, Probability,
    Query, Randomizer, Sampling, Tokens, When, Who,
};
use sotto_wire::{
    BatchMode, Entry, EntryId, EntryKind, HpkeConfig, HpkeConfigId, KeySet, Note, PopulationResult,
    PublicKey, Recipe, Signer,
};

pub(crate) const DAY: u64 = 86_400;
pub(crate) const ORIGIN: &str = "log.example";

/// The commands under test have no other clock.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// The key of somebody, by name.
pub(crate) fn key(name: &str) -> NoteKey {
    key_of(name, name)
}

/// The key of `person` under another name.
pub(crate) fn key_of(person: &str, name: &str) -> NoteKey {
    NoteKey::from_seed(name.parse().unwrap(), Secret::new(Sha256::digest(person).into()))
}

pub(crate) fn signer(key: &NoteKey) -> Signer {
    Signer { name: key.name().clone(), key: PublicKey::new(*key.verifier().public_key()) }
}

fn entry(kind: EntryKind, json: Vec<u8>, signers: &[&NoteKey]) -> Entry {
    let text = Entry::text(kind, &String::from_utf8(json).unwrap());
    let note = signers
        .iter()
        .fold(Note::new(text.clone()).unwrap(), |note, key| note.with_signature(key.sign(&text)));
    Entry::from_note(note).unwrap()
}

/// A histogram of four regions by randomized response, which claims exactly what its parameters imply.
pub(crate) fn recipe(name: &str) -> Recipe {
    let query =
        Query::Histogram { buckets: 4, labels: None, mapping: "region".to_owned(), fallback: 0 };
    let aggregator = |name: &str| Aggregator {
        operator: name.parse().unwrap(),
        url: format!("https://{name}/"),
    };
    let day = now() / DAY * DAY;
    let randomizer = Randomizer::RandomizedResponse { epsilon_micro: 1_000_000 };
    let recipe = Recipe {
        version: 1,
        name: name.to_owned(),
        purpose: "How many devices are in each region.".to_owned(),
        author: signer(&key("author.example")),
        attributes: BTreeMap::from([("region".parse().unwrap(), AttributeType::Int)]),
        who: Who { population: 1_000_000, targeting: None },
        when: When { opens: day - DAY, closes: day + 5 * DAY, window_s: 3_600, max_window_s: DAY },
        sampling: Sampling { rate: Probability::new(1, 2).unwrap() },
        randomizer,
        aggregation: Aggregation {
            vdaf: recipe_vdaf(&query, &randomizer).unwrap(),
            min_batch: 5_000,
            batch_mode: BatchMode::TimeInterval,
        },
        query,
        privacy: Privacy::Claim {
            epsilon_micro: 1,
            delta: Probability::new(1, 100_000_000).unwrap(),
            adjacency: Adjacency::Replace,
            accountant: Accountant::Best,
            rounds: 1,
        },
        parties: Parties {
            leader: aggregator("leader.example"),
            helper: aggregator("helper.example"),
            collector_hpke_config: KeySet::config_text(&hpke(99)),
            log: ORIGIN.to_owned(),
            tokens: Tokens::InsecureNone,
        },
    };
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
    entry(EntryKind::Recipe, recipe.to_json(), &[&key("author.example")])
}

/// The HPKE configuration of somebody.
pub(crate) fn hpke(seed: u64) -> HpkeConfig {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    HpkeKeypair::generate(HpkeConfigId::new(seed as u8), &mut rng).config().clone()
}

/// A key set whose one key has its number as id and seed.
pub(crate) fn key_set(operator: &NoteKey, seq: u64) -> Entry {
    let set = KeySet {
        version: 1,
        operator: signer(operator),
        seq,
        not_before: now() - DAY,
        not_after: now() + 100 * DAY,
        hpke_configs: vec![KeySet::config_text(&hpke(seq))],
        gateway_configs: None,
        encapsulation_configs: None,
    };
    entry(EntryKind::KeySet, set.to_json(), &[operator])
}

pub(crate) fn result(leader: &NoteKey) -> Entry {
    let helper = key("helper.example");
    let result = PopulationResult {
        version: 1,
        recipe: EntryId::of(b"an earlier recipe"),
        predicate: "tier == 'gold'".to_owned(),
        attributes: BTreeMap::from([("tier".parse().unwrap(), AttributeType::String)]),
        population: 50_000,
        measured_at: now() - DAY,
        leader: signer(leader),
        helper: signer(&helper),
    };
    entry(EntryKind::Result, result.to_json(), &[leader, &helper])
}

/// The key sets that devices ask for.
pub(crate) fn key_sets() -> [Entry; 2] {
    [key_set(&key("leader.example"), 5), key_set(&key("helper.example"), 7)]
}
