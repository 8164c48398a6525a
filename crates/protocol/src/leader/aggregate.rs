//! Aggregation jobs at the leader. DAP, section "Aggregate Initialization", leader's side.
//!
//! [`form_jobs`] sorts the backlog into sets, and the store fixes them. From then on everything is
//! computed from the fixed set and its clock: a retry gives the same bytes, even in another process
//! or after a new HPKE key. The leader makes its own rejections before it sends anything; after
//! that the helper's verdict stands.

mod form;

use std::fmt;
use std::sync::Arc;

use sotto_vdaf::{LeaderBatch, LeaderReport, Vdaf, VerifyParams};
use sotto_wire::labels::vdaf_context;
use sotto_wire::{
    AggParam, AggregationJobExtension, AggregationJobExtensions, AggregationJobInitReq,
    AggregationJobResp, BatchId, Decode, Encode, Payload, Report, ReportId, ReportShare, Role,
    Time, VerifyInit, VerifyRespKind,
};

pub use form::{
    FormedBatch, FormedJob, FormedJobs, FormedReport, JobLimits, UnknownTask, form_jobs,
};

use crate::batch::{Counted, JobBuckets};
use crate::input_share::{InputShare, InputShareOpener};
use crate::request::{RequestKind, request_digest};
use crate::{
    AggregatorTask, BadResponse, Bucket, BucketAggregates, Digest, Fault, HpkeKeyring, Moment,
    Rejection, Rejections, VERIFICATION_KEY_ID,
};

/// A job as the store fixed it.
#[derive(Clone, Copy, Debug)]
pub struct JobInput<'a> {
    /// The encoded reports, in their fixed order.
    pub reports: &'a [&'a [u8]],
    /// The clock that was fixed with the set.
    pub now: Moment,
    /// The batch, in leader-selected tasks.
    pub batch_id: Option<BatchId>,
}

/// A job between the leader's request and the helper's answer.
pub struct LeaderJob {
    /// The encoded `AggregationJobInitReq`. The host may take it out: only the digest is needed
    /// later.
    pub request: Vec<u8>,
    /// Its digest.
    pub digest: Digest,
    vdaf: Arc<dyn Vdaf>,
    batch: Box<dyn LeaderBatch>,
    buckets: JobBuckets,
    /// The reports in `batch`, in the same order.
    reports: Vec<JobReport>,
    rejected: Vec<(usize, Rejection)>,
    unspent: Vec<usize>,
}

/// What the leader commits for a job.
#[derive(Clone, Debug, Default)]
pub struct LeaderOutcome {
    /// What is added to which bucket.
    pub buckets: BucketAggregates,
    /// Reports rejected by the leader or the helper.
    pub rejections: Rejections,
    /// Indices into [`JobInput::reports`] of reports that were too early and are to be retried
    /// later.
    pub requeue: Vec<usize>,
    /// Indices into [`JobInput::reports`], in tasks with tokens, of reports that the leader
    /// rejected before it saw a valid token, so that nothing was spent. It never sent them, and
    /// their ids are free again: uploads without a token must not fill the store.
    pub unspent: Vec<usize>,
}

impl LeaderJob {
    /// Whether the leader rejected every report itself. Then nothing is sent, and
    /// [`consume_aggregation_job_resp`] takes an empty answer.
    pub fn is_empty(&self) -> bool {
        self.sent().next().is_none()
    }

    /// Indices into [`JobInput::reports`] of the reports in the request, in order.
    pub fn sent(&self) -> impl Iterator<Item = usize> + '_ {
        self.reports.iter().filter(|report| report.sent).map(|report| report.record)
    }

    /// The reports that the leader rejected itself, by index, with the reason.
    pub fn rejected(&self) -> &[(usize, Rejection)] {
        &self.rejected
    }
}

impl fmt::Debug for LeaderJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderJob")
            .field("request_len", &self.request.len())
            .field("reports", &self.reports.len())
            .field("rejected", &self.rejected.len())
            .finish_non_exhaustive()
    }
}

