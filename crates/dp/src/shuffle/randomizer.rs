//! Local randomizers, as a crowd hides them: which part of a report does not depend on the input
//! (the *blanket*), and where it falls.
//!
//! **One form for all.** In the randomizers here each value `x` has a set `S_x` of outputs that are
//! `w` times as likely under `x` as under a law `omega` that does not depend on the value, all but
//! for a common factor:
//!
//! ```text
//! R_x(y) = g w omega(y) for y in S_x,  g omega(y) otherwise;   1/g = 1 + (w - 1) omega(S_x)
//! ```
//!
//! So every report is drawn from `omega` with probability `g`, whatever the value; otherwise from a
//! law that does depend on it. For two values `x` and `x'` of the device only four classes of
//! outputs matter: in `S_x` only, in `S_x'` only, in both, in neither.
//!
//! | | `w` | `omega` | `S_x` |
//! |---|---|---|---|
//! | k-ary randomized response | `e^epsilon0` | uniform | `x` itself |
//! | RAPPOR | `e^(2 epsilon0)` | every bit set with `p` | bit `x` is set |
//! | projective geometry | see [`excess`] | uniform over the points | the points orthogonal to `x` |
//!
//! With RAPPOR `R_x(y)` is `omega(y)` times `(1-p)/p = e^epsilon0` if bit x is set, and divided by
//! that if not; hence `g = e^-epsilon0`. (All bits set may count as the device's own: the blanket
//! is then larger, by `p^K`, which is not used.)
//!
//! *Any* randomizer with the replacement epsilon `epsilon0` has this form too, for two values and
//! as far as they can be told apart: two laws, of which a report under `x` is the first with
//! probability `e^epsilon0/(e^epsilon0 + 1)`, else the second, and one under any third value is
//! each with probability `1/(e^epsilon0 + 1)` (Feldman, McMillan, Talwar 2023).

use crate::Event;
use crate::math::{down, exp, expm1, ln, log1p, up};
use crate::pld::pair::Atoms;

/// Covers the roundings of a weight. Relative.
const MARGIN: f64 = 1e-14;

/// A local randomizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Randomizer {
    /// Anything with this epsilon under replacement.
    Any { epsilon0: f64 },
    /// k-ary randomized response with this epsilon under replacement.
    Response { epsilon0: f64, k: u64 },
    /// RAPPOR over `k` symbols with this epsilon under deletion.
    Rappor { epsilon0: f64, k: u64 },
    /// Projective geometry response with the weight `w`: its logarithm, rounded up, and down.
    Projective { ln_weight: f64, least: f64, order: u64, dimension: u64 },
}

/// The probabilities of the classes into which a report of another device falls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    /// `ln w`.
    pub(super) ln_weight: f64,
    /// From the blanket, in the first set only; the same for the second.
    pub(super) apart: f64,
    /// From the blanket, in both sets.
    pub(super) both: f64,
    /// From the blanket, in neither; or no report at all.
    pub(super) plain: f64,
    /// Not from the blanket.
    pub(super) known: f64,
    /// How likely the device's own report is to look like one of the last, relative to those of the
    /// others: 0 if the adversary is shown which these are.
    pub(super) known_weight: f64,
}

