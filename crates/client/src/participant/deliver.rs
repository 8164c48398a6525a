//! Sends the answers that a device has stored, the same bytes each time, until the leader has them.

use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_protocol::Task;
use sotto_protocol::device::{Change, DeviceState, DeviceStore, Pending, StateError};
use sotto_wire::{Decode, EntryId, ReportError, TaskConfiguration, taskprov};

use crate::retry::RetryPolicy;
use crate::transport::Transport;
use crate::uploader::{PreparedReport, UploadOutcome, Uploader};

/// What happened to the stored answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Accepted by the leader.
    pub accepted: usize,
    /// Rejected, and never sent again.
    pub refused: usize,
    /// Not answered: to be sent again, unchanged.
    pub waiting: usize,
}

/// Sends every stored answer once (with the retries of `retry`) over the route to its leader;
/// without a route it waits. An answer that is accepted or rejected is wiped.
pub(super) fn deliver(
    store: &mut dyn DeviceStore,
    route: impl Fn(&DeviceState, &EntryId) -> Option<Arc<dyn Transport>>,
    retry: &RetryPolicy,
    rng: &mut dyn CryptoRng,
) -> Result<Delivery, StateError> {
    let stored: Vec<(EntryId, Pending)> =
        store.state().pending().map(|(id, pending)| (id, pending.clone())).collect();
    let mut delivery = Delivery::default();
    for (recipe, pending) in stored {
        let transport = route(store.state(), &recipe);
        match transport.and_then(|transport| send(pending, transport, retry, rng)) {
            Some(UploadOutcome::Accepted) => delivery.accepted += 1,
            Some(UploadOutcome::Rejected(error)) if error != ReportError::ReportTooEarly => {
                delivery.refused += 1;
            }
            _ => {
                delivery.waiting += 1;
                continue;
            }
        }
        store.commit(Change::Delivered { recipe })?;
    }
    Ok(delivery)
}

/// The leader's verdict; `None` if there is none yet.
fn send(
    pending: Pending,
    transport: Arc<dyn Transport>,
    retry: &RetryPolicy,
    rng: &mut dyn CryptoRng,
) -> Option<UploadOutcome> {
    let encoded = &pending.task_configuration;
    let configuration = TaskConfiguration::from_bytes(encoded).ok()?;
    let task = Task::new(taskprov::task_id(encoded), configuration).ok()?;
    let report = PreparedReport::from_bytes(pending.report).ok()?;
    let uploader = Uploader::new(task, transport).with_retry(retry.clone()).with_taskprov();
    uploader.upload(&[report], rng).ok()?.first().copied()
}
