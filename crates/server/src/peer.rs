//! The leader's side of the conversation with a helper, over HTTP (DAP, "Aggregating Reports" and
//! "Collecting Results", as far as requests and answers go).
//!
//! What an answer means for a job is decided by the driver. Redirects are not followed and no proxy
//! from the environment is used: tokens are only sent where the task says.

use std::time::Duration;

use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use axum::http::request::Builder;
use axum::http::{HeaderMap, Method};
use bytes::Bytes;
use serde_json::Value;
use sotto_protocol::Fault;
use sotto_protocol::leader::HelperError;
use sotto_wire::limits::{
    MAX_AGGREGATE_SHARE_LEN, MAX_AGGREGATION_JOB_LEN, MAX_PROBLEM_DOCUMENT_LEN,
};
use sotto_wire::{HttpUrl, MediaType, ProblemType, taskprov};

use crate::environment::{Instant, instant, sleep};
use crate::outbound::{self, HttpClient, Reach, TransportError};
use crate::tasks::{HelperEndpoint, ServedTask};

/// The pause between two polls of an asynchronous helper, unless it names one.
const POLL_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that a helper may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);

/// How long a deletion may take: those for other helpers wait for it.
const DELETE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a helper may take for a sign of life.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

/// Which resource to create at the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    AggregationJob,
    AggregateShare,
}

impl Resource {
    fn url(self, endpoint: &HelperEndpoint) -> &HttpUrl {
        match self {
            Self::AggregationJob => &endpoint.aggregation_jobs,
            Self::AggregateShare => &endpoint.aggregate_shares,
        }
    }

    /// The media types of the request and of the answer, and the longest answer in bytes.
    fn messages(self) -> (MediaType, MediaType, usize) {
        use MediaType::{
            AggregateShare, AggregateShareReq, AggregationJobInitReq, AggregationJobResp,
        };
        match self {
            Self::AggregationJob => {
                (AggregationJobInitReq, AggregationJobResp, MAX_AGGREGATION_JOB_LEN)
            }
            Self::AggregateShare => (AggregateShareReq, AggregateShare, MAX_AGGREGATE_SHARE_LEN),
        }
    }
}

/// A resource that the helper created, with its content.
#[derive(Debug)]
pub(crate) struct Created {
    /// The message.
    pub(crate) body: Bytes,
    /// Its URL, if the helper gave one.
    pub(crate) location: Option<HttpUrl>,
}

/// Sends requests to helpers.
#[derive(Debug)]
pub(crate) struct HelperClient {
    /// For helpers in the operator's own words: task files, `[taskprov]`, peers that say so.
    http: HttpClient,
    /// For all other helpers of recipes. It has connections of its own.
    public: HttpClient,
    timeout: Duration,
}

impl HelperClient {
    /// `certificates` (PEM) are trusted as roots for helpers, in addition to those of the operating
    /// system.
    pub(crate) fn new(timeout: Duration, certificates: Option<&[u8]>) -> Result<Self, Fault> {
        let http = HttpClient::new(timeout, certificates)?;
        Ok(Self { http, public: HttpClient::public(timeout, certificates)?, timeout })
    }

    /// Creates a resource and returns its content. Waits for it if the helper is asynchronous. It
    /// is safe to repeat this with the same bytes (DAP, "Resource Creation").
    pub(crate) async fn create(
        &self,
        task: &ServedTask,
        resource: Resource,
        body: Bytes,
    ) -> Result<Created, HelperError> {
        let endpoint = task.helper.as_ref().ok_or(HelperError::Unreachable("connect"))?;
        let deadline = instant() + self.timeout;
        let url = resource.url(endpoint);
        let request = self.request(Method::POST, url, task, endpoint);
        let (media_type, ..) = resource.messages();
        let request = request.header(CONTENT_TYPE, media_type.as_str());
        let mut answer = self.send(endpoint, request, body, resource, deadline).await?;
        let location = answer.location(url);
        while answer.body.is_empty() {
            let Some(location) = &location else {
                return Err(HelperError::Unreachable("foreign_answer"));
            };
            let pause = answer.retry_after.unwrap_or(POLL_PAUSE);
            if instant() + pause >= deadline {
                return Err(HelperError::Unreachable("timeout"));
            }
            sleep(pause).await;
            let poll = self.request(Method::GET, &with_step(location, resource), task, endpoint);
            let polled = self.send(endpoint, poll, Bytes::new(), resource, deadline).await;
            answer = polled.map_err(HelperError::of_poll)?;
        }
        Ok(Created { body: answer.body, location })
    }

    /// Asks for a sign of life: any answer is one, unless the helper says that it is broken.
    pub(crate) async fn probe(&self, task: &ServedTask) -> Result<(), HelperError> {
        let endpoint = task.helper.as_ref().ok_or(HelperError::Unreachable("connect"))?;
        let request = outbound::request(Method::GET, &endpoint.hpke_config);
        let deadline = instant() + self.timeout.min(PROBE_PATIENCE);
        let answer = self.http(endpoint).send(request, Bytes::new(), deadline).await;
        let status = answer.map_err(transport)?.status;
        let (problem, retry_after, polled) = (None, None, false);
        match status.is_server_error() {
            true => {
                let status = status.as_u16();
                Err(HelperError::Refused { status, problem, retry_after, polled })
            }
            false => Ok(()),
        }
    }

