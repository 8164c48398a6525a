//! The collector: requests batches from the leader and opens them (DAP "Collecting Results").
//!
//! A collection job is created once: the same query finds the same job again, so nothing is lost if
//! the collector dies before it has stored a result. Hence in the leader-selected mode, where all
//! queries are alike, the next batch comes only after the last job was
//! [finished](Collector::finish).
//!
//! `sotto_protocol::collector` defines the contents of the messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_core::CryptoRng;
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Task;
use sotto_protocol::collector::{
    Collection, CollectorError, consume_collection_job_resp, produce_collection_job_req,
};
use sotto_wire::{CollectionJobList, ListedJob, MediaType, ProblemType, Query, limits, taskprov};
use zeroize::Zeroizing;

use crate::auth::AuthToken;
use crate::exchange::{Exchange, ExchangeError, expect_media_type, resource};
use crate::retry::RetryPolicy;
use crate::transport::{HttpRequest, HttpResponse, Method, Transport, TransportError};

/// The pause between two polls when the leader does not say how long to wait.
const DEFAULT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest and the longest time between two polls, whatever the leader says.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How long a poll may wait at the leader, in seconds (RFC 7240 §4.3). Leaders that do not know this
/// answer at once.
const PREFER: &str = "wait=20";

/// The longest answer that is read.
const LIMIT: usize = limits::MAX_COLLECTION_JOB_RESP_LEN;

/// The longest collection job id that is accepted.
const MAX_JOB_ID_LEN: usize = 256;

/// Collects the batches of one task.
pub struct Collector {
    task: Task,
    key: HpkeKeypair,
    auth: AuthToken,
    exchange: Exchange,
}

/// A collection job at the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectionJob {
    pub(crate) id: String,
    pub(crate) request: Vec<u8>,
}

/// Whether a job is done.
#[derive(Clone, Debug, PartialEq)]
pub enum Poll {
    /// Not yet.
    Pending {
        /// How long the leader asks to wait.
        retry_after: Option<Duration>,
    },
    /// Done.
    Ready(Collection),
}

/// A collected batch, and the job to [finish](Collector::finish) once the batch is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    /// The batch.
    pub collection: Collection,
    /// The job it came from.
    pub job: CollectionJob,
}

/// The progress of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The leader has the job.
    Created,
    /// It is not done yet: the batch is too small, or is still being summed.
    Waiting {
        /// Since the start.
        elapsed: Duration,
        /// Until the next poll.
        pause: Duration,
    },
    /// Both shares have arrived and been opened.
    Done,
}

/// What became of a job that was [cancelled](Collector::cancel).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is gone, and so is nothing else: its batch can be collected again.
    Yes,
    /// Its batch is complete and being closed. There will be a result soon.
    UnderWay,
    /// There is a result already.
    Finished,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The query does not fit this task, or the answer cannot be opened.
    #[error(transparent)]
    Collection(#[from] CollectorError),
    /// The leader refused, or did not answer.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// Not done in time, or the [transport](TransportError::GaveUp) gave up. The job continues:
    /// collect again with the same query, or [cancel](Collector::cancel) it.
    #[error("the batch is not ready yet")]
    NotReady {
        /// The job, if the leader has confirmed one.
        job: Option<CollectionJob>,
        /// The last reason that the leader gave, if it gave one.
        reason: Option<ExchangeError>,
    },
}

impl Collector {
    /// A collector for `task` that opens shares with `key` and authenticates to the leader with
    /// `auth`.
    pub fn new(
        task: Task,
        key: HpkeKeypair,
        auth: AuthToken,
        transport: Arc<dyn Transport>,
    ) -> Self {
        Self { task, key, auth, exchange: Exchange::new(transport) }
    }

