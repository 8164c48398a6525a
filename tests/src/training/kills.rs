//! When and whom to kill, and the supervisor of `sotto train`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde_json::Value;

use super::fleet::Progress;
use super::scene::Scene;
use super::{DEVICES, Party, ROUNDS};
use crate::process::Process;

/// Much longer than any training; one that takes longer has lost something.
const PATIENCE: Duration = Duration::from_secs(300);
/// A killed party is away at most this long.
const MAX_AWAY_US: u64 = 400_000;
const POLL_PAUSE: Duration = Duration::from_millis(1);

/// Where in a round a kill is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The step before is over: the model and the round are published, leader and helper find it in
    /// the log.
    Begun,
    /// So many devices have answered. After the last one the reports are verified, added up and
    /// collected.
    Answered(usize),
    /// The sum is stored: the leader is told to forget it, and the step is taken.
    Collected,
}

/// When and whom to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The party.
    pub party: Party,
    /// The round.
    pub round: u64,
    /// After what.
    pub point: Point,
    /// How long after that.
    pub delay: Duration,
    /// How long until it is started again.
    pub away: Duration,
}

impl Kill {
    fn draw(round: u64, rng: &mut ChaCha20Rng) -> Self {
        let mut below = |bound: u64| rng.next_u64() % bound;
        // Publishing is over after a moment. Leader and helper find the round within a second or two.
        let (point, most_us) = match below(6) {
            0 => (Point::Begun, 150_000),
            1 => (Point::Begun, 1_500_000),
            2 => (Point::Answered(below(DEVICES as u64) as usize), 50_000),
            3 => (Point::Answered(DEVICES), 600_000),
            4 => (Point::Collected, 2_000),
            _ => (Point::Collected, 10_000),
        };
        // While a step is taken, `sotto train` has most to lose.
        let party = match point {
            Point::Collected if below(2) == 0 => Party::Train,
            _ => Party::ALL[below(5) as usize],
        };
        let (delay, away) = (below(most_us), below(MAX_AWAY_US));
        let (delay, away) = (Duration::from_micros(delay), Duration::from_micros(away));
        Self { party, round, point, delay, away }
    }
}

/// The kills that a seed determines, in order, spread over the rounds.
pub(super) fn plan(seed: u64, kills: usize) -> Vec<Kill> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let first = rng.next_u64() % ROUNDS;
    let rounds = (first..first + kills as u64).map(|number| number % ROUNDS);
    let mut plan: Vec<_> = rounds.map(|round| Kill::draw(round, &mut rng)).collect();
    plan.sort_by_key(|kill| (kill.round, kill.point));
    plan
}

/// What happened until the training ended.
pub(super) struct Killed {
    pub(super) kills: Vec<Kill>,
    pub(super) gave_up: Vec<String>,
    /// How many kills of `sotto train` left a sum behind whose step was not taken.
    pub(super) between: usize,
    /// The sums that were seen in the file of the training, by round.
    pub(super) sums: Vec<(u32, Vec<i64>)>,
}

/// Runs `sotto train`, and kills.
pub(super) struct Killer<'a> {
    scene: &'a mut Scene,
    fleet: &'a Progress,
    train: Option<Process>,
    done: Killed,
    deadline: Instant,
}

/// What the file of the training says.
struct Stored {
    /// How many rounds are over.
    rounds: u64,
    /// Whether the sum of the next one is there.
    collected: bool,
}

impl<'a> Killer<'a> {
    pub(super) fn new(scene: &'a mut Scene, fleet: &'a Progress) -> Self {
        let done = Killed { kills: Vec::new(), gave_up: Vec::new(), between: 0, sums: Vec::new() };
        Self { scene, fleet, train: None, done, deadline: Instant::now() + PATIENCE }
    }

    /// The whole training.
    pub(super) fn run(mut self, plan: &[Kill]) -> Result<Killed> {
        self.start_train()?;
        for kill in plan {
            while !self.has_come(kill)? {
                // Only the step after the last sum can be over before its kill.
                if self.has_ended()? {
                    return Ok(self.done);
                }
            }
            thread::sleep(kill.delay);
            self.kill(kill)?;
        }
        while !self.has_ended()? {
            self.look()?;
        }
        Ok(self.done)
    }

    fn kill(&mut self, kill: &Kill) -> Result<()> {
        if kill.party == Party::Train {
            // It may be over.
            let Some(train) = &mut self.train else { return Ok(()) };
            if !train.is_running()? {
                return Ok(());
            }
            train.kill()?;
            self.done.between += usize::from(self.look()?.is_some_and(|it| it.collected));
            thread::sleep(kill.away);
            self.start_train()?;
        } else {
            self.scene.kill(kill.party)?;
            thread::sleep(kill.away);
            self.scene.restart(kill.party)?;
        }
        self.done.kills.push(*kill);
        Ok(())
    }

    fn start_train(&mut self) -> Result<()> {
        let log = self.scene.stage.world.path("train.log");
        self.train = Some(Process::start(self.scene.train_arguments(), &log, "info")?);
        Ok(())
    }

    /// Whether the training is over. One that gave up because a party was down is started again.
    fn has_ended(&mut self) -> Result<bool> {
        ensure!(Instant::now() < self.deadline, "the training did not end in {PATIENCE:?}");
        let train = self.train.as_mut().context("it was started")?;
        if train.is_running()? {
            thread::sleep(POLL_PAUSE);
            return Ok(false);
        }
        match train.wait(PATIENCE)? {
            Some(0) => Ok(true),
            Some(code) => {
                let text = fs::read_to_string(self.scene.stage.world.path("train.log"))?;
                let said = text.lines().rev().find(|line| line.contains("error"));
                self.done.gave_up.push(format!("exit code {code}: {}", said.unwrap_or_default()));
                if self.done.gave_up.len() > 2 * ROUNDS as usize {
                    bail!("the training gives up again and again: {:?}", self.done.gave_up);
                }
                self.start_train()?;
                Ok(false)
            }
            None => bail!("somebody else killed the training"),
        }
    }

    /// Whether a round has come so far.
    fn has_come(&mut self, kill: &Kill) -> Result<bool> {
        let Some(Stored { rounds, collected }) = self.look()? else { return Ok(false) };
        Ok(rounds > kill.round
            || rounds == kill.round
                && match kill.point {
                    Point::Begun => true,
                    Point::Answered(devices) => self.fleet.answered(rounds) >= devices,
                    Point::Collected => collected,
                })
    }

    /// Reads the file of the training, and keeps the sum in it.
    fn look(&mut self) -> Result<Option<Stored>> {
        let Ok(bytes) = fs::read(self.scene.state_file()) else { return Ok(None) };
        let file: Value = serde_json::from_slice(&bytes).context("the file of the training")?;
        let rounds = file["progress"]["server"]["steps"].as_u64().context("steps")?;
        let collected = &file["collected"];
        if let Some(index) = collected["index"].as_u64() {
            let numbers: Vec<i64> = serde_json::from_value(collected["numbers"].clone())?;
            let seen = (u32::try_from(index)?, numbers);
            if !self.done.sums.contains(&seen) {
                self.done.sums.push(seen);
            }
        }
        Ok(Some(Stored { rounds, collected: !collected.is_null() }))
    }
}
