//! One exchange with an aggregator: URLs, headers, retries, and how answers are classified.
//!
//! Every request of a device or collector may be repeated: uploads, creations and deletions are
//! idempotent (DAP "HTTPS Requests"), and a repeated request has the same bytes.

use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_wire::{MediaType, Url, taskprov};
use zeroize::Zeroizing;

use crate::problem::Problem;
use crate::retry::RetryPolicy;
use crate::transport::{HttpRequest, HttpResponse, Transport, TransportError, is_transient};

/// Why an exchange with an aggregator failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// There was no answer after all attempts.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The aggregator refused.
    #[error("the aggregator refused: {0}")]
    Problem(Problem),
    /// The answer is not allowed by DAP.
    #[error("the aggregator's answer is not valid: {0}")]
    BadResponse(&'static str),
}

/// What device and collector have in common.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) retry: RetryPolicy,
    /// The value of the `DAP-Taskprov` header, if the task is advertised with every request.
    pub(crate) taskprov: Option<String>,
}

/// A successful answer, and whether the request was sent more than once.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) response: HttpResponse,
    pub(crate) repeated: bool,
}

impl Exchange {
    pub(crate) fn new(transport: Arc<dyn Transport>) -> Self {
        Self { transport, retry: RetryPolicy::default(), taskprov: None }
    }

    /// The same request with the header that all requests about a task have.
    pub(crate) fn about_task<'a>(&self, mut request: HttpRequest<'a>) -> HttpRequest<'a> {
        if let Some(value) = &self.taskprov {
            request.headers.insert(0, (taskprov::HEADER, Zeroizing::new(value.clone())));
        }
        request
    }

    /// Sends until there is an answer that is not a transient failure, or the attempts are used up.
    pub(crate) fn send(
        &self,
        request: &HttpRequest<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Answer, ExchangeError> {
        let mut attempt = 1;
        loop {
            let (retry_after, error) = match self.transport.send(request) {
                Ok(response) if (200..300).contains(&response.status) => {
                    return Ok(Answer { response, repeated: attempt > 1 });
                }
                Ok(response) => {
                    let problem = Problem::from_response(&response);
                    (response.retry_after(), ExchangeError::Problem(problem))
                }
                Err(error) => (error.retry_after(), error.into()),
            };
            let retry = error.is_transient().then(|| self.retry.pause(attempt, retry_after, rng));
            let Some(pause) = retry.flatten() else { return Err(error) };
            (self.retry.sleep)(pause);
            attempt += 1;
        }
    }
}

impl ExchangeError {
    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transport(error) => error.is_transient(),
            Self::Problem(problem) => is_transient(problem.status),
            Self::BadResponse(_) => false,
        }
    }
}

/// The URL of a resource below an aggregator's endpoint. The endpoint's spelling is part of the
/// task; only a slash at its end is treated as the one that joins it to the resource.
pub(crate) fn resource(endpoint: &Url, path: &str) -> String {
    format!("{}/{path}", endpoint.as_str().trim_end_matches('/'))
}

/// Checks that a non-empty body has the expected media type.
pub(crate) fn expect_media_type(
    response: &HttpResponse,
    expected: MediaType,
) -> Result<(), ExchangeError> {
    let content_type = response.header("content-type").unwrap_or_default();
    if expected.matches(content_type) {
        Ok(())
    } else {
        Err(ExchangeError::BadResponse("unexpected content type"))
    }
}
