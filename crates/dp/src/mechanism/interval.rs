//! Exact intervals for counts of few events, where the normal approximation fails.
//!
//! The collected count `C` of a symbol is `x - Y + Z`: of the `x` participants that hold it, `Y` do
//! not show it, binomial with probability `1 - p`; of the `m - x` others, `Z` do, binomial with
//! probability `s`. It grows with `x` in the stochastic order. So the `x` for which neither
//! `P(C <= c)` nor `P(C >= c)` is below `(1 - level)/2` form an interval, and it holds the truth with
//! probability `level` at least (Clopper, Pearson 1934). Both probabilities are sums over the few
//! values of `Y` and `Z` that are likely at all.
//!
//! For the population, `x` is itself binomial: each of `n` holders takes part with probability `q`.
//! The number of participants is taken as observed, as by the variance of the estimate.
//!
//! Noise of servers ([`Added`]) is a whole number `N` with a known law: `C = x + N`, and the same
//! holds.

use std::cell::RefCell;
use std::collections::HashMap;

use super::estimate::Rest;
use crate::math::search::last_where;
use crate::math::{binomial, exp};

/// The mass that sums leave out on either side: far less than what is left of any level.
const OUTSIDE: f64 = 1e-13;

/// The most holders that are tried: whole numbers as floating-point numbers.
const MOST: u64 = 1 << 53;

/// What becomes of a report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coins {
    /// The number of reports.
    pub(super) reports: u64,
    /// The probability that a holder's report does not show the symbol.
    pub(super) miss: f64,
    /// The probability that another report shows it.
    pub(super) lie: f64,
}

/// An interval of whole numbers of holders.
pub(super) type Holders = (u64, u64);

/// The intervals for devices without a symbol: those that took part, and all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Without {
    pub(super) participants: (f64, f64),
    pub(super) population: Holders,
}

impl Coins {
    /// The interval for the participants that hold the symbol, from the `count` of reports that
    /// show it. `tail` is what may lie outside on each side.
    pub(super) fn among_participants(&self, count: u64, tail: f64) -> Holders {
        interval(self.reports, |x| self.at_most(count, x), |x| self.below(count, x), tail)
    }

    /// The interval for the holders in the population, of whom each takes part with probability
    /// `rate`; it ends at about `about`.
    pub(super) fn in_population(&self, count: u64, rate: f64, tail: f64, about: f64) -> Holders {
        let at_most = |x: u64| self.at_most(count, x);
        in_population(self.reports, at_most, |x| self.below(count, x), (rate, tail), about)
    }

    /// The intervals for devices without a symbol, where these coins are those of the bits of all
    /// reports, and each of the other devices has one symbol.
    pub(super) fn without(&self, rest: &Rest) -> Without {
        let Rest { reports, rate, tail, about, .. } = *rest;
        // Below 0 only in sums that were not checked.
        let count = u64::try_from(rest.sum).unwrap_or(0);
        // More devices without a symbol are fewer bits: the tails change sides.
        let with = |none: u64| reports.saturating_sub(none);
        let at_most = |none: u64| 1.0 - self.below(count, with(none));
        let below = |none: u64| 1.0 - self.at_most(count, with(none));
        let (low, high) = interval(reports, at_most, below, tail);
        let population = in_population(reports, at_most, below, (rate, tail), about);
        Without { participants: (low as f64, high as f64), population }
    }

    /// `P(C < count)`.
    fn below(&self, count: u64, holders: u64) -> f64 {
        if count == 0 { 0.0 } else { self.at_most(count - 1, holders) }
    }

    /// `P(C <= count)` if so many of the participants hold the symbol.
    fn at_most(&self, count: u64, holders: u64) -> f64 {
        let others = self.reports.saturating_sub(holders);
        let (first, last) = binomial::bulk(holders, self.miss, OUTSIDE);
        let (least, most) = binomial::bulk(others, self.lie, OUTSIDE);
        let mut lies = (least..=most).zip(masses(others, self.lie, least, most)).peekable();
        // The lies that are few enough, for each number of misses.
        let (mut few, mut sum) = (0.0, 0.0);
        for (misses, mass) in (first..).zip(masses(holders, self.miss, first, last)) {
            let allowed = i128::from(count) - i128::from(holders) + i128::from(misses);
            while let Some((_, lie)) = lies.next_if(|(lies, _)| i128::from(*lies) <= allowed) {
                few += lie;
            }
            sum += mass * few;
        }
        sum
    }
}

/// The sum of independent draws of discrete Gaussian noise: two for each number, one of each server.
#[derive(Clone, Debug)]
pub(super) struct Added {
    /// `P(N <= n)`, from `n = -radius` on.
    at_most: Vec<f64>,
    radius: i128,
}

