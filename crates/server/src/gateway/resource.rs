//! The Oblivious Gateway Resource (RFC 9458 §3.2): opens a request, has it answered, seals the
//! answer.
//!
//! Until a request has been opened, failures are plain answers, which the relay can read.
//! Afterwards everything is sealed into an answer with status 200 and the length of a size class.
//! Refusals, failures and acknowledgements all fit into the smallest class, so that the relay sees
//! no difference.
//!
//! Anybody can seal requests to a gateway. So undeliverable requests are refused before they are
//! remembered, and a full replay memory does not keep anybody from a server that tolerates replays.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::response::Response;
use axum::routing::get;
use sotto_protocol::Fault;
use sotto_protocol::gateway::{
    InnerRefusal, Opened, OuterRefusal, ReplayWindow, Responder, consume_request,
};
use sotto_wire::ohttp::{KEYS_MEDIA_TYPE, REQUEST_MEDIA_TYPE};
use sotto_wire::size_class::SizeClass;

use super::GatewayConfig;
use super::answer::{Answer, MAX_CONTENT, SMALL, sealed};
use super::content::{Content, Held, request_body};
use super::destination::{Destination, Undeliverable};
use super::metrics::{GatewayMetrics, Outcome};
use crate::environment::Environment;
use crate::error::BindError;
use crate::http::{BodyReader, Budget, Share, content, expect_type};
use crate::metrics::MetricsRegistry;
use crate::problem::Failure;
use crate::rotating::GatewayKeys;
use crate::service::Server;

/// Where other clients find a gateway (RFC 9540).
const WELL_KNOWN: &str = "/.well-known/ohttp-gateway";

/// The resource, with everything that its requests share.
pub(crate) struct GatewayResource {
    keys: Arc<GatewayKeys>,
    window: Mutex<ReplayWindow>,
    bodies: BodyReader,
    max_request: usize,
    destination: Destination,
    metrics: GatewayMetrics,
    environment: Environment,
}

impl GatewayResource {
    /// A gateway to this destination. `max_request` is the longest sealed request that makes sense
    /// there, in bytes. Requests and answers share `memory`; a body may take `body_timeout` to
    /// arrive.
    pub(crate) fn new(
        config: GatewayConfig,
        destination: Destination,
        max_request: usize,
        memory: Budget,
        body_timeout: Duration,
        server: &Server,
    ) -> Result<Arc<Self>, BindError> {
        let window_s = config.limits.window.as_secs();
        if window_s < ReplayWindow::MIN_WINDOW_S {
            return Err(BindError::Config(format!(
                "the window of a gateway must be at least {} seconds: dates are rounded down to ten \
                 minutes, and relays hold requests",
                ReplayWindow::MIN_WINDOW_S
            )));
        }
        let hash_key = server.environment.secret()?;
        let window = ReplayWindow::new(window_s, config.limits.max_remembered, **hash_key);
        Ok(Arc::new(Self {
            keys: config.keys,
            window: Mutex::new(window),
            bodies: BodyReader::new(memory, body_timeout),
            max_request: max_request.min(SizeClass::MAX_REQUEST.bytes()),
            destination,
            metrics: GatewayMetrics::new(&server.metrics),
            environment: server.environment.clone(),
        }))
    }

    /// Its routes, at both of its paths.
    pub(crate) fn router<S>(
        self: Arc<Self>,
        base_path: &str,
        metrics: &MetricsRegistry,
    ) -> Router<S> {
        let methods =
            get(metrics.measured("gateway_keys", keys)).post(metrics.measured("gateway", post));
        Router::new()
            .route(&format!("{base_path}/gateway"), methods.clone())
            .route(WELL_KNOWN, methods)
            .with_state(self)
    }

    async fn exchange(&self, request: Request) -> Result<Response, Failure> {
        let opened = self.open(request).await.map_err(|failed| self.count(failed))?;
        let OpenedRequest { opened, message: message_share, answer: share } = opened;
        let admitted = self.admit(&opened);
        let (message, responder) = opened.into_parts();
        // The server gets a part of the message, not a copy of it. The share lasts as long.
        let message = Held { message, _share: message_share };
        let served = match admitted {
            Ok((request, outcome)) => {
                let request = request.map(|content| request_body(message, content));
                self.serve(request).await.map(|answer| (answer, outcome))
            }
            Err(failed) => {
                drop(message);
                Err(failed)
            }
        };
        let answer = match served {
            Ok((answer, outcome)) => {
                self.metrics.count(outcome);
                answer
            }
            Err(failed) => Answer::refusal(self.count(failed)).await,
        };
        Ok(self.seal(responder, share, answer).await?)
    }

