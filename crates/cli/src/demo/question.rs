//! What the demo's devices are asked, and what each of them knows: a story, or somebody's own recipe
//! with given or made-up values.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_dp::uniform::uniform_below;
use sotto_protocol::expression::Attributes;
use sotto_protocol::recipe::{Assessment, judgement_of};
use sotto_wire::RecipeDraft;
use sotto_wire::recipe::{AttributeName, Privacy, Query, Sampling};

use super::data;
use super::population::Population;
use super::stories::Story;
use crate::output::{WithHint, pointed};
use crate::recipe::example::made_up_device;
use crate::recipe::words as recipe_words;
use crate::recipe_file;

/// How many different devices are made up. Others are like one of them.
const MADE_UP: usize = 256;

/// How often a device is made up anew because it is not in the audience.
const TRIES: usize = 30;

/// A question, and the devices that are asked.
#[derive(Debug)]
pub(crate) struct Question {
    /// The recipe. Its times, sizes and parties are replaced by the demo's.
    pub(crate) draft: RecipeDraft,
    /// The same as devices read it, without its claim.
    pub(crate) assessment: Assessment,
    /// The names of the numbers in the result.
    pub(crate) labels: Vec<String>,
    /// What the devices of each kind know about themselves.
    pub(crate) kinds: Vec<Attributes>,
    /// The kind of each device that is asked.
    pub(crate) held: Vec<u32>,
    /// How many devices there are, with those for which the predicate is not true.
    pub(crate) all: usize,
    /// How the demo differs from somebody's own recipe; empty for a story.
    pub(crate) differences: Vec<String>,
}

impl Question {
    /// Asks these devices, if the recipe is for them.
    pub(crate) fn new(
        mut draft: RecipeDraft,
        kinds: Vec<Attributes>,
        mut held: Vec<u32>,
    ) -> Result<Self> {
        (draft.author, draft.vdaf, draft.parties) = (None, None, None);
        let all = held.len();
        let unclaimed = RecipeDraft { privacy: Privacy::InsecureUnbounded, ..draft.clone() };
        let assessment = Assessment::new(recipe_file::with_stand_ins(unclaimed)?)?;
        held.retain(|kind| kinds.get(*kind as usize).is_some_and(|kind| assessment.is_for(kind)));
        let labels = labels(&draft.query);
        Ok(Self { draft, assessment, labels, kinds, held, all, differences: Vec::new() })
    }

    /// Somebody's own recipe, with the devices of a file or made-up ones.
    pub(crate) fn own(
        recipe: &Path,
        values: Option<&Path>,
        devices: u32,
        seed: u64,
    ) -> Result<Self> {
        let loaded = recipe_file::load(recipe)?;
        if loaded.recipe.discovery().is_some() {
            return Err(anyhow!("{} looks for words: the demo has no lists", recipe.display()))
                .hint("`sotto discover --story words` shows all parties");
        }
        let assessment = Assessment::at_best(loaded.recipe.clone()).map_err(|silence| {
            let (reason, place) = loaded.located(&silence.reason);
            pointed(anyhow!("{}: {reason}", recipe.display()), place)
        })?;
        let mut draft = RecipeDraft::from(loaded.recipe);
        let (kinds, held) = match values {
            Some(path) => data::read(path, &draft.attributes)?,
            None => made_up(&assessment, devices, seed),
        };
        let mut differences = vec![
            "Operators, keys, tokens and times are the demo's, not those of the recipe.".to_owned(),
            format!(
                "The recipe itself asks {} devices, of which {} answer, releases nothing below {}, and claims {}.",
                recipe_words::grouped(draft.who.population),
                match draft.sampling.default_rate {
                    None => recipe_words::one_in(draft.sampling.rate),
                    Some(_) => recipe_words::answers(&draft.sampling),
                },
                recipe_words::grouped(draft.min_batch),
                recipe_words::privacy(&draft.privacy),
            ),
        ];
        if let Some(series) = draft.series.take() {
            // What holds for all rounds together holds for one.
            if let Privacy::Claim { rounds, .. } = &mut draft.privacy {
                *rounds = 1;
            }
            differences.push(format!(
                "The demo runs one round. The recipe has up to {}, and what it claims is about all of them.",
                recipe_words::grouped(series.rounds)
            ));
        }
        if values.is_none() {
            differences.push("The values are made up: --data FILE takes yours.".to_owned());
        }
        let question = Self::new(draft, kinds, held)?;
        if let Some(targeting) = &question.draft.who.targeting {
            let (asked, all) = (question.held.len(), question.all);
            if asked == 0 {
                let (whose, hint) = match values {
                    None => ("made-up devices", "give devices for which it is true: --data FILE"),
                    Some(_) => ("devices of --data", "add lines for which it is true"),
                };
                let predicate = &targeting.predicate;
                return Err(anyhow!("none of the {all} {whose} is in the audience: {predicate}"))
                    .hint(hint);
            }
            differences.push(format!(
                "Only {asked} of {all} devices are asked, those for which the predicate is true."
            ));
        }
        differences.extend(fallbacks(&assessment, &question.kinds, &question.held));
        Ok(Self { differences, ..question })
    }

