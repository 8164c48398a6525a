//! Collection jobs.

use std::time::Duration;

use sotto_wire::{BatchSelector, CollectionJobId, JobState, Query, TaskId};

use super::{BatchState, Collection, Range, Requeued, State, is_in};
use crate::collection_id::collection_job_id;
use crate::hold::Hold;
use crate::{
    Closing, CollectionCreated, CollectionDeleted, CollectionState, Lease, LeasedCollection,
    ListedCollection, MAX_LISTED, Release, Result, StoreError, Turn,
};

impl State {
    pub(super) fn find_collection(
        &self,
        task_id: TaskId,
        id: CollectionJobId,
    ) -> Option<(u64, &Collection)> {
        let mut found = self.collections.iter();
        let found = found.find(|(_, found)| found.task_id == task_id && found.id == id);
        found.map(|(number, collection)| (*number, collection))
    }

    pub(super) fn collections(&self, task_id: TaskId) -> Vec<ListedCollection> {
        let newest = self.collections.iter().rev().filter(|(_, job)| job.task_id == task_id);
        let listed = newest.map(|(_, job)| {
            let interval = match job.query {
                Query::TimeInterval(interval) => Some(interval),
                Query::LeaderSelected => None,
            };
            let state = match job.state {
                CollectionState::Pending => JobState::Pending,
                CollectionState::Finished(_) => JobState::Finished,
                CollectionState::Failed { .. } => JobState::Failed,
            };
            (job.id, interval, state)
        });
        listed.take(MAX_LISTED).collect()
    }

    pub(super) fn create_collection(
        &mut self,
        task_id: TaskId,
        request: Vec<u8>,
        query: Query,
    ) -> CollectionCreated {
        let task = self.tasks.entry(task_id).or_default();
        let ordinal = task.deleted.get(&request).copied().unwrap_or(0);
        let id = collection_job_id(&task_id, &request, ordinal);
        if let Query::TimeInterval(interval) = query
            && task.is_any_collected(&BatchSelector::TimeInterval(interval))
            && self.find_collection(task_id, id).is_none()
        {
            return CollectionCreated::Overlap;
        }
        if self.find_collection(task_id, id).is_some() {
            return CollectionCreated::Existing(id);
        }
        let overlaps = |other: &Collection| match (other.query, query) {
            (Query::TimeInterval(a), Query::TimeInterval(b)) => {
                other.task_id == task_id
                    && other.state == CollectionState::Pending
                    && a.overlaps(&b)
            }
            _ => false,
        };
        if self.collections.values().any(overlaps) {
            return CollectionCreated::Overlap;
        }
        let number = self.next_job();
        let (hold, batch, digest) = (Hold::default(), None, None);
        let state = CollectionState::Pending;
        let collection = Collection { hold, task_id, id, request, query, batch, digest, state };
        self.collections.insert(number, collection);
        CollectionCreated::Created(id)
    }

    pub(super) fn delete_collection(
        &mut self,
        task_id: TaskId,
        id: CollectionJobId,
        keep_finished: bool,
    ) -> CollectionDeleted {
        let Some((number, found)) = self.find_collection(task_id, id) else {
            return CollectionDeleted::Deleted;
        };
        if found.state == CollectionState::Pending && found.batch.is_some() {
            return CollectionDeleted::UnderWay;
        }
        if keep_finished && matches!(found.state, CollectionState::Finished(_)) {
            return CollectionDeleted::Finished;
        }
        if let Some(collection) = self.collections.remove(&number) {
            let task = self.tasks.entry(task_id).or_default();
            *task.deleted.entry(collection.request).or_default() += 1;
        }
        CollectionDeleted::Deleted
    }

    pub(super) fn lease_collection(
        &mut self,
        now_ms: u64,
        duration: Duration,
        turn: &Turn,
    ) -> Option<LeasedCollection> {
        let is_free = |collection: &Collection| {
            collection.state == CollectionState::Pending && collection.hold.is_free(now_ms)
        };
        let free = self.collections.iter().filter(|(_, collection)| is_free(collection));
        let number = turn.next(free.map(|(number, collection)| (*number, collection.task_id)))?;
        let hold = self.grant(now_ms, duration);
        let collection = self.collections.get_mut(&number)?;
        collection.hold = hold;
        Some(LeasedCollection {
            lease: hold.lease(number),
            task_id: collection.task_id,
            id: collection.id,
            request: collection.request.clone(),
            request_digest: collection.digest,
        })
    }

    pub(super) fn close_batch(&mut self, lease: Lease, min_batch_size: u64) -> Result<Closing> {
        let end = self.end;
        let collection = self.held_collection(lease)?;
        let (task_id, query, batch) = (collection.task_id, collection.query, collection.batch);
        let task = self.tasks.entry(task_id).or_default();
        let selector = match (batch, query) {
            (Some(selector), _) => selector,
            (None, Query::TimeInterval(interval)) => BatchSelector::TimeInterval(interval),
            (None, Query::LeaderSelected) => match task.ready_batch(min_batch_size) {
                Some(batch_id) => BatchSelector::LeaderSelected(batch_id),
                None => return Ok(Closing::TooFew),
            },
        };
        let aggregate = task.batch(&selector)?;
        if batch.is_none() {
            if aggregate.as_ref().map_or(0, |aggregate| aggregate.count) < min_batch_size {
                return Ok(Closing::TooFew);
            }
            match selector {
                BatchSelector::TimeInterval(interval) => {
                    task.ranges.push(Range { interval, position: end, is_collected: false });
                }
                BatchSelector::LeaderSelected(batch_id) => {
                    task.batches.insert(batch_id, BatchState::Closed);
                }
            }
            self.held_collection(lease)?.batch = Some(selector);
        }
        match aggregate {
            _ if self.is_draining(task_id, &selector) => Ok(Closing::Draining),
            Some(aggregate) => Ok(Closing::Drained { selector, aggregate }),
            None => Err(StoreError::Backend("a closed batch is empty".into())),
        }
    }

    pub(super) fn finish_collection(&mut self, lease: Lease, release: Release) -> Result<()> {
        let collection = self.held_collection(lease)?;
        let (task_id, batch) = (collection.task_id, collection.batch);
        let Some(selector) = batch.filter(|selector| !self.is_draining(task_id, selector)) else {
            return Err(StoreError::Backend("the batch is not drained".into()));
        };
        let collection = self.held_collection(lease)?;
        collection.state = CollectionState::Finished(release.response);
        collection.hold = Hold::default();
        self.collect(task_id, &selector);
        self.owe(task_id, release.receipt);
        Ok(())
    }

    /// Whether a report accepted before the batch was closed may still be added.
    fn is_draining(&self, task_id: TaskId, selector: &BatchSelector) -> bool {
        let mut jobs = self.jobs.values().filter(|job| job.task_id == task_id);
        let in_job = jobs
            .any(|job| job.reports.iter().any(|report| is_in(&job.bucket_of(report), selector)));
        let BatchSelector::TimeInterval(interval) = selector else { return in_job };
        let is_in = |requeued: &Requeued| requeued.time.is_none_or(|time| interval.contains(time));
        let mut requeued = self.requeued.values().filter(|requeued| requeued.task_id == task_id);
        let closing_end = self.tasks.get(&task_id).and_then(|task| {
            let ranges = task.ranges.iter().filter(|range| range.interval.overlaps(interval));
            ranges.map(|range| range.position).max()
        });
        in_job || requeued.any(is_in) || closing_end.is_some_and(|end| end > self.cursor)
    }
}