    /// Tells the helper that a resource is no longer needed. The answer does not matter.
    pub(crate) async fn delete(&self, task: &ServedTask, location: HttpUrl) {
        if let Some(endpoint) = &task.helper {
            let request = self.request(Method::DELETE, &location, task, endpoint);
            let patience = self.timeout.min(DELETE_PATIENCE);
            let http = self.http(endpoint);
            let _ = http.send(request, Bytes::new(), instant() + patience).await;
        }
    }

    fn request(
        &self,
        method: Method,
        url: &HttpUrl,
        task: &ServedTask,
        endpoint: &HelperEndpoint,
    ) -> Builder {
        let mut request = outbound::request(method, url);
        if let Ok((name, value)) = task.leader_token.header() {
            request = request.header(name, value);
        }
        if let Some(value) = &endpoint.taskprov {
            request = request.header(taskprov::HEADER, value.clone());
        }
        request
    }

    fn http(&self, endpoint: &HelperEndpoint) -> &HttpClient {
        match endpoint.reach {
            Reach::Anywhere => &self.http,
            Reach::Public => &self.public,
        }
    }

    async fn send(
        &self,
        endpoint: &HelperEndpoint,
        request: Builder,
        body: Bytes,
        resource: Resource,
        deadline: Instant,
    ) -> Result<Answer, HelperError> {
        let sent = self.http(endpoint).send(request, body, deadline).await;
        let mut answer = sent.map_err(transport)?;
        let status = answer.status;
        let headers = std::mem::take(&mut answer.headers);
        let retry_after = retry_after(&headers);
        if !status.is_success() {
            let problem = problem(answer).await;
            let (status, polled) = (status.as_u16(), false);
            return Err(HelperError::Refused { status, problem, retry_after, polled });
        }
        let (_, expected, max_len) = resource.messages();
        let body = answer.read(max_len).await.map_err(transport)?;
        let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !body.is_empty() && !media_type.is_some_and(|named| expected.matches(named)) {
            return Err(HelperError::Unreachable("foreign_answer"));
        }
        Ok(Answer { headers, retry_after, body })
    }
}

/// A 2xx answer. An empty body means "not ready" (DAP, "Asynchronous Request Handling").
struct Answer {
    headers: HeaderMap,
    retry_after: Option<Duration>,
    body: Bytes,
}

impl Answer {
    /// The `Location`, if it is on the server that was asked: our token is sent nowhere else.
    fn location(&self, asked: &HttpUrl) -> Option<HttpUrl> {
        let location = self.headers.get(LOCATION)?.to_str().ok()?;
        asked.join(location).ok().filter(|url| url.is_same_origin(asked))
    }
}

/// A poll for an aggregation job names the step; Prio3 has only the first.
fn with_step(url: &HttpUrl, resource: Resource) -> HttpUrl {
    match resource {
        Resource::AggregationJob if !url.has_parameter("step") => {
            url.with_parameter("step", "0").unwrap_or_else(|_| url.clone())
        }
        _ => url.clone(),
    }
}

/// The DAP type of a problem document.
async fn problem(answer: outbound::Answer) -> Option<ProblemType> {
    let body = answer.read(MAX_PROBLEM_DOCUMENT_LEN).await.ok()?;
    let document: Value = serde_json::from_slice(&body).ok()?;
    ProblemType::from_urn(document.get("type")?.as_str()?)
}

/// Only the kind of the error is passed on: the error itself may contain the peer's address.
fn transport(error: TransportError) -> HelperError {
    HelperError::Unreachable(error.name())
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(name: &'static str, value: &str) -> Answer {
        let headers = [(axum::http::HeaderName::from_static(name), value.parse().unwrap())];
        let headers: HeaderMap = headers.into_iter().collect();
        Answer { retry_after: retry_after(&headers), headers, body: Bytes::new() }
    }

    #[test]
    fn a_location_leads_nowhere_else() {
        let asked = HttpUrl::parse("https://helper.example/dap/tasks/x/aggregation_jobs").unwrap();
        for (location, url) in [
            ("/dap/tasks/x/aggregation_jobs/1?step=0", "/dap/tasks/x/aggregation_jobs/1?step=0"),
            ("aggregation_jobs/1", "/dap/tasks/x/aggregation_jobs/1"),
            ("https://helper.example/elsewhere", "/elsewhere"),
        ] {
            let found = answer("location", location).location(&asked).unwrap();
            assert_eq!(found.as_str(), format!("https://helper.example{url}"));
        }
        for foreign in ["https://evil.example/", "//evil.example/", "http://helper.example/x"] {
            assert_eq!(answer("location", foreign).location(&asked), None, "{foreign}");
        }
        let url = HttpUrl::parse("https://helper.example/1").unwrap();
        let polled = with_step(&url, Resource::AggregationJob);
        assert_eq!(polled.query(), Some("step=0"));
        assert_eq!(with_step(&polled, Resource::AggregationJob), polled);
        assert_eq!(with_step(&url, Resource::AggregateShare), url);
    }

    #[test]
    fn pauses_that_a_helper_names_are_bounded() {
        assert_eq!(answer("retry-after", "3").retry_after, Some(Duration::from_secs(3)));
        assert_eq!(answer("retry-after", "999999").retry_after, Some(MAX_RETRY_AFTER));
        assert_eq!(answer("retry-after", "soon").retry_after, None);
    }
}