    /// Each kind of devices, and how many there are of it.
    pub(crate) fn of_each_kind(&self) -> impl Iterator<Item = (&Attributes, u64)> {
        let mut counts = vec![0; self.kinds.len()];
        for kind in &self.held {
            if let Some(count) = counts.get_mut(*kind as usize) {
                *count += 1;
            }
        }
        self.kinds.iter().zip(counts)
    }

    /// How many devices take part at the rates of the recipe, on average.
    pub(crate) fn expected(&self) -> f64 {
        let each = |(kind, count)| self.assessment.rate(kind).to_f64() * count as f64;
        self.of_each_kind().map(each).sum()
    }

    /// Whether a claim can hold for these devices with these rates and this minimum batch; also if
    /// nothing is claimed.
    pub(super) fn is_private(&self, sampling: Sampling, min_batch: u64) -> bool {
        let mut draft = RecipeDraft { sampling, min_batch, ..self.draft.clone() };
        draft.who.population = self.held.len() as u64;
        let certified = draft.who.targeting.is_some().then_some(draft.who.population);
        let judged = recipe_file::with_stand_ins(draft)
            .and_then(|recipe| Ok(judgement_of(&recipe, certified)?));
        judged.is_ok_and(|judged| judged.is_none_or(|judged| judged.epsilon.is_finite()))
    }
}

/// A story.
pub(super) fn story(story: &Story, devices: u32, seed: u64) -> Result<Question> {
    let draft = RecipeDraft::from_toml(&story.recipe())?;
    let population = Population::parse(story.population)?;
    // The columns are in the order in which a recipe has its attributes.
    let columns: Vec<&str> = draft.attributes.keys().map(AttributeName::as_str).collect();
    let table = [&[&*columns.join(",")], population.kinds()].concat().join("\n");
    let (kinds, _) = data::parse(&table, &draft.attributes)?;
    Question::new(draft, kinds, population.draw(devices, seed))
        .with_context(|| format!("the story {} is damaged", story.name))
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
    let one = |number: usize| {
        let mut device = made_up_device(assessment, &mut rng);
        // Most are in the audience, if chance finds one, and some are not.
        let tries = if number.is_multiple_of(4) { 0 } else { TRIES };
        for _ in 0..tries {
            if assessment.is_for(&device) {
                break;
            }
            device = made_up_device(assessment, &mut rng);
        }
        device
    };
    let kinds: Vec<Attributes> = (0..MADE_UP).map(one).collect();
    let held = (0..devices).map(|_| uniform_below(MADE_UP as u64, &mut rng) as u32).collect();
    (kinds, held)
}

/// The names of the numbers in a result.
fn labels(query: &Query) -> Vec<String> {
    match query {
        Query::Count { .. } => vec!["yes".to_owned()],
        Query::Sum { .. } | Query::Mean { .. } => vec!["sum".to_owned()],
        Query::VectorSum(vectors) | Query::VectorMean(vectors) => {
            (0..vectors.dimension).map(|coordinate| coordinate.to_string()).collect()
        }
        _ => {
            let buckets = 0..query.buckets().unwrap_or_default();
            buckets.filter_map(|bucket| query.bucket_name(bucket)).collect()
        }
    }
}
