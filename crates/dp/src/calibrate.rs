//! The inverse: from a target (epsilon, delta) to the parameter that meets it.
//!
//! Every answer was itself found to meet the target, so it is safe by construction. It is within
//! 1e-4 (relative) of the limit, or the exact whole number.

use crate::account::{Accountant, Question};
use crate::error::{self, non_negative};
use crate::math::search::{crossing, last_where};
use crate::math::{exp, ln};
use crate::{Adjacency, Error, Event, Shape};

/// How close to the limit, relatively.
const TOLERANCE: f64 = 5e-5;

/// The target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The largest epsilon.
    pub epsilon: f64,
    /// At this delta.
    pub delta: f64,
    /// For these neighbours.
    pub adjacency: Adjacency,
    /// For contributions of this shape.
    pub shape: Shape,
    /// By this accountant.
    pub accountant: Accountant,
}

impl Target {
    fn check(&self) -> Result<(), Error> {
        non_negative("epsilon", self.epsilon)?;
        error::delta(self.delta)?;
        Ok(())
    }

    /// How far the event is above the target; infinity for errors. In logarithms, which are nearly
    /// linear in the logarithm of most parameters.
    fn excess(&self, event: &Event) -> f64 {
        let found = self.probe(event).unwrap_or(f64::INFINITY);
        if found > 0.0 && self.epsilon > 0.0 {
            ln(found / self.epsilon)
        } else {
            found - self.epsilon
        }
    }

    /// The epsilon of the event, or its error, unless that is about the parameter's value.
    fn probe(&self, event: &Event) -> Result<f64, Error> {
        let Self { adjacency, shape, accountant, .. } = *self;
        Question { event, adjacency, shape, accountant }.epsilon_upper(self.delta)
    }
}

/// Standard deviations that are tried.
const RANGE: (f64, f64) = (1e-3, 1e9);
const NOT_EVEN: &str = "not even noise of 1e9 times the sensitivity does; raise epsilon or delta";

/// The smallest noise that meets the target.
pub fn sigma(target: Target, make: impl Fn(f64) -> Event) -> Result<f64, Error> {
    target.check()?;
    let (hint, range) = (NOT_EVEN, RANGE);
    // The Renyi accountant is fast and not far above: the others start from its answer.
    let quick = Target { accountant: Accountant::Rdp, ..target };
    let guess = smallest("sigma", hint, range, (0.5, 2.0), |sigma| quick.excess(&make(sigma)));
    let around = match guess {
        Ok(sigma) if target.accountant == Accountant::Rdp => return Ok(sigma),
        Ok(sigma) => (0.9 * sigma, 1.0001 * sigma),
        Err(_) => (0.5, 2.0),
    };
    let found = smallest("sigma", hint, range, around, |sigma| target.excess(&make(sigma)));
    // If no accountant covers the event, report that error.
    found.or_else(|unreachable| target.probe(&make(1.0)).and(Err(unreachable)))
}

/// The smallest noise whose `excess` over a target, in logarithms, is not above 0, if it is between
/// these two or not far from them.
pub(crate) fn noise(around: (f64, f64), excess: impl Fn(f64) -> f64) -> Result<f64, Error> {
    // Before many steps towards it.
    if !(excess(RANGE.1) <= 0.0) {
        return Err(Error::Unreachable { name: "sigma", hint: NOT_EVEN });
    }
    smallest("sigma", NOT_EVEN, RANGE, around, excess)
}

/// The largest sampling rate that meets the target.
pub fn rate(target: Target, make: impl Fn(f64) -> Event) -> Result<f64, Error> {
    target.check()?;
    target.probe(&make(0.5))?;
    let hint = "not even one in 1e12 does; add noise";
    largest("rate", hint, (1e-12, 1.0), |rate| target.excess(&make(rate)))
}

