//! Plans: from a question and a budget, or an accuracy, to the parameters of a recipe.
//!
//! What is planned is a whole recipe, and it is judged as a device judges it
//! ([`crate::recipe::judgement_to_claim`]): half honest, the count seen, the worst population. So a
//! plan never has a larger epsilon than what a device computes. Errors are those of the estimators
//! themselves ([`sotto_dp::mechanism::Population`]), for answers that are spread as [`Answers`]
//! assumes.
//!
//! **The search.** For each mechanism and each way of sampling there is one number to choose: the
//! epsilon of a randomizer, or the sigma of noise. It is a rung of a ladder; each higher rung has less
//! error and more epsilon. With a budget the highest rung within it is searched, with an accuracy the
//! lowest rung that reaches it. Projective geometry response is an exception: where it takes another
//! geometry its epsilon falls, so rungs above such a place are looked at too.
//!
//! **How many answer.** More answers never make the error larger, and each one costs bytes and time.
//! So the first rate is the largest that is allowed, and each further one half of it, as long as what
//! is lost is little: of those that are nearly as good as the best the smallest is proposed.
//!
//! Leaves to others: what a question costs in bytes, time and tokens, and all words about it.

mod answers;
mod ladder;
mod sampling;

use std::panic::resume_unwind;
use std::thread;

use sotto_dp::mechanism::Mechanism;
use sotto_dp::mechanism::gaussian::LEAST_NOISE;
use sotto_dp::recipe::Judgement;
use sotto_dp::{Error, published};
use sotto_wire::limits::{MAX_SIGMA_MICRO, MIN_SIGMA_MICRO};
use sotto_wire::recipe::{Noise, Probability, Query, Randomizer, Recipe, Sampling};

pub use self::answers::{
    Answers, Bucket, Errors, Prediction, central_error, errors, is_mean, sampling_error, unit,
};
use self::ladder::{Rung, highest, lowest, next_change};
pub use self::sampling::Traffic;
use crate::recipe::{judgement_to_claim, mechanism, set_claim};

/// What is nearly as good as the best: 5 % more.
const NEARLY: f64 = 1.05;

/// What needs more trust has to be so much better.
const FAR_BETTER: f64 = 0.5;

/// The largest epsilon of a randomizer alone, in millionths, where protections are compared by what
/// holds for the sum.
pub const MOST_LOCAL_COMPARED_MICRO: u64 = 30_000_000;

/// A rung of a randomizer's ladder is a hundredth of its epsilon under replacement.
const RUNG_MICRO: u64 = 10_000;

/// So many further geometries are tried. The next one that is within a budget may be behind several
/// that are not.
const GEOMETRIES: u32 = 32;

/// The ladder of noise: so many times is the largest sigma halved, in so many equal steps each.
const OCTAVES: u64 = 31;
const STEPS: u64 = 256;

/// A way to protect answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protection {
    /// One of the values, most likely the true one.
    RandomizedResponse,
    /// Each bit flipped with the same probability.
    Rappor,
    /// A point of a projective geometry.
    ProjectiveGeometry,
    /// Noise of the devices.
    Gaussian,
    /// Noise of the aggregators.
    ServerGaussian,
}

