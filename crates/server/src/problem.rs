//! The one place where failures are turned into HTTP answers (DAP, "Errors"; RFC 9457).
//!
//! A refusal names what the peer did wrong. An internal error is logged and answered without
//! details.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, DATE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use sotto_protocol::gateway::{InnerRefusal, OuterRefusal};
use sotto_protocol::http_date::imf_fixdate;
use sotto_protocol::{Abort, Fault, Moment};
use sotto_store::StoreError;
use sotto_wire::ohttp::{DATE_PROBLEM, KEY_PROBLEM};
use sotto_wire::token::{ENCAPSULATION_KEY_PROBLEM, WITHHELD_PROBLEM};
use sotto_wire::{PROBLEM_MEDIA_TYPE, ProblemType, TaskId};

use crate::pool::PoolError;

/// Why a request was not served. In every case, nothing was committed for the request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The protocol refuses the request.
    Abort(Abort),
    /// Our own failure: a bug or a broken key.
    Fault(Fault),
    /// The store did nothing.
    Store(StoreError),
    /// The CPU pool did nothing.
    Pool(PoolError),
    /// No credentials where they are needed.
    Unauthenticated,
    /// Wrong credentials.
    Forbidden,
    /// `Content-Type` does not name the message that the resource takes.
    UnexpectedMediaType(&'static str),
    /// The body is longer than the limit, in bytes.
    TooLong(usize),
    /// The body did not arrive in time, or broke off.
    Incomplete,
    /// Bodies in flight fill the memory set aside for them.
    OutOfMemory,
    /// No such resource.
    NotFound,
    /// The resource does not have this method.
    MethodNotAllowed,
    /// Refused with this status and detail.
    Refused(StatusCode, String),
    /// Refused with this status, problem type and detail.
    Typed(StatusCode, &'static str, &'static str),
    /// Not available now: the detail, and when to retry.
    Unavailable(String, Duration),
    /// The peer sends too many requests: the detail, and when to retry.
    TooMany(&'static str, Duration),
    /// A request to a gateway was not opened.
    Unopened(OuterRefusal),
    /// A request to a gateway was opened, at this time, and is not passed on.
    NotAdmitted(InnerRefusal, Moment),
    /// A stored problem, sent again.
    Stored {
        /// The `type` member.
        problem: String,
        /// The `detail` member.
        detail: String,
        /// The task.
        task_id: TaskId,
    },
}

/// The problem type that says no more than the status (RFC 9457 §4.2.1).
pub(crate) const ABOUT_BLANK: &str = "about:blank";

/// How long a peer is asked to wait when we are overloaded or have failed.
pub(crate) const RETRY_SOON: Duration = Duration::from_secs(1);

impl Failure {
    /// Not available now, but probably soon.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::Unavailable(detail.into(), RETRY_SOON)
    }

    /// Refused with this status and detail.
    pub(crate) fn refused(status: StatusCode, detail: impl Into<String>) -> Self {
        Self::Refused(status, detail.into())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::Abort(abort) => dap_response(&abort.problem.urn(), &abort.detail, abort.task_id),
            Self::Fault(fault) => {
                tracing::error!(error = %fault, "a request failed with an internal error");
                plain(StatusCode::INTERNAL_SERVER_ERROR, "The server had an internal error.")
            }
            Self::Store(error) => store_response(&error),
            Self::Pool(PoolError::Busy) => too_busy("All workers are busy."),
            Self::Pool(PoolError::Panicked) => {
                tracing::error!("work in the CPU pool panicked");
                plain(StatusCode::INTERNAL_SERVER_ERROR, "The server had an internal error.")
            }
            Self::Unauthenticated => {
                let mut response = plain(
                    StatusCode::UNAUTHORIZED,
                    "The resource needs a bearer token or a DAP-Auth-Token header.",
                );
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                response
            }
            Self::Forbidden => plain(StatusCode::FORBIDDEN, "The credentials are wrong."),
            Self::UnexpectedMediaType(expected) => plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                &format!("The resource takes a body of Content-Type {expected}."),
            ),
            Self::TooLong(limit) => plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                &format!("The body may have at most {limit} bytes."),
            ),
            Self::Incomplete => {
                plain(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.")
            }
            Self::TooMany(detail, pause) => {
                retry_after(plain(StatusCode::TOO_MANY_REQUESTS, detail), pause)
            }
            Self::OutOfMemory => too_busy("Too many large requests at once."),
            Self::NotFound => plain(StatusCode::NOT_FOUND, "There is no such resource."),
            Self::MethodNotAllowed => {
                plain(StatusCode::METHOD_NOT_ALLOWED, "The resource has no such method.")
            }
            Self::Refused(status, detail) => plain(status, &detail),
            Self::Typed(status, kind, detail) => typed(status, kind, detail),
            Self::Unavailable(detail, pause) => {
                retry_after(plain(StatusCode::SERVICE_UNAVAILABLE, &detail), pause)
            }
            Self::Unopened(refusal) => unopened_response(refusal),
            Self::NotAdmitted(refusal, now) => not_admitted_response(refusal, now),
            Self::Stored { problem, detail, task_id } => {
                dap_response(&problem, &detail, Some(task_id))
            }
        }
    }
}

