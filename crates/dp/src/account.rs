//! The accountant's entry point: the least of all valid upper bounds, with a certified lower end.

use serde::{Deserialize, Serialize};

use crate::error::{self, in_range, non_negative};
use crate::math::search::crossing;
use crate::math::{exp, up};
use crate::{Adjacency, Bracket, Error, Event, Shape, pld, rdp};

/// How events are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accountant {
    /// Renyi divergences, at the best order.
    Rdp,
    /// The privacy loss distribution.
    Pld,
    /// The least of all bounds that hold, closed forms included.
    Best,
}

/// A question to an accountant.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// What happened.
    pub event: &'a Event,
    /// Which inputs are neighbours.
    pub adjacency: Adjacency,
    /// The shape of one contribution, which matters only under replacement.
    pub shape: Shape,
    /// How to count.
    pub accountant: Accountant,
}

/// An epsilon and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The true value lies between the two ends; the upper end is the guarantee.
    pub epsilon: Bracket,
    /// The accountant whose bound the upper end is; `Best` stands for closed forms and exact sums.
    pub accountant: Accountant,
    /// The method behind the upper end, as text.
    pub method: &'static str,
}

impl Question<'_> {
    /// The epsilon at `delta`, with both ends.
    pub fn epsilon(&self, delta: f64) -> Result<Answer, Error> {
        error::delta(delta)?;
        self.event.check()?;
        match self.accountant {
            Accountant::Rdp => self.by_rdp(delta),
            Accountant::Pld => self.by_pld(delta),
            Accountant::Best => {
                let pld = self.by_pld(delta);
                match (self.by_rdp(delta), pld) {
                    (Ok(a), Ok(b)) => {
                        let epsilon = a.epsilon.and(b.epsilon);
                        let winner = if a.epsilon.upper < b.epsilon.upper { a } else { b };
                        Ok(Answer { epsilon, ..winner })
                    }
                    (Err(a), Err(b)) => Err(more_telling(a, b)),
                    (Err(_), only) | (only, Err(_)) => only,
                }
            }
        }
    }

    /// The upper end alone. Faster.
    pub fn epsilon_upper(&self, delta: f64) -> Result<f64, Error> {
        error::delta(delta)?;
        self.event.check()?;
        let rdp = || rdp::epsilon(self.event, self.adjacency, self.shape, delta).map(|a| a.epsilon);
        let pld = || pld::event_epsilon_upper(self.event, self.adjacency, self.shape, delta);
        match self.accountant {
            Accountant::Rdp => rdp(),
            Accountant::Pld => pld(),
            Accountant::Best => match (pld(), rdp()) {
                (Ok(a), Ok(b)) => Ok(a.min(b)),
                (Err(a), Err(b)) => Err(more_telling(b, a)),
                (Err(_), only) | (only, Err(_)) => only,
            },
        }
    }

    /// The smallest delta (to 1e-6 relative, rounded up) at which `epsilon` holds; an error if that
    /// is not below 1.
    pub fn delta(&self, epsilon: f64) -> Result<f64, Error> {
        non_negative("epsilon", epsilon)?;
        self.event.check()?;
        let excess = |ln_delta: f64| match self.epsilon_upper(exp(ln_delta)) {
            Ok(found) => found - epsilon,
            Err(_) => f64::INFINITY,
        };
        let unreachable =
            Error::Unreachable { name: "delta", hint: "this event is not private at this epsilon" };
        // The first call reports events that no accountant covers.
        self.epsilon_upper(0.5)?;
        let (mut high, mut low) = (-1e-9, -2.0);
        if excess(high) > 0.0 {
            return Err(unreachable);
        }
        while excess(low) <= 0.0 {
            high = low;
            low *= 2.0;
            if low < -690.0 {
                return Ok(exp(high));
            }
        }
        let found = crossing(excess, (low, 1.0), (high, -1.0), 0.0, 1e-6);
        Ok(up(exp(found.high), 1e-12))
    }

    fn by_rdp(&self, delta: f64) -> Result<Answer, Error> {
        let found = rdp::epsilon(self.event, self.adjacency, self.shape, delta)?;
        let epsilon = Bracket { lower: 0.0, upper: found.epsilon };
        Ok(Answer { epsilon, accountant: Accountant::Rdp, method: "Renyi divergence, best order" })
    }

    fn by_pld(&self, delta: f64) -> Result<Answer, Error> {
        let (epsilon, method) = pld::event_epsilon(self.event, self.adjacency, self.shape, delta)?;
        let accountant = if method == pld::COMPOSED { Accountant::Pld } else { Accountant::Best };
        Ok(Answer { epsilon, accountant, method })
    }
}

/// Of the two accountants' errors, the one about the event itself rather than about the accountant.
fn more_telling(rdp: Error, pld: Error) -> Error {
    match (&rdp, &pld) {
        (Error::Unsupported { .. }, _) => pld,
        _ => rdp,
    }
}

/// An epsilon as recipes publish it: in millionths, rounded up.
pub fn published(epsilon: f64) -> Result<u64, Error> {
    let rounded = (non_negative("epsilon", epsilon)? * 1e6).ceil();
    // The product may have been rounded down, even to a whole number; the remainder has the right
    // sign.
    let micro = if libm::fma(epsilon, 1e6, -rounded) > 0.0 { rounded + 1.0 } else { rounded };
    in_range("epsilon", epsilon, micro < 9_007_199_254_740_992.0, "below 9e9")?;
    Ok(micro as u64)
}