impl Randomizer {
    /// The randomizer that an event describes, if it is one.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        Some(match *event.unwrapped() {
            Event::PureDp { epsilon } => Self::Any { epsilon0: epsilon },
            Event::RandomizedResponse { epsilon0, k } => Self::Response { epsilon0, k },
            Event::Rappor { epsilon0, k } => Self::Rappor { epsilon0, k },
            Event::ProjectiveGeometry { epsilon0, order, dimension } => {
                let own = incidence(order, dimension).0;
                // The weight itself may overflow.
                let ln = |margin| log1p(excess(epsilon0, own, margin)).min(2.0 * epsilon0);
                let (ln_weight, least) = (up(ln(MARGIN), MARGIN), down(ln(-MARGIN), MARGIN));
                Self::Projective { ln_weight, least, order, dimension }
            }
            _ => return None,
        })
    }

    /// Its epsilon under replacement: `ln w`.
    pub(crate) fn local_epsilon(self) -> f64 {
        match self {
            Self::Any { epsilon0 } | Self::Response { epsilon0, .. } => epsilon0,
            Self::Rappor { epsilon0, .. } => 2.0 * epsilon0,
            Self::Projective { ln_weight, .. } => ln_weight,
        }
    }

    /// The same, at most as bad: for lower ends.
    pub(crate) fn rounded_down(self) -> Self {
        match self {
            Self::Projective { least, order, dimension, .. } => {
                Self::Projective { ln_weight: least, least, order, dimension }
            }
            other => other,
        }
    }

    /// The classes of a report of another device.
    pub(super) fn classes(self) -> Classes {
        let (ln_weight, known_weight) = (self.local_epsilon(), 0.0);
        let a = expm1(ln_weight);
        match self {
            Self::Any { .. } => {
                let apart = 1.0 / (a + 2.0);
                Classes { ln_weight, apart, both: 0.0, plain: 0.0, known: a * apart, known_weight }
            }
            Self::Response { k, .. } => {
                let k = k as f64;
                let apart = 1.0 / (a + k);
                let plain = (k - 2.0) * apart;
                Classes { ln_weight, apart, both: 0.0, plain, known: a * apart, known_weight }
            }
            Self::Rappor { epsilon0, .. } => {
                let (set, g) = (1.0 / (exp(epsilon0) + 1.0), exp(-epsilon0));
                let (apart, both) = (set * set, g * set * set);
                let plain = set / (1.0 + g);
                let known = -expm1(-epsilon0);
                Classes { ln_weight, apart, both, plain, known, known_weight }
            }
            Self::Projective { order, dimension, .. } => {
                let (own, shared) = incidence(order, dimension);
                let g = 1.0 / (1.0 + a * own);
                let (apart, both) = (g * (own - shared), g * shared);
                let plain = g * (1.0 - 2.0 * own + shared);
                Classes { ln_weight, apart, both, plain, known: a * own * g, known_weight }
            }
        }
    }

    /// A real crowd: all others hold one third value `u`. `None` if there is none.
    ///
    /// Relative to a report of these others, the device's own is `w` times as likely in its own set
    /// outside of `S_u`, `1/w` times in `S_u` outside of its own, and as likely elsewhere.
    ///
    /// - Randomized response: `S_u` is `u`.
    /// - RAPPOR: the outputs with bit `u` are one class. The device's own report is in it with
    ///   `p/(1 - p)` times the probability, whatever its value.
    /// - Projective geometry: `u` lies on the line through `x` and `x'`. What is orthogonal to two of
    ///   them is then orthogonal to all three, so nothing but that is in two of the sets.
    pub(super) fn third_value(self) -> Option<Classes> {
        let Classes { ln_weight, apart, both, plain, .. } = self.classes();
        let weight = exp(ln_weight);
        Some(match self {
            Self::Any { .. } | Self::Response { k: ..=2, .. } | Self::Rappor { k: ..=2, .. } => {
                return None;
            }
            Self::Response { .. } => Classes {
                ln_weight,
                apart,
                both: 0.0,
                plain: (plain - apart).max(0.0),
                known: weight * apart,
                known_weight: 1.0 / weight,
            },
            Self::Rappor { epsilon0, .. } => {
                let (set, g) = (1.0 / (exp(epsilon0) + 1.0), exp(-epsilon0));
                let kept = 1.0 / (1.0 + g);
                let (apart, both) = (set * set * kept, set * set * set);
                let plain = set * kept * kept;
                Classes { ln_weight, apart, both, plain, known: kept, known_weight: g }
            }
            Self::Projective { .. } => {
                let known = weight * apart;
                // Orthogonal to none, or to all.
                let plain = plain - apart + weight * both;
                Classes { ln_weight, apart, both: 0.0, plain, known, known_weight: 1.0 / weight }
            }
        })
    }

    /// The loss of one report alone.
    pub(crate) fn alone(self) -> Atoms {
        if let Self::Any { epsilon0 } = self {
            return Atoms::black_box(epsilon0);
        }
        let Classes { ln_weight, apart, .. } = self.classes();
        let (more, less) = (exp(ln_weight) * apart, apart);
        // Of the report, w g omega(S_x only) is in the first set only.
        Atoms::new(vec![(ln_weight, more), (-ln_weight, less), (0.0, 1.0 - more - less)], 0.0)
    }
}

