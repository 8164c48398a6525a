//! What every store checks before it commits an outcome.

use std::collections::HashSet;

use sotto_protocol::helper::HelperOutcome;
use sotto_protocol::leader::aggregate::LeaderOutcome;
use sotto_protocol::{Bucket, BucketAggregates};

use crate::{Result, StoreError};

/// Each report of the job must be accounted for, in a bucket of the job. No index may occur twice:
/// a report that counts must not have its id released.
pub(crate) fn check_leader(
    outcome: &LeaderOutcome,
    report_count: u64,
    is_of_job: impl Fn(&Bucket) -> bool,
) -> Result<()> {
    if !outcome.buckets.keys().all(is_of_job) {
        return Err(StoreError::Backend("the commit has a bucket outside its job".into()));
    }
    let mut seen = HashSet::new();
    let mut released = outcome.requeue.iter().chain(&outcome.unspent);
    let are_distinct = released.all(|index| (*index as u64) < report_count && seen.insert(*index));
    let (requeued, refused) = (outcome.requeue.len() as u64, outcome.rejections.total());
    let unspent = outcome.unspent.len() as u64;
    if are_distinct
        && unspent <= refused
        && aggregated(&outcome.buckets) + refused + requeued == report_count
    {
        return Ok(());
    }
    Err(unaccounted())
}

/// Each report whose id is taken must be in a bucket.
pub(crate) fn check_helper(outcome: &HelperOutcome) -> Result<()> {
    if aggregated(&outcome.buckets) == outcome.reports.len() as u64 {
        return Ok(());
    }
    Err(unaccounted())
}

/// How many reports are in these buckets.
pub(crate) fn aggregated(buckets: &BucketAggregates) -> u64 {
    buckets.values().map(|aggregate| aggregate.count).sum()
}

fn unaccounted() -> StoreError {
    StoreError::Backend("the commit does not account for each report".into())
}
