//! Aggregation jobs at the helper. DAP, section "Aggregate Initialization", helper's side.

use std::collections::HashSet;

use sotto_vdaf::{HelperReport, VerifyParams};
use sotto_wire::labels::vdaf_context;
use sotto_wire::{
    AggregationJobContinueReq, AggregationJobInitReq, BatchMode, Decode, Encode, Payload,
    ProblemType, ReportId, Role, VerifyInit, VerifyResp, VerifyRespKind,
};

use crate::batch::{Counted, JobBuckets, MAX_JOB_ACCUMULATOR_LEN};
use crate::input_share::{InputShare, InputShareOpener};
use crate::{
    Abort, AggregatorTask, Bucket, BucketAggregates, Fault, HpkeKeyring, Moment, Rejection,
    Rejections, ReplayScope, VERIFICATION_KEY_ID, memory,
};

/// A request that passed every check on the request as a whole.
#[derive(Debug)]
pub struct ParsedJob<'a> {
    verify_inits: Vec<VerifyInit<'a>>,
    /// The bucket of each report, as the number of its accumulator.
    slots: Vec<usize>,
    buckets: JobBuckets,
    /// Whether the task has the verification key that the leader used. If not, every report is
    /// rejected: the leader may have another key.
    is_key_known: bool,
}

impl ParsedJob<'_> {
    /// Every report with its bucket, in order, for the lookup in the store.
    pub fn reports(&self) -> Vec<(Bucket, ReportId)> {
        let buckets = self.slots.iter().filter_map(|slot| self.buckets.bucket(*slot));
        buckets.zip(self.verify_inits.iter().map(report_id)).collect()
    }

    /// What verifying and committing the job takes, at most, beside the request: one report after
    /// the other, a sum for each bucket, and one more in the store.
    pub fn memory(&self, task: &AggregatorTask) -> usize {
        let sizes = task.task.vdaf().sizes();
        let sums = (self.buckets.len() + 1).saturating_mul(sizes.aggregate_share);
        let answers =
            self.verify_inits.len().saturating_mul(sizes.helper_share + sizes.helper_message);
        memory::verifying(&sizes).saturating_add(sums).saturating_add(answers)
    }
}

/// What the helper commits for a job, and its answer.
#[derive(Clone, Debug)]
pub struct HelperOutcome {
    /// The set of reports within which an id must be new. The same for every job of a task.
    pub scope: ReplayScope,
    /// The reports whose output shares are in `buckets`.
    pub reports: Vec<(Bucket, ReportId)>,
    /// What is added to which bucket.
    pub buckets: BucketAggregates,
    /// Rejected reports.
    pub rejections: Rejections,
    /// The encoded `AggregationJobResp`.
    pub response: Vec<u8>,
}

/// Makes the checks on the request as a whole, in the order of the section.
pub fn parse_aggregation_job_init_req<'a>(
    task: &AggregatorTask,
    body: &'a [u8],
) -> Result<ParsedJob<'a>, Abort> {
    parse(task, body).map_err(|abort| abort.for_task(*task.task.id()))
}

/// Judges and verifies every report of a job, sums the accepted ones and writes the answer.
///
/// `spent` is the store's answer about [`ParsedJob::reports`], in the same order. The answer to an
/// accepted report is `continue` with the verifier message: the leader needs it, although the
/// helper is done.
pub fn consume_aggregation_job_init_req(
    task: &AggregatorTask,
    keys: &HpkeKeyring,
    parsed: ParsedJob<'_>,
    spent: &[Option<Rejection>],
    now: Moment,
) -> Result<HelperOutcome, Fault> {
    let ParsedJob { verify_inits, slots, buckets, is_key_known } = parsed;
    if spent.len() != verify_inits.len() {
        return Err(Fault("the store judged a different number of reports".into()));
    }
    let mut opener = InputShareOpener::new(task, Role::Helper, keys, now);
    let opened: Vec<Result<InputShare, Rejection>> = verify_inits
        .iter()
        .zip(spent)
        .map(|(init, spent)| match spent {
            _ if !is_key_known => Err(Rejection::UnknownVerificationKeyId),
            Some(rejection) => Err(*rejection),
            None => {
                let share = &init.report_share;
                let ciphertext = &share.encrypted_input_share;
                opener.open(&share.report_metadata, &share.public_share, ciphertext)
            }
        })
        .collect();

    let vdaf = task.task.vdaf();
    let context = vdaf_context(task.task.id());
    let params =
        VerifyParams { verify_key: task.verify_key.expose(), ctx: &context, agg_param: b"" };
    let shares: Vec<_> = verify_inits
        .iter()
        .zip(&slots)
        .zip(&opened)
        .filter_map(|((init, slot), share)| Some(for_vdaf(init, *slot, share.as_ref().ok()?)))
        .collect();
    let mut accumulators = buckets.zero_shares(&**vdaf);
    let mut messages = vdaf.helper_verify(&params, &shares, &mut accumulators).into_iter();
    drop(shares);

    let mut answers = Answers::new(verify_inits.len(), vdaf.sizes().helper_message);
    for ((init, slot), share) in verify_inits.iter().zip(slots).zip(opened) {
        let verdict = match share {
            Err(rejection) => Err(rejection),
            Ok(_) => messages
                .next()
                .ok_or_else(|| Fault("the VDAF lost a report".into()))?
                .map_err(|_| Rejection::VdafVerifyError),
        };
        answers.add(init, slot, verdict)?;
    }
    let Answers { counted, rejections, response } = answers;
    let reports = counted
        .iter()
        .filter_map(|counted| Some((buckets.bucket(counted.slot)?, counted.report_id)))
        .collect();
    let buckets = buckets.into_aggregates(accumulators, counted);
    Ok(HelperOutcome { scope: task.replay_scope(), reports, buckets, rejections, response })
}

