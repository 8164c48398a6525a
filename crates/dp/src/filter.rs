//! The ledger's arithmetic: what has a device spent, and can it afford one more event, chosen after
//! seeing the results of the earlier ones?
//!
//! **The odometer.** Let `eps(T)` be what [`Filter::epsilon_spent`] says at `delta` after the
//! transcript `T`. Whoever chooses the events, however the choice depends on earlier results, and
//! whenever they stop: `P(S) <= E_Q [e^eps(T), T in S] + delta` for every set `S` of transcripts and
//! both orders `(P, Q)` of two neighbours. So the reading is a guarantee at every moment.
//!
//! **The filter.** A [`Filter`] admits an event only if the reading stays within its [`Budget`]. So
//! everything that it admits is together `(epsilon, delta)`-differentially private: in one period, or
//! in all of its life if the period never changes. Over several periods the budgets add up, or a
//! second filter counts on.
//!
//! **Why** (the derivation is in `docs/privacy-accounting.md`). For one order `a`, let `X` be the loss
//! so far minus the sum of the divergences of order `a`. `e^((a-1) X)` is a supermartingale under
//! `P`, so its mean is at most 1 whenever one stops. Hence the conversion to `(epsilon, d)` holds with
//! the sum that is reached, although it depends on the results (Feldman, Zrnic, "Individual privacy
//! accounting via a Renyi filter", 2021; Lecuyer, "Practical privacy filters and odometers with Renyi
//! differential privacy", 2021). The reading is the least over the orders of the grid [`ORDERS`]: the
//! transcripts split by the order that gives it, and the hockey-stick divergence adds up over
//! disjoint sets. Each order has its own part `d`, and together they have `delta / 2`
//! (`filter/conversion.rs`). The infinite order (pure epsilons that add up) needs no delta.
//!
//! **Black boxes** known only by `(epsilon, delta)` are, with probability `1 - delta`, pure (see
//! [`crate::rdp`]). Their deltas add up; the sum may reach the other `delta / 2`. The probability
//! that any of them shows its bad part is at most that sum, and on the rest both neighbours carry
//! the same weights `1 - delta_i`, which only shrink the hockey stick.
//!
//! **Arithmetic.** Charges are rounded up to whole units ([`RDP_UNIT`], [`DELTA_UNIT`]) and added
//! as integers, so that the state depends neither on the order of the charges nor on the platform,
//! and cannot drift. A sum that is too large saturates at the largest number, which no budget
//! covers.

mod charge;
mod conversion;
mod stored;

pub use charge::{Charge, DELTA_UNIT, ORDERS, RDP_UNIT};

use serde::{Deserialize, Serialize};

use crate::error::{delta as check_delta, positive};
use crate::{Adjacency, Error};
use charge::delta_of;

/// What may be spent in one period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// The epsilon of a period.
    pub epsilon: f64,
    /// The delta of a period: half of it for the conversion, half for black boxes.
    pub delta: f64,
    /// The neighbours that are protected: all charges must be for this adjacency.
    pub adjacency: Adjacency,
}

impl Budget {
    /// Rejects an epsilon that is not above 0 and a delta outside of (0, 1).
    pub fn check(&self) -> Result<(), Error> {
        positive("epsilon", self.epsilon)?;
        check_delta(self.delta)?;
        Ok(())
    }
}

/// What a charge would leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affordable {
    /// The epsilon spent in this period once it is charged.
    pub spent: f64,
    /// What is then left of the period's epsilon.
    pub left: f64,
}

/// Why a charge was refused. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// It would exceed the period's epsilon.
    #[error(
        "it would take epsilon from {} to {}, above the budget of {budget}",
        shown(*spent),
        shown(*would_be)
    )]
    Epsilon {
        /// Spent so far.
        spent: f64,
        /// Spent afterwards (infinite if black boxes and conversions leave no bound).
        would_be: f64,
        /// The budget.
        budget: f64,
    },
    /// The deltas of black boxes would exceed their half.
    #[error("it would take the deltas of black boxes to {would_be}, above their share of {share}")]
    Delta {
        /// The sum afterwards.
        would_be: f64,
        /// Half of the budget's delta.
        share: f64,
    },
    /// The charge was computed for a different adjacency than the budget.
    #[error("the charge is for {charge} neighbours, the budget for {budget}")]
    Adjacency {
        /// The charge's adjacency.
        charge: Adjacency,
        /// The budget's adjacency.
        budget: Adjacency,
    },
    /// The period is over: a later one has begun.
    #[error("period {asked} is over: the ledger is in period {current}")]
    Past {
        /// The period asked for.
        asked: u64,
        /// The ledger's period.
        current: u64,
    },
}

