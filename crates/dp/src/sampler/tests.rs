//! The laws of the samplers, without a random number: the sum over all paths through the code.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;

/// Randomness that takes every path in turn.
pub(crate) struct Tape {
    /// For each draw so far: the branch taken, the number of branches, and the probability of the
    /// path up to and including it.
    path: Vec<(u64, u64, f64)>,
    position: usize,
    /// Paths with less probability than this are given up.
    cut: f64,
}

impl Tape {
    fn branch(&mut self, branches: u64, probability: impl Fn(u64) -> f64) -> u64 {
        let before = self.position.checked_sub(1).map_or(1.0, |last| self.path[last].2);
        if self.position == self.path.len() {
            let first = (0..branches).find(|branch| probability(*branch) > 0.0).unwrap();
            self.path.push((first, branches, 0.0));
        }
        let (taken, _, total) = &mut self.path[self.position];
        *total = before * probability(*taken);
        self.position += 1;
        let taken = *taken;
        if self.path[self.position - 1].2 < self.cut {
            resume_unwind(Box::new(()));
        }
        taken
    }

    /// Goes to the next path; false after the last one.
    fn advance(&mut self) -> bool {
        self.path.truncate(self.position);
        self.position = 0;
        while let Some((taken, branches, _)) = self.path.last_mut() {
            *taken += 1;
            if taken < branches {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

impl Draws for Tape {
    fn below(&mut self, bound: u64) -> u64 {
        self.branch(bound, |_| 1.0 / bound as f64)
    }

    fn fraction(&mut self, num: u64, den: u64) -> bool {
        let yes = num as f64 / den as f64;
        self.branch(2, |branch| if branch == 0 { yes } else { 1.0 - yes }) == 0
    }
}

/// The probability of each value over all paths that are not given up, and what is missing from 1.
pub(crate) fn law(cut: f64, sample: impl Fn(&mut Tape) -> i64) -> (BTreeMap<i64, f64>, f64) {
    let mut tape = Tape { path: Vec::new(), position: 0, cut };
    let mut found = BTreeMap::new();
    loop {
        if let Ok(value) = catch_unwind(AssertUnwindSafe(|| sample(&mut tape))) {
            *found.entry(value).or_insert(0.0) += tape.path[tape.position - 1].2;
        }
        if !tape.advance() {
            break;
        }
    }
    let missing = 1.0 - found.values().sum::<f64>();
    (found, missing)
}

/// Every probability is the expected one, up to what the given-up paths may add.
fn assert_law(
    cut: f64,
    allowed: f64,
    sample: impl Fn(&mut Tape) -> i64,
    expected: impl Fn(i64) -> f64,
) {
    let (found, missing) = law(cut, sample);
    assert!((0.0..allowed).contains(&missing), "{missing} of the probability is missing");
    for value in -30..=30 {
        let (found, expected) = (found.get(&value).copied().unwrap_or(0.0), expected(value));
        assert!(found <= expected + 1e-12, "{value}: {found} against {expected}");
        assert!(expected <= found + missing + 1e-12, "{value}: {found} + {missing} < {expected}");
    }
}

fn rate(num: u64, den: u64) -> Rate {
    Rate::new(num, den).unwrap()
}

/// A coin or a bound that is off by one would show.
#[test]
fn every_path_together_gives_the_formula() {
    for (num, den) in [(1, 2), (3, 2)] {
        let x = num as f64 / den as f64;
        let coin = |tape: &mut Tape| i64::from(bernoulli_exp(rate(num, den), tape));
        let yes = (-x).exp();
        assert_law(1e-12, 1e-9, coin, |n| match n {
            0 => 1.0 - yes,
            1 => yes,
            _ => 0.0,
        });
        let skip = |tape: &mut Tape| geometric(rate(num, den), tape) as i64;
        let mass = |n: i64| if n < 0 { 0.0 } else { (1.0 - yes) * (-x * n as f64).exp() };
        assert_law(1e-6, 0.05, skip, mass);
        let laplace = |tape: &mut Tape| discrete_laplace(rate(num, den), tape);
        let mass = |n: i64| (1.0 - yes) / (1.0 + yes) * (-x * n.abs() as f64).exp();
        assert_law(1e-6, 0.2, laplace, mass);
        let count = |tape: &mut Tape| binomial(2, rate(num, den), tape) as i64;
        let p = 1.0 - yes;
        assert_law(1e-6, 0.2, count, |n| match n {
            0 => yes * yes,
            1 => 2.0 * p * yes,
            2 => p * p,
            _ => 0.0,
        });
    }
}

/// One attempt gives each number with a probability proportional to its own, by the same factor
/// for all.
#[test]
fn an_attempt_gives_each_number_in_proportion() {
    for (num, den) in [(1, 2), (3, 2), (8, 3)] {
        let noise = DiscreteGaussian::new(rate(num, den));
        const NONE: i64 = 1000;
        let (found, missing) = law(1e-7, |tape| noise.attempt(tape).unwrap_or(NONE));
        assert!((0.0..0.05).contains(&missing), "{missing} of the probability is missing");
        let weight = |n: i64| (-(n * n) as f64 * (den * den) as f64 / (2 * num * num) as f64).exp();
        // Numbers of whole k: k costs 1 - e^(-1/2) once, the sign 1/2, the place 1/width.
        let factor = (1.0 - (-0.5_f64).exp()) / 2.0 / num.div_ceil(den) as f64;
        for n in -20..=20 {
            let expected = factor * weight(n);
            let found = found.get(&n).copied().unwrap_or(0.0);
            assert!(found <= expected + 1e-12, "{num}/{den}, {n}: {found} against {expected}");
            assert!(expected <= found + missing, "{num}/{den}, {n}: {found} against {expected}");
        }
    }
}
