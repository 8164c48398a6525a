//! What devices are assumed to hold, and the error that follows.

use sotto_dp::calibrate::{self, Target};
use sotto_dp::mechanism::{Encoding, Entry, Mechanism, Population, Spread};
use sotto_dp::{Accountant, Adjacency, Error, Event, Shape};
use sotto_wire::recipe::{Privacy, Query, Recipe};

use crate::recipe::{mechanism, rates};

/// Who says yes to a count, unless somebody knows better.
const YES: f64 = 0.1;

/// Who has another answer than the default.
const RARE: f64 = 0.01;

/// One of the buckets of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    /// One with as many devices as there are on average.
    Average,
    /// That of the most devices, the default of a sparse histogram left out.
    Largest,
    /// That of the fewest.
    Rarest,
}

/// What devices hold, as far as errors depend on it. Parts are of all devices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answers {
    /// Who has the default value of a sparse histogram.
    pub defaults: f64,
    /// Who is in a bucket on average (for a count: who says yes).
    pub average: f64,
    /// Who is in the largest bucket.
    pub largest: f64,
    /// Who is in the rarest bucket.
    pub rarest: f64,
    /// The mean of the numbers.
    pub mean: f64,
    /// The mean of the squares of the numbers. Of vectors: of one of their numbers.
    pub square: f64,
}

/// The expected errors, in units of the answer: devices, or those of the numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// In a bucket with as many devices as there are on average. Of sums and vectors there is
    /// nothing else.
    pub average: Spread,
    /// In the largest bucket.
    pub largest: Spread,
    /// In the rarest bucket.
    pub rarest: Spread,
    /// How many devices have the default value.
    pub rest: Option<Spread>,
}

impl Answers {
    /// What is assumed of a question: buckets of sizes as words have (the bucket `i` has `1/i` of the
    /// devices of the first), numbers that are evenly spread, vectors as long as the clip. `rare` is
    /// the part of the devices that does not have the default value, or says yes.
    pub fn usual(query: &Query, rare: Option<f64>) -> Self {
        let (mut part, mut labels) = (1.0, 1.0);
        let mut buckets = f64::from(query.buckets().unwrap_or(1));
        match query {
            Query::Count { .. } => part = rare.unwrap_or(YES),
            Query::SparseHistogram { .. } => {
                part = rare.unwrap_or(RARE);
                buckets = (buckets - 1.0).max(1.0);
            }
            Query::MultiHistogram { most, .. } => labels = f64::from(*most),
            _ => {}
        }
        let harmonic: f64 = (1..=buckets as u32).rev().map(|bucket| 1.0 / f64::from(bucket)).sum();
        let held = part * labels;
        let (mean, square) = match query {
            Query::Sum { max, .. } | Query::Mean { max, .. } => {
                let max = *max as f64;
                (max / 2.0, max * (2.0 * max + 1.0) / 6.0)
            }
            Query::VectorSum(vectors) | Query::VectorMean(vectors) => {
                let clip = vectors.clip_micro as f64 / 1e6;
                (0.0, clip * clip / f64::from(vectors.sent()))
            }
            _ => (0.0, 0.0),
        };
        let is_sparse = matches!(query, Query::SparseHistogram { .. });
        Self {
            defaults: if is_sparse { 1.0 - part } else { 0.0 },
            average: held / buckets,
            largest: (held / harmonic).min(1.0),
            rarest: held / harmonic / buckets,
            mean,
            square,
        }
    }

    /// Of the same question, with buckets of these sizes.
    pub fn sized(self, largest: Option<f64>, rarest: Option<f64>) -> Self {
        let (largest, rarest) = (largest.unwrap_or(self.largest), rarest.unwrap_or(self.rarest));
        Self { largest, rarest, ..self }
    }

    /// The true answer for a bucket of `devices`, in units of the answer. That of a vector is not
    /// assumed.
    pub fn truth(&self, query: &Query, bucket: Bucket, devices: u64) -> f64 {
        match query {
            Query::Mean { .. } => self.mean,
            Query::Sum { .. } => self.mean * devices as f64,
            Query::VectorSum(_) | Query::VectorMean(_) => 0.0,
            _ => self.part(bucket) * devices as f64,
        }
    }

