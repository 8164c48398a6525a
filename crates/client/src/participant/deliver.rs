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
use crate::retry::RetryPolicy;
use crate::transport::Transport;
use crate::uploader::{PreparedReport, UploadOutcome, Uploader};

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

/// Sends every stored answer that is due and among the `chosen`, once, over the route to its leader;
/// without a route it waits. An answer that is accepted or rejected is wiped, and so is one that was
/// sent as often as allowed: whatever a leader says or does not say, it sees the same bytes a few
/// times at most, in passes that it cannot choose.
pub(super) fn deliver(
    store: &mut dyn DeviceStore,
    host: &Host,
    trust: &Trust,
    chosen: impl Fn(&Pending) -> bool,
    now: Moment,
    rng: &mut dyn CryptoRng,
) -> Result<Delivery, StateError> {
    let stored = store.state().pending();
    let due = stored.filter(|(_, pending)| pending.is_due(now) && chosen(pending));
    let mut due: Vec<_> = due.map(|(id, pending)| (id, pending.clone())).collect();
    shuffle(&mut due, rng);
    let mut delivery = Delivery::default();
    for (recipe, pending) in due {
        let Some(transport) = to_leader(&pending, host, trust, rng) else { continue };
        // Before the first byte is sent: a crash must not add a send.
        store.commit(Change::Sending { recipe })?;
        let is_cover = is_cover(&pending.report);
        match send(pending, transport, rng) {
            Some(UploadOutcome::Accepted) if is_cover => delivery.cover += 1,
            Some(UploadOutcome::Accepted) => delivery.accepted += 1,
            Some(UploadOutcome::Rejected(_)) => delivery.refused += 1,
            None => continue,
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

/// The leader's verdict; `None` if there is none yet.
fn send(
    pending: Pending,
    transport: Arc<dyn Transport>,
    rng: &mut dyn CryptoRng,
) -> Option<UploadOutcome> {
    let encoded = &pending.task_configuration;
    let configuration = TaskConfiguration::from_bytes(encoded).ok()?;
    let task = Task::new(taskprov::task_id(encoded), configuration).ok()?;
    let report = PreparedReport::stored(pending.report).ok()?;
    let never = RetryPolicy::never();
    let uploader = Uploader::new(task, transport).with_retry(never).with_taskprov();
    uploader.upload(&[report], rng).ok()?.first().copied()
}
