//! From a delta that falls with epsilon to the epsilon of a given delta, on the requested side,
//! with few evaluations.

use crate::math::ln;

/// A delta, its possible error (in either direction), and its derivative by epsilon.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
    pub(super) slope: f64,
}

impl Estimate {
    pub(super) fn upper(self) -> f64 {
        self.value + self.error
    }

    pub(super) fn lower(self) -> f64 {
        self.value - self.error
    }
}

/// On which side of the root the answer must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Side {
    /// The answer's upper delta is at most the target.
    Upper,
    /// The answer's lower delta is above the target (or the answer is 0).
    Lower,
}

/// The required (relative) precision of the answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Precision {
    /// A Newton step below this is the last: the remaining error is about its square.
    last_step: f64,
}

/// A part in 1e10.
pub(super) const FINE: Precision = Precision { last_step: 3e-6 };

/// A part in a million, for functions that are expensive and less precise.
pub(super) const COARSE: Precision = Precision { last_step: 1e-3 };

/// The smallest (relative) distance by which the answer is moved to its side, and how often it
/// grows tenfold.
const FIRST_MARGIN: f64 = 1e-10;
const TRIES: u32 = 3;

/// An epsilon in `0..=high` on the given side of the root. `high` itself is known to be an upper
/// answer, and is the answer for `Upper` if nothing smaller is found; 0 is that of `Lower`.
///
/// Newton's method on `ln delta`, which is concave to the right of a point and nearly a parabola;
/// where that leaves the bracket, on delta itself, which is convex; else halving.
pub(super) fn root(
    mut estimate: impl FnMut(f64) -> Estimate,
    target: f64,
    mut high: f64,
    start: f64,
    side: Side,
    precision: Precision,
) -> f64 {
    let ceiling = high;
    let mut low = 0.0;
    let mut low_seen = false;
    let mut high_seen = false;
    let mut x = start.clamp(0.0, 0.9 * high);
    for _ in 0..100 {
        let (value, slope) = see(&mut estimate, x, side);
        if value > target || value.is_nan() {
            (low, low_seen) = (x, true);
        } else {
            (high, high_seen) = (x, true);
            if x == 0.0 {
                return 0.0;
            }
        }
        let mut next = x - (ln(value) - ln(target)) * value / slope;
        let step = (next - x).abs();
        // Near the ceiling delta may fall to 0 within a small part of epsilon.
        let scale = precision.last_step * next.min(ceiling - next);
        if next > 0.0 && (step <= scale || step <= FIRST_MARGIN * next) {
            let margin = (step / next) * (step / next);
            match settle(&mut estimate, target, next.min(high), margin, side) {
                Some(found) if side == Side::Upper => return found.min(high),
                Some(found) => return found,
                None if step <= FIRST_MARGIN * next => break,
                None => {}
            }
        }
        if high - low <= FIRST_MARGIN * high {
            break;
        }
        if !low_seen && (next.is_nan() || next <= 0.0) {
            next = 0.0;
        } else if next >= high && !high_seen {
            // Check once whether it helps at all.
            high_seen = true;
            if see(&mut estimate, high, side).0 > target {
                return high;
            }
            next = x - (value - target) / slope;
        }
        let inside = next > low && next < high || next == 0.0 && !low_seen;
        x = if inside { next } else { 0.5 * (low + high) };
    }
    if side == Side::Upper { high } else { low }
}

fn see(estimate: &mut impl FnMut(f64) -> Estimate, x: f64, side: Side) -> (f64, f64) {
    let found = estimate(x);
    let value = if side == Side::Upper { found.upper() } else { found.lower() };
    (value, found.slope)
}

/// The first point next to `x` that is certainly on the right side.
fn settle(
    estimate: &mut impl FnMut(f64) -> Estimate,
    target: f64,
    x: f64,
    margin: f64,
    side: Side,
) -> Option<f64> {
    let mut margin = margin.max(FIRST_MARGIN);
    for _ in 0..TRIES {
        let y = if side == Side::Upper { x * (1.0 + margin) } else { x * (1.0 - margin) };
        let value = see(estimate, y, side).0;
        if (side == Side::Upper) == (value <= target) {
            return Some(y);
        }
        margin *= 10.0;
    }
    None
}