impl From<Abort> for Failure {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

impl From<sotto_protocol::Failure> for Failure {
    fn from(failure: sotto_protocol::Failure) -> Self {
        match failure {
            sotto_protocol::Failure::Abort(abort) => Self::Abort(abort),
            sotto_protocol::Failure::Fault(fault) => Self::Fault(fault),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

fn store_response(error: &StoreError) -> Response {
    match error {
        StoreError::Full => too_busy("The backlog of reports is full."),
        StoreError::Fenced => unavailable("The work has passed to another worker."),
        StoreError::RequestDiffers | StoreError::Backend(_) => {
            tracing::error!(%error, "the store failed");
            unavailable("The server had an internal error.")
        }
    }
}

/// A problem with a type of DAP, or one that was stored by a later version.
fn dap_response(kind: &str, detail: &str, task_id: Option<TaskId>) -> Response {
    let problem = ProblemType::from_urn(kind);
    let status = problem.and_then(|problem| StatusCode::from_u16(problem.status()).ok());
    let status = status.unwrap_or(StatusCode::BAD_REQUEST);
    let title = problem.map(ProblemType::title).unwrap_or_default();
    let mut document = document(kind, title, status, detail);
    if let Some(task_id) = task_id {
        document.insert("taskid".into(), task_id.to_string().into());
    }
    respond(status, document)
}

/// These problem types have their own titles (the first two from RFC 9458 §9).
fn typed(status: StatusCode, kind: &str, detail: &str) -> Response {
    let title = match kind {
        KEY_PROBLEM => "Oblivious HTTP key configuration not acceptable",
        DATE_PROBLEM => "Date Not Acceptable",
        WITHHELD_PROBLEM => "Token withheld",
        ENCAPSULATION_KEY_PROBLEM => "Encapsulation key not acceptable",
        _ => status.canonical_reason().unwrap_or(""),
    };
    respond(status, document(kind, title, status, detail))
}

/// The status and problem type of each request that the gateway cannot open. The relay sees these
/// answers.
fn unopened_response(refusal: OuterRefusal) -> Response {
    let (status, kind) = match refusal {
        // RFC 9458 §5.3.
        OuterRefusal::UnknownKey => (StatusCode::BAD_REQUEST, KEY_PROBLEM),
        OuterRefusal::Malformed => (StatusCode::BAD_REQUEST, ABOUT_BLANK),
    };
    typed(status, kind, &refusal.to_string())
}

/// The status and problem type of each opened request that the gateway does not pass on. These
/// answers are sealed.
fn not_admitted_response(refusal: InnerRefusal, now: Moment) -> Response {
    let (status, kind) = match refusal {
        InnerRefusal::Malformed | InnerRefusal::Replayed => (StatusCode::BAD_REQUEST, ABOUT_BLANK),
        // RFC 9458 §6.5.2.
        InnerRefusal::Date => (StatusCode::BAD_REQUEST, DATE_PROBLEM),
        InnerRefusal::Full => (StatusCode::SERVICE_UNAVAILABLE, ABOUT_BLANK),
    };
    let mut response = typed(status, kind, &refusal.to_string());
    match refusal {
        InnerRefusal::Date => {
            if let Ok(date) = HeaderValue::try_from(imf_fixdate(now)) {
                response.headers_mut().insert(DATE, date);
            }
            response
        }
        InnerRefusal::Full => retry(response),
        InnerRefusal::Malformed | InnerRefusal::Replayed => response,
    }
}

/// A problem for which DAP has no type: we may not add to its namespace.
fn plain(status: StatusCode, detail: &str) -> Response {
    respond(status, document(ABOUT_BLANK, status.canonical_reason().unwrap_or(""), status, detail))
}

fn too_busy(detail: &str) -> Response {
    retry(plain(StatusCode::TOO_MANY_REQUESTS, detail))
}

fn unavailable(detail: &str) -> Response {
    retry(plain(StatusCode::SERVICE_UNAVAILABLE, detail))
}

fn retry(response: Response) -> Response {
    retry_after(response, RETRY_SOON)
}

fn retry_after(mut response: Response, pause: Duration) -> Response {
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(pause.as_secs().max(1)));
    response
}

fn document(kind: &str, title: &str, status: StatusCode, detail: &str) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("type".into(), kind.into());
    members.insert("title".into(), title.into());
    members.insert("status".into(), json!(status.as_u16()));
    if !detail.is_empty() {
        members.insert("detail".into(), detail.into());
    }
    members
}

fn respond(status: StatusCode, document: Map<String, Value>) -> Response {
    let mut response = Response::new(Body::from(Value::Object(document).to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_MEDIA_TYPE));
    response
}
