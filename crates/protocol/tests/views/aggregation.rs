//! Leader, helper and collector in memory, over uploaded reports.

use std::collections::BTreeMap;

use sotto_crypto::HpkeKeypair;
use sotto_protocol::client::is_cover;
use sotto_protocol::leader::aggregate::{
    JobInput, JobLimits, consume_aggregation_job_resp, form_jobs, produce_aggregation_job_init_req,
};
use sotto_protocol::leader::collect::{produce_aggregate_share_req, produce_collection_job_resp};
use sotto_protocol::leader::upload::consume_upload_req;
use sotto_protocol::{
    AggregatorTask, BucketAggregate, BucketAggregates, HpkeKeyring, Moment, Task, collector, helper,
};
use sotto_testing::aggregators::{NOW, aggregator_task};
use sotto_testing::keys::{keypair_from, rng};
use sotto_vdaf::AggregateResult;
use sotto_wire::{BatchSelector, Query, Role};

/// Both aggregators of the recipe in `world`, which derives keys from these seeds.
pub(crate) struct Aggregators {
    leader: AggregatorTask,
    helper: AggregatorTask,
    leader_keys: HpkeKeyring,
    helper_keys: HpkeKeyring,
    collector: HpkeKeypair,
}

/// What helper and collector received.
pub(crate) struct Collected {
    pub(crate) helper: Vec<Vec<u8>>,
    pub(crate) collector: Vec<Vec<u8>>,
    pub(crate) report_count: u64,
    pub(crate) result: AggregateResult,
}

impl Aggregators {
    pub(crate) fn new(task: &Task) -> Self {
        let collector = keypair_from(1, 99);
        let aggregator = |role| {
            let task = aggregator_task(task, role, &collector);
            AggregatorTask { taskprov: true, ..task }
        };
        Self {
            leader: aggregator(Role::Leader),
            helper: aggregator(Role::Helper),
            leader_keys: HpkeKeyring::new(&[keypair_from(1, 5)]).unwrap(),
            helper_keys: HpkeKeyring::new(&[keypair_from(1, 7)]).unwrap(),
            collector,
        }
    }

    /// Aggregates the uploads in order of arrival, and collects them.
    pub(crate) fn collect(&self, uploads: &[Vec<u8>], now: Moment) -> Collected {
        let mut stored = Vec::new();
        for upload in uploads.iter().filter(|upload| !is_cover(upload)) {
            for verdict in consume_upload_req(&self.leader, &self.leader_keys, upload, now).unwrap()
            {
                stored.push(verdict.outcome.unwrap().raw);
            }
        }
        let mut seen = Vec::new();
        let (leader, helper) = self.aggregate(&stored, now, &mut seen);
        let task = &self.leader.task;
        let whole = task.interval().unwrap();
        let (query, selector) = (Query::TimeInterval(whole), BatchSelector::TimeInterval(whole));
        let request = collector::produce_collection_job_req(task, &query).unwrap();
        let asked =
            produce_aggregate_share_req(&self.leader, &request, &selector, &leader).unwrap();
        seen.push(asked.clone());
        let parsed = helper::parse_aggregate_share_req(&self.helper, &asked, NOW).unwrap();
        let mut rng = rng(4);
        let share = helper::consume_aggregate_share_req(
            &self.helper,
            &parsed,
            Some(&helper),
            false,
            &mut rng,
        )
        .unwrap();
        let response = produce_collection_job_resp(
            &self.leader,
            &request,
            &selector,
            &leader,
            &share,
            &mut rng,
        )
        .unwrap();
        let collection =
            collector::consume_collection_job_resp(task, &self.collector, &request, &response)
                .unwrap();
        let (report_count, result) = (collection.report_count, collection.result);
        Collected { helper: seen, collector: vec![response], report_count, result }
    }

    fn aggregate(
        &self,
        stored: &[&[u8]],
        now: Moment,
        seen: &mut Vec<Vec<u8>>,
    ) -> (BucketAggregate, BucketAggregate) {
        let task_id = *self.leader.task.id();
        let records = stored.iter().map(|report| (task_id, *report));
        // Several jobs, however few reports there are.
        let max_job_reports = (stored.len() / 50).max(3);
        let limits = JobLimits { max_job_reports, max_job_bytes: usize::MAX };
        let mut rng = rng(1);
        let formed = form_jobs(records, |_| Some(&self.leader), limits, now, &mut rng).unwrap();
        let (mut leader, mut helper) = (BTreeMap::new(), BTreeMap::new());
        for job in formed.jobs {
            let reports: Vec<_> = job.reports.iter().map(|report| stored[report.record]).collect();
            let input = JobInput { reports: &reports, now: job.now, batch_id: None };
            let job =
                produce_aggregation_job_init_req(&self.leader, &self.leader_keys, &input).unwrap();
            seen.push(job.request.clone());
            let parsed =
                helper::parse_aggregation_job_init_req(&self.helper, &job.request).unwrap();
            let spent = vec![None; parsed.reports().len()];
            let answer = helper::consume_aggregation_job_init_req(
                &self.helper,
                &self.helper_keys,
                parsed,
                &spent,
                now,
            )
            .unwrap();
            let outcome = consume_aggregation_job_resp(job, &answer.response).unwrap();
            assert_eq!(outcome.rejections.total() + answer.rejections.total(), 0);
            add(&mut leader, outcome.buckets);
            add(&mut helper, answer.buckets);
        }
        (merged(leader), merged(helper))
    }
}

fn add(sums: &mut BucketAggregates, buckets: BucketAggregates) {
    for (bucket, aggregate) in buckets {
        match sums.get_mut(&bucket) {
            Some(sum) => sum.merge(&aggregate).unwrap(),
            None => drop(sums.insert(bucket, aggregate)),
        }
    }
}

fn merged(buckets: BucketAggregates) -> BucketAggregate {
    let sum = |mut sum: BucketAggregate, other: BucketAggregate| {
        sum.merge(&other).unwrap();
        sum
    };
    buckets.into_values().reduce(sum).unwrap()
}
