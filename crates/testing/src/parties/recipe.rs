//! A recipe, key sets and a trust file that belong together.

use std::collections::BTreeMap;

use sotto_crypto::note::NoteKey;
use sotto_protocol::recipe::{judgement_to_claim, recipe_vdaf, set_claim};
use sotto_protocol::trust::{
    BudgetFile, Floors, LogGatewayFile, PinnedOperator, PinnedServer, TrustFile,
};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeType, KeySet, Parties,
    PopulationResult, Privacy, Probability, Query, Randomizer, Recipe, RecipeVdaf, Sampling,
    Tokens, When, Who,
};
use sotto_wire::{BatchMode, EntryId, EntryKind};

use super::keys::{encapsulation_key, gateway_key, hpke, key, signer, witness};
use super::log::{ORIGIN, entry, policy};

pub const HOUR: u64 = 3_600;
pub const DAY: u64 = 24 * HOUR;
pub const PERIOD: u64 = 28 * DAY;
/// Ten days into a period.
pub const NOW: u64 = 745 * PERIOD + 10 * DAY;
/// Who runs the log's gateway.
pub const LOG_OPERATOR: &str = "gateway.example";

/// Who issues tokens, and who attests devices: for the leader's tokens, and for the helper's.
pub const ISSUERS: [&str; 2] = ["issuer-a.example", "issuer-b.example"];
pub const ATTESTERS: [&str; 2] = ["attester-a.example", "attester-b.example"];

/// Where the aggregator of an operator is.
fn url(operator: &str) -> String {
    format!("https://{operator}/")
}

pub fn recipe_entry(recipe: &Recipe) -> Vec<u8> {
    entry(EntryKind::Recipe, &recipe.to_json(), &[&key("author.example")])
}

/// A key set of an aggregator at the URL that [`recipe`] gives it.
pub fn key_set(operator: &NoteKey, seq: u64, not_before: u64) -> KeySet {
    KeySet {
        version: 1,
        operator: signer(operator),
        seq,
        not_before,
        not_after: not_before + 365 * DAY,
        hpke_configs: vec![hpke(seq)],
        gateway_configs: None,
        encapsulation_configs: None,
        url: Some(url(operator.name().as_str())),
        receipt_key: None,
    }
}

/// The same with a gateway, as leaders have.
pub fn leader_set(operator: &NoteKey, seq: u64, not_before: u64) -> KeySet {
    let gateway_configs = Some(vec![KeySet::config_text(gateway_key(seq as u8).config())]);
    KeySet { gateway_configs, ..key_set(operator, seq, not_before) }
}

/// A key set of the issuer of the leader's (0) or the helper's (1) tokens, without an aggregator.
pub fn issuer_set(chain: usize, operator: &NoteKey, seq: u64, not_before: u64) -> KeySet {
    let key = encapsulation_key(chain);
    let encapsulation_configs = Some(vec![KeySet::config_text(key.config())]);
    let hpke_configs = Vec::new();
    let url = None;
    KeySet { hpke_configs, encapsulation_configs, url, ..key_set(operator, seq, not_before) }
}

/// A key set of the operator of the log's gateway, without an aggregator.
pub fn log_set(seq: u64, not_before: u64) -> KeySet {
    let (hpke_configs, url) = (Vec::new(), None);
    KeySet { hpke_configs, url, ..leader_set(&key(LOG_OPERATOR), seq, not_before) }
}

pub fn key_set_entry(set: &KeySet, signer: &NoteKey) -> Vec<u8> {
    entry(EntryKind::KeySet, &set.to_json(), &[signer])
}

/// A list of operators to pin.
pub fn pinned(names: &[&str]) -> Vec<PinnedOperator> {
    let pin = |name: &&str| PinnedOperator { key: key(name).verifier().to_string() };
    names.iter().map(pin).collect()
}

