//! What the demo's devices are asked, and what each of them knows: the words that ship with the
//! program, or somebody's own recipe with given or made-up values.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_dp::uniform::uniform_below;
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::recipe::{Assessment, suggested_randomizer};
use sotto_wire::recipe::{
    Accountant, Adjacency, AttributeType, Privacy, Probability, Query, Sampling, When, Who,
};
use sotto_wire::{BatchMode, RecipeDraft};

use super::data;
use super::words::Words;
use crate::output::pointed;
use crate::recipe::example::made_up_device;
use crate::recipe::words as recipe_words;
use crate::recipe_file;

/// The local epsilon of the words, in millionths: seven of ten devices report the true word.
const EPSILON0_MICRO: u64 = 4_000_000;

/// How many different devices are made up. Others are like one of them.
const MADE_UP: usize = 256;

/// A question, and the devices that are asked.
#[derive(Debug)]
pub(crate) struct Question {
    /// The recipe. Its times, sizes and parties are replaced by the demo's.
    pub(crate) draft: RecipeDraft,
    /// The names of the numbers in the result.
    pub(crate) labels: Vec<String>,
    /// What the devices of each kind know about themselves.
    pub(crate) kinds: Vec<Attributes>,
    /// The kind of each device.
    pub(crate) held: Vec<u32>,
    /// How the demo differs from somebody's own recipe; empty for the words.
    pub(crate) differences: Vec<String>,
}

/// The words: a device holds one, and its kind is its bucket.
pub(super) fn words(devices: u32, seed: u64) -> Result<Question> {
    let words = Words::load()?;
    let labels: Vec<String> = words.labels().iter().map(|word| (*word).to_owned()).collect();
    let kind = |word: &String| [("word".to_owned(), Value::String(word.clone()))].into();
    let query = Query::Histogram {
        buckets: u32::try_from(labels.len())?,
        labels: Some(labels.clone()),
        mapping: "word".to_owned(),
        fallback: u32::try_from(labels.len())? - 1,
    };
    let draft = RecipeDraft {
        name: "demo-words".to_owned(),
        purpose: "Learn which words are common, and nothing about who holds which.".to_owned(),
        author: None,
        attributes: [("word".parse()?, AttributeType::String)].into(),
        who: Who { population: u64::from(devices), targeting: None },
        when: When { opens: 0, closes: 0, window_s: 0, max_window_s: 0 },
        sampling: Sampling::new(Probability::new(1, 2)?),
        randomizer: suggested_randomizer(&query, EPSILON0_MICRO)
            .context("a mechanism answers the demo's histogram")?,
        noise: None,
        query,
        vdaf: None,
        min_batch: 1,
        batch_mode: BatchMode::TimeInterval,
        privacy: Privacy::Claim {
            epsilon_micro: 1,
            delta: Probability::new(1, 1_000_000)?,
            adjacency: Adjacency::Replace,
            accountant: Accountant::Best,
            rounds: 1,
        },
        parties: None,
    };
    let kinds = labels.iter().map(kind).collect();
    let held = words.draw(devices as usize, seed);
    Ok(Question { draft, labels, kinds, held, differences: Vec::new() })
}

/// Somebody's own recipe, with the devices of a file or made-up ones.
pub(super) fn own(
    recipe: &Path,
    values: Option<&Path>,
    devices: u32,
    seed: u64,
) -> Result<Question> {
    let loaded = recipe_file::load(recipe)?;
    let assessment = Assessment::new(loaded.recipe.clone()).map_err(|silence| {
        let (reason, place) = loaded.located(&silence.reason);
        pointed(anyhow!("{}: {reason}", recipe.display()), place)
    })?;
    let mut draft = RecipeDraft::from(loaded.recipe);
    let (kinds, mut held) = match values {
        Some(path) => data::read(path, &draft.attributes)?,
        None => made_up(&assessment, devices, seed),
    };
    let mut differences = vec![
        "Operators, keys, tokens and times are the demo's, not those of the recipe.".to_owned(),
        format!(
            "The recipe itself asks {} devices, of which {} answer, releases nothing below {}, and claims {}.",
            recipe_words::grouped(draft.who.population),
            recipe_words::one_in(draft.sampling.rate),
            recipe_words::grouped(draft.min_batch),
            recipe_words::privacy(&draft.privacy),
        ),
    ];
    if values.is_none() {
        differences.push("The values are made up: --data FILE takes yours.".to_owned());
    }
    if draft.who.targeting.take().is_some() {
        let all = held.len();
        held.retain(|kind| kinds.get(*kind as usize).is_some_and(|kind| assessment.is_for(kind)));
        differences.push(format!(
            "Only {} of {all} devices are asked, those for which the predicate is true; no result certifies that here.",
            held.len()
        ));
    }
    differences.extend(fallbacks(&assessment, &kinds, &held));
    (draft.author, draft.vdaf, draft.parties) = (None, None, None);
    Ok(Question { labels: labels(&draft.query), draft, kinds, held, differences })
}

/// How many devices count as the fallback, for each reason.
fn fallbacks(assessment: &Assessment, kinds: &[Attributes], held: &[u32]) -> Vec<String> {
    let reasons: Vec<Option<String>> =
        kinds.iter().map(|kind| assessment.fallback_reason(kind)).collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for kind in held {
        if let Some(Some(reason)) = reasons.get(*kind as usize) {
            *counts.entry(reason).or_default() += 1;
        }
    }
    let fallback = recipe_words::fallback(&assessment.recipe().query);
    counts
        .into_iter()
        .map(|(reason, count)| format!("{count} devices count as {fallback}: {reason}."))
        .collect()
}

/// Made-up devices, the same for the same seed.
fn made_up(assessment: &Assessment, devices: u32, seed: u64) -> (Vec<Attributes>, Vec<u32>) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let kinds: Vec<Attributes> =
        (0..MADE_UP).map(|_| made_up_device(assessment, &mut rng)).collect();
    let held = (0..devices).map(|_| uniform_below(MADE_UP as u64, &mut rng) as u32).collect();
    (kinds, held)
}

/// The names of the numbers in a result.
fn labels(query: &Query) -> Vec<String> {
    match query {
        Query::Count { .. } => vec!["yes".to_owned()],
        Query::Sum { .. } | Query::Mean { .. } => vec!["sum".to_owned()],
        _ => {
            let buckets = 0..query.buckets().unwrap_or_default();
            buckets.filter_map(|bucket| query.bucket_name(bucket)).collect()
        }
    }
}
