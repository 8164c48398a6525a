//! The devices of a training, in this process. Each has a weight of its own, and adds 1 to it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use rand_core::CryptoRng;
use sotto_client::{Log, Participant, PassReport, Trainer};
use sotto_learn::evaluation::{Answer, Scale};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::to_bytes;
use sotto_protocol::device::{DeviceState, DeviceStore, MemoryState};
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;
use sotto_wire::recipe::Model;

use super::DEVICES;
use super::scene::Scene;

/// Between two passes of a device.
const PAUSE: Duration = Duration::from_millis(150);
/// After a pass that could not deliver: an answer is sent a few times only, and a party that was
/// killed needs some time.
const LONG_PAUSE: Duration = Duration::from_millis(800);

pub(super) struct Fleet {
    devices: Vec<Device>,
    progress: Arc<Progress>,
}

/// How far the devices are.
#[derive(Default)]
pub(super) struct Progress {
    /// How many rounds each has answered, so that nothing is waiting to be sent.
    answered: [AtomicU64; DEVICES],
    /// What each said last.
    said: [Mutex<String>; DEVICES],
    /// The models that they trained.
    models: Mutex<BTreeMap<EntryId, Vec<u8>>>,
}

/// What a device remembers at the end.
pub(super) struct Memory {
    pub(super) state: DeviceState,
    /// The rounds that it considered, in order.
    pub(super) considered: Vec<EntryId>,
    /// The state after its first round.
    pub(super) after_first: Option<DeviceState>,
}

struct Device {
    number: usize,
    participant: Participant<MemoryState>,
    /// To read the log anew.
    log_url: String,
    trust: Arc<Trust>,
}

impl Fleet {
    pub(super) fn new(scene: &Scene, seed: u64) -> Result<Self> {
        let progress = Arc::default();
        let device = |number| Device::new(scene, seed, number, &progress);
        let devices = (0..DEVICES).map(device).collect::<Result<_>>()?;
        Ok(Self { devices, progress })
    }

    pub(super) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// All devices do their passes until they are stopped.
    pub(super) fn live(self, stop: &AtomicBool) -> Result<Vec<Memory>> {
        let Self { devices, progress } = self;
        let progress = &*progress;
        thread::scope(|scope| {
            let living: Vec<_> = devices
                .into_iter()
                .map(|device| scope.spawn(move || device.live(progress, stop)))
                .collect();
            let ended = |device: thread::ScopedJoinHandle<'_, Result<Memory>>| {
                device.join().map_err(|_| anyhow!("a device panicked"))?
            };
            living.into_iter().map(ended).collect()
        })
    }
}

impl Progress {
    /// How many devices have answered this round.
    pub(super) fn answered(&self, round: u64) -> usize {
        let has = |answered: &&AtomicU64| answered.load(Ordering::SeqCst) > round;
        self.answered.iter().filter(has).count()
    }

    /// The model with this digest, if a device has trained it.
    pub(super) fn model(&self, digest: &EntryId) -> Option<Vec<u8>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
    }

    fn say(&self, device: usize, text: String) {
        *self.said[device].lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (answered, said)) in self.answered.iter().zip(&self.said).enumerate() {
            let said = said.lock().unwrap_or_else(PoisonError::into_inner);
            let answered = answered.load(Ordering::SeqCst);
            writeln!(f, "device {number} has answered {answered} rounds: {said}")?;
        }
        Ok(())
    }
}

impl Device {
    fn new(scene: &Scene, seed: u64, number: usize, progress: &Arc<Progress>) -> Result<Self> {
        let own_seed = seed * DEVICES as u64 + number as u64;
        let trainer = Box::new(OwnWeight(number, Arc::clone(progress)));
        let participant =
            scene.stage.device(number, own_seed, |host| host.trainer = Some(trainer))?;
        let (log_url, trust) = (scene.stage.world.log.url(), Arc::clone(&scene.stage.trust));
        Ok(Self { number, participant, log_url, trust })
    }

    /// Passes until it is stopped. Nothing that a pass says can end it: parties come and go.
    fn live(mut self, progress: &Progress, stop: &AtomicBool) -> Result<Memory> {
        let mut after_first = None;
        let mut considered = Vec::new();
        while !stop.load(Ordering::SeqCst) {
            let done = self.participant.pass();
            let is_waiting = self.participant.insecure_pending().count() > 0;
            progress.say(self.number, shown(&done));
            let new = done.map(|report| report.considered).unwrap_or_default();
            considered.extend_from_slice(&new);
            if !is_waiting {
                progress.answered[self.number].store(considered.len() as u64, Ordering::SeqCst);
            }
            thread::sleep(if is_waiting { LONG_PAUSE } else { PAUSE });
            if !new.is_empty() {
                let state;
                (self, state) = self.restarted()?;
                after_first.get_or_insert(state);
            }
        }
        ensure!(self.participant.insecure_pending().count() == 0, "an answer was not delivered");
        let (_, store, _) = self.participant.into_parts();
        Ok(Memory { state: store.state().clone(), considered, after_first })
    }

    /// The same device as a new process, with what it has stored and nothing else, and that.
    fn restarted(self) -> Result<(Self, DeviceState)> {
        let Self { number, participant, log_url, trust } = self;
        let (host, store, _) = participant.into_parts();
        let state = store.state().clone();
        let log = Log::at(&log_url, &host, &trust)?;
        let participant = Participant::new(host, Arc::clone(&trust), store, log);
        Ok((Self { number, participant, log_url, trust }, state))
    }
}

fn shown(done: &Result<PassReport, sotto_client::ParticipantError>) -> String {
    match done {
        Ok(report) => format!("{report:?}"),
        Err(error) => format!("{error}"),
    }
}

/// Trains the model by adding 1 to one weight. Its loss is that weight, and it is right once that is
/// positive.
struct OwnWeight(usize, Arc<Progress>);

impl Trainer for OwnWeight {
    fn knows(&self, model: &Model) -> bool {
        model.weights() == DEVICES as u64
    }

    fn update(
        &self,
        _: &Model,
        _: LocalTraining,
        weights: &[f64],
        _: &mut dyn CryptoRng,
    ) -> Option<Vec<f64>> {
        let file = to_bytes(weights);
        let mut models = self.1.models.lock().unwrap_or_else(PoisonError::into_inner);
        models.insert(EntryId::of(&file), file);
        Some((0..DEVICES).map(|weight| f64::from(u8::from(weight == self.0))).collect())
    }

    fn evaluate(&self, _: &Model, scale: &Scale, weights: &[f64]) -> Option<Answer> {
        let own = weights[self.0];
        let loss = (own / scale.largest_loss * scale.max as f64) as u64;
        Some(Answer { loss, right: if own > 0.0 { scale.max } else { 0 } })
    }
}
