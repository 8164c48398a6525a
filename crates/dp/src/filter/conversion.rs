//! From sums of divergences to an epsilon.
//!
//! Each finite order of the grid gets its own part `d` of the delta and says
//! `epsilon = rdp + ln((a-1)/a) - (ln d + ln a)/(a-1)`, the conversion of
//! [`crate::closed::rdp_to_epsilon`]. The least epsilon counts. The parts are fixed by the budget, and
//! add up to the whole: most goes to the order with which many small charges reach the budget last,
//! the rest to all others alike.

use std::sync::LazyLock;

use super::charge::{ORDERS, rdp_of};
use crate::math::{ln, log1p};

/// How many orders of the grid are finite: all but the last.
const FINITE: usize = ORDERS.len() - 1;

/// The part of the delta for the favoured order.
const FAVOURED: f64 = 0.9;

/// The relative rounding error of the conversion.
pub(super) const MARGIN: f64 = 1e-12;

/// What the conversion at one order adds: `fixed + ln(1/d) spread`.
struct Conversion {
    order: f64,
    fixed: f64,
    spread: f64,
}

static CONVERSIONS: LazyLock<[Conversion; FINITE]> = LazyLock::new(|| {
    std::array::from_fn(|i| {
        let (order, above) = (ORDERS[i], ORDERS[i] - 1.0);
        let fixed = -log1p(1.0 / above) - ln(order) / above;
        Conversion { order, fixed, spread: 1.0 / above }
    })
});

impl Conversion {
    /// The epsilon for this divergence, rounded up, if the order has `e^-ln_inverse` of the delta.
    fn epsilon(&self, rdp: f64, ln_inverse: f64) -> f64 {
        let spread = self.spread * ln_inverse;
        // All terms but `fixed` are positive.
        let slack = MARGIN * (rdp + spread - self.fixed);
        rdp + self.fixed + spread + slack
    }
}

/// The epsilon that these sums have at `delta`, under the parts for a budget of `budget` at `delta`.
pub(super) fn epsilon(sums: &[u64; ORDERS.len()], budget: f64, delta: f64) -> f64 {
    let most = -ln(delta * FAVOURED);
    let rest = -ln(delta * (1.0 - FAVOURED) / (FINITE - 1) as f64);
    let favoured = favoured(budget, most);
    let finite = CONVERSIONS.iter().zip(sums).enumerate().map(|(i, (conversion, units))| {
        conversion.epsilon(rdp_of(*units), if i == favoured { most } else { rest })
    });
    // At the infinite order pure epsilons add up, and no delta is needed.
    let pure = rdp_of(sums[FINITE]);
    finite.fold(pure, f64::min).max(0.0)
}

/// The order at which the largest rho, the `rho a` of many small charges, fits into the budget.
fn favoured(budget: f64, ln_inverse: f64) -> usize {
    let room = |i: usize| {
        let conversion = &CONVERSIONS[i];
        (budget - conversion.epsilon(0.0, ln_inverse)) / conversion.order
    };
    (0..FINITE).max_by(|a, b| room(*a).total_cmp(&room(*b))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed::rdp_to_epsilon;
    use crate::filter::RDP_UNIT;

    /// Each order by itself is the known conversion, and never below it.
    #[test]
    fn one_order_is_the_usual_conversion() {
        for (i, order) in ORDERS.into_iter().enumerate().take(FINITE) {
            for (rdp, delta) in [(0.0, 1e-9), (0.3, 1e-6), (7.0, 1e-12), (500.0, 0.3)] {
                let usual = rdp_to_epsilon(order, rdp, delta).unwrap();
                let ours = CONVERSIONS[i].epsilon(rdp, -ln(delta)).max(0.0);
                assert!((ours - usual).abs() <= 1e-9 * (1.0 + usual), "{order} {usual} {ours}");
            }
        }
    }

    /// The parts add up to the delta: at no budget is the reading below that of the whole delta at
    /// the best order, and the favoured order is never more than `ln(1/0.9)/(a-1)` away from it.
    #[test]
    fn the_favoured_order_is_nearly_as_good_as_the_best_afterwards() {
        for (budget, delta) in [(0.3, 1e-9), (2.0, 5e-7), (10.0, 5e-6), (40.0, 1e-6)] {
            let reading = |rho: f64| {
                let mut sums = [u64::MAX; ORDERS.len()];
                for (sum, order) in sums.iter_mut().zip(ORDERS).take(FINITE) {
                    *sum = (rho * order / RDP_UNIT).ceil() as u64;
                }
                let best = ORDERS[..FINITE].iter().zip(sums);
                let best = best.map(|(a, r)| rdp_to_epsilon(*a, rdp_of(r), delta).unwrap());
                (epsilon(&sums, budget, delta), best.fold(f64::INFINITY, f64::min))
            };
            // The rho that fills the budget.
            let (mut low, mut high) = (0.0, 1e4);
            for _ in 0..100 {
                let middle = 0.5 * (low + high);
                *(if reading(middle).0 > budget { &mut high } else { &mut low }) = middle;
            }
            let (ours, best) = reading(low);
            assert!(ours >= best && ours < best + 0.06 * best, "{budget}: {ours} {best}");
        }
    }
}