/// The largest local epsilon that meets the target.
pub fn epsilon0(target: Target, make: impl Fn(f64) -> Event) -> Result<f64, Error> {
    target.check()?;
    target.probe(&make(1.0))?;
    let hint = "not even a local epsilon of 1e-9 does";
    largest("epsilon0", hint, (1e-9, 50.0), |epsilon0| target.excess(&make(epsilon0)))
}

/// The largest number of repetitions that meets the target.
pub fn times(target: Target, make: impl Fn(u64) -> Event) -> Result<u64, Error> {
    target.check()?;
    target.probe(&make(1))?;
    let meets = |times: u64| target.excess(&make(times)) <= 0.0;
    if !meets(1) {
        return Err(Error::Unreachable { name: "steps", hint: "not even one does; add noise" });
    }
    let (mut low, mut high) = (1u64, 2u64);
    while meets(high) {
        if high >= 1 << 39 {
            let hint = "more than 2^39 meet it: there is no limit to speak of";
            return Err(Error::Unreachable { name: "steps", hint });
        }
        (low, high) = (high, high * 2);
    }
    Ok(last_where(low, high, meets))
}

/// The smallest crowd (reports in a shuffle, minimum batch) that meets the target.
pub fn crowd(target: Target, make: impl Fn(u64) -> Event) -> Result<u64, Error> {
    target.check()?;
    target.probe(&make(2))?;
    smallest_crowd("n", |n| target.excess(&make(n)) <= 0.0)
}

/// The smallest whole number for which `meets` holds, given that it holds for all larger ones.
pub(crate) fn smallest_crowd(
    name: &'static str,
    meets: impl Fn(u64) -> bool,
) -> Result<u64, Error> {
    let (mut low, mut high) = (0u64, 1u64);
    while !meets(high) {
        if high >= 1 << 40 {
            return Err(Error::Unreachable {
                name,
                hint: "not even 1e12 do; lower epsilon0 or add noise",
            });
        }
        (low, high) = (high, high * 2);
    }
    Ok(last_where(low, high, |crowd| !meets(crowd)) + 1)
}

/// The smallest value of a parameter that lowers epsilon as it grows.
fn smallest(
    name: &'static str,
    hint: &'static str,
    (least, most): (f64, f64),
    around: (f64, f64),
    excess: impl Fn(f64) -> f64,
) -> Result<f64, Error> {
    let excess = |ln_value: f64| excess(exp(ln_value));
    let (mut low, mut high) = (ln(around.0), ln(around.1));
    let (mut at_low, mut at_high) = (excess(low), f64::NAN);
    if !(at_low <= 0.0) {
        at_high = excess(high);
        while !(at_high <= 0.0) {
            if high > ln(most) {
                return Err(Error::Unreachable { name, hint });
            }
            (low, at_low) = (high, at_high);
            high += ln(2.0);
            at_high = excess(high);
        }
    } else {
        while at_low <= 0.0 {
            if low < ln(least) {
                return Ok(exp(low));
            }
            (high, at_high) = (low, at_low);
            low -= ln(2.0);
            at_low = excess(low);
        }
    }
    let found = crossing(excess, (low, at_low), (high, at_high), 0.0, TOLERANCE);
    Ok(exp(found.high))
}

/// The largest value of a parameter that raises epsilon as it grows.
fn largest(
    name: &'static str,
    hint: &'static str,
    (least, most): (f64, f64),
    excess: impl Fn(f64) -> f64,
) -> Result<f64, Error> {
    if excess(most) <= 0.0 {
        return Ok(most);
    }
    // In terms of the reciprocal, which lowers epsilon as it grows.
    let reversed = |ln_value: f64| excess(exp(-ln_value));
    let (mut low, mut high) = (-ln(most), -ln(most) + ln(4.0));
    while reversed(high) > 0.0 {
        if high > -ln(least) {
            return Err(Error::Unreachable { name, hint });
        }
        (low, high) = (high, high + ln(4.0));
    }
    let found = crossing(reversed, (low, 1.0), (high, -1.0), 0.0, TOLERANCE);
    Ok(exp(-found.high))
}
