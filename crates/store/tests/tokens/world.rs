//! One recipe, both aggregators with a store each, and devices that spend tokens as they like.

use std::collections::{BTreeMap, BTreeSet};

use futures_executor::block_on;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::helper::{consume_aggregation_job_init_req, parse_aggregation_job_init_req};
use sotto_protocol::leader::aggregate::{
    JobInput, JobLimits, LeaderJob, consume_aggregation_job_resp, form_jobs,
    produce_aggregation_job_init_req,
};
use sotto_protocol::token::{ReportTokens, report_id};
use sotto_protocol::{Moment, RequestKind, Task, client, request_digest};
use sotto_store::{Committed, Fixed, LeasedJob, NewReport, Turn};
use sotto_vdaf::{AggregateResult, Measurement};
use sotto_wire::recipe::Recipe;
use sotto_wire::{
    BatchId, BatchMode, BatchSelector, Decode, Encode, HpkeConfigId, Interval, Report, Role, Time,
};

use super::issuing::{Asked, NOW, recipe, token, window};
use super::party::{Kind, LEASE, Party};

pub(crate) struct World {
    pub(crate) recipe: Recipe,
    pub(crate) leader: Party,
    pub(crate) helper: Party,
    pub(crate) rng: ChaCha20Rng,
    collector: HpkeKeypair,
    kind: Kind,
    /// The leader-selected batches that jobs were for.
    batches: BTreeSet<BatchId>,
}

impl World {
    pub(crate) fn new(kind: Kind, mode: BatchMode, asked: Asked) -> Self {
        Self::of(kind, recipe(mode, asked, "tokens"))
    }

