//! The life of a server: sockets, loops, drain.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::Response;
use tokio::task::JoinSet;

use crate::admin::{self, Admin};
use crate::config::HttpConfig;
use crate::error::{BindError, RunError};
use crate::health::{Concern, Health};
use crate::listener::Listener;
use crate::metrics::{MetricsRegistry, RouteMetrics};
use crate::problem::Failure;
use crate::shutdown::{self, Shutdown};

/// How long the operator's requests may take at the very end.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// What every server shows its operator, and how long it drains.
#[derive(Clone)]
pub(crate) struct Vitals {
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<MetricsRegistry>,
    pub(crate) drain_deadline: Duration,
}

/// The bound sockets of a server.
pub(crate) struct Sockets {
    pub(crate) main: Listener,
    pub(crate) admin: Option<Listener>,
}

impl Sockets {
    pub(crate) async fn bind(config: &HttpConfig) -> Result<Self, BindError> {
        let limits = &config.connections;
        let tls = config.tls.as_ref();
        let main = Listener::bind(config.listen, tls, config.insecure_http, limits.clone()).await?;
        let admin = match config.admin_listen {
            // Counts and reasons only, but nothing that others should read on the way.
            Some(address) if !config.insecure_http && !address.ip().is_loopback() => {
                return Err(BindError::PlainAdmin { address });
            }
            Some(address) => Some(Listener::bind(address, None, true, limits.clone()).await?),
            None => None,
        };
        Ok(Self { main, admin })
    }

    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Listener::address)
    }
}

/// The loops that a server runs beside its listeners. Each ends when the shutdown begins.
pub(crate) struct Loops {
    set: JoinSet<&'static str>,
    shutdown: Shutdown,
}

impl Loops {
    pub(crate) fn shutdown(&self) -> Shutdown {
        self.shutdown.clone()
    }

    pub(crate) fn spawn<F>(&mut self, name: &'static str, body: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.set.spawn(async move {
            body.await;
            name
        });
    }
}

/// Serves until `stop` resolves, then drains: no new connections, requests in flight finish within
/// the deadline, loops end at once. Dropping the future ends everything on the spot.
pub(crate) async fn serve(
    vitals: Vitals,
    sockets: Sockets,
    router: Router,
    stop: impl Future<Output = ()>,
    start_loops: impl FnOnce(&mut Loops),
) -> Result<(), RunError> {
    let (trigger, signal) = shutdown::channel();
    let (admin_trigger, admin_signal) = shutdown::channel();
    let drain = vitals.drain_deadline;
    let mut loops = Loops { set: JoinSet::new(), shutdown: signal.clone() };
    start_loops(&mut loops);

    // The operator can still ask while the server drains.
    let mut admin = JoinSet::new();
    if let Some(listener) = sockets.admin {
        let (health, metrics) = (Arc::clone(&vitals.health), Arc::clone(&vitals.metrics));
        let router = admin::router(Admin { health, metrics });
        admin.spawn(listener.serve(router, admin_signal, ADMIN_DRAIN));
    }
    let mut main = JoinSet::new();
    main.spawn(sockets.main.serve(router, signal, drain));

    let result = tokio::select! {
        () = stop => Ok(()),
        failed = first_failure(&mut loops.set) => Err(failed),
    };
    vitals.health.raise(Concern::Draining, "the server is ending");
    trigger.begin();
    while main.join_next().await.is_some() {}
    let ended = async { while loops.set.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(drain, ended).await;
    loops.set.shutdown().await;
    admin_trigger.begin();
    while admin.join_next().await.is_some() {}
    result
}

/// Resolves when a loop ends although nobody asked it to.
async fn first_failure(loops: &mut JoinSet<&'static str>) -> RunError {
    match loops.join_next().await {
        Some(Ok(name)) => RunError::Ended(name),
        Some(Err(_)) => RunError::Panicked,
        None => std::future::pending().await,
    }
}

/// Turns a handler's outcome into an answer and measures it.
pub(crate) async fn answer(
    metrics: &RouteMetrics,
    handler: impl Future<Output = Result<Response, Failure>>,
) -> Response {
    let start = Instant::now();
    let response = handler.await.unwrap_or_else(Failure::into_response);
    metrics.observe(response.status().as_u16(), start.elapsed().as_secs_f64());
    response
}
