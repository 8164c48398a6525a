//! What all roles share: sockets, the operator's listener, loops, drain.
//!
//! A role checks its configuration, returns its routes and adds its loops ([`Role::open`]).
//! Everything else about a server is here.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinSet;

use crate::admin::{self, Admin};
use crate::config::HttpConfig;
use crate::environment::{Environment, timeout};
use crate::error::{BindError, RunError};
use crate::health::{Concern, Health};
use crate::listener::{Certificates, Listener, SourceGate};
use crate::memory::Memory;
use crate::metrics::{MetricsRegistry, table};
use crate::problem::Failure;
use crate::shutdown::{self, Shutdown};
use crate::tasks::TaskRegistry;
use crate::vitals::Vitals;

/// How long the operator's requests may take after everything else has ended.
const ADMIN_DRAIN: Duration = Duration::from_secs(1);

/// How often samples of metrics are folded together.
const FOLD_PAUSE: Duration = Duration::from_secs(5);

/// What is specific to one kind of server.
pub trait Role: Sized {
    /// Where it listens, and how long it drains.
    fn http(&self) -> &HttpConfig;

    /// Checks the configuration and loads what is stored. Returns the routes and adds the loops.
    /// The sockets are already bound, but nobody is served yet.
    fn open(self, server: &mut Server) -> impl Future<Output = Result<Router, BindError>> + Send;
}

/// A server of any role that is bound but not yet serving.
pub struct Server {
    pub(crate) environment: Environment,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<MetricsRegistry>,
    /// The path under which all resources are: empty, or with a leading slash and no trailing one.
    pub(crate) base_path: String,
    /// Those of an aggregator.
    pub(crate) tasks: Option<Arc<TaskRegistry>>,
    pub(crate) listener: Listener,
    pub(crate) memory: Memory,
    admin_listener: Option<Listener>,
    drain_deadline: Duration,
    vitals: Vitals,
    loops: Vec<(&'static str, LoopStart)>,
    router: Router,
}

/// Starts a loop, which ends when the shutdown begins.
type LoopStart = Box<dyn FnOnce(Shutdown) -> LoopBody + Send>;
type LoopBody = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Server {
    /// Checks the configuration of a role and binds its sockets.
    pub async fn bind(role: impl Role, environment: Environment) -> Result<Self, BindError> {
        // Another part of the process may have installed a provider; we pass ours explicitly.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut server = Self::listen(role.http(), environment).await?;
        let router = role.open(&mut server).await?;
        server.router = with_fallbacks(router);
        Ok(server)
    }

    async fn listen(http: &HttpConfig, environment: Environment) -> Result<Self, BindError> {
        let HttpConfig { listen, insecure_http, connections, .. } = http;
        let base_path = base_path(&http.base_path)?;
        let tls = http.tls.as_ref();
        let metrics = Arc::new(MetricsRegistry::new()?);
        let memory = Memory::new(http.max_memory, &metrics);
        let mut listener = Listener::bind(*listen, tls, *insecure_http, http).await?;
        let refused = metrics.counter(&table::CONNECTIONS_REFUSED);
        let rule = connections.rule();
        listener.limit_sources(SourceGate::new(rule, &mut environment.rng()?, refused));
        let admin_listener = match http.admin_listen {
            // Counts and reasons only, but others on the network should not read them.
            Some(address) if !*insecure_http && !address.ip().is_loopback() => {
                return Err(BindError::PlainAdmin { address });
            }
            Some(address) => Some(Listener::bind(address, None, true, http).await?),
            None => None,
        };
        let vitals =
            Vitals::new(http.data_dir.clone(), listener.certificates(), &environment, &metrics);
        Ok(Self {
            environment,
            health: Arc::default(),
            metrics,
            base_path,
            tasks: None,
            listener,
            memory,
            admin_listener,
            drain_deadline: http.drain_deadline,
            vitals,
            loops: Vec::new(),
            router: Router::new(),
        })
    }

    /// Where the server listens, with the port that the operating system chose for port 0.
    pub fn addr(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin_listener.as_ref().map(Listener::address)
    }

    /// The certificate, if the server speaks TLS. It can be renewed at any time.
    pub fn certificates(&self) -> Option<Arc<Certificates>> {
        self.listener.certificates()
    }

    /// The tasks of a leader or helper; more can be added at any time. None for other roles.
    pub fn tasks(&self) -> Option<Arc<TaskRegistry>> {
        self.tasks.clone()
    }

    /// Adds a loop that runs along with the listeners and ends when the shutdown begins.
    pub(crate) fn add_loop<F>(
        &mut self,
        name: &'static str,
        start: impl FnOnce(Shutdown) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.push((name, Box::new(|shutdown| Box::pin(start(shutdown)))));
    }

    /// Serves until `stop` resolves, then drains: accepts no more connections, finishes requests in
    /// flight within the deadline, ends loops at once. To stop immediately, drop the future.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), RunError> {
        let admin = Admin {
            started: self.environment.now(),
            listen: self.addr(),
            certificates: self.certificates(),
            tasks: self.tasks(),
            health: Arc::clone(&self.health),
            metrics: Arc::clone(&self.metrics),
            memory: self.memory.clone(),
        };
        let Self { health, metrics, listener, admin_listener, router, .. } = self;
        let drain = self.drain_deadline;
        let (trigger, signal) = shutdown::channel();
        let (admin_trigger, admin_signal) = shutdown::channel();
        let mut loops = JoinSet::new();
        for (name, start) in self.loops {
            let body = start(signal.clone());
            loops.spawn(async move {
                body.await;
                name
            });
        }
        let folding = fold_metrics(metrics, self.vitals, self.memory, signal.clone());
        loops.spawn(async move {
            folding.await;
            "metrics"
        });

        // The operator can still send requests while the server drains.
        let mut admin_requests = JoinSet::new();
        if let Some(listener) = admin_listener {
            admin_requests.spawn(listener.serve(admin::router(admin), admin_signal, ADMIN_DRAIN));
        }
        let mut main = JoinSet::new();
        main.spawn(listener.serve(router, signal, drain));

        let result = tokio::select! {
            () = stop => Ok(()),
            failed = first_failure(&mut loops) => Err(failed),
        };
        health.raise(Concern::Draining, "the server is shutting down");
        trigger.begin();
        while main.join_next().await.is_some() {}
        let ended = async { while loops.join_next().await.is_some() {} };
        let _ = timeout(drain, ended).await;
        loops.shutdown().await;
        admin_trigger.begin();
        while admin_requests.join_next().await.is_some() {}
        result
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("addr", &self.addr()).finish_non_exhaustive()
    }
}