    /// Reads and opens a request. Both forms of it are held only while it is opened, which waits
    /// for nothing: afterwards the opened one is left.
    async fn open(&self, request: Request) -> Result<OpenedRequest, Failed> {
        let unread = |failure| (Outcome::Unread, failure);
        let (head, body) = request.into_parts();
        expect_type(&head.headers, REQUEST_MEDIA_TYPE).map_err(unread)?;
        let body = self.bodies.read(body, self.max_request).await.map_err(unread)?;
        let message = self.bodies.reserve(body.bytes().len()).map_err(unread)?;
        let answer = self.bodies.reserve(2 * SMALL).map_err(unread)?;
        let keys = self.keys.current();
        match consume_request(&keys, body.bytes()) {
            Ok(opened) => Ok(OpenedRequest { opened, message, answer }),
            Err(refusal) => {
                let outcome = match refusal {
                    OuterRefusal::UnknownKey => Outcome::UnknownKey,
                    OuterRefusal::Malformed => Outcome::Unopened,
                };
                Err((outcome, Failure::Unopened(refusal)))
            }
        }
    }

    /// Accepts a deliverable request once, within its window. Also returns the outcome to count
    /// when it is answered.
    fn admit(&self, opened: &Opened) -> Result<(Request<Content>, Outcome), Failed> {
        let now = self.environment.now();
        let refused = |refusal| {
            let outcome = match refusal {
                InnerRefusal::Malformed => Outcome::Malformed,
                InnerRefusal::Date => Outcome::Date,
                InnerRefusal::Replayed => Outcome::Replayed,
                InnerRefusal::Full => Outcome::Full,
            };
            (outcome, Failure::NotAdmitted(refusal, now))
        };
        let inner = opened.decode().map_err(refused)?;
        let request = self.destination.address(&inner).map_err(|reason| match reason {
            Undeliverable::Malformed => refused(InnerRefusal::Malformed),
            Undeliverable::Misdirected => {
                let detail = "The server that the request is for is not behind this gateway.";
                let failure = Failure::refused(StatusCode::MISDIRECTED_REQUEST, detail);
                (Outcome::Misdirected, failure)
            }
        })?;
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let admitted = window.admit(opened, &inner, now);
        drop(window);
        let outcome = match admitted {
            Ok(()) => Outcome::Answered,
            Err(InnerRefusal::Full) if self.destination.bears_replays() => Outcome::Unremembered,
            Err(refusal) => return Err(refused(refusal)),
        };
        let content = Content::of(inner.content, opened.message());
        Ok((request.map(|()| content), outcome))
    }

    /// Has the server answer a request.
    async fn serve(&self, request: Request) -> Result<Answer, Failed> {
        let unanswered = |failure| (Outcome::Unanswered, failure);
        // Before the server does anything that its answer would have to report.
        let share = self.bodies.reserve(SMALL).map_err(unanswered)?;
        let response = self.destination.deliver(request).await.map_err(unanswered)?;
        let (head, body) = response.into_parts();
        let content = self.bodies.read_with(share, body, MAX_CONTENT).await;
        let content = content.map_err(|failure| match failure {
            Failure::OutOfMemory => unanswered(failure),
            _ => unanswered(unusable_answer()),
        })?;
        Ok(Answer { status: head.status, headers: head.headers, content })
    }

    /// Seals an answer. If there is no memory for it, an out-of-memory error is sent instead.
    async fn seal(
        &self,
        responder: Responder,
        mut share: Share,
        mut answer: Answer,
    ) -> Result<Response, Fault> {
        let fits = match answer.class() {
            Some(class) => self.bodies.grow(&mut share, 2 * class.bytes()),
            None => Err(unusable_answer()),
        };
        if let Err(failure) = fits {
            answer = Answer::refusal(failure).await;
        }
        let bytes = responder.respond(&answer.response(), &mut self.environment.rng()?)?;
        drop(answer);
        share.shrink(bytes.len());
        Ok(sealed(bytes, share))
    }

    fn count(&self, (outcome, failure): Failed) -> Failure {
        self.metrics.count(outcome);
        failure
    }
}

/// A request that was opened, with its shares of the memory.
struct OpenedRequest {
    opened: Opened,
    /// Covers the message.
    message: Share,
    /// Covers a small answer, padded and sealed.
    answer: Share,
}

/// The outcome of a request, and the failure to send.
type Failed = (Outcome, Failure);

/// `POST`: an encapsulated request.
async fn post(
    State(gateway): State<Arc<GatewayResource>>,
    request: Request,
) -> Result<Response, Failure> {
    gateway.exchange(request).await
}

/// `GET`: the keys, for other clients. Our devices take keys only from the public log.
async fn keys(State(gateway): State<Arc<GatewayResource>>) -> Response {
    let mut response = content(KEYS_MEDIA_TYPE, gateway.keys.current().key_list());
    // They may be replaced at any time.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn unusable_answer() -> Failure {
    let detail = "The answer of the server is too long, or broke off.";
    Failure::refused(StatusCode::BAD_GATEWAY, detail)
}