/// Opens, judges and starts verifying the reports of a job, and writes the request to the helper.
///
/// Deterministic in the task, the job and the keys that its reports name.
pub fn produce_aggregation_job_init_req(
    task: &AggregatorTask,
    keys: &HpkeKeyring,
    job: &JobInput<'_>,
) -> Result<LeaderJob, Fault> {
    let vdaf = Arc::clone(task.task.vdaf());
    let mut buckets = JobBuckets::default();
    let mut opener = InputShareOpener::new(task, Role::Leader, keys, job.now);
    let mut opened = Vec::with_capacity(job.reports.len());
    let mut rejected = Vec::new();
    for (record, raw) in job.reports.iter().enumerate() {
        match open_report(&mut opener, keys, raw)? {
            Ok((report, share)) => {
                let time = report.report_metadata.time;
                let mode = task.task.configuration().batch_mode();
                let bucket = Bucket::of(mode, time, job.batch_id)
                    .ok_or_else(|| Fault("the job does not fit the task's batch mode".into()))?;
                opened.push(Opened { record, slot: buckets.slot(bucket), report, share });
            }
            Err(rejection) => rejected.push((record, rejection)),
        }
    }
    let unspent = unspent(task, &rejected);

    let context = vdaf_context(task.task.id());
    let params =
        VerifyParams { verify_key: task.verify_key.expose(), ctx: &context, agg_param: b"" };
    let shares: Vec<_> = opened.iter().map(Opened::for_vdaf).collect();
    let batch = vdaf.leader_init(&params, &shares);
    drop(shares);
    if batch.len() != opened.len() {
        return Err(Fault("the VDAF lost a report".into()));
    }

    let mut reports = Vec::with_capacity(opened.len());
    let mut verify_inits = Vec::with_capacity(opened.len());
    for (index, opened) in opened.into_iter().enumerate() {
        let Opened { record, slot, report, .. } = opened;
        let metadata = &report.report_metadata;
        let (report_id, time) = (metadata.report_id, metadata.time);
        let outbound = batch.outbound(index);
        reports.push(JobReport { record, slot, report_id, time, sent: outbound.is_ok() });
        match outbound {
            Ok(message) => verify_inits.push(verify_init(report, message)?),
            Err(_) => rejected.push((record, Rejection::VdafVerifyError)),
        }
    }
    let request = AggregationJobInitReq {
        verification_key_id: VERIFICATION_KEY_ID,
        agg_param: AggParam::default(),
        extensions: extensions(job.batch_id)?,
        verify_inits,
    }
    .to_bytes();
    let digest = request_digest(task.task.id(), RequestKind::AggregationJobInit, &request);
    Ok(LeaderJob { request, digest, vdaf, batch, buckets, reports, rejected, unspent })
}

/// Finishes a job with the helper's answer.
///
/// Ids and order must be those of the request. If any report does not finish with the answer, the
/// whole answer is rejected: a helper that follows the VDAF cannot send such an answer, because
/// each aggregator compares its joint-randomness part before it sends anything.
pub fn consume_aggregation_job_resp(
    job: LeaderJob,
    resp: &[u8],
) -> Result<LeaderOutcome, BadResponse> {
    let resp = AggregationJobResp::from_bytes(resp)?;
    let LeaderJob { vdaf, batch, buckets, reports, rejected, unspent, .. } = job;
    let mut outcome = LeaderOutcome { unspent, ..LeaderOutcome::default() };
    for (record, rejection) in rejected {
        outcome.reject(record, rejection);
    }

    let mut answers = resp.verify_resps.iter();
    let mut inbound: Vec<Option<&[u8]>> = Vec::with_capacity(reports.len());
    for report in &reports {
        if !report.sent {
            inbound.push(None);
            continue;
        }
        let answer = answers.next().ok_or(BadResponse::OtherReports)?;
        if answer.report_id != report.report_id {
            return Err(BadResponse::OtherReports);
        }
        match &answer.kind {
            VerifyRespKind::Continue(message) => inbound.push(Some(message.as_bytes())),
            VerifyRespKind::Finish => return Err(BadResponse::Finished),
            VerifyRespKind::Reject(error) => {
                inbound.push(None);
                outcome.reject(report.record, (*error).into());
            }
        }
    }
    if answers.next().is_some() {
        return Err(BadResponse::OtherReports);
    }

    let mut shares = buckets.zero_shares(&*vdaf);
    let results = batch.finish(&inbound, &mut shares);
    for (result, message) in results.iter().zip(&inbound) {
        if let (Err(error), Some(_)) = (result, message) {
            return Err(BadResponse::Verify(*error));
        }
    }
    let continued = reports.iter().zip(&inbound).filter(|(_, message)| message.is_some());
    outcome.buckets =
        buckets.into_aggregates(shares, continued.map(|(report, _)| report.counted()));
    Ok(outcome)
}