/// Rejects a continuation: every VDAF here finishes after one round. DAP, section "Aggregate
/// Continuation", helper's side.
///
/// `known` says whether the helper has such a job.
pub fn consume_aggregation_job_continue_req(
    task: &AggregatorTask,
    body: &[u8],
    known: bool,
) -> Abort {
    let abort = if !known {
        Abort::new(ProblemType::UnrecognizedAggregationJob, "there is no such aggregation job")
    } else {
        match AggregationJobContinueReq::from_bytes(body) {
            Err(error) => Abort::new(ProblemType::InvalidMessage, format!("continuation: {error}")),
            Ok(request) if request.step == 0 => {
                Abort::new(ProblemType::InvalidMessage, "step 0 is the initialization")
            }
            Ok(_) => Abort::new(ProblemType::StepMismatch, "the job is finished after step 0"),
        }
    };
    abort.for_task(*task.task.id())
}

/// The request-level checks, in the order of the section.
fn parse<'a>(task: &AggregatorTask, body: &'a [u8]) -> Result<ParsedJob<'a>, Abort> {
    let invalid = |detail: &str| Abort::new(ProblemType::InvalidMessage, detail);
    let request = AggregationJobInitReq::from_bytes(body)
        .map_err(|error| invalid(&format!("aggregation job request: {error}")))?;
    if let Some(extension_type) = request.unknown_extension() {
        return Err(Abort::new(
            ProblemType::UnsupportedExtension,
            format!("aggregation job extension {extension_type:#06x} is not known"),
        ));
    }
    let (mode, batch_id) = (task.task.configuration().batch_mode(), request.batch_id());
    match (mode, batch_id) {
        (BatchMode::TimeInterval, None) | (BatchMode::LeaderSelected, Some(_)) => {}
        (BatchMode::TimeInterval, Some(_)) => {
            return Err(invalid("a batch id in a time-interval task"));
        }
        (BatchMode::LeaderSelected, None) => {
            return Err(invalid("no batch id in a leader-selected task"));
        }
    }
    if !task.task.vdaf().is_valid_agg_param(&request.agg_param) {
        return Err(Abort::new(
            ProblemType::InvalidAggregationParameter,
            "the aggregation parameter is not one of the task's VDAF",
        ));
    }
    let verify_inits = request.verify_inits;
    let mut ids = HashSet::with_capacity(verify_inits.len());
    if !verify_inits.iter().all(|init| ids.insert(report_id(init))) {
        return Err(invalid("a report id occurs twice"));
    }

    let mut buckets = JobBuckets::default();
    let slots = verify_inits
        .iter()
        .filter_map(|init| Bucket::of(mode, init.report_share.report_metadata.time, batch_id))
        .map(|bucket| buckets.slot(bucket))
        .collect();
    let accumulator_len = task.task.vdaf().sizes().aggregate_share;
    if buckets.len() > 1 && buckets.len().saturating_mul(accumulator_len) > MAX_JOB_ACCUMULATOR_LEN
    {
        return Err(invalid("too many buckets in one job"));
    }
    let is_key_known = request.verification_key_id == VERIFICATION_KEY_ID;
    Ok(ParsedJob { verify_inits, slots, buckets, is_key_known })
}

/// The answers of a job, encoded as they are added.
struct Answers {
    counted: Vec<Counted>,
    rejections: Rejections,
    response: Vec<u8>,
}

impl Answers {
    fn new(reports: usize, message_len: usize) -> Self {
        // An id, the type of the answer, and the message with its length.
        let answer_len = ReportId::LEN + 1 + 4 + message_len;
        Self {
            counted: Vec::with_capacity(reports),
            rejections: Rejections::default(),
            response: Vec::with_capacity(reports * answer_len),
        }
    }

    fn add(
        &mut self,
        init: &VerifyInit<'_>,
        slot: usize,
        verdict: Result<Vec<u8>, Rejection>,
    ) -> Result<(), Fault> {
        let (report_id, time) = (report_id(init), init.report_share.report_metadata.time);
        let kind = match verdict {
            Ok(message) => {
                self.counted.push(Counted { slot, report_id, time });
                let payload = Payload::new(message).map_err(|error| Fault(error.to_string()))?;
                VerifyRespKind::Continue(payload)
            }
            Err(rejection) => {
                self.rejections.add(rejection);
                VerifyRespKind::Reject(rejection.into())
            }
        };
        VerifyResp { report_id, kind }.encode(&mut self.response);
        Ok(())
    }
}

fn report_id(init: &VerifyInit<'_>) -> ReportId {
    init.report_share.report_metadata.report_id
}

fn for_vdaf<'a>(init: &'a VerifyInit<'_>, slot: usize, share: &'a InputShare) -> HelperReport<'a> {
    HelperReport {
        nonce: init.report_share.report_metadata.report_id.as_bytes(),
        public_share: &init.report_share.public_share,
        input_share: share.as_bytes(),
        inbound: &init.payload,
        bucket: slot,
    }
}