/// Adds the answers to requests for which there is no route.
pub(crate) fn with_fallbacks<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router
        .fallback(async || Failure::NotFound)
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed)
}

/// A base path begins with a slash and does not end with one. It may be empty.
fn base_path(configured: &str) -> Result<String, BindError> {
    let path = configured.trim_end_matches('/');
    let fine = path.is_empty() || path.starts_with('/');
    let literal = path.bytes().all(|byte| byte.is_ascii_graphic() && !b"{}*?#%".contains(&byte));
    if fine && literal {
        Ok(path.to_owned())
    } else {
        Err(BindError::Config(format!("the base path {configured:?} is not a path of a URL")))
    }
}

/// Resolves when a loop ends although the server was not told to stop.
async fn first_failure(loops: &mut JoinSet<&'static str>) -> RunError {
    match loops.join_next().await {
        Some(Ok(name)) => RunError::Ended(name),
        Some(Err(_)) => RunError::Panicked,
        None => std::future::pending().await,
    }
}

/// Folds samples of histograms together, which would otherwise pile up until the next scrape, and
/// measures the process.
async fn fold_metrics(
    metrics: Arc<MetricsRegistry>,
    vitals: Vitals,
    memory: Memory,
    mut shutdown: Shutdown,
) {
    loop {
        metrics.upkeep();
        vitals.measure();
        memory.report();
        if shutdown.begins_within(FOLD_PAUSE).await {
            return;
        }
    }
}
