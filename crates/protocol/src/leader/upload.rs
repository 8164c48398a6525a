//! Arriving reports: what the leader can check before it stores them. DAP, section "Upload
//! Request".
//!
//! Nothing is opened here. The store rejects reports that were seen before or whose buckets are
//! closed (`accept_reports`, `fix_jobs`); shares are opened when they are aggregated.

use std::collections::HashSet;

use sotto_wire::{
    BatchMode, Encode, HpkeConfigId, ProblemType, Report, ReportError, ReportId,
    ReportUploadStatus, Time, UploadErrors, UploadRequest,
};

use crate::input_share::{check_public_extensions, check_sealed_len};
use crate::{Abort, AggregatorTask, HpkeKeyring, Moment, Rejection};

/// The longest encapsulated key that the helper's share may have. The leader need not know the
/// helper's suite; the largest registered KEM has 1120 bytes.
const MAX_HELPER_ENC_LEN: usize = 2048;

/// The leader's verdict on one uploaded report.
#[derive(Clone, Debug)]
pub struct UploadVerdict<'a> {
    /// The report's id.
    pub report_id: ReportId,
    /// What to store, or why not.
    pub outcome: Result<AcceptedReport<'a>, Rejection>,
}

/// A report that may be stored.
#[derive(Clone, Copy, Debug)]
pub struct AcceptedReport<'a> {
    /// The encoded `Report`.
    pub raw: &'a [u8],
    /// Its bucket in time-interval tasks.
    pub bucket: Option<Time>,
    /// The leader's HPKE key that it names.
    pub hpke_config_id: HpkeConfigId,
}

/// Judges every report of an upload, in order. A body that does not decode is rejected as a whole.
/// An empty body holds no reports and is valid.
pub fn consume_upload_req<'a>(
    task: &AggregatorTask,
    keys: &HpkeKeyring,
    body: &'a [u8],
    now: Moment,
) -> Result<Vec<UploadVerdict<'a>>, Abort> {
    let mut seen = HashSet::new();
    let mut verdicts = Vec::new();
    for report in UploadRequest::new(body) {
        let (report, raw) = report.map_err(|error| {
            Abort::new(ProblemType::InvalidMessage, format!("upload: {error}"))
                .for_task(*task.task.id())
        })?;
        let report_id = report.report_metadata.report_id;
        let first = seen.insert(report_id);
        let outcome = judge(task, keys, &report, first, now).map(|bucket| AcceptedReport {
            raw,
            bucket,
            hpke_config_id: report.leader_encrypted_input_share.config_id(),
        });
        verdicts.push(UploadVerdict { report_id, outcome });
    }
    Ok(verdicts)
}

/// The answer to an upload: only the failures, in the order of the request; `None` if there are
/// none.
pub fn produce_upload_errors(
    failures: impl IntoIterator<Item = (ReportId, Rejection)>,
) -> Option<Vec<u8>> {
    let status = failures
        .into_iter()
        .map(|(report_id, rejection)| ReportUploadStatus {
            report_id,
            error: upload_error(rejection),
        })
        .collect::<Vec<_>>();
    if status.is_empty() { None } else { Some(UploadErrors { status }.to_bytes()) }
}

/// The checks in the order of the section, then the sizes, which are public. Returns the bucket.
fn judge(
    task: &AggregatorTask,
    keys: &HpkeKeyring,
    report: &Report<'_>,
    first: bool,
    now: Moment,
) -> Result<Option<Time>, Rejection> {
    let (leader, helper) =
        (&report.leader_encrypted_input_share, &report.helper_encrypted_input_share);
    let opener = keys.opener(leader.config_id()).ok_or(Rejection::OutdatedConfig)?;
    if !first {
        return Err(Rejection::ReportReplayed);
    }
    let (task, time) = (&task.task, report.report_metadata.time);
    task.check_interval(time)?;
    task.check_clock(time, now)?;
    check_public_extensions(&report.report_metadata.public_extensions)?;

    // A report that the task's VDAF can never accept would only fill the disk.
    let sizes = task.vdaf().sizes();
    if report.public_share.len() != sizes.public_share
        || leader.enc().len() != opener.enc_len()
        || helper.enc().len() > MAX_HELPER_ENC_LEN
    {
        return Err(Rejection::InvalidMessage);
    }
    check_sealed_len(leader, sizes.leader_share)?;
    check_sealed_len(helper, sizes.helper_share)?;
    Ok(match task.configuration().batch_mode() {
        BatchMode::TimeInterval => Some(time),
        BatchMode::LeaderSelected => None,
    })
}

/// The error that the section names. For a timestamp outside the task's interval the client is told
/// `report_dropped`; our counters keep the reason.
fn upload_error(rejection: Rejection) -> ReportError {
    match rejection {
        Rejection::TaskExpired | Rejection::TaskNotStarted => ReportError::ReportDropped,
        other => other.into(),
    }
}
