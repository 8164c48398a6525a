//! Receipts of released batches that the public log is to have.

use std::collections::BTreeSet;

use sotto_protocol::Moment;
use sotto_protocol::receipt::Released;
use sotto_wire::TaskId;

use super::State;
use crate::{OwedReceipt, OwedReceipts};

/// A receipt. It has a number once it was to be sent.
pub(super) struct StoredReceipt {
    task_id: TaskId,
    released: Released,
    number: Option<u64>,
    is_sent: bool,
}

impl StoredReceipt {
    /// One that has a number was due before.
    fn is_due(&self, now: Moment) -> bool {
        !self.is_sent && (self.released.due <= now || self.number.is_some())
    }
}

impl State {
    pub(super) fn owe(&mut self, task_id: TaskId, released: Option<Released>) {
        let stored = released.map(|released| StoredReceipt {
            task_id,
            released,
            number: None,
            is_sent: false,
        });
        self.receipts.extend(stored);
    }

    pub(super) fn next_receipts(&mut self, now: Moment) -> OwedReceipts {
        let due = || self.receipts.iter().filter(|receipt| receipt.is_due(now));
        let count = due().count() as u64;
        let tasks: BTreeSet<TaskId> = due().map(|receipt| receipt.task_id).collect();
        let next =
            tasks.into_iter().filter_map(|task_id| self.next_receipt(task_id, now)).collect();
        OwedReceipts { count, next }
    }

    fn next_receipt(&mut self, task_id: TaskId, now: Moment) -> Option<OwedReceipt> {
        let of_task = self.receipts.iter_mut().filter(|receipt| receipt.task_id == task_id);
        let mut of_task: Vec<_> = of_task.collect();
        let last = of_task.iter().filter_map(|receipt| receipt.number).max().unwrap_or(0);
        // A stable order: of those that are due at the same time, the first that was released.
        of_task.sort_by_key(|receipt| (receipt.number.is_none(), receipt.released.due.0));
        let next = of_task.into_iter().find(|receipt| receipt.is_due(now))?;
        let number = *next.number.get_or_insert(last + 1);
        Some(OwedReceipt { task_id, number, released: next.released })
    }

    pub(super) fn receipt_sent(&mut self, task_id: TaskId, number: u64) {
        let is_it = |receipt: &&mut StoredReceipt| {
            receipt.task_id == task_id && receipt.number == Some(number)
        };
        self.receipts.iter_mut().filter(is_it).for_each(|receipt| receipt.is_sent = true);
        self.forget_sent(task_id);
    }

    /// Deletes the receipts of a forgotten task, once all are sent.
    pub(super) fn forget_sent(&mut self, task_id: TaskId) {
        let is_owed = |receipt: &StoredReceipt| receipt.task_id == task_id && !receipt.is_sent;
        if self.tombstones.contains(&task_id) && !self.receipts.iter().any(is_owed) {
            self.receipts.retain(|receipt| receipt.task_id != task_id);
        }
    }
}