impl Classes {
    /// Whether the first two classes determine all that matters of the others.
    pub(super) fn is_fixed(&self) -> bool {
        self.both <= 0.0 && (self.plain <= 0.0 || self.known <= 0.0)
    }

    /// The same if a report is sent with probability `rate`, and it is seen how many are: that
    /// nothing is sent does not depend on the value.
    pub(super) fn sampled(self, rate: f64) -> Self {
        Self {
            ln_weight: self.ln_weight,
            apart: rate * self.apart,
            both: rate * self.both,
            plain: 1.0 - rate + rate * self.plain,
            known: rate * self.known,
            known_weight: self.known_weight,
        }
    }
}

/// The parts of all points that are orthogonal to one point, and to each of two:
/// `(q^(t-1) - 1)/(q^t - 1)` and `(q^(t-2) - 1)/(q^t - 1)` in the geometry of order `q` and
/// dimension `t` (of the space of vectors).
fn incidence(order: u64, dimension: u64) -> (f64, f64) {
    let ln_order = ln(order as f64);
    // 1 - q^-j.
    let missing = |j: f64| -expm1(-j * ln_order);
    let (t, all) = (dimension as f64, missing(dimension as f64));
    let own = missing(t - 1.0) / (order as f64 * all);
    let shared = missing(t - 2.0) / (order as f64 * order as f64 * all);
    (own, shared)
}

/// How much likelier a point of the own set is than another one, `w - 1`, for the epsilon under
/// *deletion*: the largest for which no probability is more than `e^epsilon0` times, or less than
/// `e^-epsilon0` times, that of the uniform law. With `D = 1 + (w - 1) own` these are `w/D` and
/// `1/D`. Rounded up or down, by the sign of `margin`.
fn excess(epsilon0: f64, own: f64, margin: f64) -> f64 {
    let a = expm1(epsilon0);
    // (w - 1) own <= a, and (w - 1) (1 - own e^epsilon0) <= a.
    let left = 1.0 - own * (a + 1.0) * (1.0 + margin);
    let by_own = if left > 0.0 { a / left } else { f64::INFINITY };
    (a / own).min(by_own) * (1.0 + margin)
}

/// Whether there is a field of this order, and so a projective geometry.
pub(crate) fn is_prime_power(order: u64) -> bool {
    let mut factor = 2;
    while factor * factor <= order {
        if order.is_multiple_of(factor) {
            let mut left = order;
            while left.is_multiple_of(factor) {
                left /= factor;
            }
            return left == 1;
        }
        factor += 1;
    }
    order >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The weight rounded down is one that the deletion parameter allows; rounded up, it is at least
    /// the largest.
    #[test]
    fn the_weight_of_projective_geometry_is_enclosed() {
        let near_the_order = 32.0 * std::f64::consts::LN_2 - 1e-9;
        for (epsilon0, order, dimension) in [
            (0.01, 2, 2),
            (1.0, 3, 3),
            (4.0, 23, 3),
            (6.0, 5, 2),
            (near_the_order, 1 << 32, 2),
            (10_000.0, 2, 2),
        ] {
            let event = Event::ProjectiveGeometry { epsilon0, order, dimension };
            let most = Randomizer::of(&event).unwrap();
            let least = most.rounded_down();
            let (most, least) = (most.local_epsilon(), least.local_epsilon());
            assert!(least < most && most <= 2.0 * epsilon0 * (1.0 + 1e-13), "{event:?}");
            assert!(most - least <= 1e-4 * most, "{event:?}: {least} {most}");
            // The logarithm of the larger of w/D and D.
            let distance = |ln_weight: f64| {
                let d = log1p(expm1(ln_weight) * incidence(order, dimension).0);
                d.max(ln_weight - d)
            };
            if epsilon0 < 100.0 {
                assert!(distance(least) <= epsilon0 * (1.0 + 1e-15), "{event:?}");
                assert!(distance(most) >= epsilon0 * (1.0 - 1e-15), "{event:?}");
            }
        }
    }
}