impl Protection {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::RandomizedResponse,
        Self::Rappor,
        Self::ProjectiveGeometry,
        Self::Gaussian,
        Self::ServerGaussian,
    ];

    /// The name, as [`sotto_dp::mechanism::Mechanism::KINDS`] has it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::ServerGaussian => "server_gaussian",
            _ => self.at(1, 1).0.kind(),
        }
    }

    /// Whether it answers such a question.
    pub fn answers(self, query: &Query) -> bool {
        self == Self::ServerGaussian || self.at(1, 1).0.queries().contains(&query.kind())
    }

    /// Whether a randomizer protects each answer, with an epsilon of its own.
    pub fn is_randomizer(self) -> bool {
        !matches!(self, Self::Gaussian | Self::ServerGaussian)
    }

    /// The highest rung.
    fn rungs(self, most_local_micro: u64) -> u64 {
        if self.is_randomizer() {
            return (most_local_micro / RUNG_MICRO).max(1);
        }
        OCTAVES * STEPS
    }

    /// A rung near the one that is searched: where the Gaussian noise of a sample would be.
    fn guess(self, recipe: &Recipe, sampling: &Sampling, budget: u64) -> u64 {
        if self.is_randomizer() {
            return 400;
        }
        let norm = match &recipe.query {
            Query::Sum { max, .. } | Query::Mean { max, .. } => *max as f64,
            _ => 1.0,
        };
        let epsilon = budget as f64 / 1e6;
        let sigma = norm * (1.0 + 8.0 * sampling.rate.to_f64() / epsilon);
        // Each octave is half of the one before.
        let octave = (MAX_SIGMA_MICRO as f64 / 1e6 / sigma).max(1.0).log2();
        (octave * STEPS as f64) as u64
    }

    /// What a recipe has on this rung, from 1, where a device may be in `most` buckets.
    fn at(self, rung: u64, most: u64) -> (Randomizer, Option<Noise>) {
        let micro = rung * RUNG_MICRO;
        // Under deletion, which is half, and for each bucket that a device may be in.
        let halved = (micro / 2 / most.max(1)).max(1);
        let sigma_micro = (MAX_SIGMA_MICRO >> (rung / STEPS).min(OCTAVES)) / (2 * STEPS)
            * (2 * STEPS - rung % STEPS);
        let sigma_micro = sigma_micro.max(MIN_SIGMA_MICRO);
        match self {
            Self::RandomizedResponse => {
                (Randomizer::RandomizedResponse { epsilon_micro: micro }, None)
            }
            Self::Rappor => (Randomizer::Rappor { epsilon_micro: halved }, None),
            Self::ProjectiveGeometry => {
                (Randomizer::ProjectiveGeometry { epsilon_micro: halved }, None)
            }
            Self::Gaussian => (Randomizer::Gaussian { sigma_micro }, None),
            Self::ServerGaussian => (Randomizer::None, Some(Noise::ServerGaussian { sigma_micro })),
        }
    }
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Aim {
    /// The least error with at most this epsilon, in millionths.
    Budget(u64),
    /// The same, but no more epsilon than is needed for nearly the least error.
    Sparing(u64),
    /// The least epsilon with at most this error of the average bucket.
    Error(f64),
}

/// A question, and what limits the answer to it.
#[derive(Clone, Debug)]
pub struct Wish<'a> {
    /// The question, with who, when and the delta of the claim. Its rates, minimum batch and
    /// protection are replaced.
    pub recipe: &'a Recipe,
    /// How many devices are asked in one round.
    pub devices: u64,
    /// How many of them a logged result certifies.
    pub certified: Option<u64>,
    /// What they hold.
    pub answers: Answers,
    /// How many may answer.
    pub traffic: Traffic,
    /// The minimum batch, if it is not to be chosen.
    pub min_batch: Option<u64>,
    /// Devices accept no smaller one.
    pub least_batch: u64,
    /// The largest epsilon of a randomizer alone, in millionths.
    pub most_local_micro: u64,
}

/// A recipe that fulfils a wish, with one way of protecting answers.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How answers are protected.
    pub protection: Protection,
    /// The recipe, with its claim.
    pub recipe: Recipe,
    /// What a device computes.
    pub judgement: Judgement,
    /// What error to expect.
    pub errors: Errors,
    /// Whether a larger epsilon of the randomizer alone would allow less error.
    pub is_local_limit: bool,
}

impl Plan {
    /// The error that plans are about: of an average bucket, sampling included.
    pub fn error(&self) -> f64 {
        self.errors.average.total
    }

    /// What a better plan has less of.
    fn loss(&self, aim: Aim) -> f64 {
        if let Aim::Error(_) = aim { self.judgement.epsilon } else { self.error() }
    }
}

/// The plan to propose of those for one aim, which are the best of each protection.
///
/// A randomizer protects an answer even if everybody else colludes, noise of the devices if half of
/// them are honest, noise of the aggregators if one of these two is. So each is preferred to the next,
/// unless that has less than half of the error (or needs less than half of the epsilon).
pub fn proposed(plans: &[Plan], aim: Aim) -> Option<&Plan> {
    let classes: [fn(Protection) -> bool; 3] = [
        Protection::is_randomizer,
        |one| one == Protection::Gaussian,
        |one| one == Protection::ServerGaussian,
    ];
    let mut found: Option<&Plan> = None;
    for is_in in classes {
        let best = plans.iter().filter(|plan| is_in(plan.protection));
        let best = best.min_by(|one, other| one.loss(aim).total_cmp(&other.loss(aim)));
        let better =
            |best: &&Plan| found.is_none_or(|found| best.loss(aim) < FAR_BETTER * found.loss(aim));
        found = best.filter(better).or(found);
    }
    found
}

