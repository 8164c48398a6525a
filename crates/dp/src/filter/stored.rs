//! The serialized forms of charges and of the ledger.
//!
//! What is read must be what was written. Unknown versions and fields, a wrong number of orders,
//! budgets out of range and negative or fractional sums are rejected. A checksum over all fields
//! catches other accidental damage, so that a damaged state never reads as a cheaper one. (It does
//! not protect against deliberate changes.)

use serde::{Deserialize, Serialize};

use super::{Budget, Charge, Filter, ORDERS, Spent};
use crate::{Adjacency, Error};

/// The version of the stored forms, and of the grid and the units in them.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    version: u32,
    budget: StoredBudget,
    period: u64,
    rdp: Vec<u64>,
    delta: u64,
    checksum: u64,
}

/// The budget's numbers as decimal text: some JSON readers get the last digit of a number wrong,
/// which would look like damage.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredBudget {
    epsilon: String,
    delta: String,
    adjacency: Adjacency,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredCharge {
    version: u32,
    adjacency: Adjacency,
    rdp: Vec<u64>,
    delta: u64,
    checksum: u64,
}

/// Why a stored form was not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Damaged {
    #[error("version {0} of the stored ledger is not known (this is version {VERSION})")]
    Version(u32),
    #[error("the stored ledger has {0} orders instead of {count}", count = ORDERS.len())]
    Orders(usize),
    #[error("the stored ledger's checksum is wrong: it has been damaged")]
    Checksum,
    #[error("the stored ledger's budget: {0}")]
    Budget(#[from] Error),
    #[error("the stored ledger's budget contains something that is not a number")]
    Number(#[from] std::num::ParseFloatError),
}

impl From<Filter> for Stored {
    fn from(filter: Filter) -> Self {
        let Filter { budget, period, spent } = filter;
        let checksum = sum(&budget, period, &spent.rdp, spent.delta);
        let budget = StoredBudget {
            epsilon: budget.epsilon.to_string(),
            delta: budget.delta.to_string(),
            adjacency: budget.adjacency,
        };
        let (rdp, delta) = (spent.rdp.to_vec(), spent.delta);
        Self { version: VERSION, budget, period, rdp, delta, checksum }
    }
}

impl TryFrom<Stored> for Filter {
    type Error = Damaged;

    fn try_from(stored: Stored) -> Result<Self, Damaged> {
        if stored.version != VERSION {
            return Err(Damaged::Version(stored.version));
        }
        let budget = Budget {
            epsilon: stored.budget.epsilon.parse()?,
            delta: stored.budget.delta.parse()?,
            adjacency: stored.budget.adjacency,
        };
        budget.check()?;
        let rdp = grid(&stored.rdp)?;
        if sum(&budget, stored.period, &rdp, stored.delta) != stored.checksum {
            return Err(Damaged::Checksum);
        }
        Ok(Self { budget, period: stored.period, spent: Spent { rdp, delta: stored.delta } })
    }
}

/// The checksum over everything that a ledger holds.
fn sum(budget: &Budget, period: u64, rdp: &[u64], delta: u64) -> u64 {
    let head = [
        u64::from(VERSION),
        budget.epsilon.to_bits(),
        budget.delta.to_bits(),
        budget.adjacency as u64,
        period,
        delta,
    ];
    checksum(head.into_iter().chain(rdp.iter().copied()))
}

impl From<Charge> for StoredCharge {
    fn from(charge: Charge) -> Self {
        let mut stored = Self {
            version: VERSION,
            adjacency: charge.adjacency,
            rdp: charge.rdp.to_vec(),
            delta: charge.delta,
            checksum: 0,
        };
        stored.checksum = stored.sum();
        stored
    }
}

impl TryFrom<StoredCharge> for Charge {
    type Error = Damaged;

    fn try_from(stored: StoredCharge) -> Result<Self, Damaged> {
        if stored.version != VERSION {
            return Err(Damaged::Version(stored.version));
        }
        let rdp = grid(&stored.rdp)?;
        if stored.sum() != stored.checksum {
            return Err(Damaged::Checksum);
        }
        Ok(Self { adjacency: stored.adjacency, rdp, delta: stored.delta })
    }
}

impl StoredCharge {
    fn sum(&self) -> u64 {
        let head = [u64::from(self.version), self.adjacency as u64, self.delta];
        checksum(head.into_iter().chain(self.rdp.iter().copied()))
    }
}

fn grid(rdp: &[u64]) -> Result<[u64; ORDERS.len()], Damaged> {
    rdp.try_into().map_err(|_| Damaged::Orders(rdp.len()))
}

/// FNV-1a over the bytes of the words.
fn checksum(words: impl Iterator<Item = u64>) -> u64 {
    words.flat_map(u64::to_le_bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
