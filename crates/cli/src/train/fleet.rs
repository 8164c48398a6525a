//! The simulated devices of a story. Each runs the engine of a real one, with its state in memory.
//!
//! Their coins, their training and their noise come from one seed, by round and device, as in fast
//! mode: so the sums are the same to the last bit. Everything else, keys and tokens among it, is
//! random.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand_chacha::ChaCha8Rng;
use rand_core::{CryptoRng, TryCryptoRng, TryRng};
use sotto_client::{Classifier, Host, Log, Participant, PassReport, Trainer};
use sotto_learn::coins::Coins;
use sotto_learn::evaluation::{Answer, Scale};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::Labelled;
use sotto_protocol::Moment;
use sotto_protocol::device::MemoryState;
use sotto_wire::EntryId;
use sotto_wire::recipe::Model;

use crate::output::Output;
use crate::random;
use crate::stage::Stage;
use crate::workers::{lock, work};

/// Devices that are busy at the same time. They mostly wait for the relay.
const DEVICES_AT_ONCE: usize = 48;

/// How many passes a device makes to get its tokens before we give up.
const MAX_PASSES: usize = 1_000;

/// All devices.
pub(crate) struct Fleet<'a> {
    stage: &'a Stage,
    /// `None` while it is busy.
    devices: Vec<Mutex<Option<Device>>>,
    round: Arc<AtomicU32>,
}

/// What decides the randomness of a device: the number of the coins, and what is drawn from.
pub(crate) struct Seeds {
    round: Arc<AtomicU32>,
    randomness: Arc<Randomness>,
}

/// A device between two passes.
struct Device {
    host: Host,
    store: MemoryState,
    randomness: Arc<Randomness>,
}

/// What the devices did in a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turnout {
    /// Reports that the leader took.
    pub(crate) reports: usize,
    /// Cover.
    pub(crate) cover: usize,
}

impl<'a> Fleet<'a> {
    /// So many devices; `equip` gives each what it knows.
    pub(crate) fn new(
        stage: &'a Stage,
        count: usize,
        equip: impl Fn(usize, &mut Host, Seeds),
    ) -> Result<Self> {
        let round = Arc::new(AtomicU32::new(0));
        let device = |number: usize| {
            let mut host = Host::new(stage.device_transport());
            host.attestor = Some(Box::new(stage.manufacturer.device(number)?));
            let randomness = Arc::new(Randomness::default());
            let seeds = Seeds { round: Arc::clone(&round), randomness: Arc::clone(&randomness) };
            equip(number, &mut host, seeds);
            let of_device = Arc::clone(&randomness);
            host.random = Arc::new(move || -> Box<dyn CryptoRng> {
                match of_device.is_for_pass.swap(false, Ordering::SeqCst) {
                    true => Box::new(Switched(Arc::clone(&of_device))),
                    false => Box::new(random::system()),
                }
            });
            let store = MemoryState::default();
            anyhow::Ok(Mutex::new(Some(Device { host, store, randomness })))
        };
        let devices = (0..count).map(device).collect::<Result<_>>()?;
        Ok(Self { stage, devices, round })
    }

