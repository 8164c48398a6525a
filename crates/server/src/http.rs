//! Parsing requests and building answers: bodies with limits, media types, ids.
//!
//! How failures look to the peer is in [`crate::problem`].

mod budget;

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use sotto_protocol::Abort;
use sotto_wire::{MediaType, ProblemType, TaskId};

pub(crate) use self::budget::{Budget, Share};
use crate::environment::{Instant, instant, timeout_at};
use crate::problem::Failure;

/// After [`RATE_GRACE`], a body must have arrived at this many bytes per second on average.
///
/// A phone with a poor connection must pass. The slowest mobile data, GPRS with one slot, has 8
/// kbit/s; this is half of it. The grace is for pauses: in a dead spot or during a handover TCP
/// repeats a packet after 1, 3, 7 and 15 seconds, and only then does anything arrive again. It is
/// as long as a peer may take for the head of a request, so that a slow body occupies a connection
/// no longer than a slow head does.
const MIN_RATE: u64 = 512;
const RATE_GRACE: Duration = Duration::from_secs(30);

/// Reads bodies: each within its limit, all together within a budget, none without a deadline.
///
/// The budget is charged for bytes that have arrived, never for what the peer announces, and a body
/// that trickles in is given up: to occupy the budget, a peer must keep sending.
#[derive(Debug)]
pub(crate) struct BodyReader {
    budget: Budget,
    timeout: Duration,
}

/// Marks a request of a gateway in this process: its body has its share of the memory already.
/// Nothing from the network can set it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted;

/// A body. It holds its share of the budget until it is dropped.
#[derive(Debug)]
pub(crate) struct ReadBody {
    bytes: Bytes,
    _share: Share,
}

impl ReadBody {
    /// The bytes, still counted against the budget while `self` lives.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The bytes, counted against the budget until the last slice of them is dropped.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// Bytes that we made ourselves. If they are few, the share may be empty.
    pub(crate) fn new(bytes: Bytes, share: Share) -> Self {
        Self { bytes, _share: share }
    }
}

impl AsRef<[u8]> for ReadBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyReader {
    pub(crate) fn new(budget: impl Into<Budget>, timeout: Duration) -> Self {
        Self { budget: budget.into(), timeout }
    }

