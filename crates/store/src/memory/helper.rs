//! The helper's verbs.

use std::collections::HashSet;

use async_trait::async_trait;
use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::{Bucket, Digest, Rejection, ReplayScope};
use sotto_wire::{BatchSelector, ReportId, ReportIdChecksum, TaskId};

use super::{MemoryStore, Response, State, id_key, is_in};
use crate::outcome::check_helper;
use crate::{Batch, Committed, HelperStore, Release, Result};

#[async_trait]
impl HelperStore for MemoryStore {
    async fn response(&self, task_id: TaskId, digest: Digest) -> Result<Option<Vec<u8>>> {
        let state = self.lock();
        let response = state.tasks.get(&task_id).and_then(|task| task.responses.get(&digest));
        Ok(response.map(|response| response.body.clone()))
    }

    async fn spent_reports(
        &self,
        task_id: TaskId,
        scope: ReplayScope,
        reports: Vec<(Bucket, ReportId)>,
    ) -> Result<Vec<Option<Rejection>>> {
        let mut state = self.lock();
        let State { tasks, report_ids, .. } = &mut *state;
        let task = tasks.entry(task_id).or_default();
        let verdict = |(bucket, report_id): &(Bucket, ReportId)| {
            if task.is_collected(bucket) {
                Some(Rejection::BatchCollected)
            } else if report_ids.contains(&id_key(task_id, scope, bucket, *report_id)) {
                Some(Rejection::ReportReplayed)
            } else {
                None
            }
        };
        Ok(reports.iter().map(verdict).collect())
    }

    async fn commit_helper_job(
        &self,
        task_id: TaskId,
        digest: Digest,
        outcome: HelperOutcome,
    ) -> Result<Committed> {
        check_helper(&outcome)?;
        let mut state = self.lock();
        let State { tasks, report_ids, .. } = &mut *state;
        let task = tasks.entry(task_id).or_default();
        if let Some(response) = task.responses.get(&digest) {
            return Ok(Committed::Already(response.body.clone()));
        }
        let mut new_ids = HashSet::new();
        let all_new = outcome.reports.iter().all(|(bucket, report_id)| {
            let id = id_key(task_id, outcome.scope, bucket, *report_id);
            !report_ids.contains(&id) && new_ids.insert(id)
        });
        if !all_new || outcome.buckets.keys().any(|bucket| task.is_collected(bucket)) {
            return Ok(Committed::Conflict);
        }
        task.add(&outcome.buckets)?;
        report_ids.extend(new_ids);
        task.count_rejections(&outcome.rejections);
        let buckets = outcome.buckets.into_keys().collect();
        task.responses.insert(digest, Response { body: outcome.response, buckets });
        Ok(Committed::Done)
    }

    async fn forget_response(&self, task_id: TaskId, digest: Digest) -> Result<()> {
        if let Some(task) = self.lock().tasks.get_mut(&task_id) {
            task.responses.remove(&digest);
        }
        Ok(())
    }

    async fn batch(&self, task_id: TaskId, selector: BatchSelector) -> Result<Batch> {
        match self.lock().tasks.get(&task_id) {
            Some(task) => Ok(Batch {
                aggregate: task.batch(&selector)?,
                collected: task.is_any_collected(&selector),
            }),
            None => Ok(Batch::default()),
        }
    }

    async fn collect_batch(
        &self,
        task_id: TaskId,
        selector: BatchSelector,
        expected: (u64, [u8; 32]),
        digest: Digest,
        release: Release,
    ) -> Result<Committed> {
        let mut state = self.lock();
        let task = state.tasks.entry(task_id).or_default();
        if let Some(response) = task.responses.get(&digest) {
            return Ok(Committed::Already(response.body.clone()));
        }
        let held = task
            .batch(&selector)?
            .map_or((0, ReportIdChecksum::default()), |batch| (batch.count, batch.checksum));
        if task.is_any_collected(&selector) || (held.0, *held.1.as_bytes()) != expected {
            return Ok(Committed::Conflict);
        }
        task.responses.retain(|_, r| !r.buckets.iter().any(|bucket| is_in(bucket, &selector)));
        let response = Response { body: release.response, buckets: Vec::new() };
        task.responses.insert(digest, response);
        state.collect(task_id, &selector);
        state.owe(task_id, release.receipt);
        Ok(Committed::Done)
    }
}