impl LeaderOutcome {
    /// Too early is the only verdict after which a report is retried.
    fn reject(&mut self, record: usize, rejection: Rejection) {
        match rejection {
            Rejection::ReportTooEarly => self.requeue.push(record),
            other => self.rejections.add(other),
        }
    }
}

/// A report of the job, after its shares were dropped.
#[derive(Clone, Copy)]
struct JobReport {
    record: usize,
    slot: usize,
    report_id: ReportId,
    time: Time,
    sent: bool,
}

impl JobReport {
    fn counted(&self) -> Counted {
        Counted { slot: self.slot, report_id: self.report_id, time: self.time }
    }
}

/// A report whose share has been opened.
struct Opened<'a> {
    record: usize,
    slot: usize,
    report: Report<'a>,
    share: InputShare,
}

impl Opened<'_> {
    fn for_vdaf(&self) -> LeaderReport<'_> {
        LeaderReport {
            nonce: self.report.report_metadata.report_id.as_bytes(),
            public_share: &self.report.public_share,
            input_share: self.share.as_bytes(),
            bucket: self.slot,
        }
    }
}

/// Opens the leader's share of one stored report.
///
/// A missing key is our fault, not the report's: the report was acknowledged under that key, and a
/// retry without it would compute a different request.
fn open_report<'a>(
    opener: &mut InputShareOpener<'_>,
    keys: &HpkeKeyring,
    raw: &'a [u8],
) -> Result<Result<(Report<'a>, InputShare), Rejection>, Fault> {
    let Ok(report) = Report::from_bytes(raw) else {
        return Ok(Err(Rejection::InvalidMessage));
    };
    let config_id = report.leader_encrypted_input_share.config_id();
    if keys.opener(config_id).is_none() {
        return Err(Fault(format!(
            "HPKE key {} is missing, but stored reports need it",
            config_id.value()
        )));
    }
    let share = opener.open(
        &report.report_metadata,
        &report.public_share,
        &report.leader_encrypted_input_share,
    );
    Ok(share.map(|share| (report, share)))
}

/// In a task with tokens, the reports whose shares were rejected and that are not retried. The
/// token is the last check of a share, so none of them showed a valid token.
fn unspent(task: &AggregatorTask, refused: &[(usize, Rejection)]) -> Vec<usize> {
    if task.tokens.is_none() {
        return Vec::new();
    }
    let for_good = refused.iter().filter(|(_, reason)| *reason != Rejection::ReportTooEarly);
    for_good.map(|(record, _)| *record).collect()
}

/// The helper's part of a report, with the leader's message.
fn verify_init<'a>(report: Report<'a>, message: &'a [u8]) -> Result<VerifyInit<'a>, Fault> {
    let payload = Payload::new(message).map_err(|error| Fault(error.to_string()))?;
    let report_share = ReportShare {
        report_metadata: report.report_metadata,
        public_share: report.public_share,
        encrypted_input_share: report.helper_encrypted_input_share,
    };
    Ok(VerifyInit { report_share, payload })
}

/// The job's extensions: the batch id, in leader-selected tasks.
fn extensions(batch_id: Option<BatchId>) -> Result<AggregationJobExtensions, Fault> {
    let extensions = batch_id.map(AggregationJobExtension::LeaderSelectedBatchId);
    AggregationJobExtensions::new(extensions.into_iter().collect())
        .map_err(|error| Fault(error.to_string()))
}