    /// What its bodies share.
    pub(crate) fn budget(&self) -> Budget {
        self.budget.clone()
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(crate) async fn read(&self, body: Body, limit: usize) -> Result<ReadBody, Failure> {
        if body.size_hint().lower() > limit as u64 {
            return Err(Failure::TooLong(limit));
        }
        self.read_with(Share::default(), body, limit).await
    }

    /// Like [`Self::read`], for a request that a gateway in this process may have passed on.
    pub(crate) async fn read_passed_on(
        &self,
        head: &Parts,
        body: Body,
        limit: usize,
    ) -> Result<ReadBody, Failure> {
        if head.extensions.get::<Counted>().is_none() {
            return self.read(body, limit).await;
        }
        // It is in memory, in one piece.
        let bytes = body.collect().await.map_err(|_| Failure::Incomplete)?.to_bytes();
        match bytes.len() <= limit {
            true => Ok(ReadBody::new(bytes, Share::default())),
            false => Err(Failure::TooLong(limit)),
        }
    }

    /// Like [`Self::read`], with a share of the budget that was taken before.
    pub(crate) async fn read_with(
        &self,
        share: Share,
        mut body: Body,
        limit: usize,
    ) -> Result<ReadBody, Failure> {
        match self.gather(share, &mut body, limit, instant()).await? {
            (read, None) => Ok(read),
            (_, Some(_)) => Err(Failure::TooLong(limit)),
        }
    }

    /// Reads a body that started to arrive at `start`, up to `limit` bytes. Also returns the piece
    /// that did not fit, if there is one: the body has not ended then.
    pub(crate) async fn read_up_to(
        &self,
        body: &mut Body,
        limit: usize,
        start: Instant,
    ) -> Result<(ReadBody, Option<Bytes>), Failure> {
        self.gather(Share::default(), body, limit, start).await
    }

    async fn gather(
        &self,
        mut share: Share,
        body: &mut Body,
        limit: usize,
        start: Instant,
    ) -> Result<(ReadBody, Option<Bytes>), Failure> {
        let hint = body.size_hint();
        let expected = hint.upper().map_or(limit, |upper| (upper as usize).min(limit));
        let mut first = Bytes::new();
        let mut gathered = Vec::new();
        let mut beyond = None;
        loop {
            let len = first.len() + gathered.len();
            let Some(data) = self.piece(body, start, len).await? else { break };
            if len + data.len() > limit {
                beyond = Some(data);
                break;
            }
            // Most uploads arrive in one frame and need no copy.
            if len == 0 {
                share.grow(&self.budget, data.len())?;
                first = data;
                continue;
            }
            let needed = len + data.len();
            if needed > gathered.capacity() {
                let capacity = needed.max((2 * gathered.capacity()).min(expected));
                share.grow(&self.budget, capacity)?;
                gathered.reserve_exact(capacity - gathered.len());
            }
            gathered.extend_from_slice(&std::mem::take(&mut first));
            gathered.extend_from_slice(&data);
        }
        let bytes = if gathered.is_empty() { first } else { gathered.into() };
        Ok((ReadBody { bytes, _share: share }, beyond))
    }

    /// The next piece of a body of which `arrived` bytes have come since `start`; `None` at its
    /// end.
    pub(crate) async fn piece(
        &self,
        body: &mut Body,
        start: Instant,
        arrived: usize,
    ) -> Result<Option<Bytes>, Failure> {
        loop {
            // The timer is armed only if nothing has arrived yet.
            let frame = timeout_at(start + self.patience(arrived), body.frame());
            let Some(frame) = frame.await.map_err(|_| Failure::Incomplete)? else {
                return Ok(None);
            };
            if let Ok(data) = frame.map_err(|_| Failure::Incomplete)?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Charges the budget for bytes that do not come from a peer.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Share, Failure> {
        let mut share = Share::default();
        self.grow(&mut share, bytes)?;
        Ok(share)
    }

    /// Charges the budget for work of this size. Work that needs more than three quarters of it
    /// counts as that much: otherwise it would never be done.
    pub(crate) fn reserve_for_work(&self, bytes: usize) -> Result<Share, Failure> {
        self.reserve(bytes.min(self.budget.bytes() / 4 * 3))
    }

    /// Grows a share to this many bytes.
    pub(crate) fn grow(&self, share: &mut Share, bytes: usize) -> Result<(), Failure> {
        share.grow(&self.budget, bytes)
    }

    /// How long after its start to wait for a body of which this much has arrived.
    fn patience(&self, arrived: usize) -> Duration {
        let earned = Duration::from_millis(arrived as u64 * 1000 / MIN_RATE);
        self.timeout.min(RATE_GRACE + earned)
    }
}

/// Lets a request pass if its `Content-Type` names the message that the resource takes.
pub(crate) fn expect_media_type(headers: &HeaderMap, expected: MediaType) -> Result<(), Failure> {
    let named = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let matches = named == expected.as_str().as_bytes()
        || std::str::from_utf8(named).is_ok_and(|named| expected.matches(named));
    if matches { Ok(()) } else { Err(Failure::UnexpectedMediaType(expected.as_str())) }
}

/// Lets a request pass if its `Content-Type` names this media type, with any parameters.
pub(crate) fn expect_type(headers: &HeaderMap, media_type: &'static str) -> Result<(), Failure> {
    match is_of_type(headers, media_type) {
        true => Ok(()),
        false => Err(Failure::UnexpectedMediaType(media_type)),
    }
}

/// Whether `Content-Type` names this media type, with any parameters.
pub(crate) fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let named = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = named.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(media_type.as_bytes())
}

/// The task id of a URL.
pub(crate) fn parse_task_id(text: &str) -> Result<TaskId, Failure> {
    text.parse().map_err(|_| {
        let detail = "The task id in the URL is not 32 bytes of unpadded base64url.";
        Abort::new(ProblemType::InvalidMessage, detail).into()
    })
}

/// An answer that contains a message.
pub(crate) fn message(
    status: StatusCode,
    media_type: MediaType,
    body: impl Into<Body>,
) -> Response {
    let mut response = content(media_type.as_str(), body);
    *response.status_mut() = status;
    response
}

/// The media type of a signed note.
pub(crate) const NOTE_MEDIA_TYPE: &str = "text/plain; charset=utf-8";

/// An answer with this content.
pub(crate) fn content(media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
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

/// Adds the URL of a created resource. A `Location` may be relative (RFC 9110 §10.2.2).
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
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use hyper::body::Frame;

    use super::budget::UNIT;
    use super::*;
    use crate::config::HttpConfig;
    use crate::relay::RelayFile;

    fn reader(budget: usize) -> BodyReader {
        BodyReader::new(budget, Duration::from_millis(200))
    }

    #[tokio::test]
    async fn bodies_stop_at_their_limit() {
        let body = reader(1 << 20).read(Body::from(vec![7; 100]), 100).await.unwrap();
        assert_eq!(body.bytes().as_ref(), [7; 100]);
        let refused = reader(1 << 20).read(Body::from(vec![7; 101]), 100).await;
        assert!(matches!(refused, Err(Failure::TooLong(100))));
        // A body that does not announce its length.
        let body = reader(1 << 20).read(Body::new(Chunks(3)), 30).await.unwrap();
        assert_eq!(body.bytes().len(), 30);
        let refused = reader(1 << 20).read(Body::new(Chunks(4)), 30).await;
        assert!(matches!(refused, Err(Failure::TooLong(30))));
    }

    #[tokio::test]
    async fn bodies_share_a_budget() {
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

    #[tokio::test]
    async fn small_bodies_count_as_well() {
        let reader = reader(2 * UNIT);
        let small = || Body::from(vec![0; 100]);
        let _one = reader.read(small(), 1 << 20).await.unwrap();
        let two = reader.read(small(), 1 << 20).await.unwrap();
        assert!(matches!(reader.read(small(), 1 << 20).await, Err(Failure::OutOfMemory)));
        drop(two);
        assert!(reader.read(small(), 1 << 20).await.is_ok());
        // Also one that arrives in pieces.
        let pieces = reader.read(Body::new(Chunks(200)), 1 << 20).await;
        assert!(matches!(pieces, Err(Failure::OutOfMemory)));
    }

    #[tokio::test]
    async fn a_body_takes_budget_only_as_it_arrives() {
        let reader = Arc::new(BodyReader::new(4 * UNIT, Duration::from_secs(30)));
        let announced = 1 << 20;
        let slow = tokio::spawn({
            let reader = Arc::clone(&reader);
            let body = Body::new(Trickle::new(announced, Duration::MAX));
            async move { reader.read(body, announced).await }
        });
        tokio::task::yield_now().await;
        assert!(reader.read(Body::from(vec![0; 2 * UNIT]), 1 << 20).await.is_ok());
        slow.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_given_up_early() {
        let reader = BodyReader::new(1 << 20, Duration::from_secs(600));
        let start = instant();
        let trickle = |wait| Body::new(Trickle::new(100 * 512, wait));
        let slow = reader.read(trickle(Duration::from_secs(4)), 1 << 20).await;
        assert!(matches!(slow, Err(Failure::Incomplete)));
        // 30 s of grace, and one for each of the eleven pieces until then.
        assert_eq!((instant() - start).as_secs(), 41);
        let steady = reader.read(trickle(Duration::from_millis(900)), 1 << 20).await.unwrap();
        assert_eq!(steady.bytes().len(), 100 * 512);
    }

    /// Within the defaults of a leader and of a relay.
    #[tokio::test(start_paused = true)]
    async fn a_phone_with_a_poor_connection_gets_through() {
        let leader = HttpConfig::default().body_timeout;
        let relay = RelayFile::default().http.http.body_timeout;
        for timeout in [leader, relay] {
            let reader = BodyReader::new(1 << 20, timeout);
            // A report of 8 KiB at 5 kbit/s, or with a pause of 25 s in the middle.
            let slow = Body::new(Trickle::new(8 * 1024, Duration::from_millis(800)));
            assert_eq!(reader.read(slow, 1 << 20).await.unwrap().bytes().len(), 8 * 1024);
            let mut broken = Trickle::new(8 * 1024, Duration::from_millis(400));
            broken.pause = Some((4 * 1024, Duration::from_secs(25)));
            assert_eq!(
                reader.read(Body::new(broken), 1 << 20).await.unwrap().bytes().len(),
                8 * 1024
            );
            // Nothing else, ever: given up after the grace.
            let start = instant();
            let stuck = Body::new(Trickle::new(8 * 1024, Duration::from_secs(3600)));
            let given_up = reader.read(stuck, 1 << 20).await;
            assert!(matches!(given_up, Err(Failure::Incomplete)));
            assert_eq!((instant() - start).as_secs(), 31);
        }
        // A long vector, at the relay.
        let reader = BodyReader::new(1 << 20, relay);
        let large = Body::new(Trickle::new(64 * 1024, Duration::from_millis(900)));
        assert_eq!(reader.read(large, 1 << 20).await.unwrap().bytes().len(), 64 * 1024);
    }

    /// Half a KiB at a time, with a pause after each. The length is announced.
    struct Trickle {
        left: usize,
        wait: Duration,
        /// A longer pause, when this much is left.
        pause: Option<(usize, Duration)>,
        timer: Option<Pin<Box<tokio::time::Sleep>>>,
    }

    impl Trickle {
        fn new(left: usize, wait: Duration) -> Self {
            Self { left, wait, pause: None, timer: None }
        }
    }

    impl HttpBody for Trickle {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll {
            if let Some(timer) = &mut self.timer
                && timer.as_mut().poll(cx).is_pending()
            {
                return Poll::Pending;
            }
            let len = self.left.min(512);
            self.left -= len;
            let pause = self.pause.filter(|(left, _)| *left == self.left);
            let wait = pause.map_or(self.wait, |(_, pause)| pause);
            self.timer = Some(Box::pin(tokio::time::sleep(wait)));
            Poll::Ready((len > 0).then(|| Ok(Frame::data(Bytes::from(vec![0; len])))))
        }

        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(self.left as u64)
        }
    }

    /// This many chunks of ten bytes; the length is unknown.
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
