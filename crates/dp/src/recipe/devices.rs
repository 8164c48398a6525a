//! Noise that devices bring themselves, as they draw it: on whole numbers, and not quite all of its
//! law.
//!
//! A release has `h = B/2` honest contributions or more, and in both cases as many: the noise that is
//! counted is that of `h`, `1/2` of the variance of all. It is judged as the continuous noise of which
//! the sum of `h` draws is nearly a rounding ([`smoothed_sum`]), as noise of a server is. Whatever
//! noise there is more is added afterwards.
//!
//! **What is drawn again.** A report whose norm comes out above its bound is replaced by another draw.
//! Some report of a round is, with probability at most `r`; so over `T` rounds everything that is seen
//! is within `T r`, in total variation, of what it would be with the full law. Let that be
//! `(epsilon, d)`-private. Then an event has a probability of at most
//!
//! ```text
//! e^epsilon (Q + T r) + d + T r
//! ```
//!
//! where `Q` is what it has for the neighbour: `d + (1 + e^epsilon) T r` is charged. (The truth is
//! probably nearer to `d + T r`: which reports are drawn again depends on the report and not on the
//! value. But only the sum is seen, and of the sum nothing better is proved.)

use super::{Judgement, Law, Rule, Terms, server};
use crate::Error;
use crate::discrete::{Smoothed, smoothed_sum};
use crate::math::{down, exp, sqrt, up};

/// The parts of delta that may be charged for reports that were drawn again. A mechanism is made so
/// that the first is enough at the epsilon that its recipe claims.
const CHARGED: [f64; 3] = [0.01, 0.1, 0.5];

/// Judges the noise of devices.
pub(super) fn judge(terms: &Terms, certified: Option<u64>, delta: f64) -> Result<Judgement, Error> {
    let Law::DistributedGaussian { sigma, contribution, unit, dimension, adjacency, redrawn } =
        terms.law
    else {
        return Err(super::NO_LAW);
    };
    let none = |delta| Rule::None(adjacency).judge(terms, certified, delta, (f64::INFINITY, None));
    let together = sigma * unit as f64;
    let each = down(together / sqrt(terms.min_batch as f64), 8.0 * f64::EPSILON);
    let coordinates = dimension as f64 * terms.rounds as f64;
    let norm = contribution.norm() * unit as f64;
    let of = |parties: u64, counted: f64| {
        let counted = down(each * sqrt(counted), 8.0 * f64::EPSILON);
        let found = smoothed_sum(each, parties, counted, coordinates)?;
        Ok::<_, Error>(Smoothed { sigma: down(found.sigma / norm, 8.0 * f64::EPSILON), ..found })
    };
    let batch = terms.min_batch;
    let half = of(terms.honest_batch(), super::HONEST * batch as f64)?;
    // The paper's figure is for the noise of all.
    let all = Smoothed { closeness: half.closeness, ..of(batch, batch as f64)? };
    let seen = up(terms.rounds as f64 * redrawn, f64::EPSILON);
    for part in CHARGED {
        let left = down(delta * (1.0 - part), 4.0 * f64::EPSILON);
        let found =
            server::judge(terms, (half, all), (contribution.shape(), adjacency), certified, left)?;
        let charge = up((1.0 + exp(found.epsilon)) * seen, 1e-14);
        if seen <= 0.0 || charge <= down(part * delta, 4.0 * f64::EPSILON) {
            return Ok(Judgement { delta, ..found });
        }
    }
    none(delta)
}
