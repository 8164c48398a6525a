//! What one event costs, on the order grid, in whole units.

use serde::{Deserialize, Serialize};

use super::{conversion::MARGIN, stored};
use crate::math::{exp, up};
use crate::rdp::rounding::count_up;
use crate::{Adjacency, Error, Event, Shape, rdp};

/// The orders of the filter: about two per octave, dense where a budget between 0.1 and 10 has its
/// best order; the last one is the infinite order, for black boxes and other pure mechanisms.
/// Stored states depend on this list: if you change it, change the version of the stored form.
pub const ORDERS: [f64; 32] = [
    1.1,
    1.25,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    6.0,
    7.0,
    8.0,
    10.0,
    12.0,
    14.0,
    16.0,
    20.0,
    24.0,
    28.0,
    32.0,
    40.0,
    48.0,
    64.0,
    96.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    10_000.0,
    f64::INFINITY,
];

/// One unit of divergence: `2^-44`, about 6e-14. The largest sum is about a million.
pub const RDP_UNIT: f64 = 1.0 / (1u64 << 44) as f64;

/// One unit of delta: `2^-64`, about 5e-20.
pub const DELTA_UNIT: f64 = 1.0 / 18_446_744_073_709_551_616.0;

/// What an event costs: its divergence at each order of [`ORDERS`] and the sum of its black boxes'
/// deltas, rounded up to whole units. Worth caching: computing it takes longer than charging it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "stored::StoredCharge", into = "stored::StoredCharge")]
pub struct Charge {
    pub(super) adjacency: Adjacency,
    pub(super) rdp: [u64; ORDERS.len()],
    pub(super) delta: u64,
}

impl Charge {
    /// The charge for an event, by the rules of [`crate::rdp::of_event`].
    pub fn of_event(event: &Event, adjacency: Adjacency, shape: Shape) -> Result<Self, Error> {
        let mut charge = Self { adjacency, rdp: [0; ORDERS.len()], delta: 0 };
        for (units, order) in charge.rdp.iter_mut().zip(ORDERS) {
            let loss = rdp::of_event(event, adjacency, shape, order)?;
            *units = whole_units(loss.rdp, RDP_UNIT);
            charge.delta = charge.delta.max(whole_units(loss.delta, DELTA_UNIT));
        }
        Ok(charge)
    }

    /// The charge for an event of which only an `(epsilon, delta)` is known, from any accountant.
    pub fn black_box(epsilon: f64, delta: f64, adjacency: Adjacency) -> Result<Self, Error> {
        let event = Event::ApproximateDp { epsilon, delta };
        Self::of_event(&event, adjacency, Shape::Vector)
    }

    /// The charge under replacement for an event of which only an `(epsilon, delta)` under `adjacency`
    /// is known: one ledger takes both.
    ///
    /// Replacing a value is to remove the device and to add another, or to set the value to zero and
    /// to set another: two steps. `P <= e^epsilon M + delta` and `M <= e^epsilon Q + delta` give
    /// `P <= e^(2 epsilon) Q + (1 + e^epsilon) delta` on every set.
    pub fn replacing(epsilon: f64, delta: f64, adjacency: Adjacency) -> Result<Self, Error> {
        if adjacency == Adjacency::Replace {
            return Self::black_box(epsilon, delta, adjacency);
        }
        Event::ApproximateDp { epsilon, delta }.check()?;
        let both = if delta > 0.0 { up((1.0 + exp(epsilon)) * delta, MARGIN) } else { 0.0 };
        Self::black_box((2.0 * epsilon).min(f64::MAX), both.min(1.0), Adjacency::Replace)
    }

    /// Its divergence at each order of [`ORDERS`]; infinite where there is none.
    pub fn rdp(&self) -> [f64; ORDERS.len()] {
        self.rdp.map(rdp_of)
    }

    /// The sum of the deltas of its black boxes.
    pub fn delta(&self) -> f64 {
        delta_of(self.delta)
    }
}

/// A divergence in units as a number; the largest number of units stands for infinity.
pub(super) fn rdp_of(units: u64) -> f64 {
    if units == u64::MAX { f64::INFINITY } else { count_up(units) * RDP_UNIT }
}

/// A delta in units as a number; the largest number of units stands for 1.
pub(super) fn delta_of(units: u64) -> f64 {
    count_up(units) * DELTA_UNIT
}

/// The smallest whole number of units that is not below `value`; values that are too large (or NaN)
/// become the largest one.
fn whole_units(value: f64, unit: f64) -> u64 {
    if value.is_nan() {
        return u64::MAX;
    }
    // The unit is a power of two: the division is exact (or overflows to infinity, which
    // saturates).
    (value / unit).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_round_up_and_saturate() {
        assert_eq!(whole_units(0.0, RDP_UNIT), 0);
        assert_eq!(whole_units(f64::MIN_POSITIVE, RDP_UNIT), 1);
        assert_eq!(whole_units(1.0, RDP_UNIT), 1 << 44);
        assert_eq!(whole_units(1.0f64.next_up(), RDP_UNIT), (1 << 44) + 1);
        for huge in [1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(whole_units(huge, RDP_UNIT), u64::MAX);
        }
        assert_eq!(whole_units(1.0, DELTA_UNIT), u64::MAX);
        assert_eq!(rdp_of(u64::MAX), f64::INFINITY);
        for units in [(1 << 53) + 1, u64::MAX - 1, (1 << 60) + 1] {
            assert!(count_up(units) as u128 >= u128::from(units));
        }
    }

    #[test]
    fn the_orders_rise() {
        assert!(ORDERS[0] > 1.0 && ORDERS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
