//! `kill -9` of `sotto train`, the leader, the helper, the log or the relay at a time that a seed
//! picks, a restart, and a check of the whole training.
//!
//! Every device takes part in every round, and the smallest batch is all of them: so a round with
//! any report lost or counted twice does not pass. [`oracle`] says what is compared.
//!
//! Trainings with odd seeds are exact, and each device adds to a weight of its own: a weight shows
//! how often its device was counted. Those with even seeds have noise and a claim, and their ledgers
//! are compared.

mod fleet;
mod kills;
mod oracle;
mod scene;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value;

use self::fleet::Fleet;
pub use self::kills::{Kill, Point};
use self::kills::{Killer, plan};
use self::scene::Scene;
use crate::process::run_json_lines;

/// Devices of a training, a power of two: means are then exact in binary.
pub const DEVICES: usize = 8;
/// Rounds of a training.
pub const ROUNDS: u64 = 4;

/// Whom to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// `sotto train`.
    Train,
    /// The leader, with its gateway.
    Leader,
    /// The helper.
    Helper,
    /// The log.
    Log,
    /// The relay.
    Relay,
}

impl Party {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Train, Self::Leader, Self::Helper, Self::Log, Self::Relay];
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Leader => "leader",
            Self::Helper => "helper",
            Self::Log => "log",
            Self::Relay => "relay",
        })
    }
}

/// A training that passed.
#[derive(Debug)]
pub struct Trained {
    /// The kills, in order.
    pub kills: Vec<Kill>,
    /// What `sotto train` said each time that it ended early without being killed, because another
    /// party was down.
    pub gave_up: Vec<String>,
    /// How many kills of `sotto train` left a sum behind whose step was not taken.
    pub between: usize,
    /// Of how many rounds the sum was seen before its step was taken.
    pub sums_seen: usize,
}

/// One training with so many kills. An error means that it did not end, or that something was lost,
/// spent or counted twice.
pub fn run(seed: u64, kills: usize) -> Result<Trained> {
    let plan = plan(seed, kills);
    let mut scene = Scene::new(seed % 2 == 1)?;
    let outcome = play(&mut scene, &plan, seed);
    outcome.with_context(|| format!("seed {seed}, {plan:?}\n{}", scene.stage.log_texts("train")))
}

fn play(scene: &mut Scene, plan: &[Kill], seed: u64) -> Result<Trained> {
    let fleet = Fleet::new(scene, seed)?;
    let progress = fleet.progress();
    let stop = AtomicBool::new(false);
    let (killed, devices) = thread::scope(|scope| {
        let living = scope.spawn(|| fleet.live(&stop));
        let killed = Killer::new(scene, &progress).run(plan);
        stop.store(true, Ordering::SeqCst);
        let devices = living.join().map_err(|_| anyhow!("a device panicked"));
        (killed, devices)
    });
    let killed = killed.with_context(|| progress.to_string());
    oracle::check(scene, &progress, &devices??, killed?)
}

/// A whole training in which the devices evaluate the model after every second round. Returns what
/// `sotto train` said about each evaluation.
pub fn evaluated() -> Result<Vec<Value>> {
    let scene = Scene::new(true)?;
    scene.publish_evaluation()?;
    let fleet = Fleet::new(&scene, 1)?;
    let stop = AtomicBool::new(false);
    let (said, devices) = thread::scope(|scope| {
        let living = scope.spawn(|| fleet.live(&stop));
        let said = run_json_lines(scene.evaluate_arguments("2"));
        stop.store(true, Ordering::SeqCst);
        (said, living.join().map_err(|_| anyhow!("a device panicked")))
    });
    let said = said.with_context(|| scene.stage.log_texts("train"))?;
    // Each device has paid for both series.
    for device in devices?? {
        let paid: BTreeSet<_> = device.state.audit().iter().map(|line| line.recipe).collect();
        ensure!(paid.len() == 2 && device.state.audit().len() == 2, "a device paid for {paid:?}");
    }
    Ok(said.into_iter().filter(|line| line.get("evaluation").is_some()).collect())
}
