//! A discovery of words by simulated devices: who has which, and how they are looked for.

use anyhow::{Context, Result, anyhow, ensure};
use sotto_client::PIECE_LEN;
use sotto_crypto::note::NoteKey;
use sotto_learn::coins::Coins;
use sotto_learn::discovery::Rule;
use sotto_learn::discovery::fast::Population;
use sotto_protocol::Moment;
use sotto_protocol::recipe::{judgement_to_claim, set_claim};
use sotto_wire::limits::{MAX_LIST_LEN, MIN_SIGMA_MICRO};
use sotto_wire::recipe::{
    AttributeType, Discovery, Noise, Participation, PartiesDraft, Privacy, Probability, Query,
    Randomizer, Sampling, Series, When, Who,
};
use sotto_wire::{BatchMode, Recipe, RecipeDraft};

use crate::output::WithHint;
use crate::{recipe_file, signer_file};

/// The attribute with a device's word.
pub(super) const WORD: &str = "word";

/// How long a series of a story lives, and its unit of time.
const LIFE_S: u64 = 86_400;
const WINDOW_S: u64 = 3_600;

/// How many bytes a candidate takes, with what words that are found take later.
const CANDIDATE_LEN: usize = 16;

/// The largest noise that is tried, in millionths.
const MOST_SIGMA_MICRO: u64 = 1_000_000_000_000;

/// A discovery.
pub(super) struct Story {
    pub(super) population: Population,
    pub(super) denied: Vec<String>,
    pub(super) rule: Rule,
    pub(super) rate: Probability,
    pub(super) min_batch: u64,
    pub(super) delta: Probability,
}

/// How much noise each server adds.
#[derive(Clone, Copy)]
pub(super) enum Protection {
    /// So much that a device computes at most this epsilon for the whole series, in millionths.
    Epsilon(u64),
    /// This sigma, in millionths.
    Sigma(u64),
}

/// Where and when the series is.
pub(super) struct At<'a> {
    pub(super) author: Option<&'a NoteKey>,
    pub(super) parties: Option<PartiesDraft>,
    /// The URL of the lists.
    pub(super) lists: String,
    pub(super) now: Moment,
}

impl Story {
    pub(super) fn new(
        words: &[(String, u64)],
        devices: u64,
        rate: Probability,
        rule: Rule,
        denied: Vec<String>,
        seed: u64,
    ) -> Result<Self> {
        rule.check()?;
        let expected = devices as f64 * rate.to_f64();
        let min_batch = (expected - 4.0 * expected.sqrt()).floor();
        if min_batch < 1.0 {
            return Err(anyhow!("{devices} devices at rate {rate} are too few for a batch"))
                .hint("take a larger --population, or a higher --rate");
        }
        let population = Population::draw(words, devices, Coins::from_number(seed))?;
        // Below one device of the population.
        let delta = Probability::new(1, devices.saturating_mul(10).max(1_000_000))?;
        Ok(Self { population, denied, rule, rate, min_batch: min_batch as u64, delta })
    }

    /// The header, with the claim that follows from it. Its token keys are missing.
    pub(super) fn header(&self, at: &At<'_>, protection: Protection) -> Result<Recipe> {
        match protection {
            Protection::Sigma(sigma_micro) => self.with_sigma(at, sigma_micro),
            Protection::Epsilon(epsilon_micro) => self.calibrated(at, epsilon_micro),
        }
    }

    /// With the least noise, to a thousandth, with which the series costs so much.
    fn calibrated(&self, at: &At<'_>, epsilon_micro: u64) -> Result<Recipe> {
        let (mut low, mut high) = (MIN_SIGMA_MICRO, MOST_SIGMA_MICRO);
        while high as f64 > 1.001 * low as f64 {
            // Between the two, as both are far above 1.
            let middle = (low as f64 * high as f64).sqrt() as u64;
            match self.priced(at, middle)? {
                (_, Some(epsilon)) if epsilon <= epsilon_micro => high = middle,
                _ => low = middle,
            }
        }
        let (mut found, epsilon) = self.priced(at, high)?;
        let Some(epsilon) = epsilon.filter(|epsilon| *epsilon <= epsilon_micro) else {
            return Err(anyhow!("no noise of the servers is enough for so small an epsilon"))
                .hint("allow more --epsilon");
        };
        set_claim(&mut found, epsilon)?;
        Ok(found)
    }

    /// With this noise, and the claim that follows.
    fn with_sigma(&self, at: &At<'_>, sigma_micro: u64) -> Result<Recipe> {
        let (mut found, epsilon) = self.priced(at, sigma_micro)?;
        let none = || anyhow!("no finite epsilon holds for so little noise");
        set_claim(&mut found, epsilon.ok_or_else(none).hint("take more noise (--sigma)")?)?;
        Ok(found)
    }

    /// With this noise, and what it costs in millionths, if that is finite.
    fn priced(&self, at: &At<'_>, sigma_micro: u64) -> Result<(Recipe, Option<u64>)> {
        let recipe = recipe_file::with_stand_ins(self.draft(at, sigma_micro)?)?;
        let judged = judgement_to_claim(&recipe, None)?.context("a story claims something")?;
        Ok((recipe, sotto_dp::published(judged.epsilon).ok()))
    }

    fn draft(&self, at: &At<'_>, sigma_micro: u64) -> Result<RecipeDraft> {
        let rounds = u64::from(self.rule.rounds);
        let opens = at.now.0 - at.now.0 % WINDOW_S;
        Ok(RecipeDraft {
            name: "words".to_owned(),
            purpose: "Find words that many people use and that no dictionary has yet.".to_owned(),
            author: at.author.map(signer_file::public),
            attributes: [(WORD.parse()?, AttributeType::String)].into(),
            series: Some(Series {
                rounds,
                participation: Participation::EachRound {},
                length_s: None,
                training: None,
                discovery: Some(Discovery {
                    lists: at.lists.clone(),
                    list_len: list_len(self.rule.buckets, &self.denied)?,
                }),
                round: None,
            }),
            who: Who { population: self.population.devices(), targeting: None },
            when: When { opens, closes: opens + LIFE_S, window_s: WINDOW_S, max_window_s: LIFE_S },
            sampling: Sampling::new(self.rate),
            query: Query::Histogram {
                buckets: self.rule.buckets,
                labels: None,
                mapping: WORD.to_owned(),
                fallback: 0,
            },
            randomizer: Randomizer::None,
            noise: Some(Noise::ServerGaussian { sigma_micro }),
            vdaf: None,
            min_batch: self.min_batch,
            batch_mode: BatchMode::LeaderSelected,
            privacy: Privacy::Claim {
                epsilon_micro: 1,
                delta: self.delta,
                adjacency: sotto_wire::recipe::Adjacency::Replace,
                accountant: sotto_wire::recipe::Accountant::Best,
                rounds,
            },
            parties: at.parties.clone(),
        })
    }
}

/// How long the lists of so many buckets are: whole pieces, so that nothing of them is wasted.
pub(crate) fn list_len(buckets: u32, denied: &[String]) -> Result<u32> {
    let denied: usize = denied.iter().map(|word| word.len() + 1).sum();
    let pieces = (buckets as usize * CANDIDATE_LEN + denied).div_ceil(PIECE_LEN).max(1);
    let len = pieces * PIECE_LEN;
    ensure!(len as u64 <= MAX_LIST_LEN, "the deny list is too long: at most 4 MiB fit");
    Ok(u32::try_from(len)?)
}