    /// Lets every device fetch its tokens. Returns how many they got.
    pub(crate) fn fetch_tokens(&self, now: Moment, output: &Output) -> Result<usize> {
        let granted = Mutex::new(0);
        self.each("devices fetch tokens", now, output, |pass| {
            for _ in 0..MAX_PASSES {
                let tokens = pass()?.tokens.unwrap_or_default();
                *lock(&granted) += tokens.granted;
                ensure!(tokens.withheld + tokens.refused == 0, "an attester refuses tokens");
                if tokens.waiting == 0 {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            bail!("the attesters do not answer")
        })?;
        Ok(*lock(&granted))
    }

    /// Lets every device consider a round, and send. Its coins are those of this number.
    pub(crate) fn answer(
        &self,
        coins: u32,
        round: EntryId,
        now: Moment,
        output: &Output,
    ) -> Result<Turnout> {
        self.round.store(coins, Ordering::SeqCst);
        let turnout = Mutex::new(Turnout::default());
        self.each("devices answer", now, output, |pass| {
            let done = pass()?;
            check(&done, round)?;
            let mut delivery = done.insecure_delivery;
            let mut pause = Duration::from_millis(250);
            let mut seen = lock(&turnout);
            (seen.reports, seen.cover) =
                (seen.reports + delivery.accepted, seen.cover + delivery.cover);
            drop(seen);
            while delivery.waiting > 0 {
                // The leader or the relay is busy. A device sends a few times only.
                std::thread::sleep(pause);
                pause *= 2;
                delivery = pass()?.insecure_delivery;
                let mut seen = lock(&turnout);
                (seen.reports, seen.cover) =
                    (seen.reports + delivery.accepted, seen.cover + delivery.cover);
            }
            ensure!(delivery.refused == 0, "the leader does not accept a report");
            Ok(())
        })?;
        let turnout = *lock(&turnout);
        Ok(turnout)
    }

    /// Works through the devices, which share a few readings of the log.
    fn each(
        &self,
        what: &'static str,
        now: Moment,
        output: &Output,
        step: impl Fn(&mut dyn FnMut() -> Result<PassReport>) -> Result<()> + Sync,
    ) -> Result<()> {
        let logs: Mutex<Vec<Log>> = Mutex::default();
        let bar = output.bar(what, self.devices.len() as u64);
        let done = work(self.devices.iter().map(Ok), DEVICES_AT_ONCE, &bar, |device, _| {
            let taken = lock(device).take().context("a device is busy")?;
            let Device { host, store, randomness } = taken;
            // Not inside the `match`, which would hold the lock while the log is read.
            let free = lock(&logs).pop();
            let log = match free {
                Some(log) => log,
                None => {
                    Log::at(&self.stage.log_url, &host, &self.stage.trust)?.shared_for(u64::MAX)
                }
            };
            let trust = Arc::clone(&self.stage.trust);
            let mut participant = Participant::new(host, trust, store, log).frozen_at(now);
            let done = step(&mut || {
                randomness.is_for_pass.store(true, Ordering::SeqCst);
                Ok(participant.pass()?)
            });
            let (host, store, log) = participant.into_parts();
            *lock(device) = Some(Device { host, store, randomness });
            lock(&logs).push(log);
            done
        });
        bar.finish_and_clear();
        done
    }
}

/// Says why a device does not answer a round.
fn check(done: &PassReport, round: EntryId) -> Result<()> {
    if done.considered.contains(&round) {
        return Ok(());
    }
    if let Some((_, error)) = done.models_missing.first() {
        bail!("a device cannot read the file of the round: {error}");
    }
    match done.silent.iter().find(|(id, _)| *id == round) {
        // All its tokens are spent: it sent cover.
        Some((_, silence)) if silence.check == sotto_protocol::admission::Check::Token => Ok(()),
        Some((_, silence)) => bail!("a device refuses the round: {silence}"),
        None => bail!("a device does not see the round"),
    }
}

/// Where a device's randomness comes from.
#[derive(Default)]
pub(crate) struct Randomness {
    /// The next generator is that of a pass. All others are the system's: those of requests must
    /// never repeat.
    is_for_pass: AtomicBool,
    /// What is drawn in a pass; the system's if there is none yet.
    seeded: Mutex<Option<ChaCha8Rng>>,
}

impl Randomness {
    fn switch(&self, to: ChaCha8Rng) {
        *lock(&self.seeded) = Some(to);
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut dyn CryptoRng) -> T) -> T {
        match &mut *lock(&self.seeded) {
            Some(rng) => draw(rng),
            None => draw(&mut random::system()),
        }
    }
}

/// The generator of a pass.
struct Switched(Arc<Randomness>);

impl TryRng for Switched {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.draw(|rng| rng.next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.draw(|rng| rng.next_u64()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.draw(|rng| rng.fill_bytes(bytes));
        Ok(())
    }
}

/// The devices of a story are not real.
impl TryCryptoRng for Switched {}

/// A trainer that says from where the next randomness comes: a device asks whether it can train a
/// model right before it tosses its coin, and for its update right before it draws its noise.
pub(super) struct Seeded {
    number: u64,
    coins: Coins,
    seeds: Seeds,
    classifier: Classifier,
}

impl Seeded {
    /// With these examples.
    pub(super) fn new(number: usize, coins: Coins, seeds: Seeds, examples: &[Labelled]) -> Self {
        let (number, examples) = (number as u64, examples.to_vec());
        Self { number, coins, seeds, classifier: Classifier::new(move || examples.clone()) }
    }
}

impl Trainer for Seeded {
    fn knows(&self, model: &Model) -> bool {
        let round = self.seeds.round.load(Ordering::SeqCst);
        self.seeds.randomness.switch(self.coins.coin(round, self.number));
        self.classifier.knows(model)
    }

    fn update(
        &self,
        model: &Model,
        training: LocalTraining,
        weights: &[f64],
        _: &mut dyn CryptoRng,
    ) -> Option<Vec<f64>> {
        let round = self.seeds.round.load(Ordering::SeqCst);
        let mut rng = self.coins.training(round, self.number);
        let update = self.classifier.update(model, training, weights, &mut rng);
        self.seeds.randomness.switch(self.coins.noise(round, self.number));
        update
    }

    fn evaluate(&self, model: &Model, scale: &Scale, weights: &[f64]) -> Option<Answer> {
        self.classifier.evaluate(model, scale, weights)
    }
}
