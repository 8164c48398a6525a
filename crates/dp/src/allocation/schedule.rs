//! Which slot a device takes.

use super::law::End;
use crate::math::{expm1, log1p};

/// How many leading bits of the number of slots are kept: more would cost a convolution each, and
/// move epsilon by less than one part in ten thousand.
const BITS: u32 = 12;

/// The upper end counts more slots than this as this many (fewer are worse), and there is no lower
/// end for them.
pub(super) const MOST_SLOTS: u64 = 1 << 30;

/// The probabilities of the slots: the ratio is `L = 1 - moved + scale S` with
/// `S = Y_0 + rho Y_1 + rho^2 Y_2 + ...`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// The number of slots.
    pub(super) slots: u64,
    /// `ln rho`: 0 if all slots are equally likely.
    pub(super) decay: f64,
    /// The probability of taking part in the series at all.
    pub(super) rate: f64,
}

impl Schedule {
    /// One of the slots, uniformly.
    pub(crate) fn uniform(slots: u64) -> Self {
        Self { slots, decay: 0.0, rate: 1.0 }
    }

    /// The first of `slots` coins of probability `1/slots` that comes up heads, if any does.
    pub(crate) fn donation(slots: u64) -> Self {
        let decay = if slots > 1 { log1p(-1.0 / slots as f64) } else { 0.0 };
        Self { slots, decay, rate: 1.0 }
    }

    /// The same after one more coin of probability `rate`: the ratio is `1 + rate (L - 1)`.
    pub(crate) fn sampled(self, rate: f64) -> Self {
        Self { rate: self.rate * rate, ..self }
    }

    /// The probability of the likeliest slot.
    pub(crate) fn most(&self) -> f64 {
        self.rate / self.slots as f64
    }

    /// The probability of taking any of the first `terms` slots.
    pub(super) fn moved(&self, terms: u64) -> f64 {
        let any = if self.decay == 0.0 { 1.0 } else { -expm1(terms as f64 * self.decay) };
        self.rate * any
    }

    /// The number of terms that are added, with few bits set, and the schedule that they belong to.
    ///
    /// Uniform: fewer slots are worse (see [`super`]), so their number is rounded down for an upper
    /// end. Donation: more terms with the same weights are worse, since each has the mean 0 apart
    /// from the constant.
    pub(super) fn terms(self, end: End) -> Option<(u64, Self)> {
        if self.slots > MOST_SLOTS && (end == End::Lower || self.decay != 0.0) {
            return None;
        }
        let slots = self.slots.min(MOST_SLOTS);
        let drop = (u64::BITS - slots.leading_zeros()).saturating_sub(BITS);
        let (fewer, more) = ((slots >> drop) << drop, slots.div_ceil(1 << drop) << drop);
        Some(match (self.decay == 0.0, end) {
            (true, End::Upper) => (fewer, Self { slots: fewer, ..self }),
            (true, End::Lower) => (more, Self { slots: more, ..self }),
            (false, End::Upper) => (more, self),
            (false, End::Lower) => (fewer, self),
        })
    }
}
