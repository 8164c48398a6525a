//! The best order.
//!
//! Every order gives a valid epsilon, so the search affects only tightness. With the conversion of
//! Canonne, Kamath and Steinke,
//!
//! ```text
//! (a - 1) epsilon(a) = ln A_a + ln(1/delta) + (a-1) ln(a-1) - a ln a,
//! ```
//!
//! a convex function of `a` (`ln A` is, and the second derivative of the rest is `1/(a-1) - 1/a`),
//! so the set where `epsilon(a) <= t` is an interval for each `t`: there is one valley, and walking
//! downhill finds its bottom.

use super::Loss;
use super::curve::Curve;
use crate::error::{delta as check_delta, in_range, order as check_order};
use crate::math::up;
use crate::{Adjacency, Error, Event, Shape, closed};

/// An epsilon and the order that gave it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RdpAnswer {
    /// The event is `(epsilon, delta)`-DP.
    pub epsilon: f64,
    /// The order; infinite if adding up pure epsilons was best.
    pub order: f64,
}

/// The relative rounding error of the conversion, added to the final epsilon.
const MARGIN: f64 = 1e-12;

/// Orders are tried at `1 + 2^j`, from here ...
const FIRST_EXPONENT: i32 = 4;
/// ... down to this (an epsilon of about 1e12) ...
const LAST_DOWN: i32 = -20;
/// ... and up to this.
const LAST_UP: i32 = 19;

/// Fractional orders (quadratures) are tried below this order.
const FRACTIONAL_BELOW: f64 = 64.0;
/// A fractional search ends when the parabola through its three points promises less than this,
/// relatively: below order 12 ...
const GAIN_BELOW_TWELVE: f64 = 1e-12;
/// ... and above.
const GAIN_ABOVE_TWELVE: f64 = 1e-7;
/// The most evaluations that one search takes.
const MOST_STEPS: u32 = 60;

/// The smallest epsilon at `delta` that Renyi divergences prove for `event`, over all orders.
///
/// Deltas of black boxes in the event are subtracted from `delta` first. If the whole event is pure
/// (or black boxes), the plain sum of epsilons competes too.
pub fn epsilon(
    event: &Event,
    adjacency: Adjacency,
    shape: Shape,
    delta: f64,
) -> Result<RdpAnswer, Error> {
    event.check()?;
    check_delta(delta)?;
    let curve = Curve { adjacency, shape };
    let basic = curve.loss(event, f64::INFINITY)?;
    let holds = basic.delta < delta || basic.delta <= 0.0;
    in_range("delta", delta, holds, "above the sum of the deltas of the event's parts")?;
    let valley = Valley { curve, event, delta: delta - up(basic.delta, MARGIN) };
    let mut best = RdpAnswer { epsilon: basic.rdp, order: f64::INFINITY };
    if valley.delta > 0.0 {
        let found = valley.search()?;
        if found.epsilon < best.epsilon {
            best = RdpAnswer { epsilon: found.epsilon, order: found.order };
        }
    }
    best.epsilon = up(best.epsilon, MARGIN);
    Ok(best)
}

/// A point of the valley.
#[derive(Clone, Copy)]
struct Point {
    order: f64,
    epsilon: f64,
}

struct Valley<'a> {
    curve: Curve,
    event: &'a Event,
    delta: f64,
}

