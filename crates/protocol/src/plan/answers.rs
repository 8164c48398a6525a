//! What devices are assumed to hold, and the error that follows.

use sotto_dp::calibrate::{self, Target};
use sotto_dp::mechanism::{Encoding, Entry, Mechanism, Population, Spread};
use sotto_dp::{Accountant, Adjacency, Error, Event, Shape};
use sotto_wire::recipe::{Privacy, Probability, Query, Randomizer, Recipe};

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
pub fn unit(query: &Query) -> f64 {
    query.vectors().map_or(1.0, |vectors| 1.0 / (1_u64 << vectors.fraction_bits.min(63)) as f64)
}

/// Whether the answer is divided by the number of devices.
pub fn is_mean(query: &Query) -> bool {
    matches!(query, Query::Mean { .. } | Query::VectorMean(_))
}

/// What errors to expect of the estimates of a recipe, by what devices hold.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    mechanism: Mechanism,
    population: Population,
    unit: f64,
    is_mean: bool,
}

impl Prediction {
    /// Of a recipe that asks `devices`. So many of them have the default value of a sparse histogram.
    pub fn new(recipe: &Recipe, devices: f64, defaults: f64) -> Result<Self, Error> {
        Ok(Self {
            mechanism: mechanism(recipe)?,
            population: Population { devices, defaults, rates: rates(recipe) },
            unit: unit(&recipe.query),
            is_mean: is_mean(&recipe.query),
        })
    }

    /// Of the same recipe without any privacy: of the exact answers of those who take part.
    pub fn without_privacy(recipe: &Recipe, devices: f64, defaults: f64) -> Result<Self, Error> {
        let mut exact = recipe.clone();
        (exact.randomizer, exact.noise) = (Randomizer::None, None);
        exact.privacy = Privacy::InsecureUnbounded;
        exact.sampling.dummy_rate = Probability::ZERO;
        Self::new(&exact, devices, defaults)
    }

    /// The root of the mean squared error of the estimate of an entry over all devices. Sampling is
    /// in it; what a projection hides is not. All in units of the answer.
    pub fn error(&self, entry: &Entry) -> Result<Spread, Error> {
        let Self { mechanism, population, unit, is_mean } = self;
        let (sum, squares) = (entry.sum / unit, entry.squares / unit / unit);
        let entry = Entry { sum, squares, ..*entry };
        let found = match is_mean {
            true => population.expected_mean(mechanism, &entry)?,
            false => population.expected(mechanism, &entry)?,
        };
        Ok(Spread { noise: found.noise * unit, total: found.total * unit })
    }

    /// The errors with these answers.
    fn errors(&self, query: &Query, answers: &Answers) -> Result<Errors, Error> {
        let Population { devices, defaults, .. } = self.population;
        let bucket = |bucket| {
            if query.buckets().is_some() || matches!(query, Query::Count { .. }) {
                return self.error(&Entry::held_by(answers.part(bucket) * devices));
            }
            let (sum, squares) = (answers.mean * devices, answers.square * devices);
            self.error(&Entry { sum, squares, is_default: false })
        };
        let rest = matches!(query, Query::SparseHistogram { .. });
        let rest = rest.then(|| {
            let entry = Entry { is_default: true, ..Entry::held_by(defaults) };
            self.error(&entry)
        });
        Ok(Errors {
            average: bucket(Bucket::Average)?,
            largest: bucket(Bucket::Largest)?,
            rarest: bucket(Bucket::Rarest)?,
            rest: rest.transpose()?,
        })
    }
}

/// The errors to expect of a recipe that asks `devices`, with these answers.
pub fn errors(recipe: &Recipe, devices: u64, answers: &Answers) -> Result<Errors, Error> {
    let devices = devices as f64;
    let prediction = Prediction::new(recipe, devices, answers.defaults * devices)?;
    prediction.errors(&recipe.query, answers)
}

/// The error without any privacy: that of the sample alone.
pub fn sampling_error(recipe: &Recipe, devices: u64, answers: &Answers) -> Result<f64, Error> {
    let devices = devices as f64;
    let exact = Prediction::without_privacy(recipe, devices, answers.defaults * devices)?;
    Ok(exact.errors(&recipe.query, answers)?.average.total)
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
