//! The demo's recipe.

use anyhow::{Context, Result};
use sotto_crypto::note::NoteKey;
use sotto_protocol::Moment;
use sotto_protocol::recipe::{judgement, recipe_vdaf, suggested_randomizer};
use sotto_wire::recipe::{
    Accountant, Adjacency, Aggregation, Aggregator, AttributeType, Parties, Privacy, Query,
    Sampling, Tokens, When, Who,
};
use sotto_wire::{BatchMode, HpkeConfig, KeyName, KeySet, Probability, Recipe};

use crate::demo::Plan;
use crate::signer_file;

/// One hour: long enough that the demo fits into one unit.
const WINDOW_S: u64 = 3_600;

/// The local epsilon of a report, in millionths: seven of ten devices report the true word.
const EPSILON0_MICRO: u64 = 4_000_000;

/// The people behind the demo.
pub(super) const LEADER: &str = "leader.demo";
pub(super) const HELPER: &str = "helper.demo";

/// The addresses that the recipe names.
pub(super) struct Places<'a> {
    pub(super) leader_url: String,
    pub(super) helper_url: String,
    pub(super) collector: &'a HpkeConfig,
    pub(super) log: &'a KeyName,
}

/// The recipe, with the claim that follows from its parameters.
pub(super) fn recipe(
    plan: &Plan,
    author: &NoteKey,
    places: Places<'_>,
    now: Moment,
) -> Result<Recipe> {
    let labels: Vec<String> = plan.words.labels().iter().map(|word| (*word).to_owned()).collect();
    let buckets = u32::try_from(labels.len())?;
    let query = Query::Histogram {
        buckets,
        labels: Some(labels),
        mapping: "word".to_owned(),
        fallback: buckets - 1,
    };
    let randomizer = suggested_randomizer(&query, EPSILON0_MICRO)
        .context("a mechanism answers the demo's histogram")?;
    let opens = now.0 - now.0 % WINDOW_S;
    let aggregator =
        |operator: &str, url| anyhow::Ok(Aggregator { operator: operator.parse()?, url });
    let mut recipe = Recipe {
        version: 1,
        name: "demo-words".to_owned(),
        purpose: "Learn which words are common, and nothing about who holds which.".to_owned(),
        author: signer_file::public(author),
        attributes: [("word".parse()?, AttributeType::String)].into(),
        who: Who { population: plan.held.len() as u64, targeting: None },
        when: When {
            opens,
            closes: opens + 24 * WINDOW_S,
            window_s: WINDOW_S,
            max_window_s: WINDOW_S,
        },
        sampling: Sampling::new(plan.rate),
        aggregation: Aggregation {
            vdaf: recipe_vdaf(&query, &randomizer)?,
            min_batch: plan.min_batch_size,
            batch_mode: BatchMode::TimeInterval,
        },
        query,
        randomizer,
        privacy: claim(1)?,
        parties: Parties {
            leader: aggregator(LEADER, places.leader_url)?,
            helper: aggregator(HELPER, places.helper_url)?,
            collector_hpke_config: KeySet::config_text(places.collector),
            log: places.log.to_string(),
            tokens: Tokens::InsecureNone,
        },
    };
    let judged = judgement(&recipe)?.context("the demo's recipe has a claim")?;
    recipe.privacy = claim(sotto_dp::published(judged.epsilon)?)?;
    Ok(recipe)
}

fn claim(epsilon_micro: u64) -> Result<Privacy> {
    Ok(Privacy::Claim {
        epsilon_micro,
        delta: Probability::new(1, 1_000_000)?,
        adjacency: Adjacency::Replace,
        accountant: Accountant::Best,
        rounds: 1,
    })
}
