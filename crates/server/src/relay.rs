//! The relay (RFC 9458 §6.2): passes encapsulated requests on to gateways, and tells nobody where
//! they come from.
//!
//! A device posts to `<base>/<operator of the gateway>`. The request is read to its end ([`held`]),
//! waits in a pool for others of its size ([`pools`]) and is forwarded ([`forward`]). The answer is
//! also read to its end before the device gets it. Requests can only name gateways that the
//! operator of the relay lists, so no recipe can direct traffic anywhere else. Only the listener
//! and [`sources`] see an address. No address is written down, used in a metric or passed on.

mod clock;
mod config;
mod forward;
mod held;
mod metrics;
mod pools;
mod sources;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::post;
use sotto_protocol::Fault;
use sotto_protocol::relay::PoolRule;
use sotto_protocol::sources::SourceTag;
use sotto_wire::ohttp::REQUEST_MEDIA_TYPE;
use sotto_wire::size_class::SizeClass;
use tokio::sync::{mpsc, oneshot};

use self::clock::Clock;
pub use self::config::{
    PoolTable, RelayConfig, RelayFile, RelayGateway, RelayGatewayTable, SourceRule,
};
use self::forward::{Destination, Forwarder};
use self::held::Intake;
use self::metrics::RelayMetrics;
use self::pools::{Pools, Waiting};
use self::sources::Sources;
use crate::config::HttpConfig;
use crate::environment::Environment;
use crate::error::BindError;
use crate::http::expect_type;
use crate::listener::PeerIp;
use crate::outbound::{self, Reach};
use crate::problem::Failure;
use crate::service::{Role, Server};

/// Requests on their way into a pool. Few are enough: a pool takes them at once.
const INBOX: usize = 256;

/// The relay, for [`Server::bind`].
#[derive(Debug)]
pub struct Relay {
    /// What its operator decides.
    pub config: RelayConfig,
}

impl Relay {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(config: RelayConfig) -> Result<Server, BindError> {
        Server::bind(Self { config }, Environment::default()).await
    }
}

impl Role for Relay {
    fn http(&self) -> &HttpConfig {
        &self.config.http
    }

    /// When the server drains, waiting requests are forwarded at once and new ones are refused.
    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config } = self;
        let (gateways, rules, destinations) = gateways(&config)?;
        let metrics = Arc::new(RelayMetrics::new(&server.metrics));
        let (clock, environment) = (Clock::start(), server.environment.clone());
        let (inbox_sender, inbox) = mpsc::channel(INBOX);
        let certificates = config.gateway_certificates.as_deref();
        let forwarder = Arc::new(Forwarder {
            client: outbound::client(Reach::Anywhere, config.gateway_timeout, certificates)?,
            destinations,
            answers: Intake::new(
                &config,
                server.memory.half(),
                SizeClass::MAX_RESPONSE,
                config.gateway_timeout,
            )?,
            timeout: config.gateway_timeout,
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&server.health),
        });
        let pools =
            Pools::new(rules, inbox, forwarder, Arc::clone(&metrics), clock, environment.rng()?);
        server.add_loop("pools", |shutdown| pools.run(shutdown));
        let mut sources = None;
        if let Some(rule) = config.source_limit {
            server.listener.show_sources();
            let counted = Arc::new(Sources::new(rule, clock, environment.rng()?));
            sources = Some(Arc::clone(&counted));
            server.add_loop("sources", |shutdown| counted.forget(shutdown));
        } else {
            server.listener.limit_no_source();
        }
        let state = RelayState {
            gateways,
            intake: Intake::new(
                &config,
                server.memory.half(),
                SizeClass::MAX_REQUEST,
                config.http.body_timeout,
            )?,
            sources,
            inbox: inbox_sender,
            metrics,
        };
        Ok(Router::new()
            .route(
                &format!("{}/{{gateway}}", server.base_path),
                post(server.metrics.measured("relay", relay)),
            )
            .with_state(Arc::new(state)))
    }
}

/// Shared by all requests.
struct RelayState {
    /// The index of each operator's gateway in the list.
    gateways: HashMap<String, usize>,
    intake: Intake,
    sources: Option<Arc<Sources>>,
    inbox: mpsc::Sender<Waiting>,
    metrics: Arc<RelayMetrics>,
}

/// `POST` of an encapsulated request for a gateway.
async fn relay(
    State(state): State<Arc<RelayState>>,
    gateway: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Failure> {
    let gateway = gateway.ok().and_then(|Path(name)| state.gateways.get(&name).copied());
    let gateway = gateway.ok_or(Failure::NotFound)?;
    let (source, body) = {
        let (head, body) = request.into_parts();
        let source = state.sources.as_deref().map(|sources| admit(&state, sources, &head));
        let source = source.transpose()?;
        expect_type(&head.headers, REQUEST_MEDIA_TYPE)?;
        // From here on, everything the device said about itself is gone.
        (source, body)
    };
    let body = state.intake.receive(body).await?;
    if body.is_spooled() {
        state.metrics.spooled.increment(1);
    }
    let (answer, answered) = oneshot::channel();
    let ending = || Failure::unavailable("The relay is shutting down.");
    let waiting = Waiting { gateway, source, body, answer };
    state.inbox.send(waiting).await.map_err(|_| ending())?;
    answered.await.unwrap_or_else(|_| Err(ending()))
}

/// Counts a request, if its source may send it, and returns the source's tag.
fn admit(state: &RelayState, sources: &Sources, head: &Parts) -> Result<SourceTag, Failure> {
    let source = head.extensions.get::<PeerIp>().copied();
    let source = source.ok_or_else(|| Fault("a connection has no peer".into()))?;
    sources.admit(source).ok_or_else(|| {
        state.metrics.limited.increment(1);
        Failure::TooMany("Too many requests from one source.", sources.window())
    })
}

type Gateways = (HashMap<String, usize>, Vec<PoolRule>, Vec<Destination>);

/// The gateways by name, and what the relay knows about each.
fn gateways(config: &RelayConfig) -> Result<Gateways, BindError> {
    if config.gateways.is_empty() {
        return Err(BindError::Config("a relay needs at least one gateway".into()));
    }
    let mut gateways = (HashMap::new(), Vec::new(), Vec::new());
    for (index, gateway) in config.gateways.iter().enumerate() {
        let operator = gateway.operator.as_str();
        let wrong =
            |reason: String| BindError::Config(format!("the gateway of {operator}: {reason}"));
        let rule = gateway.pool.unwrap_or(config.pool);
        if rule.wait_ms > PoolRule::MAX_WAIT_MS {
            let reason = format!(
                "wait_ms is {}, but at most {} is allowed: gateways remember requests only for a while",
                rule.wait_ms,
                PoolRule::MAX_WAIT_MS
            );
            return Err(wrong(reason));
        }
        let url = outbound::target(&gateway.url, config.http.insecure_http).map_err(wrong)?;
        let uri = url.as_str().parse().map_err(|_| wrong("its URL does not parse".into()))?;
        let (names, rules, destinations) = &mut gateways;
        if names.insert(operator.to_owned(), index).is_some() {
            return Err(wrong("it is listed twice".into()));
        }
        rules.push(rule);
        destinations.push(Destination::new(operator.to_owned(), uri));
    }
    Ok(gateways)
}
