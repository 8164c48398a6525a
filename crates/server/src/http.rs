//! Requests taken apart and answers put together: bodies with limits, media types, ids.
//!
//! What a failure looks like to the peer is in [`crate::problem`].

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use sotto_protocol::Abort;
use sotto_wire::{MediaType, ProblemType, TaskId};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Failure;

/// Bodies up to this length need no share of the memory budget: connections are bounded, and so is
/// the sum of such bodies.
const SMALL_BODY: usize = 16 * 1024;

/// The unit in which the memory budget is counted.
const BUDGET_UNIT: usize = 1024;

/// How much of a body is reserved on the peer's word alone.
const FIRST_RESERVATION: usize = 64 * 1024;

/// Reads bodies: each below its limit, all large ones together below a budget, none for ever.
#[derive(Debug)]
pub(crate) struct BodyReader {
    budget: Arc<Semaphore>,
    timeout: Duration,
}

/// A body, with its share of the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadBody {
    bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl ReadBody {
    /// The bytes, still counted against the budget while `self` lives.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl BodyReader {
    pub(crate) fn new(budget_bytes: usize, timeout: Duration) -> Self {
        let units = (budget_bytes / BUDGET_UNIT).clamp(1, Semaphore::MAX_PERMITS);
        Self { budget: Arc::new(Semaphore::new(units)), timeout }
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(crate) async fn read(&self, body: Body, limit: usize) -> Result<ReadBody, Failure> {
        let hint = body.size_hint();
        if hint.lower() > limit as u64 {
            return Err(Failure::TooLong(limit));
        }
        // An unknown length counts as the longest one.
        let expected = hint.upper().map_or(limit, |upper| (upper as usize).min(limit));
        let share = if expected > SMALL_BODY {
            let units = u32::try_from(expected.div_ceil(BUDGET_UNIT)).unwrap_or(u32::MAX);
            let share = Arc::clone(&self.budget).try_acquire_many_owned(units);
            Some(share.map_err(|_| Failure::OutOfMemory)?)
        } else {
            None
        };
        let bytes = tokio::time::timeout(self.timeout, collect(body, limit, expected))
            .await
            .map_err(|_| Failure::Incomplete)??;
        Ok(ReadBody { bytes, _share: share })
    }
}

async fn collect(mut body: Body, limit: usize, expected: usize) -> Result<Bytes, Failure> {
    let mut first = Bytes::new();
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Failure::Incomplete)?.into_data() else { continue };
        if first.len() + gathered.len() + data.len() > limit {
            return Err(Failure::TooLong(limit));
        }
        // Most uploads arrive in one frame and are not copied.
        if first.is_empty() && gathered.is_empty() {
            first = data;
            continue;
        }
        if gathered.is_empty() {
            gathered.reserve(expected.min(FIRST_RESERVATION).max(first.len() + data.len()));
            gathered.extend_from_slice(&std::mem::take(&mut first));
        }
        gathered.extend_from_slice(&data);
    }
    Ok(if gathered.is_empty() { first } else { gathered.freeze() })
}

/// Lets a request pass whose `Content-Type` names the message that the resource takes.
pub(crate) fn expect_media_type(headers: &HeaderMap, expected: MediaType) -> Result<(), Failure> {
    let named = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let matches = named == expected.as_str().as_bytes()
        || std::str::from_utf8(named).is_ok_and(|named| expected.matches(named));
    if matches { Ok(()) } else { Err(Failure::UnexpectedMediaType(expected)) }
}

/// The task id of a URL.
pub(crate) fn parse_task_id(text: &str) -> Result<TaskId, Failure> {
    text.parse().map_err(|_| {
        let detail = "The task id in the URL is not 32 bytes of unpadded base64url.";
        Abort::new(ProblemType::InvalidMessage, detail).into()
    })
}

/// An answer with a message in it.
pub(crate) fn message(
    status: StatusCode,
    media_type: MediaType,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let value = HeaderValue::from_static(media_type.as_str());
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// "Not ready": a 2xx without a body (DAP, "Asynchronous Request Handling").
pub(crate) fn not_ready(status: StatusCode, retry_after: Duration) -> Response {
    let mut response = empty(status);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)));
    response
}

/// Adds the place of a created resource. A `Location` may be relative (RFC 9110 §10.2.2).
pub(crate) fn at(mut response: Response, location: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::*;

    fn reader(budget: usize) -> BodyReader {
        BodyReader::new(budget, Duration::from_millis(200))
    }

    #[tokio::test]
    async fn bodies_stop_at_their_limit() {
        let body = reader(1 << 20).read(Body::from(vec![7; 100]), 100).await.unwrap();
        assert_eq!(body.bytes().as_ref(), [7; 100]);
        let refused = reader(1 << 20).read(Body::from(vec![7; 101]), 100).await;
        assert!(matches!(refused, Err(Failure::TooLong(100))));
        // A body that does not tell its length.
        let body = reader(1 << 20).read(Body::new(Chunks(3)), 30).await.unwrap();
        assert_eq!(body.bytes().len(), 30);
        let refused = reader(1 << 20).read(Body::new(Chunks(4)), 30).await;
        assert!(matches!(refused, Err(Failure::TooLong(30))));
    }

    #[tokio::test]
    async fn large_bodies_share_a_budget() {
        let reader = reader(64 * 1024);
        let large = || Body::from(vec![0; 40 * 1024]);
        let first = reader.read(large(), 1 << 20).await.unwrap();
        assert!(matches!(reader.read(large(), 1 << 20).await, Err(Failure::OutOfMemory)));
        assert!(reader.read(Body::from(vec![0; 100]), 1 << 20).await.is_ok());
        drop(first);
        assert!(reader.read(large(), 1 << 20).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_never_comes_is_given_up() {
        let read = reader(1 << 20).read(Body::new(Never), 100).await;
        assert!(matches!(read, Err(Failure::Incomplete)));
    }

    /// So many chunks of ten bytes, the length unknown.
    struct Chunks(usize);

    impl HttpBody for Chunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> FramePoll {
            let left = self.0;
            self.0 = left.saturating_sub(1);
            Poll::Ready((left > 0).then(|| Ok(Frame::data(Bytes::from_static(&[1; 10])))))
        }
    }

    struct Never;

    impl HttpBody for Never {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> FramePoll {
            Poll::Pending
        }
    }

    type FramePoll = Poll<Option<Result<Frame<Bytes>, Infallible>>>;
}