impl Valley<'_> {
    fn at(&self, order: f64) -> Result<Point, Error> {
        check_order(order)?;
        let Loss { rdp, .. } = self.curve.loss(self.event, order)?;
        let epsilon = if rdp.is_finite() {
            closed::rdp_to_epsilon(order, rdp, self.delta)?
        } else {
            f64::INFINITY
        };
        Ok(Point { order, epsilon })
    }

    fn search(&self) -> Result<Point, Error> {
        let mut bracket = self.walk()?;
        let (low, middle, high) = bracket;
        let inside = low.order < middle.order && middle.order < high.order;
        if !inside || middle.epsilon <= 0.0 || middle.epsilon == f64::INFINITY {
            return Ok(middle);
        }
        if high.order > 3.0 {
            bracket = self.narrow(bracket, Resolution::Integers)?;
        }
        let middle = bracket.1.order;
        if middle < FRACTIONAL_BELOW {
            let gain = if middle < 12.0 { GAIN_BELOW_TWELVE } else { GAIN_ABOVE_TWELVE };
            bracket = self.narrow(bracket, Resolution::Gain(gain))?;
        }
        Ok(bracket.1)
    }

    /// Downhill over the orders `1 + 2^j`: three of them, the middle one lowest (the outer ones may
    /// be missing at the ends, where they repeat the middle one).
    fn walk(&self) -> Result<(Point, Point, Point), Error> {
        let start = self.at(1.0 + libm::ldexp(1.0, FIRST_EXPONENT))?;
        let (mut low, mut middle, mut high) = (start, start, start);
        let mut exponent = FIRST_EXPONENT;
        while exponent < LAST_UP && middle.epsilon > 0.0 && middle.epsilon < f64::INFINITY {
            exponent += 1;
            high = self.at(1.0 + libm::ldexp(1.0, exponent))?;
            if high.epsilon >= middle.epsilon {
                break;
            }
            (low, middle) = (middle, high);
        }
        if middle.order > start.order {
            return Ok((low, middle, high));
        }
        exponent = FIRST_EXPONENT;
        while exponent > LAST_DOWN && middle.epsilon > 0.0 {
            exponent -= 1;
            low = self.at(1.0 + libm::ldexp(1.0, exponent))?;
            if low.epsilon >= middle.epsilon && middle.epsilon < f64::INFINITY {
                break;
            }
            (high, middle) = (middle, low);
        }
        Ok((low, middle, high))
    }

    /// Narrows a bracket by parabolas in `order` through its three points, and golden sections
    /// whenever two parabolas in a row have not halved it.
    fn narrow(
        &self,
        bracket: (Point, Point, Point),
        resolution: Resolution,
    ) -> Result<(Point, Point, Point), Error> {
        let (mut low, mut middle, mut high) = bracket;
        let mut width = high.order - low.order;
        for round in 0..MOST_STEPS {
            let vertex = vertex(low, middle, high);
            let wide = round % 3 == 2 && high.order - low.order > 0.5 * width;
            if round % 3 == 2 {
                width = high.order - low.order;
            }
            let golden = if high.order - middle.order > middle.order - low.order {
                middle.order + 0.382 * (high.order - middle.order)
            } else {
                middle.order - 0.382 * (middle.order - low.order)
            };
            let aim = match vertex {
                Some((order, gain)) if !wide => {
                    if matches!(resolution, Resolution::Gain(least) if gain < least * middle.epsilon)
                    {
                        break;
                    }
                    order
                }
                _ => golden,
            };
            let Some(order) = resolution.place(aim, low.order, middle.order, high.order) else {
                break;
            };
            let next = self.at(order)?;
            if next.epsilon < middle.epsilon {
                if next.order > middle.order {
                    low = middle;
                } else {
                    high = middle;
                }
                middle = next;
            } else if next.order > middle.order {
                high = next;
            } else {
                low = next;
            }
        }
        Ok((low, middle, high))
    }
}

/// Which orders a search may try, and when it ends.
#[derive(Clone, Copy)]
enum Resolution {
    /// Integers, until the neighbours of the middle are its integer neighbours.
    Integers,
    /// All, until a step promises less than this, relatively.
    Gain(f64),
}

impl Resolution {
    /// The order to try when aiming at `aim`: inside the bracket and not at the middle.
    fn place(self, aim: f64, low: f64, middle: f64, high: f64) -> Option<f64> {
        match self {
            Self::Integers => {
                let (first, last) = (low.floor() + 1.0, high.ceil() - 1.0);
                let aim = libm::round(aim).max(first).min(last);
                if aim != middle {
                    return Some(aim);
                }
                // The wider side first.
                let (up, down) = (middle + 1.0 <= last, middle - 1.0 >= first);
                match (up, down, high - middle > middle - low) {
                    (true, _, true) | (true, false, _) => Some(middle + 1.0),
                    (_, true, _) => Some(middle - 1.0),
                    _ => None,
                }
            }
            Self::Gain(_) => {
                let least = 1e-7 * (middle - 1.0);
                let aim = if (aim - middle).abs() < least {
                    if high - middle > middle - low { middle + least } else { middle - least }
                } else {
                    aim
                };
                (aim > low && aim < high && aim > 1.0).then_some(aim)
            }
        }
    }
}

/// The lowest point of the parabola through three points, and how far it lies below the middle one.
fn vertex(low: Point, middle: Point, high: Point) -> Option<(f64, f64)> {
    let (a, b) = (middle.order - low.order, high.order - middle.order);
    let left = (middle.epsilon - low.epsilon) / a;
    let right = (high.epsilon - middle.epsilon) / b;
    let curvature = (right - left) / (a + b);
    let slope = (left * b + right * a) / (a + b);
    let shift = -slope / (2.0 * curvature);
    let gain = slope * slope / (4.0 * curvature);
    (curvature > 0.0 && shift > -a && shift < b && gain.is_finite())
        .then_some((middle.order + shift, gain))
}