    fn part(&self, bucket: Bucket) -> f64 {
        match bucket {
            Bucket::Average => self.average,
            Bucket::Largest => self.largest,
            Bucket::Rarest => self.rarest,
        }
    }
}

/// How much one unit of what is summed is, in units of the answer.
pub(super) fn unit(query: &Query) -> f64 {
    query.vectors().map_or(1.0, |vectors| 1.0 / (1_u64 << vectors.fraction_bits.min(63)) as f64)
}

/// Whether the answer is divided by the number of devices.
pub(super) fn is_mean(query: &Query) -> bool {
    matches!(query, Query::Mean { .. } | Query::VectorMean(_))
}

/// The error to expect of a recipe that asks `devices`, with these answers: the root of the mean
/// squared error of the estimate over all of them. Sampling is in it; what a projection hides is
/// not.
pub fn errors(recipe: &Recipe, devices: u64, answers: &Answers) -> Result<Errors, Error> {
    let (mechanism, devices) = (mechanism(recipe)?, devices as f64);
    let unit = unit(&recipe.query);
    let defaults = answers.defaults * devices;
    let population = Population { devices, defaults, rates: rates(recipe) };
    let of = |entry: Entry| {
        let found = match is_mean(&recipe.query) {
            true => population.expected_mean(&mechanism, &entry)?,
            false => population.expected(&mechanism, &entry)?,
        };
        Ok::<_, Error>(Spread { noise: found.noise * unit, total: found.total * unit })
    };
    let bucket = |bucket| {
        if recipe.query.buckets().is_some() || matches!(recipe.query, Query::Count { .. }) {
            return of(Entry::held_by(answers.part(bucket) * devices));
        }
        let (sum, squares) = (answers.mean / unit, answers.square / unit / unit);
        of(Entry { sum: sum * devices, squares: squares * devices, is_default: false })
    };
    let rest = matches!(recipe.query, Query::SparseHistogram { .. });
    let rest = rest.then(|| of(Entry { is_default: true, ..Entry::held_by(defaults) }));
    Ok(Errors {
        average: bucket(Bucket::Average)?,
        largest: bucket(Bucket::Largest)?,
        rarest: bucket(Bucket::Rarest)?,
        rest: rest.transpose()?,
    })
}

/// The error of one trusted server that sees the exact answers of all devices, and adds Gaussian noise
/// for the claim of the recipe, under replacement. `None` if it claims nothing.
pub fn central_error(recipe: &Recipe, devices: u64) -> Result<Option<f64>, Error> {
    let Privacy::Claim { epsilon_micro, delta, rounds, .. } = &recipe.privacy else {
        return Ok(None);
    };
    let (norm, shape) = contribution(&mechanism(recipe)?, &recipe.query);
    let target = Target {
        epsilon: *epsilon_micro as f64 / 1e6,
        delta: delta.to_f64(),
        adjacency: Adjacency::Replace,
        shape,
        accountant: Accountant::Best,
    };
    let sigma = calibrate::sigma(target, |sigma| {
        let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
        if *rounds == 1 { *of } else { Event::Repeated { times: *rounds, of } }
    })?;
    let error = sigma * norm * unit(&recipe.query);
    Ok(Some(if is_mean(&recipe.query) { error / devices as f64 } else { error }))
}

/// The largest norm of an exact answer, and how far apart two may be.
fn contribution(mechanism: &Mechanism, query: &Query) -> (f64, Shape) {
    match (query, mechanism.clip()) {
        (_, Some(clip)) => (clip as f64, Shape::Vector),
        (Query::MultiHistogram { most, .. }, _) => (f64::from(*most).sqrt(), Shape::OneHot),
        _ => match mechanism.encoding() {
            Encoding::Bit => (1.0, Shape::Number),
            Encoding::Number { max } => (max as f64, Shape::Number),
            _ => (1.0, Shape::OneHot),
        },
    }
}
