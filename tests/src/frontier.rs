//! The frontier against fleets: at each epsilon, `sotto fleet` measures the error with every protection.
//! Is the order of the protections the one that `sotto plan --frontier` plans?
//!
//! All devices answer, so the error is that of the noise alone. The same seed is for all: the
//! differences of two protections are those of their noise.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::plan::{Outcome, planned_histogram};
use crate::process::run_json;

/// The epsilons of the frontier.
pub const EPSILONS: [&str; 5] = ["0.02", "0.1", "0.5", "1", "4"];

/// All protections.
pub const PROTECTIONS: [&str; 5] =
    ["projective_geometry", "rappor", "randomized_response", "gaussian", "server_gaussian"];

/// The frontier compares protections by what holds for the sum.
const MOST_LOCAL: &str = "30";

/// Two measured errors are a tie if they are within so many standard errors of their difference.
const TIE: f64 = 3.0;

/// One histogram.
#[derive(Clone, Copy, Debug)]
pub struct Frontier {
    /// How many buckets it has.
    pub buckets: u32,
    /// How many devices answer.
    pub devices: u32,
}

/// One protection at one epsilon.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// How answers are protected.
    pub protection: &'static str,
    /// What a device computes.
    pub epsilon: f64,
    /// What was measured beside what was planned.
    pub found: Outcome,
}

impl Frontier {
    /// Asks with each of these protections at this epsilon, so many times.
    pub fn measured(
        &self,
        epsilon: &str,
        protections: &[&'static str],
        folder: &Path,
        times: u64,
        seed: u64,
    ) -> Result<Vec<Point>> {
        let place = EPSILONS.iter().position(|one| *one == epsilon).context("no such epsilon")?;
        let question = format!("--population {} --rate 1", self.devices);
        let buckets = self.buckets.to_string();
        let mut arguments = vec!["--json", "plan", "--frontier", "--buckets", &buckets];
        arguments.extend(question.split(' '));
        let plan = run_json(arguments)?;
        let points = plan["frontier"].as_array().context("no frontier")?;
        let one = |protection: &&'static str| {
            let of = points.iter().filter(|point| point["mechanism"] == **protection);
            let of: Vec<_> = of.collect();
            ensure!(of.len() == EPSILONS.len(), "{protection} has {} points", of.len());
            let frontier = of[place]["stderr"].as_f64().context("no error")?.powi(2);
            let arguments = format!(
                "{question} --epsilon {epsilon} --mechanism {protection} --most-epsilon0 {MOST_LOCAL}"
            );
            let planned = planned_histogram(self.buckets, &arguments, folder, seed)?;
            let part = planned.squared_error / frontier;
            ensure!((part - 1.0).abs() < 1e-9, "{protection} at {epsilon}: {part} of the frontier");
            let found = planned.asked(times, seed, false)?;
            Ok(Point { protection, epsilon: planned.epsilon, found })
        };
        protections.iter().map(one).collect()
    }
}

/// The number of pairs that are ties, if all others have the planned order.
///
/// A pair in which the planned errors are further apart than two ties must not be a tie. For one pair
/// with equal errors in 370, and one further apart in 370, this is a false alarm.
pub fn ties(points: &[Point]) -> Result<usize> {
    let mut ties = 0;
    let pairs = points
        .iter()
        .enumerate()
        .flat_map(|(at, one)| points.iter().skip(at + 1).map(move |other| (one, other)));
    for (one, other) in pairs {
        let (less, more) = match one.found.planned <= other.found.planned {
            true => (one, other),
            false => (other, one),
        };
        let tie = TIE * less.found.deviation.hypot(more.found.deviation);
        let apart = more.found.measured - less.found.measured;
        ensure!(apart >= -tie, "not in order: {less:?}, {more:?}");
        let planned = more.found.planned - less.found.planned;
        ensure!(apart > tie || planned <= 2.0 * tie, "not apart: {less:?}, {more:?}");
        ties += usize::from(apart <= tie);
    }
    Ok(ties)
}