impl<'a> Wish<'a> {
    /// A recipe whose protection alone is to be chosen: with its own rates and minimum batch.
    pub fn to_protect(recipe: &'a Recipe, certified: Option<u64>) -> Self {
        let devices = recipe.who.population;
        Self {
            recipe,
            devices,
            certified,
            answers: Answers::usual(&recipe.query, None),
            traffic: Traffic {
                fixed: Some(recipe.sampling),
                most_reports: devices,
                most_rate: Probability::ONE,
                others: recipe.sampling,
            },
            min_batch: Some(recipe.aggregation.min_batch),
            least_batch: 1,
            most_local_micro: MOST_LOCAL_COMPARED_MICRO,
        }
    }

    /// The best plan with each of these protections, the best of all first. Those that do not answer
    /// the question, or do not reach the aim, have none.
    pub fn plans(&self, protections: &[Protection], aim: Aim) -> Vec<Plan> {
        let answering = protections.iter().filter(|one| one.answers(&self.recipe.query));
        // Nearly all of the time is judging, one protection at a time.
        let mut found: Vec<Plan> = thread::scope(|scope| {
            let best = |one: &Protection| {
                let one = *one;
                scope.spawn(move || self.best(one, &self.traffic, aim))
            };
            let all: Vec<_> = answering.map(best).collect();
            let joined =
                all.into_iter().map(|one| one.join().unwrap_or_else(|panic| resume_unwind(panic)));
            joined.flatten().collect()
        });
        found.sort_by(|one, other| one.loss(aim).total_cmp(&other.loss(aim)));
        found
    }

    /// The best plan with this protection. More than allowed never answer.
    fn best(&self, protection: Protection, traffic: &Traffic, aim: Aim) -> Option<Plan> {
        let budget = match aim {
            Aim::Sparing(micro) => Aim::Budget(micro),
            other => other,
        };
        let mut best: Option<Plan> = None;
        let mut least = f64::INFINITY;
        // Where the last search ended the next one begins.
        let mut rung = None;
        for samplings in traffic.samplings(self, protection) {
            let made = samplings.into_iter().filter_map(|sampling| {
                let (plan, at) = self.with(protection, sampling, budget, rung)?;
                rung = Some(at);
                Some(plan)
            });
            let found = made.min_by(|one, other| one.loss(budget).total_cmp(&other.loss(budget)));
            let Some(found) = found else { break };
            least = least.min(found.loss(budget));
            if found.loss(budget) > NEARLY * least {
                break;
            }
            best = Some(found);
        }
        let best = best?;
        match aim {
            Aim::Sparing(_) => {
                let enough = Aim::Error(NEARLY * best.error());
                let sparing = self.with(protection, best.recipe.sampling, enough, None);
                let sparing = sparing.map(|(plan, _)| plan);
                let saves = |plan: &Plan| plan.judgement.epsilon <= best.judgement.epsilon;
                sparing.filter(saves).or(Some(best))
            }
            _ => Some(best),
        }
    }

    /// The plan with this protection and this sampling, and its rung.
    fn with(
        &self,
        protection: Protection,
        sampling: Sampling,
        aim: Aim,
        begin: Option<u64>,
    ) -> Option<(Plan, u64)> {
        let last = protection.rungs(self.most_local_micro);
        let at = |rung: u64| self.recipe_at(protection, sampling, rung);
        let spends = |rung: u64, micro| self.rung(at(rung).as_ref(), micro);
        let space = |rung: u64| at(rung).and_then(|recipe| geometry(&recipe));
        let higher = |rung: u64| {
            let changes = protection == Protection::ProjectiveGeometry;
            changes.then(|| next_change(rung, last, space)).flatten()
        };
        let rung = match aim {
            Aim::Budget(micro) | Aim::Sparing(micro) => {
                let begin =
                    begin.unwrap_or_else(|| protection.guess(self.recipe, &sampling, micro));
                let mut rung = highest(last, begin, |rung| spends(rung, micro))?;
                // With one of the next geometries it may be within the budget again.
                let (mut from, mut missed) = (rung, 0);
                while missed < GEOMETRIES
                    && let Some(next) = higher(from)
                {
                    (from, missed) = (next, missed + 1);
                    if spends(next, micro).meets() {
                        rung = highest(last, next, |rung| spends(rung, micro))?;
                        (from, missed) = (rung, 0);
                    }
                }
                rung
            }
            Aim::Error(error) => {
                let holds = |rung| {
                    let found = at(rung).map(|recipe| errors(&recipe, self.devices, &self.answers));
                    match found {
                        Some(Ok(found)) => found.average.total <= error,
                        Some(Err(reason)) => is_too_little(&reason),
                        None => false,
                    }
                };
                let mut rung = lowest(last, holds)?;
                // A higher one may need less epsilon.
                let needs = |rung| match spends(rung, 1) {
                    Rung::Needs(times) => times,
                    Rung::TooLow => f64::INFINITY,
                };
                while let Some(next) = higher(rung).filter(|next| holds(*next))
                    && needs(next) < needs(rung)
                {
                    rung = next;
                }
                rung
            }
        };
        let plan = self.plan(protection, at(rung)?)?;
        Some((Plan { is_local_limit: protection.is_randomizer() && rung == last, ..plan }, rung))
    }

