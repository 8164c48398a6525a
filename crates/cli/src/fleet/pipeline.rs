//! A collection through the whole system: a recipe in a log, devices with tokens that toss a coin, a
//! relay, leader and helper, and the collector.
//!
//! The coins and the noise of each device are those of its number. So what it sends is known here,
//! and what is collected must be the sum of that, to the last unit. Noise of the servers comes on top:
//! nobody but a server knows its draws.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sotto_dp::mechanism::{Mechanism, Method as _};
use sotto_learn::coins::Coins;

use super::devices::Devices;
use super::experiment::{Experiment, Run};
use super::memory::Collected;
use super::truth::of;
use crate::demo::sampled::result;
use crate::demo::{Plan, Question};
use crate::output::Output;

/// The most devices: each is a whole device, with keys, tokens and proofs.
pub(super) const MOST_DEVICES: u64 = 50_000;

/// So many deviations away, noise of a normal law is once in 10^32 draws.
const FAR: f64 = 12.0;

/// Asks the devices through the whole system.
pub(super) fn run(
    experiment: &Experiment,
    devices: &Devices,
    coins: Coins,
    number: u32,
    output: &Output,
) -> Result<Run> {
    let started = Instant::now();
    let draft = &experiment.draft;
    let question: Question = devices.asked(draft)?;
    let plan = Plan {
        question,
        seed: 0,
        min_batch_size: draft.min_batch,
        sampling: draft.sampling,
        coins: Some((coins, number)),
    };
    let (assessment, found) = result(&plan, output)?;
    let (memory, _) = of(&assessment, devices)?;
    let expected = memory.toss(coins, number)?;
    let sums = found.sums.as_slice().to_vec();
    ensure!(
        found.count == expected.reports,
        "{} reports were counted, and {} devices tossed heads",
        found.count,
        expected.reports
    );
    check(&memory.mechanism, &sums, &expected.sums).context("what was collected")?;
    experiment.compare(Collected { sums, ..expected }, coins, number, started)
}

/// The sums are those in memory, but for the noise of the servers.
fn check(mechanism: &Mechanism, found: &[i128], expected: &[i128]) -> Result<()> {
    ensure!(found.len() == expected.len(), "{} numbers, not {}", found.len(), expected.len());
    let Mechanism::ServerNoise(servers) = mechanism else {
        ensure!(found == expected, "the sums are not those of what the devices sent");
        return Ok(());
    };
    let deviation = servers.added_variance(0)?.sqrt();
    let far = |(one, other): (&i128, &i128)| (one - other).abs() as f64 > FAR * deviation;
    ensure!(
        !found.iter().zip(expected).any(far),
        "the sums are further from what the devices sent than noise of the servers can be"
    );
    Ok(())
}
