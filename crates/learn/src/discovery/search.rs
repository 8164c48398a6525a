//! The author's half: which candidates survive a round, and which come next.
//!
//! **Threshold.** A candidate that no device holds is counted by noise alone, of standard deviation
//! `s`. It survives if its count is above `z s + 1/2`, where `z` is such that a standard normal
//! number exceeds it with probability `F/(T K)`: of all the `K` candidates of all the `T` rounds at
//! most `F` survive on average that nobody holds. Every false word is one of them. The half is for
//! noise that is a whole number.
//!
//! **Next candidates.** The survivors share the buckets: again and again the prefix under which most
//! devices are expected is replaced by its two continuations, each expected to have half of them.
//! So frequent prefixes get long quickly, and rare ones wait. Whole words are not made longer. If
//! more than half of the buckets were survivors, hardly any could be made longer: the largest stay.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::candidates::Candidates;
use super::code::{Bits, MAX_BITS, Reading, normalised};
use crate::Error;
use crate::error::{in_range, length, positive};

/// By what rule candidates survive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// How many buckets a round has: one more than candidates.
    pub buckets: u32,
    /// How many rounds there are at most.
    pub rounds: u32,
    /// How many candidates that nobody holds may survive, on average and in all rounds together.
    pub false_words: f64,
}

/// How far a search is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    round: u32,
    prefixes: Vec<Bits>,
    denied: Vec<String>,
    found: Vec<Found>,
}

/// A word that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// The word.
    pub word: String,
    /// On how many devices it is, by the count of its round.
    pub estimate: f64,
    /// Its standard error, from noise and from who took part.
    pub stderr: f64,
    /// The round.
    pub round: u32,
}

/// What is known of a candidate after its round, as numbers of devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// The estimate.
    pub estimate: f64,
    /// Its standard error, from noise and from who took part.
    pub stderr: f64,
}

/// What a round has led to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The round.
    pub round: u32,
    /// How many candidates it had.
    pub candidates: u32,
    /// How many prefixes survived, without words.
    pub survivors: u32,
    /// How many of them were left out, as there are too many.
    pub left_out: u32,
    /// How many words were found.
    pub words: u32,
    /// Above how many devices a candidate survives.
    pub threshold: f64,
}

impl Rule {
    /// Checks that they are sensible.
    pub fn check(&self) -> Result<(), Error> {
        in_range("buckets", self.buckets.into(), self.buckets >= 3, "at least 3")?;
        in_range("rounds", self.rounds.into(), self.rounds >= 1, "at least 1")?;
        positive("false words", self.false_words)?;
        let most = self.tests() / 2.0;
        in_range("false words", self.false_words, self.false_words < most, "few, like 1")?;
        Ok(())
    }

    /// How many candidates there are at most, in all rounds together.
    fn tests(&self) -> f64 {
        f64::from(self.buckets - 1) * f64::from(self.rounds)
    }

    /// How many standard deviations of the noise the threshold is.
    pub fn deviations(&self) -> f64 {
        let tail = self.false_words / self.tests();
        // A tail that decreases, and a threshold that is never too low.
        let (mut low, mut high) = (0.0, 40.0);
        while high - low > 1e-9 {
            let middle = 0.5 * (low + high);
            let above = 0.5 * libm::erfc(middle * std::f64::consts::FRAC_1_SQRT_2);
            if above > tail { low = middle } else { high = middle }
        }
        high
    }

    /// Above which count a candidate survives, if noise has this standard deviation.
    pub fn threshold(&self, noise: f64) -> f64 {
        self.deviations() * noise + 0.5
    }
}

impl Search {
    /// Before the first round: the prefixes of the first letters.
    pub fn start(rule: &Rule, denied: impl IntoIterator<Item = String>) -> Result<Self, Error> {
        rule.check()?;
        let all = (Bits::default(), 1.0);
        let mut denied: Vec<String> =
            denied.into_iter().filter_map(|word| normalised(&word)).collect();
        denied.sort_unstable();
        denied.dedup();
        let prefixes = split(vec![all], rule.buckets as usize - 1, &denied);
        Ok(Self { round: 0, prefixes, denied, found: Vec::new() })
    }

