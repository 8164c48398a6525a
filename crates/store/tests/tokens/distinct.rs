//! A batch of B reports has B distinct tokens, at each aggregator and over the whole task.

use std::collections::BTreeSet;

use rand_chacha::rand_core::Rng;
use sotto_protocol::token::ReportTokens;
use sotto_wire::{BatchMode, BatchSelector, Duration, Interval};

use super::issuing::{Asked, CELLS, window};
use super::party::BOTH_STORES;
use super::world::World;

const SEEDS: u64 = 6;
const ROUNDS: usize = 6;

/// Devices spend few tokens often, in any window, order and job. The leader crashes now and then,
/// and a bucket is collected in between.
#[test]
fn counts_are_of_distinct_tokens() {
    for kind in BOTH_STORES {
        for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
            for seed in 0..SEEDS {
                let mut world = World::new(kind, mode, Asked::Both);
                for _ in 0..seed {
                    world.rng.next_u64();
                }
                walk(&mut world, mode);
            }
        }
    }
}

fn walk(world: &mut World, mode: BatchMode) {
    let below = |world: &mut World, bound: u64| world.rng.next_u64() % bound;
    let wallets: Vec<ReportTokens> = (0..5)
        .map(|_| {
            let nonce = world.nonce();
            world.tokens(&nonce)
        })
        .collect();
    let mut spent = BTreeSet::new();
    let mut uploads = 0;
    let mut collected = 0;
    let mut earliest = -2;
    for round in 0..ROUNDS {
        let mut reports = Vec::new();
        for _ in 0..=below(world, 4) {
            let device = below(world, wallets.len() as u64) as usize;
            let time = window(earliest + below(world, 3) as i64);
            spent.insert(device);
            let cell = below(world, u64::from(CELLS)) as u32;
            reports.push(world.report(cell, time, Some(&wallets[device])));
        }
        uploads += reports.len();
        world.upload(&reports);
        let job_reports = 1 + below(world, 3) as usize;
        world.form(job_reports);
        if below(world, 3) == 0
            && let Some(leased) = world.lease()
        {
            let job = world.request(&leased);
            if !job.is_empty() {
                world.answer(&job.request);
            }
            world.leader.restart();
        }
        world.work();
        let first_two = Interval::new(window(-2), Duration::new(2)).unwrap();
        let held: i128 = match mode {
            BatchMode::TimeInterval if round == ROUNDS / 2 => {
                world.counted_in(BatchSelector::TimeInterval(first_two)).values().sum()
            }
            _ => 0,
        };
        if held > 0 {
            // From now on there are no new reports in these windows, but the tokens that were spent
            // in them turn up again.
            world.collect(first_two);
            collected += held;
            earliest = 0;
        }
    }
    let counted: i128 = world.counted().values().sum();
    assert_eq!(counted + collected, spent.len() as i128);
    let replayed = world.leader.refused().get("report_replayed").copied().unwrap_or_default();
    assert_eq!(counted + collected + i128::from(replayed), uploads as i128);
}