/// What has been spent in the current period. The serialized form is versioned and checked when it
/// is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "stored::Stored", into = "stored::Stored")]
pub struct Filter {
    budget: Budget,
    period: u64,
    spent: Spent,
}

/// Sums, in whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spent {
    rdp: [u64; ORDERS.len()],
    delta: u64,
}

impl Spent {
    const NOTHING: Self = Self { rdp: [0; ORDERS.len()], delta: 0 };

    fn plus(&self, charge: &Charge) -> Self {
        let mut sum = self.clone();
        for (total, more) in sum.rdp.iter_mut().zip(charge.rdp) {
            *total = total.saturating_add(more);
        }
        sum.delta = sum.delta.saturating_add(charge.delta);
        sum
    }
}

impl Filter {
    /// A ledger with nothing spent.
    pub fn new(budget: Budget, period: u64) -> Result<Self, Error> {
        budget.check()?;
        Ok(Self { budget, period, spent: Spent::NOTHING })
    }

    /// The same ledger under another budget: what has been spent stays spent.
    pub fn with_budget(self, budget: Budget) -> Result<Self, Error> {
        budget.check()?;
        Ok(Self { budget, ..self })
    }

    /// The budget.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The current period: the latest one in which anything was charged.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Whether `charge` could be charged in `period`, and what would remain.
    pub fn may_afford(&self, period: u64, charge: &Charge) -> Result<Affordable, Refused> {
        let (_, spent) = self.after(period, charge)?;
        Ok(Affordable { spent, left: (self.budget.epsilon - spent).max(0.0) })
    }

    /// Charges all of `charge`, or nothing. The first charge of a later period starts that period
    /// with nothing spent; an earlier period is refused.
    pub fn charge(&mut self, period: u64, charge: &Charge) -> Result<(), Refused> {
        let (spent, _) = self.after(period, charge)?;
        self.period = period;
        self.spent = spent;
        Ok(())
    }

    /// Adds what has been spent in this period without being counted, whether or not the budget
    /// covers it.
    pub fn add(&mut self, charge: &Charge) {
        self.spent = self.spent.plus(charge);
    }

    /// What this period has spent at `delta`, which is also the smallest epsilon of a filter that
    /// would have admitted it; infinite if the deltas of black boxes exceed half of `delta`. It holds
    /// although it depends on the results: see the odometer above.
    pub fn epsilon_spent(&self, delta: f64) -> Result<f64, Error> {
        check_delta(delta)?;
        let share = 0.5 * delta;
        if delta_of(self.spent.delta) > share {
            return Ok(f64::INFINITY);
        }
        Ok(self.reading(&self.spent, share))
    }

    /// The sum of the deltas of the black boxes of this period.
    pub fn delta_spent(&self) -> f64 {
        delta_of(self.spent.delta)
    }

    /// The state after a charge and its epsilon, or why it is refused.
    fn after(&self, period: u64, charge: &Charge) -> Result<(Spent, f64), Refused> {
        if period < self.period {
            return Err(Refused::Past { asked: period, current: self.period });
        }
        if charge.adjacency != self.budget.adjacency {
            return Err(Refused::Adjacency {
                charge: charge.adjacency,
                budget: self.budget.adjacency,
            });
        }
        let before = if period > self.period { &Spent::NOTHING } else { &self.spent };
        let after = before.plus(charge);
        let share = 0.5 * self.budget.delta;
        let sum = delta_of(after.delta);
        if sum > share {
            return Err(Refused::Delta { would_be: sum, share });
        }
        let would_be = self.reading(&after, share);
        if would_be > self.budget.epsilon {
            let spent = self.reading(before, share);
            return Err(Refused::Epsilon { spent, would_be, budget: self.budget.epsilon });
        }
        Ok((after, would_be))
    }

    /// The epsilon of these sums, with `share` of delta for the conversion.
    fn reading(&self, spent: &Spent, share: f64) -> f64 {
        if *spent == Spent::NOTHING {
            return 0.0;
        }
        conversion::epsilon(&spent.rdp, self.budget.epsilon, share)
    }
}

/// To a millionth, rounded up: enough for people, and never less than the true value.
fn shown(epsilon: f64) -> f64 {
    (epsilon * 1e6).ceil() / 1e6
}
