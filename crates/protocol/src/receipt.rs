//! Receipts of released batches: what an aggregator's operator says in the public log about a
//! release, and what auditors conclude from it ([`audit`]).
//!
//! A receipt says nothing that the analyst does not learn, and less than a recipe is judged by: the
//! count is treated as seen by everybody (`docs/decisions/0030-receipts.md`). It is about a whole
//! interval of release, never about the times of single reports, and not public before the interval
//! is due.

pub mod audit;

use sotto_wire::recipe::{FORMAT_VERSION, Recipe, Signer};
use sotto_wire::{BatchId, BatchSelector, EntryId, Receipt, Role};

use crate::recipe::windows::{Span, release_of};
use crate::{AggregatorTask, BucketAggregate, Fault, Moment};

/// A released batch, as far as its receipt tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The recipe.
    pub recipe: EntryId,
    /// The interval, in POSIX seconds: the collected one, or for a batch that the leader selected
    /// the interval of release that its reports are from.
    pub span: Span,
    /// How many reports it held, rounded down to a power of two.
    pub count: u64,
    /// The batch, if the leader selected it.
    pub batch: Option<BatchId>,
    /// From when on the receipt may be public. Batches that the leader selects are released when
    /// they are full: who sees when that is, and who has just sent something, would know who
    /// answered.
    pub due: Moment,
}

impl Released {
    /// What to say about a batch of a recipe's task. It must have reached the minimum batch size.
    pub fn new(
        task: &AggregatorTask,
        recipe: &Recipe,
        selector: &BatchSelector,
        batch: &BucketAggregate,
    ) -> Result<Self, Fault> {
        if batch.count < task.task.configuration().min_batch_size() {
            return Err(Fault("a batch below the task's minimum has no receipt".into()));
        }
        let (covered, batch_id) = match selector {
            BatchSelector::TimeInterval(interval) => (*interval, None),
            BatchSelector::LeaderSelected(id) => (batch.interval()?, Some(*id)),
        };
        let precision = task.task.configuration().time_precision();
        let when = recipe.answer_times();
        // No report is from outside of the recipe's time, whatever was collected.
        let covered = Span {
            start: covered.start().start_seconds(precision).max(when.opens),
            end: covered.end().start_seconds(precision).min(when.closes),
        };
        let span = match batch_id {
            None => covered,
            // Only another leader than ours fills a batch from two of them.
            Some(_) => release_of(&when, covered).unwrap_or(covered),
        };
        let grace_s = task.release.grace_s;
        Ok(Self {
            recipe: recipe.id(),
            span,
            count: Receipt::rounded(batch.count),
            batch: batch_id,
            due: Moment(grace_s.map_or(0, |grace_s| span.end.saturating_add(grace_s))),
        })
    }

    /// The receipt with this number, to be signed.
    pub fn receipt(&self, seq: u64, role: Role, operator: Signer) -> Receipt {
        Receipt {
            version: FORMAT_VERSION,
            recipe: self.recipe,
            operator,
            role,
            seq,
            start: self.span.start,
            end: self.span.end,
            count: self.count,
            batch: self.batch,
        }
    }
}
