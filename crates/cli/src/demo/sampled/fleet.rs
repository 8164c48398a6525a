//! The demo's devices.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand_core::CryptoRng;
use sotto_client::{Host, Log, Participant, PassReport};
use sotto_learn::coins::Coins;
use sotto_protocol::Moment;
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{Change, DeviceState, DeviceStore, MemoryState, StateError};
use sotto_protocol::expression::Attributes;

use super::parties::Parties;
use crate::demo::Plan;
use crate::output::Output;
use crate::random;
use crate::workers::{lock, work};

/// Devices that are busy at the same time.
///
/// They mostly wait for the relay, which mixes requests that arrive at the same time.
const DEVICES_AT_ONCE: usize = 48;

/// How many passes a device makes to get its tokens before the demo gives up.
const MAX_PASSES: usize = 100;

/// The outcome for the fleet.
#[derive(Debug, Default)]
pub(super) struct Turnout {
    /// Reports that the leader accepted.
    pub(super) accepted: usize,
    /// Cover that devices sent.
    pub(super) cover: usize,
    /// Bytes of these reports.
    pub(super) bytes: u64,
    /// Tokens that devices got.
    pub(super) tokens: usize,
}

/// Lets every device read the log, get its tokens, decide and answer.
pub(super) fn run(
    plan: &Plan,
    parties: &Parties,
    moment: Moment,
    output: &Output,
) -> Result<Turnout> {
    let turnout = Mutex::new(Turnout::default());
    let logs: Mutex<Vec<Log>> = Mutex::default();
    let bar = output.bar("devices", plan.devices());
    let held = plan.question.held.iter().enumerate();
    work(
        held.map(|(number, kind)| Ok((number, *kind))),
        DEVICES_AT_ONCE,
        &bar,
        |(number, kind), _| {
            let attributes = plan.question.kinds.get(kind as usize).cloned().unwrap_or_default();
            let mut host = host(parties, number, attributes)?;
            let seeded = plan.coins.map(|coins| Seeded::new(&mut host, coins, number));
            // Not inside the `match`, which would hold the lock while the log is read.
            let free = lock(&logs).pop();
            let log = match free {
                Some(log) => log,
                None => Log::at(&parties.log_url, &host, &parties.trust)?.shared_for(u64::MAX),
            };
            let trust = Arc::clone(&parties.trust);
            let device = Participant::new(host, trust, Counting::default(), log);
            let mut device = device.frozen_at(moment);
            let (done, tokens) = answer(&mut device, seeded.as_ref())?;
            let mut delivery = done.insecure_delivery;
            let mut pause = Duration::from_millis(250);
            while delivery.waiting > 0 {
                // The leader or the relay is busy. A device sends a few times only.
                std::thread::sleep(pause);
                pause *= 2;
                delivery = device.pass()?.insecure_delivery;
            }
            ensure!(delivery.refused == 0, "the leader does not accept a report");
            let (_, store, log) = device.into_parts();
            lock(&logs).push(log);
            let mut turnout = lock(&turnout);
            turnout.tokens += tokens;
            turnout.accepted += delivery.accepted;
            turnout.cover += delivery.cover;
            turnout.bytes += store.bytes as u64;
            Ok(())
        },
    )
    .context("the devices could not answer")?;
    bar.finish();
    Ok(turnout.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// The host of a device with these attributes.
fn host(parties: &Parties, number: usize, attributes: Attributes) -> Result<Host> {
    let mut host = Host::new(parties.device_transport());
    host.attestor = Some(Box::new(parties.manufacturer.device(number)?));
    host.attributes = Box::new(move || Ok(attributes.clone()));
    Ok(host)
}

/// Runs passes until the device has its tokens and has decided. Returns the last pass and the
/// number of tokens received.
fn answer(
    device: &mut Participant<Counting>,
    seeded: Option<&Seeded>,
) -> Result<(PassReport, usize)> {
    let mut granted = 0;
    for _ in 0..MAX_PASSES {
        let done = device.pass()?;
        let round = done.tokens.clone().unwrap_or_default();
        granted += round.granted;
        ensure!(round.withheld + round.refused == 0, "the attester refuses a device its tokens");
        if round.waiting == 0 && seeded.is_some_and(Seeded::switch) {
            // It has its tokens now, and has considered nothing yet.
            continue;
        }
        if round.waiting == 0 {
            if let Some((_, silence)) = done.silent.first() {
                bail!("a device refuses the demo's recipe: {silence}");
            }
            return Ok((done, granted));
        }
        // The attester is busy.
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("the attester does not answer")
}

/// A device whose next coin is known: the generator of the pass in which it decides is that of its
/// number. All others are the system's.
struct Seeded {
    /// It decides, and not before.
    may_decide: Arc<AtomicBool>,
    /// The next generator is that of the deciding pass.
    is_next: Arc<AtomicBool>,
}

impl Seeded {
    fn new(host: &mut Host, (coins, run): (Coins, u32), number: usize) -> Self {
        let (may_decide, is_next) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (conditions, next) = (Arc::clone(&may_decide), Arc::clone(&is_next));
        host.conditions = Box::new(move || Ok(conditions.load(Ordering::SeqCst)));
        host.random = Arc::new(move || -> Box<dyn CryptoRng> {
            match next.swap(false, Ordering::SeqCst) {
                true => Box::new(coins.coin(run, number as u64)),
                false => Box::new(random::system()),
            }
        });
        Self { may_decide, is_next }
    }

    /// Lets the next pass decide. False if that was said before.
    fn switch(&self) -> bool {
        let first = !self.may_decide.swap(true, Ordering::SeqCst);
        self.is_next.store(first, Ordering::SeqCst);
        first
    }
}

/// A state in memory that counts the bytes of the reports that were made.
#[derive(Default)]
struct Counting {
    state: MemoryState,
    bytes: usize,
}

impl DeviceStore for Counting {
    fn state(&self) -> &DeviceState {
        self.state.state()
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        match &change {
            Change::Answered { pending, .. } if !is_cover(&pending.report) => {
                self.bytes += pending.report.len();
            }
            _ => {}
        }
        self.state.commit(change)
    }
}
