//! Privacy amplification by shuffling: what remains visible of one report among `n` when the
//! adversary sees the reports (or their histogram) but not who sent which. All epsilons here are
//! for the adjacency *replace*.
//!
//! - [`generic_epsilon`], [`generic_delta`]: any local randomizer, from its *replacement* epsilon
//!   (Feldman, McMillan, Talwar, "Stronger Privacy Amplification by Shuffling", 2023), as an exact
//!   sum.
//! - [`krr_epsilon`], [`krr_delta`]: k-ary randomized response, by its privacy blanket (Balle,
//!   Bell, Gascón, Nissim 2019), for all inputs of the others.
//! - RAPPOR and projective geometry response, as events: by their blankets too. For RAPPOR there is
//!   also a bound for those who see only the sum of the reports (`summed`).
//! - [`closed_form_epsilon`]: the closed form of the same 2023 paper, where it is valid.
//! - [`honest_crowd`]: how many reports hide the device when only a fraction of the others is
//!   honest.
//!
//! **The notion matters.** RAPPOR and projective geometry response are parametrized by *deletion*:
//! their `epsilon0` is the distance to a reference law, and their replacement parameter is up to
//! twice as large. A deletion epsilon must never be passed to the generic bound.

mod binary;
mod bounds;
mod closed;
mod halves;
mod instance;
mod losses;
mod randomizer;
mod search;
mod summed;
mod weights;

pub use bounds::{generic_delta, generic_epsilon, krr_delta, krr_epsilon};
pub use closed::closed_form_epsilon;

pub(crate) use bounds::{Composed, composed, delta, epsilon, upper};
pub(crate) use randomizer::{Randomizer, is_prime_power};

use crate::math::{exp, expm1, up};

/// Who may have sent what is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    /// The device and others like it.
    pub(crate) reports: u64,
    /// Each of them sends a report with this probability; the number of reports is seen.
    pub(crate) rate: f64,
    /// The device is one of them with this probability; if not, another one takes its place.
    pub(crate) share: f64,
}

impl Crowd {
    /// `n` devices that send their reports.
    pub(crate) fn of(reports: u64) -> Self {
        Self { reports, rate: 1.0, share: 1.0 }
    }

    /// Whether nobody is left out.
    fn is_all(&self) -> bool {
        self.rate >= 1.0 && self.share >= 1.0
    }
}

/// The largest `epsilon0` for which a crowd is considered. Above it, even 2^36 others send a clone
/// with a total probability of 1e-32: the local guarantee is the answer.
const LARGEST_EPSILON0: f64 = 100.0;

/// The smallest `epsilon0` for which a crowd is considered (below it, quotients of denormal numbers
/// lose digits).
const SMALLEST_EPSILON0: f64 = 1e-200;

/// Mass that a delta without a target may leave outside the sums (and adds): small enough never to
/// matter.
const NEGLIGIBLE: f64 = 1e-290;

/// What a search leaves outside the sums (and adds), as a fraction of its target delta.
const OUTSIDE: f64 = 1e-12;

/// A few roundings of `exp` and `expm1`.
const ULPS: f64 = 1e-14;

/// How many of `n` reports hide the device when only a fraction `honest` of the *other* reports is
/// honest (the adversary knows the rest and removes it): `1 + floor(honest (n - 1))`. NaN counts as
/// a fraction of 0; no fraction makes the crowd larger than `n`.
pub fn honest_crowd(n: u64, honest: f64) -> u64 {
    let others = n.saturating_sub(1);
    let honest_others = (honest * others as f64).floor().max(0.0) as u64;
    n.min(honest_others.saturating_add(1))
}

/// The delta of binary randomized response alone, which no `epsilon0`-DP randomizer exceeds:
/// `(e^epsilon0 - e^epsilon) / (e^epsilon0 + 1)`.
fn local_delta(epsilon0: f64, epsilon: f64) -> f64 {
    up(-expm1(epsilon - epsilon0) / (1.0 + exp(-epsilon0)), ULPS).clamp(0.0, 1.0)
}

/// Whether computing the sums can help. See [`LARGEST_EPSILON0`] and [`SMALLEST_EPSILON0`].
fn amplifies(epsilon0: f64, n: u64) -> bool {
    n > 1 && (SMALLEST_EPSILON0..=LARGEST_EPSILON0).contains(&epsilon0)
}

/// A delta whose sums leave out (and add) no more than the fraction `part` of it, or a negligible
/// amount.
fn precise(mut delta: impl FnMut(f64) -> f64, part: f64) -> f64 {
    // Enough except in extreme cases, and several times faster.
    const FIRST: f64 = 1e-30;
    let found = delta(FIRST);
    if FIRST <= part * found { found } else { delta(NEGLIGIBLE).min(found) }
}