pub fn trust_file() -> TrustFile {
    TrustFile {
        policy: policy(&key(ORIGIN), &[0, 1, 2].map(witness), 2),
        max_checkpoint_age_s: 7 * DAY,
        min_log_age_s: DAY,
        min_key_set_spacing_s: DAY,
        max_result_age_s: 90 * DAY,
        operators: pinned(&["leader.example", "helper.example", "other.example", LOG_OPERATOR]),
        authors: Some(vec![key("author.example").verifier().to_string()]),
        relays: vec![PinnedServer {
            operator: "relay.example".to_owned(),
            key: None,
            url: "https://relay.example/".to_owned(),
        }],
        log_gateway: Some(LogGatewayFile {
            operator: LOG_OPERATOR.to_owned(),
            hpke_configs: vec![KeySet::config_text(gateway_key(0).config())],
        }),
        tokens: None,
        floors: Floors { max_rate: Probability::new(1, 2).unwrap(), ..Floors::default() },
        targeting_attributes: ["tier".to_owned()].into(),
        budget: BudgetFile { epsilon: 2.0, delta: 1e-6, period_s: PERIOD, ..BudgetFile::default() },
        require_post_quantum: true,
        insecure_no_min_age: false,
        insecure_exact: false,
        insecure_no_tokens: true,
        insecure_single_attester: false,
        insecure_direct: false,
        insecure_fresh_start: false,
    }
}

/// A histogram of four regions by randomized response.
pub fn recipe(name: &str) -> Recipe {
    recipe_at(name, NOW)
}

/// The same, open since the day before this time.
pub fn recipe_at(name: &str, now: u64) -> Recipe {
    let day = now / DAY * DAY;
    let query =
        Query::Histogram { buckets: 4, labels: None, mapping: "region".to_owned(), fallback: 0 };
    let aggregator = |name: &str| Aggregator { operator: name.parse().unwrap(), url: url(name) };
    let randomizer = Randomizer::RandomizedResponse { epsilon_micro: 1_000_000 };
    let sampling = Sampling::new(Probability::new(1, 2).unwrap());
    let mut recipe = Recipe {
        version: 1,
        name: name.to_owned(),
        purpose: "How many devices are in each region.".to_owned(),
        author: signer(&key("author.example")),
        series: None,
        attributes: BTreeMap::from([
            ("region".parse().unwrap(), AttributeType::Int),
            ("tier".parse().unwrap(), AttributeType::String),
        ]),
        who: Who { population: 1_000_000, targeting: None },
        when: When { opens: day - DAY, closes: day + 5 * DAY, window_s: HOUR, max_window_s: DAY },
        sampling,
        randomizer,
        noise: None,
        aggregation: Aggregation {
            vdaf: RecipeVdaf::Prio3Count,
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
            collector_hpke_config: hpke(99),
            log: ORIGIN.to_owned(),
            tokens: Tokens::InsecureNone,
        },
    };
    recipe.aggregation.vdaf = recipe_vdaf(&recipe).unwrap();
    recipe
}

/// Gives the recipe this query, with the VDAF that follows from it.
pub fn set_query(recipe: &mut Recipe, query: Query) {
    recipe.query = query;
    recipe.aggregation.vdaf = recipe_vdaf(recipe).unwrap();
}

/// Claims exactly the epsilon that the parameters imply, and returns it in millionths.
pub fn reclaim(recipe: &mut Recipe) -> u64 {
    let implied = (judgement_to_claim(recipe, None).unwrap().unwrap().epsilon * 1e6).ceil() as u64;
    set_claim(recipe, implied).unwrap();
    implied
}

pub fn result(predicate: &str, population: u64) -> PopulationResult {
    PopulationResult {
        version: 1,
        recipe: EntryId::of(b"an earlier recipe"),
        predicate: predicate.to_owned(),
        attributes: BTreeMap::from([("tier".parse().unwrap(), AttributeType::String)]),
        population,
        measured_at: NOW - 36 * DAY,
        leader: signer(&key("leader.example")),
        helper: signer(&key("helper.example")),
    }
}

/// A recipe that has ended.
pub fn closed(name: &str, now: u64) -> Recipe {
    let mut old = recipe(name);
    let day = now / DAY * DAY;
    old.when.opens = day - 50 * DAY;
    old.when.closes = day - 45 * DAY;
    old
}
