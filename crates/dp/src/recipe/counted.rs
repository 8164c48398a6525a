//! Recipes whose count tells something: under add/remove whether a device is there, and if the rate
//! depends on the value what it holds. The sum has noise, of the devices or of a server.
//!
//! Let `n` be the largest number of other honest devices for which a release, the device included,
//! has probability at most `eta`, and `m` the number that is certified.
//!
//! - With `j` others or more, all that is ever seen is a post-processing of the view with exactly
//!   `j` others, no minimum at all and the least noise: toss the coins of the rest, add them to
//!   count and sum, add the missing noise (there is never less than half of the variance in a
//!   release), and withhold the sum where it is below the minimum. So one pair, count seen with `j`
//!   others, bounds every population from `j` on at once, even one that changes from round to round.
//! - With fewer than `n`, except with probability `eta`, only the count is seen, and it is a
//!   post-processing of the count with exactly `m` others.
//!
//! So if `m >= n`, the pair with `n` others is a bound at no further cost. Otherwise a single round
//! costs the larger of that pair's epsilon and the epsilon of the count alone with `m` others. For
//! several rounds there are two bounds, and the smaller one counts: the pair with `m` others; and
//! the pair with `n` others composed with the count alone, both charged for every round, released or
//! not. Each round also costs `eta`.
//!
//! **Two rates.** The pair is that of [`Event::ImportanceSampled`], with others of any values: those
//! that may be silent, and `n`, are those of the higher rate. The count alone is a post-processing
//! of that pair with noise in which every sum drowns. A rate between the two is a mixture of them.
//!
//! **Among senders.** Whoever knows who sent something counts these, and only they hide the device.
//! Then `m` is how many of the certified ones sent something, at least, except with probability
//! `eta`.

use super::{HONEST, IMPROBABLE, Rule, Terms, best, most_surely, silent_population};
use crate::math::up;
use crate::{Adjacency, Error, Event, Shape, shuffle};

/// Noise of this standard deviation hides every sum.
const DROWNED: f64 = 1e9;

/// What is seen where the count tells something.
pub(super) struct Counted {
    pub(super) adjacency: Adjacency,
    /// One release with the count seen, by the number of honest others.
    pub(super) release: Box<dyn Fn(u64) -> Event>,
    /// In each round a release is not like that with `IMPROBABLE` times the round's part of delta
    /// for so many reasons.
    pub(super) exceptions: u32,
}

impl Terms {
    /// A release with noise `sigma`, the count seen.
    pub(super) fn release(&self, sigma: f64, shape: Shape, adjacency: Adjacency) -> Rule {
        let Self { rate, dummy_rate, .. } = *self;
        let (default_rate, two_rates) = (self.least_rate(), self.has_two_rates());
        let release = move |population| match two_rates {
            false => Event::SampledCountSeen { rate, population, dummy_rate, sigma, shape },
            true => Event::ImportanceSampled {
                default_rate,
                rate,
                population,
                defaults: 0,
                dummy_rate,
                sigma,
                shape,
            },
        };
        Rule::Counted(Counted { adjacency, release: Box::new(release), exceptions: 0 })
    }

    /// The count alone: with noise in which every sum drowns.
    pub(super) fn count_alone(&self, population: u64) -> Event {
        match self.has_two_rates() {
            false => {
                let rate = up(self.sending(), f64::EPSILON).min(1.0);
                Event::CountOnly { rate, population }
            }
            true => Event::ImportanceSampled {
                default_rate: self.least_rate(),
                rate: self.rate,
                population,
                defaults: 0,
                dummy_rate: self.dummy_rate,
                sigma: DROWNED,
                shape: Shape::Number,
            },
        }
    }
}

impl Counted {
    /// The epsilon of all rounds.
    pub(super) fn judge(
        &self,
        terms: &Terms,
        certified: Option<u64>,
        delta: f64,
    ) -> Result<f64, Error> {
        let (sending, batch) = (terms.sending(), terms.honest_batch());
        let improbable = IMPROBABLE * delta / terms.rounds as f64;
        let mut exceptions = 1 + self.exceptions;
        let Some(silent) = silent_population(sending, batch, improbable) else {
            return Ok(f64::INFINITY);
        };
        let mut others = honest_others(certified);
        if terms.senders < 1.0 {
            others = most_surely(others, terms.senders, improbable);
            exceptions += 1;
        }
        let left = delta * (1.0 - f64::from(exceptions) * IMPROBABLE);
        let of_rounds = |round: Event| {
            let event = Event::Repeated { times: terms.rounds, of: Box::new(round) };
            best(&event, self.adjacency, Shape::Vector, left)
        };
        if others >= silent {
            return of_rounds((self.release)(silent));
        }
        if others == 0 && terms.has_two_rates() {
            return Ok(f64::INFINITY);
        }
        let count = terms.count_alone(others);
        if terms.rounds == 1 {
            return Ok(of_rounds((self.release)(silent))?.max(of_rounds(count)?));
        }
        let apart = of_rounds(Event::Composed { of: vec![(self.release)(silent), count] })?;
        let together = if others > 0 { of_rounds((self.release)(others))? } else { f64::INFINITY };
        Ok(apart.min(together))
    }
}

/// How many others are honest and toss the coin: half of those that are certified, the device not
/// included.
pub(super) fn honest_others(certified: Option<u64>) -> u64 {
    certified.map_or(0, |devices| shuffle::honest_crowd(devices, HONEST).saturating_sub(1))
}
