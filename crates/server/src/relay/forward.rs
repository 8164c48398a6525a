//! The way to a gateway and back (RFC 9458 §6.2).
//!
//! To the gateway goes a request of the relay's own with the content in it; no part of the head that
//! the device sent. Back come the status, the content and the few fields that a device needs. A request
//! is sent once, and to its end even if the device has gone away meanwhile, which so does not show at the
//! gateway.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use axum::http::{Method, Request, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use sotto_wire::PROBLEM_MEDIA_TYPE;
use sotto_wire::ohttp::{REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE};
use tokio::time::Sleep;

use super::held::HeldBody;
use super::metrics::{Exchange, RelayMetrics};
use super::pools::Waiting;
use crate::health::{Concern, Health};
use crate::outbound::OutboundClient;
use crate::problem::Failure;

/// A gateway and whether the last request reached it.
pub(super) struct Destination {
    operator: String,
    uri: Uri,
    is_failing: AtomicBool,
}

impl Destination {
    pub(super) fn new(operator: String, uri: Uri) -> Self {
        Self { operator, uri, is_failing: AtomicBool::new(false) }
    }
}

/// Sends requests on.
pub(super) struct Forwarder {
    pub(super) client: OutboundClient<HeldBody>,
    pub(super) destinations: Vec<Destination>,
    pub(super) timeout: Duration,
    pub(super) metrics: Arc<RelayMetrics>,
    pub(super) health: Arc<Health>,
}

impl Forwarder {
    /// Sends a request on and gives the answer to who waits for it.
    pub(super) async fn forward(self: Arc<Self>, waiting: Waiting) {
        let Waiting { gateway, body, answer, .. } = waiting;
        let Some(destination) = self.destinations.get(gateway) else { return };
        let outcome = self.exchange(destination, body).await;
        if let Err(Ok(unwanted)) = answer.send(outcome) {
            let rest = async {
                let mut body = unwanted.into_body();
                while let Some(Ok(_)) = body.frame().await {}
            };
            let _ = tokio::time::timeout(self.timeout, rest).await;
        }
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
        match tokio::time::timeout(self.timeout, self.client.request(request)).await {
            Ok(Ok(answer)) if !answer.status().is_informational() => {
                self.note(destination, Exchange::Answered);
                Ok(self.filter(answer))
            }
            Ok(_) => {
                self.note(destination, Exchange::Unreachable);
                let detail = "The gateway could not be reached.";
                Err(Failure::Refused(StatusCode::BAD_GATEWAY, detail.into()))
            }
            Err(_) => {
                self.note(destination, Exchange::Late);
                let detail = "The gateway did not answer in time.";
                Err(Failure::Refused(StatusCode::GATEWAY_TIMEOUT, detail.into()))
            }
        }
    }

    /// Keeps of an answer what a device needs.
    fn filter(&self, answer: hyper::Response<Incoming>) -> Response {
        let (head, incoming) = answer.into_parts();
        let body = AnswerBody { incoming, timeout: self.timeout, late: None };
        let mut response = Response::new(Body::new(body));
        *response.status_mut() = head.status;
        *response.headers_mut() = kept_fields(&head.headers);
        response
    }

    /// Counts an outcome, and tells the operator when a gateway begins or ends to fail.
    fn note(&self, destination: &Destination, outcome: Exchange) {
        self.metrics.exchanged(outcome);
        let is_failing = outcome != Exchange::Answered;
        // Read before it is written: every request comes by here.
        if destination.is_failing.load(Ordering::Relaxed) == is_failing
            || destination.is_failing.swap(is_failing, Ordering::Relaxed) == is_failing
        {
            return;
        }
        let operator = &destination.operator;
        match is_failing {
            true => tracing::warn!(gateway = operator, "a gateway does not answer"),
            false => tracing::info!(gateway = operator, "a gateway answers again"),
        }
        let failing: Vec<_> = self
            .destinations
            .iter()
            .filter(|destination| destination.is_failing.load(Ordering::Relaxed))
            .map(|destination| destination.operator.as_str())
            .collect();
        if failing.is_empty() {
            self.health.clear(Concern::GatewayUnreachable);
        } else {
            self.health.raise(Concern::GatewayUnreachable, failing.join(", "));
        }
    }
}

/// The fields of a gateway's answer that go back to the device, in one spelling each: anything else
/// could be a mark.
fn kept_fields(fields: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    let named = fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    for media_type in [RESPONSE_MEDIA_TYPE, PROBLEM_MEDIA_TYPE] {
        if named.eq_ignore_ascii_case(media_type.as_bytes()) {
            kept.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
    }
    let pause = fields.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    if let Some(pause) = pause {
        kept.insert(RETRY_AFTER, HeaderValue::from(pause));
    }
    kept
}

/// The content of an answer on its way back, without trailers. It breaks off if the gateway leaves it
/// lying; the timer exists only while there is something to wait for.
struct AnswerBody {
    incoming: Incoming,
    timeout: Duration,
    late: Option<Pin<Box<Sleep>>>,
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let timeout = self.timeout;
        match Pin::new(&mut self.incoming).poll_frame(cx) {
            Poll::Ready(frame) => {
                self.late = None;
                let frame = frame.transpose().map_err(io::Error::other);
                Poll::Ready(frame.map(|frame| frame.filter(Frame::is_data)).transpose())
            }
            Poll::Pending => {
                let late = self.late.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
                late.as_mut().poll(cx).map(|()| Some(Err(io::ErrorKind::TimedOut.into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