    /// Where a recipe stands with this budget, in millionths.
    fn rung(&self, recipe: Option<&Recipe>, budget: u64) -> Rung {
        let Some(recipe) = recipe else { return Rung::TooLow };
        match judgement_to_claim(recipe, self.certified) {
            Ok(found) => {
                let epsilon = found.and_then(|found| published(found.epsilon).ok());
                Rung::Needs(epsilon.map_or(f64::INFINITY, |micro| micro as f64 / budget as f64))
            }
            Err(reason) if is_too_little(&reason) => Rung::Needs(f64::INFINITY),
            Err(_) => Rung::TooLow,
        }
    }

    fn plan(&self, protection: Protection, mut recipe: Recipe) -> Option<Plan> {
        let judgement = judgement_to_claim(&recipe, self.certified).ok()??;
        set_claim(&mut recipe, published(judgement.epsilon).ok()?).ok()?;
        let errors = errors(&recipe, self.devices, &self.answers).ok()?;
        Some(Plan { protection, recipe, judgement, errors, is_local_limit: false })
    }

    /// The recipe on a rung; `None` if so few answers are not enough for a batch, or if the format
    /// does not allow it.
    fn recipe_at(&self, protection: Protection, sampling: Sampling, rung: u64) -> Option<Recipe> {
        let mut recipe = self.recipe.clone();
        let most = if let Query::MultiHistogram { most, .. } = recipe.query { most } else { 1 };
        (recipe.randomizer, recipe.noise) = protection.at(rung, most.into());
        recipe.sampling = sampling;
        recipe.aggregation.min_batch = self.batch(&sampling)?;
        sampling.check(&recipe.query, &recipe.randomizer).ok()?;
        Some(recipe)
    }

    /// The errors at each of these epsilons, in millionths, for each of these protections with the
    /// most answers that are allowed. A protection that cannot reach an epsilon has no point there.
    pub fn frontier(
        &self,
        protections: &[Protection],
        epsilons: &[u64],
    ) -> Vec<(Protection, Vec<Plan>)> {
        let answering = protections.iter().filter(|one| one.answers(&self.recipe.query));
        let line = |protection: &Protection| {
            let rates = self.traffic.samplings(self, *protection);
            let at = |micro: &u64| {
                // From the beginning, so that each point is what a plan for this epsilon says.
                let made = rates.first()?.iter().filter_map(|sampling| {
                    let found = self.with(*protection, *sampling, Aim::Budget(*micro), None);
                    found.map(|(plan, _)| plan)
                });
                made.min_by(|one, other| one.error().total_cmp(&other.error()))
            };
            (*protection, epsilons.iter().filter_map(at).collect())
        };
        answering.map(line).collect()
    }

    /// The same wish with the most answers of this many devices.
    pub fn with_reports(&self, reports: u64) -> Self {
        let traffic = Traffic { most_reports: reports, fixed: None, ..self.traffic };
        Self { traffic, min_batch: None, ..self.clone() }
    }

    /// The best plan with exactly the most answers that are allowed.
    pub fn at_most(&self, protection: Protection, budget: u64) -> Option<Plan> {
        let [(_, plans)] = &self.frontier(&[protection], &[budget])[..] else { return None };
        plans.first().cloned()
    }
}

/// The geometry of a recipe's mechanism, if it has one. Where another one begins, epsilon falls.
fn geometry(recipe: &Recipe) -> Option<(u64, u64)> {
    match mechanism(recipe) {
        Ok(Mechanism::ProjectiveGeometry(found)) => Some(found.geometry()),
        _ => None,
    }
}

/// Whether the noise is too little to be used; otherwise it is too much.
fn is_too_little(reason: &Error) -> bool {
    matches!(reason, Error::OutOfRange { name, value, .. }
        if *name == "randomizer.sigma: the noise of one device" && *value < LEAST_NOISE as f64)
}

/// By how much one device can move one number of the result, whatever it sends.
pub fn reach(recipe: &Recipe, devices: u64) -> Result<f64, Error> {
    let rate = recipe.sampling.rate.to_f64();
    let moved = mechanism(recipe)?.reach() * unit(&recipe.query) / rate;
    Ok(if is_mean(&recipe.query) { moved / devices as f64 } else { moved })
}