    /// How many rounds are over.
    pub fn rounds(&self) -> u32 {
        self.round
    }

    /// Whether nothing is left to ask.
    pub fn is_over(&self, rule: &Rule) -> bool {
        self.round >= rule.rounds || self.prefixes.is_empty()
    }

    /// The words that are not looked for, in order.
    pub fn denied(&self) -> &[String] {
        &self.denied
    }

    /// The words that were found, in the order in which they were.
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// The list of the next round. Words that were found are denied, so that a device with several
    /// words shows another one.
    pub fn candidates(&self, rule: &Rule) -> Result<Candidates, Error> {
        let found = self.found.iter().map(|found| found.word.clone());
        let denied = self.denied.iter().cloned().chain(found);
        Candidates::new(self.prefixes.clone(), denied, rule.buckets)
    }

    /// Takes what was counted in each bucket. `rate` is that of taking part, and `noise` the
    /// standard deviation of the noise in a count, which is `rate` times the estimate.
    pub fn advance(
        &mut self,
        rule: &Rule,
        counted: &[Counted],
        rate: f64,
        noise: f64,
    ) -> Result<Step, Error> {
        rule.check()?;
        length("estimates", counted.len(), rule.buckets as usize)?;
        let threshold = rule.threshold(positive("noise", noise)?) / positive("rate", rate)?;
        let mut step = Step {
            round: self.round,
            candidates: self.prefixes.len() as u32,
            survivors: 0,
            left_out: 0,
            words: 0,
            threshold,
        };
        let mut survivors = Vec::new();
        let candidates = std::mem::take(&mut self.prefixes);
        for (prefix, counted) in candidates.into_iter().zip(counted.get(1..).unwrap_or_default()) {
            if counted.estimate.is_nan() || counted.estimate <= threshold {
                continue;
            }
            match prefix.read() {
                Reading::Word(word) => {
                    let Counted { estimate, stderr } = *counted;
                    self.found.push(Found { word, estimate, stderr, round: self.round });
                    step.words += 1;
                }
                Reading::Beginning(..) => survivors.push((prefix, counted.estimate)),
                Reading::Nothing => {}
            }
        }
        step.survivors = survivors.len() as u32;
        let most = (rule.buckets as usize - 1).div_ceil(2);
        survivors.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        survivors.truncate(most);
        step.left_out = step.survivors - survivors.len() as u32;
        self.prefixes = split(survivors, rule.buckets as usize - 1, &self.denied);
        self.round += 1;
        Ok(step)
    }
}

/// A prefix, and how many devices are expected under it.
struct Leaf(f64, Bits);

impl Ord for Leaf {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then_with(|| other.1.cmp(&self.1))
    }
}

impl PartialOrd for Leaf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Leaf {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Leaf {}

/// Makes prefixes longer, the largest first, until there are so many, in order. Those that no word
/// begins with, and words that are denied, are left out.
fn split(prefixes: Vec<(Bits, f64)>, most: usize, denied: &[String]) -> Vec<Bits> {
    let mut open: BinaryHeap<Leaf> =
        prefixes.into_iter().map(|(bits, mass)| Leaf(mass, bits)).collect();
    let mut whole = Vec::new();
    while open.len() + whole.len() < most {
        let Some(Leaf(mass, bits)) = open.pop() else { break };
        for bit in [false, true] {
            let longer = bits.then(bit);
            match longer.read() {
                Reading::Word(word) if denied.binary_search(&word).is_ok() => {}
                Reading::Word(_) => whole.push(longer),
                Reading::Beginning(..) if longer.len() < MAX_BITS => {
                    open.push(Leaf(0.5 * mass, longer));
                }
                Reading::Beginning(..) | Reading::Nothing => {}
            }
        }
    }
    let mut all: Vec<Bits> = open.into_iter().map(|Leaf(_, bits)| bits).chain(whole).collect();
    all.sort_unstable();
    all
}
