//! The client of a plain DAP task: fetches HPKE keys, makes reports, uploads them (DAP "Uploading
//! Reports").
//!
//! `sotto_protocol::client` defines what a report contains. Whether to take part, when, and where
//! to store unsent reports is up to the application; [`Participant`](crate::Participant) decides
//! that for a device that follows recipes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rand_core::CryptoRng;
use sotto_protocol::client::{
    ClientError, consume_hpke_config_list, consume_upload_errors, is_cover, produce_report,
};
use sotto_protocol::{Moment, Task};
use sotto_vdaf::Measurement;
use sotto_wire::{
    Decode, HpkeConfig, MediaType, Report, ReportError, ReportId, Url, limits, taskprov,
};

use crate::exchange::{Answer, Exchange, ExchangeError, expect_media_type, resource};
use crate::retry::RetryPolicy;
use crate::transport::{HttpRequest, Transport};

/// Makes and uploads the reports of one task. Any number of threads may share it.
pub struct Uploader {
    task: Task,
    exchange: Exchange,
    /// The keys to seal to, once they are known.
    keys: Mutex<Option<Arc<Keys>>>,
    /// Whether the application gave the keys: none are ever fetched.
    pinned: bool,
}

/// A report that is ready to be sent, once or repeatedly: the aggregators count it once.
#[derive(Clone)]
pub struct PreparedReport {
    id: ReportId,
    bytes: Vec<u8>,
    /// The keys it is sealed to; `None` if it was made elsewhere.
    keys: Option<Arc<Keys>>,
}

/// The outcome of uploading a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadOutcome {
    /// The leader has it.
    Accepted,
    /// The leader rejected it, and will reject it again. Only a report that is [too
    /// early](ReportError::ReportTooEarly) may be sent again later.
    Rejected(ReportError),
}

/// Why there is no report, or no answer to an upload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// An aggregator's HPKE keys could not be fetched.
    #[error("the {role}'s HPKE keys: {error}")]
    FetchKeys {
        /// Whose keys.
        role: &'static str,
        /// What failed.
        error: ExchangeError,
    },
    /// An aggregator's HPKE keys cannot be used.
    #[error("the {role}'s HPKE keys: {error}")]
    Keys {
        /// Whose keys.
        role: &'static str,
        /// What is wrong with them.
        error: ClientError,
    },
    /// The measurement could not be made into a report.
    #[error(transparent)]
    Report(#[from] ClientError),
    /// The upload was refused, or there is no answer. If there is no answer, the leader may still
    /// have accepted the reports: send the same ones again.
    #[error("upload: {0}")]
    Upload(#[from] ExchangeError),
    /// The reports of one upload are longer than a leader must accept.
    #[error("the upload has {0} bytes; send fewer reports at once")]
    UploadTooLong(usize),
}

impl Uploader {
    /// An uploader for `task` that fetches the aggregators' HPKE keys when it first needs them.
    pub fn new(task: Task, transport: Arc<dyn Transport>) -> Self {
        Self { task, exchange: Exchange::new(transport), keys: Mutex::default(), pinned: false }
    }

    /// Retries failed exchanges according to `retry`.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.exchange.retry = retry;
        self
    }

    /// Advertises the task with every upload, for leaders that learn about tasks that way
    /// (taskprov).
    #[must_use]
    pub fn with_taskprov(mut self) -> Self {
        let configuration = self.task.encoded_configuration();
        self.exchange.taskprov = Some(taskprov::header_value(configuration));
        self
    }

    /// Seals to these keys and never fetches any.
    #[must_use]
    pub fn with_hpke_configs(mut self, leader: HpkeConfig, helper: HpkeConfig) -> Self {
        self.keys = Mutex::new(Some(Arc::new(Keys { leader, helper })));
        self.pinned = true;
        self
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Makes a report of `measurement`. Fetches the HPKE keys if there are none yet.
    pub fn prepare(
        &self,
        measurement: &Measurement,
        now: Moment,
        rng: &mut dyn CryptoRng,
    ) -> Result<PreparedReport, UploadError> {
        let keys = self.keys(rng)?;
        let time = self.task.time(now);
        let bytes =
            produce_report(&self.task, &keys.leader, &keys.helper, measurement, time, None, rng)?;
        Ok(PreparedReport { keys: Some(keys), ..PreparedReport::from_bytes(bytes)? })
    }

    /// Sends `reports` in one request and returns the outcome of each, in their order.
    ///
    /// Transient failures are retried. A report that the leader already has from an attempt whose
    /// answer was lost counts as accepted. After an [outdated
    /// configuration](ReportError::OutdatedConfig) the next [`Self::prepare`] fetches new keys.
    pub fn upload(
        &self,
        reports: &[PreparedReport],
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<UploadOutcome>, UploadError> {
        if reports.is_empty() {
            return Ok(Vec::new());
        }
        let body = reports.iter().map(PreparedReport::as_bytes).collect::<Vec<_>>().concat();
        if body.len() > limits::MAX_UPLOAD_REQUEST_LEN {
            return Err(UploadError::UploadTooLong(body.len()));
        }
        let endpoint = self.task.configuration().leader_aggregator_endpoint();
        let url = resource(endpoint, &format!("tasks/{}/reports", self.task.id()));
        let limit = limits::MAX_PROBLEM_DOCUMENT_LEN.max(limits::MAX_UPLOAD_ERRORS_LEN);
        let request = HttpRequest::post(url, MediaType::UploadReq.as_str(), &body, limit);
        let answer = self.exchange.send(&self.exchange.about_task(request), rng)?;
        let outcomes = consume_answer(reports, &answer)?;
        for (report, outcome) in reports.iter().zip(&outcomes) {
            if *outcome == UploadOutcome::Rejected(ReportError::OutdatedConfig) {
                self.forget_keys(report.keys.as_ref());
            }
        }
        Ok(outcomes)
    }

    /// Makes and uploads one report. If the leader no longer has the key that it is sealed to,
    /// tries once more with fresh keys and a new report.
    ///
    /// After an error it is unknown whether the leader has the report. Where that matters,
    /// [prepare](Self::prepare) and store it, and [upload](Self::upload) the same one until there
    /// is an answer.
    pub fn send(
        &self,
        measurement: &Measurement,
        now: Moment,
        rng: &mut dyn CryptoRng,
    ) -> Result<UploadOutcome, UploadError> {
        let outcome = self.send_once(measurement, now, rng)?;
        let outdated = outcome == UploadOutcome::Rejected(ReportError::OutdatedConfig);
        if outdated && !self.pinned { self.send_once(measurement, now, rng) } else { Ok(outcome) }
    }

    fn send_once(
        &self,
        measurement: &Measurement,
        now: Moment,
        rng: &mut dyn CryptoRng,
    ) -> Result<UploadOutcome, UploadError> {
        let report = self.prepare(measurement, now, rng)?;
        let outcomes = self.upload(&[report], rng)?;
        // One report, one outcome.
        outcomes.first().copied().ok_or(ExchangeError::BadResponse("no outcome").into())
    }

    /// The keys to seal to. One thread fetches them, and the others wait for it.
    fn keys(&self, rng: &mut dyn CryptoRng) -> Result<Arc<Keys>, UploadError> {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = &*known {
            return Ok(Arc::clone(keys));
        }
        let configuration = self.task.configuration();
        let leader = configuration.leader_aggregator_endpoint();
        let helper = configuration.helper_aggregator_endpoint();
        let leader = self.fetch_hpke_config("leader", leader, rng)?;
        let helper = self.fetch_hpke_config("helper", helper, rng)?;
        Ok(Arc::clone(known.insert(Arc::new(Keys { leader, helper }))))
    }

    /// Forgets the keys that were `used`, unless another thread has already fetched newer ones.
    fn forget_keys(&self, used: Option<&Arc<Keys>>) {
        let mut known = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = |keys: &Arc<Keys>| used.is_none_or(|used| Arc::ptr_eq(used, keys));
        if !self.pinned {
            known.take_if(|keys| is_known(keys));
        }
    }

    /// DAP "HPKE Configuration Request".
    fn fetch_hpke_config(
        &self,
        role: &'static str,
        endpoint: &Url,
        rng: &mut dyn CryptoRng,
    ) -> Result<HpkeConfig, UploadError> {
        // The keys belong to the aggregator, not to the task: the aggregator need not learn the
        // task.
        let url = resource(endpoint, "hpke_config");
        let request = HttpRequest::get(url, limits::MAX_HPKE_CONFIG_LIST_LEN);
        let fetched = self.exchange.send(&request, rng).and_then(|answer| {
            expect_media_type(&answer.response, MediaType::HpkeConfigList)?;
            Ok(answer.response.body)
        });
        let body = fetched.map_err(|error| UploadError::FetchKeys { role, error })?;
        consume_hpke_config_list(&body).map_err(|error| UploadError::Keys { role, error })
    }
}

impl fmt::Debug for Uploader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Uploader").field("task", self.task.id()).finish_non_exhaustive()
    }
}