    pub(crate) fn of(kind: Kind, recipe: Recipe) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        let collector = HpkeKeypair::generate(HpkeConfigId::new(3), &mut rng);
        let party = |role| Party::new(kind, role, &recipe, &collector);
        let (leader, helper) = (party(Role::Leader), party(Role::Helper));
        Self { recipe, leader, helper, rng, collector, kind, batches: BTreeSet::new() }
    }

    /// Both aggregators serve another recipe from now on.
    pub(crate) fn serve(&mut self, recipe: Recipe) {
        self.leader.serve(&recipe, &self.collector);
        self.helper.serve(&recipe, &self.collector);
        self.recipe = recipe;
        self.batches.clear();
    }

    /// A leader that remembers nothing.
    pub(crate) fn replace_leader(&mut self) {
        self.leader = Party::new(self.kind, Role::Leader, &self.recipe, &self.collector);
    }

    pub(crate) fn task(&self) -> &Task {
        &self.leader.task.task
    }

    pub(crate) fn nonce(&mut self) -> [u8; 32] {
        let mut nonce = [0; 32];
        self.rng.fill_bytes(&mut nonce);
        nonce
    }

    /// Both tokens with one nonce.
    pub(crate) fn tokens(&mut self, nonce: &[u8; 32]) -> ReportTokens {
        let mut token = |role| {
            self.recipe
                .parties
                .tokens
                .key(role)
                .map(|_| token(&self.recipe, role, nonce, &mut self.rng))
        };
        let (leader, helper) = (token(Role::Leader), token(Role::Helper));
        ReportTokens {
            report_id: report_id(nonce),
            leader: leader.unwrap().to_bytes(),
            helper: helper.map(|token| token.to_bytes()),
        }
    }

    /// A device's report for its cell.
    pub(crate) fn report(
        &mut self,
        cell: u32,
        time: Time,
        tokens: Option<&ReportTokens>,
    ) -> Vec<u8> {
        let (leader, helper) = (self.leader.pair.config(), self.helper.pair.config());
        let (task, measurement) = (&self.leader.task.task, Measurement::Histogram(cell));
        client::produce_report(task, leader, helper, &measurement, time, tokens, &mut self.rng)
            .unwrap()
    }

    /// The report of an honest device, in the current window.
    pub(crate) fn honest(&mut self, cell: u32) -> Vec<u8> {
        let nonce = self.nonce();
        let tokens = self.tokens(&nonce);
        self.report(cell, window(0), Some(&tokens))
    }

    /// The leader acknowledges reports.
    pub(crate) fn upload(&mut self, reports: &[Vec<u8>]) {
        let is_timed = self.task().configuration().batch_mode() == BatchMode::TimeInterval;
        let new = |report: &Vec<u8>| {
            let time = Report::from_bytes(report).unwrap().report_metadata.time;
            NewReport {
                task_id: *self.task().id(),
                bucket: is_timed.then_some(time),
                hpke_config_id: HpkeConfigId::new(1),
                report: report.clone().into(),
            }
        };
        let verdicts =
            block_on(self.leader.store().accept_reports(reports.iter().map(new).collect()));
        assert!(verdicts.unwrap().iter().all(Result::is_ok));
    }

    /// Takes the backlog into jobs of at most this many reports.
    pub(crate) fn form(&mut self, max_job_reports: usize) {
        let store = self.leader.store();
        let everything = std::sync::Arc::new(|_: &_| true);
        let backlog = block_on(store.backlog(usize::MAX, usize::MAX, everything)).unwrap();
        let records = backlog.records.iter().map(|record| (record.task_id, &record.report[..]));
        let limits = JobLimits { max_job_reports, max_job_bytes: usize::MAX };
        let task = |_: &_| Some(&self.leader.task);
        let formed = form_jobs(records, task, limits, NOW, &mut self.rng).unwrap();
        let fixed = store.fix_jobs(backlog.stretch.unwrap(), formed);
        assert!(matches!(block_on(fixed).unwrap(), Fixed::Committed { .. }));
    }

    pub(crate) fn lease(&mut self) -> Option<LeasedJob> {
        let leased = block_on(self.leader.store().lease_job(LEASE, Turn::default())).unwrap();
        self.batches.extend(leased.as_ref().and_then(|job| job.batch_id));
        leased
    }

    /// The leader's half of a job, up to its request; the digest is durable.
    pub(crate) fn request(&mut self, leased: &LeasedJob) -> LeaderJob {
        let reports: Vec<&[u8]> = leased.records.iter().map(|record| &record.report[..]).collect();
        let input = JobInput { reports: &reports, now: leased.now, batch_id: leased.batch_id };
        let job = produce_aggregation_job_init_req(&self.leader.task, &self.leader.keys, &input);
        let job = job.unwrap();
        block_on(self.leader.store().mark_sent(leased.lease, job.digest)).unwrap();
        job
    }

    /// The helper's response to a request, committed.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        self.answer_at(request, NOW)
    }

    pub(crate) fn answer_at(&mut self, request: &[u8], now: Moment) -> Vec<u8> {
        let (task, task_id) = (&self.helper.task, *self.task().id());
        let (store, scope) = (self.helper.store(), task.replay_scope());
        let digest = request_digest(&task_id, RequestKind::AggregationJobInit, request);
        if let Some(response) = block_on(store.response(task_id, digest)).unwrap() {
            return response;
        }
        let parsed = parse_aggregation_job_init_req(task, request).unwrap();
        let spent = block_on(store.spent_reports(task_id, scope, parsed.reports())).unwrap();
        let keys = &self.helper.keys;
        let outcome = consume_aggregation_job_init_req(task, keys, parsed, &spent, now).unwrap();
        let response = outcome.response.clone();
        let committed = block_on(store.commit_helper_job(task_id, digest, outcome)).unwrap();
        assert_eq!(committed, Committed::Done);
        response
    }

    /// The leader's commit.
    pub(crate) fn commit(&mut self, leased: &LeasedJob, job: LeaderJob, response: &[u8]) {
        let outcome = consume_aggregation_job_resp(job, response).unwrap();
        block_on(self.leader.store().commit_job(leased.lease, outcome)).unwrap();
    }

    /// Completes all jobs.
    pub(crate) fn work(&mut self) {
        while let Some(leased) = self.lease() {
            let job = self.request(&leased);
            let response = if job.is_empty() { Vec::new() } else { self.answer(&job.request) };
            self.commit(&leased, job, &response);
        }
    }

    /// Uploads reports, forms one job and completes it.
    pub(crate) fn aggregate(&mut self, reports: &[Vec<u8>]) {
        self.upload(reports);
        self.form(usize::MAX);
        self.work();
    }

    /// Everything that was counted during the recipe's life, which must be the same reports at both
    /// aggregators: the counted cells, each with its number.
    #[track_caller]
    pub(crate) fn counted(&self) -> BTreeMap<usize, i128> {
        let life = self.task().interval().unwrap();
        let mut cells = self.counted_in(BatchSelector::TimeInterval(life));
        for batch_id in &self.batches {
            for (cell, count) in self.counted_in(BatchSelector::LeaderSelected(*batch_id)) {
                *cells.entry(cell).or_default() += count;
            }
        }
        cells
    }

    #[track_caller]
    pub(crate) fn counted_in(&self, selector: BatchSelector) -> BTreeMap<usize, i128> {
        let (leader, helper) = (self.leader.batch(selector), self.helper.batch(selector));
        let (Some(leader), Some(helper)) = (&leader.aggregate, &helper.aggregate) else {
            assert!(leader.aggregate.is_none() && helper.aggregate.is_none(), "one side is empty");
            return BTreeMap::new();
        };
        let books = [leader, helper].map(|a| (a.count, a.checksum, a.first, a.last));
        assert_eq!(books[0], books[1], "the sides differ");
        let vdaf = self.task().vdaf();
        let AggregateResult::Vector(cells) =
            vdaf.unshard(&leader.share, &helper.share, leader.count).unwrap()
        else {
            panic!("not a histogram")
        };
        assert_eq!(cells.iter().sum::<i128>(), i128::from(leader.count));
        cells.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    }

    /// Collects the time-interval batch at both aggregators.
    pub(crate) fn collect(&mut self, interval: Interval) {
        let (task_id, selector) = (*self.task().id(), BatchSelector::TimeInterval(interval));
        let store = self.leader.store();
        let query = sotto_wire::Query::TimeInterval(interval);
        block_on(store.create_collection(task_id, b"query".to_vec(), query)).unwrap();
        let leased = block_on(store.lease_collection(LEASE, Turn::default())).unwrap().unwrap();
        block_on(store.close_batch(leased.lease, 1)).unwrap();
        block_on(store.finish_collection(leased.lease, Vec::new().into())).unwrap();
        let held = self.helper.batch(selector).aggregate.unwrap();
        let (expected, digest) = ((held.count, *held.checksum.as_bytes()), [1; 32]);
        let collected = self.helper.store().collect_batch(
            task_id,
            selector,
            expected,
            digest,
            Vec::new().into(),
        );
        assert_eq!(block_on(collected).unwrap(), Committed::Done);
        self.leader.restart();
        self.helper.restart();
    }
}

/// The cells that were counted once.
pub(crate) fn once(cells: impl IntoIterator<Item = usize>) -> BTreeMap<usize, i128> {
    cells.into_iter().map(|cell| (cell, 1)).collect()
}

/// The number of rejected reports, by reason.
pub(crate) fn refused(
    reasons: impl IntoIterator<Item = (&'static str, u64)>,
) -> BTreeMap<&'static str, u64> {
    reasons.into_iter().collect()
}
