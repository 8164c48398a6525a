//! Sends the answers that a device has stored, the same bytes each time, until the leader has them.

use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{Change, DeviceStore, Pending, StateError};
use sotto_protocol::trust::Trust;
use sotto_protocol::{Moment, Task, shuffle};
use sotto_wire::{Decode, TaskConfiguration, taskprov};

use super::host::Host;
use super::routes::to_leader;
use crate::exchange::ExchangeError;
use crate::retry::RetryPolicy;
use crate::transport::Transport;
use crate::uploader::{PreparedReport, UploadError, UploadOutcome, Uploader};

/// What happened to the stored answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Reports that the leader accepted.
    pub accepted: usize,
    /// Cover that the leader took, and dropped.
    pub cover: usize,
    /// Rejected, or sent as often as allowed, and never sent again.
    pub refused: usize,
    /// Not sent yet, or not answered: to be sent later, unchanged.
    pub waiting: usize,
}

/// Sends stored answers that are due, each once, over the route to its leader; without a route it
/// waits. At most this many: answers that come together are seen to come from one device.
/// An answer that is accepted or rejected is wiped, and so is one that was
/// sent as often as allowed: whatever a leader says or does not say, it sees the same bytes a few
/// times at most, in passes that it cannot choose.
pub(super) fn deliver(
    store: &mut dyn DeviceStore,
    host: &Host,
    trust: &Trust,
    most: usize,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Delivery, StateError> {
    let mut due: Vec<_> =
        store.state().due(now).map(|(recipe, pending)| (recipe, pending.clone())).collect();
    shuffle(&mut due, rng);
    let mut delivery = Delivery::default();
    for (recipe, pending) in due.into_iter().take(most) {
        let Some(transport) = to_leader(&pending, host, trust, rng) else { continue };
        // Before the first byte is sent: a crash must not add a send.
        store.commit(Change::Sending { recipe })?;
        let is_cover = is_cover(&pending.report);
        match send(pending, transport, rng) {
            Ok(Some(UploadOutcome::Accepted)) if is_cover => delivery.cover += 1,
            Ok(Some(UploadOutcome::Accepted)) => delivery.accepted += 1,
            // Even if it is too early: only reports are, so sending again would show that it is one.
            Ok(Some(UploadOutcome::Rejected(_))) => delivery.refused += 1,
            Ok(None) => continue,
            Err(NotSent) => {
                store.commit(Change::NotSent { recipe })?;
                continue;
            }
        }
        store.commit(Change::Delivered { recipe })?;
    }
    let exhausted = store.state().pending().filter(|(_, pending)| pending.is_exhausted());
    for recipe in exhausted.map(|(recipe, _)| recipe).collect::<Vec<_>>() {
        store.commit(Change::Delivered { recipe })?;
        delivery.refused += 1;
    }
    delivery.waiting = store.state().pending().count();
    Ok(delivery)
}

/// There was no connection to the relay.
struct NotSent;

/// The leader's verdict; `None` if there is none yet.
fn send(
    pending: Pending,
    transport: Arc<dyn Transport>,
    rng: &mut dyn CryptoRng,
) -> Result<Option<UploadOutcome>, NotSent> {
    let encoded = &pending.task_configuration;
    let task = TaskConfiguration::from_bytes(encoded)
        .ok()
        .and_then(|configuration| Task::new(taskprov::task_id(encoded), configuration).ok());
    let (Some(task), Ok(report)) = (task, PreparedReport::stored(pending.report)) else {
        return Ok(None);
    };
    let never = RetryPolicy::never();
    let uploader = Uploader::new(task, transport).with_retry(never).with_taskprov();
    match uploader.upload(&[report], rng) {
        Ok(outcomes) => Ok(outcomes.first().copied()),
        Err(UploadError::Upload(ExchangeError::Transport(error))) if error.nothing_was_sent() => {
            Err(NotSent)
        }
        Err(_) => Ok(None),
    }
}