impl PreparedReport {
    /// A report that was stored or made elsewhere, from its wire form.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, UploadError> {
        let id = Report::from_bytes(&bytes).map_err(ClientError::from)?.report_metadata.report_id;
        Ok(Self { id, bytes, keys: None })
    }

    /// A report or cover, as a device has stored it.
    pub(crate) fn stored(bytes: Vec<u8>) -> Result<Self, UploadError> {
        match is_cover(&bytes) {
            true => Ok(Self { id: ReportId::new([0; ReportId::LEN]), bytes, keys: None }),
            false => Self::from_bytes(bytes),
        }
    }

    /// The wire form. It is sealed, so it may be stored anywhere.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for PreparedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedReport").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

struct Keys {
    leader: HpkeConfig,
    helper: HpkeConfig,
}

/// Reads which reports were rejected (DAP "Upload Request": only failures are listed).
fn consume_answer(
    reports: &[PreparedReport],
    answer: &Answer,
) -> Result<Vec<UploadOutcome>, UploadError> {
    let response = &answer.response;
    let mut outcomes = vec![UploadOutcome::Accepted; reports.len()];
    if response.body.is_empty() {
        return Ok(outcomes);
    }
    expect_media_type(response, MediaType::UploadErrors)?;
    let errors = consume_upload_errors(&response.body)
        .map_err(|_| ExchangeError::BadResponse("the upload errors do not decode"))?;
    // The same report may have been sent twice in one request: each error is about one of them.
    let mut open: HashMap<ReportId, Vec<&mut UploadOutcome>> = HashMap::new();
    for (report, outcome) in reports.iter().zip(&mut outcomes) {
        open.entry(report.id).or_default().push(outcome);
    }
    for (id, error) in errors {
        let outcome = open.get_mut(&id).and_then(Vec::pop);
        let outcome = outcome.ok_or(ExchangeError::BadResponse("an error about no report"))?;
        // The first attempt may have arrived, and only its answer was lost.
        if !(answer.repeated && error == ReportError::ReportReplayed) {
            *outcome = UploadOutcome::Rejected(error);
        }
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests;