    /// Retries exchanges according to `retry`.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.exchange.retry = retry;
        self
    }

    /// Advertises the task with every request, for leaders that learn about tasks that way
    /// (taskprov).
    #[must_use]
    pub fn with_taskprov(mut self) -> Self {
        let configuration = self.task.encoded_configuration();
        self.exchange.taskprov = Some(taskprov::header_value(configuration));
        self
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Creates the job for `query`, or finds the existing one. The leader may have the answer
    /// immediately.
    pub fn start(
        &self,
        query: &Query,
        rng: &mut dyn CryptoRng,
    ) -> Result<(CollectionJob, Poll), CollectError> {
        let body = produce_collection_job_req(&self.task, query)?;
        let media_type = MediaType::CollectionJobReq.as_str();
        let mut request = HttpRequest::post(self.jobs_url(), media_type, &body, LIMIT);
        request.headers.push(("prefer", Zeroizing::new(PREFER.to_owned())));
        let response = self.exchange.send(&self.authorized(request), rng)?.response;
        let location = response.header("location");
        let id = location.ok_or(ExchangeError::BadResponse("no location of the job"))?;
        let job = CollectionJob { id: job_id(id)?, request: body };
        let poll = self.consume(&job, &response)?;
        Ok((job, poll))
    }

    /// The job made for `query`, from an id that was stored.
    pub fn job(&self, id: &str, query: &Query) -> Result<CollectionJob, CollectError> {
        let request = produce_collection_job_req(&self.task, query)?;
        Ok(CollectionJob { id: job_id(id)?, request })
    }

    /// Asks whether `job` is done.
    pub fn poll(&self, job: &CollectionJob, rng: &mut dyn CryptoRng) -> Result<Poll, CollectError> {
        let mut request = HttpRequest::get(self.job_url(job), LIMIT);
        request.headers.push(("prefer", Zeroizing::new(PREFER.to_owned())));
        let response = self.exchange.send(&self.authorized(request), rng)?.response;
        self.consume(job, &response)
    }

    /// Tells the leader that the result is stored, or no longer wanted. Only then does it hand out
    /// the next batch in the leader-selected mode. A job that no longer exists is not an error.
    pub fn finish(&self, job: &CollectionJob, rng: &mut dyn CryptoRng) -> Result<(), CollectError> {
        let request = HttpRequest::get(self.job_url(job), LIMIT);
        let request = HttpRequest { method: Method::Delete, ..request };
        match self.exchange.send(&self.authorized(request), rng) {
            Ok(_) => Ok(()),
            Err(ExchangeError::Problem(problem)) if matches!(problem.status, 404 | 410) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a job without a result that was seen. Nothing is lost: a job that has a result, or
    /// will have one, stays. (Leaders that do not know this condition delete that too.)
    pub fn cancel(&self, id: &str, rng: &mut dyn CryptoRng) -> Result<Cancelled, CollectError> {
        let job = CollectionJob { id: job_id(id)?, request: Vec::new() };
        let mut request = HttpRequest::get(self.job_url(&job), LIMIT);
        request.method = Method::Delete;
        request.headers.push(("if-none-match", Zeroizing::new("*".to_owned())));
        match self.exchange.send(&self.authorized(request), rng) {
            Ok(_) => Ok(Cancelled::Yes),
            Err(ExchangeError::Problem(problem)) => match problem.status {
                404 | 410 => Ok(Cancelled::Yes),
                409 => Ok(Cancelled::UnderWay),
                412 => Ok(Cancelled::Finished),
                _ => Err(ExchangeError::Problem(problem).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// The task's jobs at the leader, the newest first. DAP has no such list: a leader that is not
    /// ours answers 404 or 405.
    pub fn jobs(&self, rng: &mut dyn CryptoRng) -> Result<Vec<ListedJob>, CollectError> {
        let request = self.authorized(HttpRequest::get(self.jobs_url(), LIMIT));
        let response = self.exchange.send(&request, rng)?.response;
        let list: CollectionJobList = serde_json::from_slice(&response.body)
            .map_err(|_| ExchangeError::BadResponse("it is no list of jobs"))?;
        Ok(list.jobs)
    }

    /// Creates the job for `query` and waits for its result, at most about `timeout`.
    ///
    /// Store the result, then [finish](Self::finish) the job. This keeps polling while the leader
    /// is unreachable or says that the batch is too small.
    pub fn collect(
        &self,
        query: &Query,
        timeout: Duration,
        progress: &mut dyn FnMut(Progress),
        rng: &mut dyn CryptoRng,
    ) -> Result<Collected, CollectError> {
        let started = Instant::now();
        let mut job: Option<CollectionJob> = None;
        let mut last = None;
        loop {
            let polled = match job.clone() {
                Some(job) => self.poll(&job, rng).map(|poll| (job, poll)),
                None => self.start(query, rng).inspect(|_| progress(Progress::Created)),
            };
            let (asked, reason) = match polled {
                Ok((job, Poll::Ready(collection))) => {
                    progress(Progress::Done);
                    return Ok(Collected { collection, job });
                }
                Ok((same, Poll::Pending { retry_after })) => {
                    job = Some(same);
                    (retry_after, None)
                }
                Err(CollectError::Exchange(error)) if error.is_transient() => (None, Some(error)),
                Err(CollectError::Exchange(ExchangeError::Transport(TransportError::GaveUp))) => {
                    return Err(CollectError::NotReady { job, reason: last });
                }
                Err(CollectError::Exchange(error)) if is_too_small(&error) => {
                    // The leader gave up on the job: create it again.
                    job = None;
                    (None, Some(error))
                }
                Err(error) => return Err(error),
            };
            let elapsed = started.elapsed();
            let Some(left) = timeout.checked_sub(elapsed).filter(|left| !left.is_zero()) else {
                return Err(CollectError::NotReady { job, reason });
            };
            let pause = asked.unwrap_or(DEFAULT_POLL_INTERVAL);
            let pause = pause.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL).min(left);
            last = reason;
            progress(Progress::Waiting { elapsed, pause });
            (self.exchange.retry.sleep)(pause);
        }
    }

    fn consume(&self, job: &CollectionJob, response: &HttpResponse) -> Result<Poll, CollectError> {
        if response.body.is_empty() {
            // It waits during the next poll, so that we need not wait before it.
            let waits = response.header("preference-applied").is_some_and(|name| name == "wait");
            let retry_after = if waits { Some(Duration::ZERO) } else { response.retry_after() };
            return Ok(Poll::Pending { retry_after });
        }
        expect_media_type(response, MediaType::CollectionJobResp)?;
        let collection =
            consume_collection_job_resp(&self.task, &self.key, &job.request, &response.body)?;
        Ok(Poll::Ready(collection))
    }

    fn authorized<'a>(&self, mut request: HttpRequest<'a>) -> HttpRequest<'a> {
        request.headers.insert(0, self.auth.header());
        self.exchange.about_task(request)
    }

    fn jobs_url(&self) -> String {
        let endpoint = self.task.configuration().leader_aggregator_endpoint();
        resource(endpoint, &format!("tasks/{}/collection_jobs", self.task.id()))
    }

    fn job_url(&self, job: &CollectionJob) -> String {
        format!("{}/{}", self.jobs_url(), job.id)
    }
}

impl CollectionJob {
    /// The leader's name for the job, as in its URL.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The id at the end of a job's location.
///
/// Only the id is used: the job is at the leader, whatever host the location names, and the
/// credential goes nowhere else.
fn job_id(location: &str) -> Result<String, ExchangeError> {
    let path = location.trim().split(['?', '#']).next().unwrap_or_default();
    let id = path.rsplit('/').next().unwrap_or_default();
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if id.is_empty() || id.len() > MAX_JOB_ID_LEN || !id.bytes().all(is_base64url) {
        return Err(ExchangeError::BadResponse("the location of the job is not one"));
    }
    Ok(id.to_owned())
}

/// Whether the leader has stopped waiting for enough reports, so that we must request again.
fn is_too_small(error: &ExchangeError) -> bool {
    matches!(error, ExchangeError::Problem(problem) if problem.is(ProblemType::InvalidBatchSize))
}

#[cfg(test)]
mod tests;
