//! Random walks through the verbs, checked against an oracle: each acknowledged report is counted
//! exactly once or visibly rejected, never twice and never lost, whatever happens in between.
//!
//! The oracle predicts each result as far as the contract determines it. Walks from one seed must
//! also look the same on every store. `SOTTO_STORE_SEEDS` sets the number of seeds.

mod collecting;
mod helping;
mod leading;
mod oracle;

use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_store::{Backlog, LeasedJob};
use sotto_wire::{CollectionJobId, TaskId};

use self::helping::Helping;
use self::oracle::Oracle;
use super::bench::{Bench, Kind, LEASE};
use super::reports::{batch_task, interval_task, token_task};

const STEPS: usize = 80;

/// A walk, and everything that its worker holds.
struct Walk {
    bench: Bench,
    rng: ChaCha20Rng,
    oracle: Oracle,
    helping: Helping,
    held: Vec<LeasedJob>,
    /// Jobs whose lease was lost; used again only after another worker has leased them.
    lost: Vec<LeasedJob>,
    collections: Vec<(TaskId, CollectionJobId)>,
    /// A stretch that was read and may have been taken since.
    stretch: Option<Backlog>,
    power: Power,
    /// What the caller saw, for comparison with other stores.
    trace: Vec<String>,
}

/// Whether the segments' power fails at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    Safe,
    Unsafe,
    /// Failing, or off: anything may fail until the restart.
    Failing,
}

#[test]
fn walks_agree_while_running() {
    for_each_seed(|seed| agree_with_memory(Kind::Sqlite, seed));
}

#[test]
fn walks_agree_on_postgres() {
    for_some_seeds(|seed| agree_with_memory(Kind::Postgres, seed));
}

#[test]
fn walks_agree_on_postgres_when_killed() {
    for_some_seeds(|seed| agree_with_memory(Kind::PostgresKilled, seed));
}

#[test]
fn walks_agree_when_killed() {
    for_each_seed(|seed| agree_with_memory(Kind::SqliteKilled, seed));
}

#[test]
fn walks_agree_when_the_power_fails_between_steps() {
    for_each_seed(|seed| agree_with_memory(Kind::SqlitePowerless, seed));
}

/// The power fails in the middle of steps, so they may or may not take effect.
#[test]
fn walks_survive_failing_power() {
    for_each_seed(|seed| drop(walk(Kind::SqlitePowerless, seed, Power::Unsafe)));
}

/// Fails unless callers of this store see the same as callers of the memory store.
fn agree_with_memory(kind: Kind, seed: u64) {
    let (expected, seen) = (walk(Kind::Memory, seed, Power::Safe), walk(kind, seed, Power::Safe));
    if seen.is_empty() {
        return; // no server
    }
    for (step, (memory, other)) in expected.iter().zip(&seen).enumerate() {
        assert_eq!(other, memory, "step {step}");
    }
    assert_eq!(seen.len(), expected.len());
}

fn for_each_seed(test: impl Fn(u64)) {
    for_seeds(DEFAULT_SEEDS, test);
}

/// For stores that are slower.
fn for_some_seeds(test: impl Fn(u64)) {
    for_seeds(DEFAULT_SEEDS / 10, test);
}

/// Runs a test with each seed; a failure names its seed.
fn for_seeds(default: u64, test: impl Fn(u64)) {
    let seeds = std::env::var("SOTTO_STORE_SEEDS");
    let seeds = seeds.map_or(default, |seeds| seeds.parse().expect("a number of seeds"));
    for seed in 0..seeds {
        let test = std::panic::AssertUnwindSafe(|| test(seed));
        if let Err(panic) = std::panic::catch_unwind(test) {
            eprintln!("the walk from seed {seed} failed");
            std::panic::resume_unwind(panic);
        }
    }
}

const DEFAULT_SEEDS: u64 = 200;

fn walk(kind: Kind, seed: u64, power: Power) -> Vec<String> {
    let Some(bench) = Bench::seeded(kind, seed) else { return Vec::new() };
    let mut walk = Walk {
        bench,
        rng: ChaCha20Rng::seed_from_u64(seed),
        oracle: Oracle::new([interval_task(1), interval_task(2), batch_task(1), token_task(1)]),
        helping: Helping::default(),
        held: Vec::new(),
        lost: Vec::new(),
        collections: Vec::new(),
        stretch: None,
        power,
        trace: Vec::new(),
    };
    for _ in 0..STEPS {
        walk.step();
    }
    walk.settle();
    walk.trace
}

impl Walk {
    fn step(&mut self) {
        if self.power == Power::Failing && self.chance(40) {
            return self.restart();
        }
        match self.below(100) {
            0..22 => self.upload(),
            22..36 => self.form(),
            36..39 => self.take_a_stretch_again(),
            39..52 => self.lease(),
            52..66 => self.act(),
            66..69 => self.act_on_a_lost_lease(),
            69..72 => self.let_time_pass(),
            72..77 => self.create_collection(),
            77..84 => self.work_on_a_collection(),
            84..86 => self.delete_collection(),
            86..92 => self.help(),
            92..93 => self.forget_task(),
            93..95 if self.power == Power::Unsafe => self.fail_power(),
            _ => self.restart(),
        }
    }

    fn restart(&mut self) {
        let choice = if self.power == Power::Safe { 0 } else { self.below(3) };
        let is_failing = match choice {
            0 => {
                self.bench.restart();
                false
            }
            1 => {
                self.bench.restart_process();
                false
            }
            _ => {
                let operations = self.rng.next_u64() % 4;
                self.bench.restart_interrupted(operations)
            }
        };
        if self.power != Power::Safe {
            self.power = if is_failing { Power::Failing } else { Power::Unsafe };
        }
        self.lose_leases();
    }

    fn fail_power(&mut self) {
        let operations = self.rng.next_u64() % 6;
        self.bench.files().cut_power_after(operations);
        self.power = Power::Failing;
    }

    fn let_time_pass(&mut self) {
        if self.chance(50) {
            self.bench.advance(Duration::from_millis(self.rng.next_u64() % 2_000));
        } else {
            self.bench.advance(LEASE);
            self.lose_leases();
        }
    }

    fn lose_leases(&mut self) {
        self.lost.append(&mut self.held);
        self.oracle.jobs.iter_mut().for_each(|job| job.is_held = false);
    }

    /// Finishes all work and compares the totals.
    fn settle(&mut self) {
        self.bench.restart();
        self.lose_leases();
        self.power = Power::Safe;
        loop {
            self.form_all();
            if !self.work_all() {
                break;
            }
        }
        self.check_totals();
        self.bench.assert_no_reports();
    }

    fn note(&mut self, what: impl std::fmt::Debug) {
        self.trace.push(format!("{what:?}"));
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.next_u64() % bound as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}
