//! The demo's devices.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use rand_core::CryptoRng;
use sotto_client::{Delivery, DeviceCertificate, HttpLog, deliver, fetch_tokens};
use sotto_protocol::Moment;
use sotto_protocol::admission::Watch;
use sotto_protocol::device::tokens::Live;
use sotto_protocol::device::{DeviceStore, Host, MemoryState, follow, pass};
use sotto_protocol::expression::{Attributes, Value};

use super::parties::Parties;
use crate::connection::retry;
use crate::demo::Plan;
use crate::output::Output;
use crate::workers::{lock, work};

/// Devices that are busy at the same time.
///
/// They mostly wait in the relay, which mixes those that send at the same time.
const DEVICES_AT_ONCE: usize = 48;

/// How often a device asks for its tokens before the demo gives up.
const TOKEN_ROUNDS: usize = 100;

/// What became of the fleet.
#[derive(Debug, Default)]
pub(super) struct Turnout {
    /// Reports that the leader took.
    pub(super) accepted: usize,
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
    let watches: Mutex<Vec<Watch<HttpLog>>> = Mutex::default();
    let bar = output.bar("devices", plan.held.len() as u64);
    let routes = parties.routes();
    let held = plan.held.iter().enumerate();
    work(
        held.map(|(number, bucket)| Ok((number, *bucket))),
        DEVICES_AT_ONCE,
        &bar,
        |device, rng| {
            let (number, bucket) = device;
            // Not in the `match`, which would hold the lock while the log is read.
            let free = lock(&watches).pop();
            let mut watch = match free {
                Some(watch) => watch,
                None => {
                    let mut watch = Watch::new(parties.log()?);
                    watch.refresh(parties.trust(), moment).context("the log cannot be read")?;
                    watch
                }
            };
            let word = plan.words.labels().get(bucket as usize).copied().unwrap_or_default();
            let attributes: Attributes =
                [("word".to_owned(), Value::String(word.to_owned()))].into();
            let host = Host { conditions_met: true, attributes: &attributes };
            let mut state = MemoryState::default();
            let certificate = parties.manufacturer().device(number)?;
            let tokens = ask(&mut state, &mut watch, parties, &certificate, moment, rng)?;
            let done = pass(&mut state, &mut watch, parties.trust(), &host, moment, rng)?;
            if let Some((_, silence)) = done.silent.first() {
                return Err(anyhow!("a device refuses the demo's recipe: {silence}"));
            }
            let bytes: usize =
                state.state().pending().map(|(_, pending)| pending.report.len()).sum();
            let ways = routes.to_leaders(state.state(), &watch, parties.trust());
            let mut route = |id: &_| ways.get(id).cloned();
            let Delivery { accepted, waiting, .. } =
                deliver(&mut state, &mut route, &retry(5), rng)?;
            if waiting > 0 {
                return Err(anyhow!("the leader does not take a report"));
            }
            let mut turnout = lock(&turnout);
            turnout.tokens += tokens;
            turnout.accepted += accepted;
            turnout.bytes += bytes as u64;
            lock(&watches).push(watch);
            Ok(())
        },
    )
    .context("the devices could not answer")?;
    bar.finish();
    Ok(turnout.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Gets the device its tokens from the attester.
fn ask(
    state: &mut MemoryState,
    watch: &mut Watch<HttpLog>,
    parties: &Parties,
    certificate: &DeviceCertificate,
    moment: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<usize> {
    let trust = parties.trust();
    let view = follow(state, watch, trust, moment)?;
    let mut granted = 0;
    for _ in 0..TOKEN_ROUNDS {
        let live = Live { view: &view, recipes: watch.recipes() };
        let way = parties.to_attester();
        let round = fetch_tokens(state, &live, trust, certificate, way, moment, rng)?;
        granted += round.granted;
        ensure!(round.withheld + round.refused == 0, "the attester gives a device no token");
        if round.waiting == 0 {
            return Ok(granted);
        }
        // The attester asked for patience.
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("the attester does not answer")
}