impl Added {
    /// The noise on so many numbers together, for small sigma.
    pub(super) fn new(sigma: f64, numbers: u32) -> Self {
        let reach = (9.0 * sigma) as i64 + 2;
        let weight = |n: i64| exp(-0.5 * (n as f64 / sigma) * (n as f64 / sigma));
        let one: Vec<f64> = (-reach..=reach).map(weight).collect();
        let total: f64 = one.iter().sum();
        let mut masses = vec![1.0];
        for _ in 0..2 * numbers {
            let mut more = vec![0.0; masses.len() + one.len() - 1];
            for (i, a) in masses.iter().enumerate() {
                for (j, b) in one.iter().enumerate() {
                    more[i + j] += a * (b / total);
                }
            }
            masses = more;
        }
        let radius = (masses.len() / 2) as i128;
        let mut sum = 0.0;
        let at_most = masses.iter().map(|mass| {
            sum += mass;
            sum
        });
        Self { at_most: at_most.collect(), radius }
    }

    /// `P(N <= n)`.
    fn at_most(&self, n: i128) -> f64 {
        match usize::try_from(n.saturating_add(self.radius)) {
            Ok(index) => self.at_most.get(index).copied().unwrap_or(1.0),
            Err(_) => 0.0,
        }
    }

    /// The intervals for devices without a symbol, where this is the noise on all counts together.
    pub(super) fn without(&self, rest: &Rest) -> Without {
        let Rest { sum, reports, rate, tail, about, .. } = *rest;
        let none = i128::from(reports) - sum;
        let far = self.distance(tail);
        let population = self.in_population((none, reports), rate, tail, about);
        Without { participants: (none as f64 - far, none as f64 + far), population }
    }

    /// The smallest distance that `N` exceeds with at most `tail` on each side.
    pub(super) fn distance(&self, tail: f64) -> f64 {
        // The law is symmetric: P(N > n) = P(N < -n).
        let beyond = |n: i128| self.at_most(-n - 1);
        (0..self.radius).find(|n| beyond(*n) <= tail).unwrap_or(self.radius) as f64
    }

    /// The interval for the holders in the population, of whom each takes part with probability
    /// `rate`, from the `count` with the noise, of so many reports.
    pub(super) fn in_population(
        &self,
        (count, reports): (i128, u64),
        rate: f64,
        tail: f64,
        about: f64,
    ) -> Holders {
        let at_most = |x: u64| self.at_most(count.saturating_sub(x.into()));
        let below = |x: u64| self.at_most(count.saturating_sub(i128::from(x) + 1));
        in_population(reports, at_most, below, (rate, tail), about)
    }
}

/// The interval for the holders in the population, of whom each takes part with probability `rate`,
/// from what may be counted if `x` of the reports are theirs.
fn in_population(
    reports: u64,
    at_most: impl Fn(u64) -> f64,
    below: impl Fn(u64) -> f64,
    (rate, tail): (f64, f64),
    about: f64,
) -> Holders {
    let known = [RefCell::default(), RefCell::default()];
    let mixed = |n: u64, known: &RefCell<HashMap<u64, f64>>, f: &dyn Fn(u64) -> f64| -> f64 {
        let (first, last) = binomial::bulk(n, rate, OUTSIDE);
        let each = |j: u64| *known.borrow_mut().entry(j).or_insert_with(|| f(j));
        // No more holders take part than there are reports.
        let taking_part = (first..=last.min(reports)).zip(masses(n, rate, first, last));
        taking_part.map(|(j, mass)| mass * each(j)).sum()
    };
    let at_most = |n: u64| mixed(n, &known[0], &at_most);
    let mut most = (2.0 * about) as u64 + 16;
    while most < MOST && at_most(most) >= tail {
        most *= 2;
    }
    interval(most, at_most, |n| mixed(n, &known[1], &below), tail)
}

/// The `x` up to `most` that neither tail excludes: `at_most` and `below` fall with `x`.
fn interval(
    most: u64,
    at_most: impl Fn(u64) -> f64,
    below: impl Fn(u64) -> f64,
    tail: f64,
) -> Holders {
    let possible = |x: u64| at_most(x) >= tail;
    let high = if !possible(0) {
        0
    } else if possible(most) {
        most
    } else {
        last_where(0, most, possible)
    };
    let too_few = |x: u64| below(x) > 1.0 - tail;
    let low = if !too_few(0) {
        0
    } else if too_few(most) {
        most
    } else {
        last_where(0, most, too_few) + 1
    };
    (low.min(high), high)
}

/// `P(Bin(n, p) = k)` for `k` from `first` to `last`.
fn masses(n: u64, p: f64, first: u64, last: u64) -> impl Iterator<Item = f64> {
    let odds = p / (1.0 - p);
    let mut mass = 0.0;
    (first..=last).map(move |k| {
        let fresh = k == first || !odds.is_finite() || mass == 0.0;
        mass = if fresh {
            binomial::pmf(n, k, p)
        } else {
            mass * ((n + 1 - k) as f64 / k as f64) * odds
        };
        mass
    })
}
