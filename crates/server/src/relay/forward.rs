//! Forwards requests to a gateway and returns its answers (RFC 9458 §6.2).
//!
//! The gateway gets a new request by the relay with the content in it, and nothing from the head
//! that the device sent. The device gets the status, the content and the few fields that it needs.
//! A request is sent once, and its answer is read to the end, at the gateway's speed, before the
//! device gets any of it: the gateway cannot notice that a device has disconnected or has a slow
//! link.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use axum::http::{Method, Request, StatusCode, Uri};
use axum::response::Response;
use hyper::body::Incoming;
use sotto_wire::PROBLEM_MEDIA_TYPE;
use sotto_wire::ohttp::{REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::held::{HeldBody, Intake};
use super::metrics::{Exchange, RelayMetrics};
use super::pools::Waiting;
use crate::environment::timeout;
use crate::health::{Concern, Health};
use crate::http::is_of_type;
use crate::outbound::OutboundClient;
use crate::pace::Paced;
use crate::problem::Failure;

/// Bytes of requests in files that may be on their way to one gateway. The others stay on disk: a
/// gateway holds what it gets in memory, and would turn away what leaves one pool together.
const MAX_LARGE_IN_FLIGHT: u64 = 64 * 1024 * 1024;

/// A gateway and whether the last request reached it.
pub(super) struct Destination {
    operator: String,
    uri: Uri,
    is_failing: AtomicBool,
    /// In KiB.
    large: Semaphore,
}

impl Destination {
    pub(super) fn new(operator: String, uri: Uri) -> Self {
        let large = Semaphore::new((MAX_LARGE_IN_FLIGHT / 1024) as usize);
        Self { operator, uri, is_failing: AtomicBool::new(false), large }
    }
}

impl Destination {
    /// A place for a large request on the way to the gateway.
    async fn place(&self, body: &HeldBody) -> Option<SemaphorePermit<'_>> {
        if !body.is_spooled() {
            return None;
        }
        let size = body.size_hint().lower().min(MAX_LARGE_IN_FLIGHT).div_ceil(1024);
        // It is never closed.
        self.large.acquire_many(u32::try_from(size).ok()?).await.ok()
    }
}

/// Forwards requests.
pub(super) struct Forwarder {
    pub(super) client: OutboundClient<HeldBody>,
    pub(super) destinations: Vec<Destination>,
    pub(super) answers: Intake,
    /// The limit on waiting for the head of an answer.
    pub(super) timeout: Duration,
    pub(super) metrics: Arc<RelayMetrics>,
    pub(super) health: Arc<Health>,
}

impl Forwarder {
    /// Forwards a request and gives the answer to whoever waits for it. A large one waits until it
    /// may: their order stays that of the pool.
    pub(super) async fn forward(self: Arc<Self>, waiting: Waiting) {
        let Waiting { gateway, body, answer, .. } = waiting;
        let Some(destination) = self.destinations.get(gateway) else { return };
        let place = destination.place(&body).await;
        let outcome = self.exchange(destination, body).await;
        drop(place);
        // This fails if the device has disconnected.
        let _ = answer.send(outcome);
    }

    async fn exchange(
        &self,
        destination: &Destination,
        body: HeldBody,
    ) -> Result<Response, Failure> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = destination.uri.clone();
        let media_type = HeaderValue::from_static(REQUEST_MEDIA_TYPE);
        request.headers_mut().insert(CONTENT_TYPE, media_type);
        let refused = |status, detail: &str| Err(Failure::refused(status, detail));
        let asked = timeout(self.timeout, self.client.request(request)).await;
        let (outcome, answer) = match asked {
            Ok(Ok(answer)) if !answer.status().is_informational() => {
                let is_gateways = is_gateways(&answer);
                match self.take_in(answer).await {
                    Err(Failure::Incomplete | Failure::TooLong(_)) => {
                        let detail = "The answer of the gateway did not arrive whole.";
                        (Exchange::Broken, refused(StatusCode::BAD_GATEWAY, detail))
                    }
                    answer if is_gateways => (Exchange::Answered, answer),
                    answer => (Exchange::Foreign, answer),
                }
            }
            Ok(failed) => {
                if let Err(error) = &failed {
                    tracing::debug!(gateway = destination.operator, error = cause(error));
                }
                let detail = "The gateway could not be reached.";
                (Exchange::Unreachable, refused(StatusCode::BAD_GATEWAY, detail))
            }
            Err(_) => {
                let detail = "The gateway did not answer in time.";
                (Exchange::Late, refused(StatusCode::GATEWAY_TIMEOUT, detail))
            }
        };
        self.note(destination, outcome);
        answer
    }

    /// Waits for the whole answer, and keeps the parts that a device needs.
    async fn take_in(&self, answer: hyper::Response<Incoming>) -> Result<Response, Failure> {
        let (head, content) = answer.into_parts();
        let content = match self.answers.receive(Body::new(content)).await {
            // It was not the device that asked for too much.
            Err(Failure::OutOfMemory) => {
                return Err(Failure::unavailable("The relay has no room for the answer."));
            }
            received => received?,
        };
        if content.is_spooled() {
            self.metrics.spooled.increment(1);
        }
        let mut response = Response::new(Body::new(Paced::new(content)));
        *response.status_mut() = head.status;
        *response.headers_mut() = kept_fields(&head.headers);
        Ok(response)
    }

    /// Counts an outcome, and tells the operator when a gateway starts or stops failing.
    fn note(&self, destination: &Destination, outcome: Exchange) {
        self.metrics.exchanged(outcome);
        let is_failing = outcome != Exchange::Answered;
        // Read before it is written: every request takes this path.
        if destination.is_failing.load(Ordering::Relaxed) == is_failing
            || destination.is_failing.swap(is_failing, Ordering::Relaxed) == is_failing
        {
            return;
        }
        let operator = &destination.operator;
        match outcome {
            Exchange::Answered => tracing::info!(gateway = operator, "a gateway answers again"),
            Exchange::Foreign => tracing::warn!(
                gateway = operator,
                "what answers at a gateway's URL is not a gateway: does the URL end in /gateway?"
            ),
            _ => tracing::warn!(
                gateway = operator,
                "a gateway does not answer (SOTTO_LOG=debug says why)"
            ),
        }
        let failing: Vec<_> = self
            .destinations
            .iter()
            .filter(|destination| destination.is_failing.load(Ordering::Relaxed))
            .map(|destination| destination.operator.as_str())
            .collect();
        let detail = (!failing.is_empty()).then(|| failing.join(", "));
        self.health.set(Concern::GatewayUnreachable, detail);
    }
}

/// Whether an answer can be a gateway's: any other server has no such resource, or answers in the
/// clear.
fn is_gateways(answer: &hyper::Response<Incoming>) -> bool {
    match answer.status() {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => false,
        status => !status.is_success() || is_of_type(answer.headers(), RESPONSE_MEDIA_TYPE),
    }
}

/// The innermost error, which says most: why a certificate or a connection was refused.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The fields of a gateway's answer that the device gets, each in one spelling: anything else could
/// be used to mark the device.
fn kept_fields(fields: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for media_type in [RESPONSE_MEDIA_TYPE, PROBLEM_MEDIA_TYPE] {
        if is_of_type(fields, media_type) {
            kept.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
    }
    let pause = fields.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if let Some(pause) = pause {
        kept.insert(RETRY_AFTER, HeaderValue::from(pause));
    }
    kept
}
