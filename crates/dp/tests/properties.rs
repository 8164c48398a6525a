//! Lower end <= truth <= upper end, against divergences computed another way
//! (`properties/brute.rs`).
//!
//! An epsilon holds at `delta` exactly if the divergence at that epsilon is at most `delta`. So
//! instead of solving for the true epsilon, each case asks for the brute-force divergence at both
//! ends: at the upper one it must not exceed `delta`, at the lower one it must not be less.
//!
//! Nothing is drawn at random but the parameters, from fixed seeds, and the bounds are theorems:
//! the false-alarm rate is zero.

mod allocated;
mod allocated_discrete;
mod brought;
mod brute;
mod continuous;
mod counts;
mod crowds;
mod discrete;
mod judged;
mod moments;
mod populations;
mod present;
mod schedules;
mod served;
mod stream;

use std::cell::RefCell;
use std::collections::HashMap;

use sotto_dp::account::{Accountant, Question};
use sotto_dp::{Adjacency, Bracket, Event, Shape};

/// Room for the errors of the quadrature and of sums, relative to delta. (They are 1e-11 or less.)
const SLACK: f64 = 1e-9;

/// How many cases are tried: the slice that every run has, or what `SOTTO_CASES` asks for.
fn cases(slice: u32) -> u32 {
    std::env::var("SOTTO_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(slice)
}

/// Cases of one kind: how many, how tight, and what went wrong.
#[derive(Default)]
struct Tally {
    cases: u32,
    /// Upper ends that are finite and within 1 % of the lower end.
    tight: u32,
    failed: Vec<String>,
}

impl Tally {
    /// Checks the bracket of one event against its true divergence.
    fn check(
        &mut self,
        (event, adjacency, shape): (&Event, Adjacency, Shape),
        delta: f64,
        truth: impl Fn(f64) -> f64,
    ) -> Option<Bracket> {
        self.cases += 1;
        let mut last = None;
        let known = RefCell::new(HashMap::new());
        let truth = |epsilon: f64| {
            let seen = known.borrow().get(&epsilon.to_bits()).copied();
            seen.unwrap_or_else(|| {
                let found = truth(epsilon);
                known.borrow_mut().insert(epsilon.to_bits(), found);
                found
            })
        };
        for accountant in [Accountant::Rdp, Accountant::Pld, Accountant::Best] {
            let found =
                match (Question { event, adjacency, shape, accountant }.epsilon(delta), accountant)
                {
                    (Ok(found), _) => found.epsilon,
                    // Not every event has an RDP; the others must answer.
                    (Err(_), Accountant::Rdp) => continue,
                    (Err(error), _) => panic!("{event:?} {adjacency}: {error}"),
                };
            let mut fail = |what: &str, at: f64| {
                self.failed.push(format!(
                    "{what}: {event:?} {adjacency} {accountant:?} {delta:e} {found:?} {at:e}"
                ));
            };
            if !(0.0 <= found.lower && found.lower <= found.upper) {
                fail("order", f64::NAN);
            }
            if found.upper.is_finite() {
                let at = truth(found.upper);
                if at > delta * (1.0 + SLACK) {
                    fail("too low an upper end", at);
                }
            }
            if found.lower > 0.0 {
                let at = truth(found.lower);
                if at < delta * (1.0 - SLACK) {
                    fail("too high a lower end", at);
                }
            }
            last = Some(found);
        }
        let best = last?;
        self.tight += u32::from(best.upper - best.lower <= 0.01 * best.upper + 1e-9);
        Some(best)
    }

    /// Checks that there were as many cases as promised and that none failed.
    fn done(self, least: u32) {
        println!("{} cases, {} tight", self.cases, self.tight);
        let count = self.failed.len();
        let shown = self.failed.iter().take(6).cloned().collect::<Vec<_>>().join("\n");
        assert!(count == 0, "{count} of {} failed:\n{shown}", self.cases);
        assert!(self.cases >= least, "{} cases", self.cases);
    }
}
