//! The demo's devices.

use std::sync::Mutex;

use anyhow::{Context, Result, anyhow};
use sotto_client::{Delivery, HttpLog, deliver};
use sotto_protocol::Moment;
use sotto_protocol::device::{DeviceStore, Host, MemoryState, pass};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::log::Watch;

use super::parties::Parties;
use crate::connection::retry;
use crate::demo::Plan;
use crate::output::Output;
use crate::workers::{lock, work};

/// Devices that are busy at the same time.
///
/// They mostly wait in the relay, which mixes those that send at the same time.
const DEVICES_AT_ONCE: usize = 48;

/// What became of the fleet.
#[derive(Debug, Default)]
pub(super) struct Turnout {
    /// Reports that the leader took.
    pub(super) accepted: usize,
    /// Bytes of these reports.
    pub(super) bytes: u64,
}

/// Lets every device read the log, decide and answer.
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
    work(plan.held.iter().map(|bucket| Ok(*bucket)), DEVICES_AT_ONCE, &bar, |bucket, rng| {
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
        let attributes: Attributes = [("word".to_owned(), Value::String(word.to_owned()))].into();
        let host = Host { conditions_met: true, attributes: &attributes };
        let mut state = MemoryState::default();
        let done = pass(&mut state, &mut watch, parties.trust(), &host, moment, rng)?;
        if let Some((_, silence)) = done.silent.first() {
            return Err(anyhow!("a device refuses the demo's recipe: {silence}"));
        }
        let bytes: usize = state.state().pending().map(|(_, pending)| pending.report.len()).sum();
        let ways = routes.to_leaders(state.state(), &watch, parties.trust());
        let mut route = |id: &_| ways.get(id).cloned();
        let Delivery { accepted, waiting, .. } = deliver(&mut state, &mut route, &retry(5), rng)?;
        if waiting > 0 {
            return Err(anyhow!("the leader does not take a report"));
        }
        let mut turnout = lock(&turnout);
        turnout.accepted += accepted;
        turnout.bytes += bytes as u64;
        lock(&watches).push(watch);
        Ok(())
    })
    .context("the devices could not answer")?;
    bar.finish();
    Ok(turnout.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}
