//! The attester: knows devices, and passes their token requests to issuers without knowing what for.
//!
//! A device posts to `<base>/token-request?issuer=NAME`. The steps, in this order: who the device is
//! (`sotto_protocol::attester::Attestation`), whether the client key is its own and the request was answered before
//! ([`AttesterDb::stored_answer`]), the checks of the request (`consume_token_request`), the issuer ([`dispatch`]), the alias
//! (`consume_issuer_answer`), one durable transaction for the batch ([`AttesterDb::record`]), the answer.
//!
//! Nothing about a device is written down but what [`AttesterDb`] keeps: no line of the log, no metric and no answer holds
//! an identity, a key, an alias or an address. Each status has one text: which check failed is in the counters only. Two answers
//! say more, by their problem types, because devices act on them: that the token is withheld, which is final, and that the
//! encapsulation key is not the issuer's, which is said only if the request got no answer before and no copy of it is
//! worked on. An attester in trouble says 503.

mod config;
mod directory;
mod dispatch;
mod in_flight;
mod insecure;
mod issuer_client;
mod metrics;
mod request;
mod x509;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use sotto_protocol::Fault;
use sotto_protocol::attester::Attestation;
use sotto_store::AttesterDb;
use sotto_wire::KeyName;
use sotto_wire::token::MAX_TOKEN_BATCH;
use tokio::sync::{Semaphore, mpsc};

pub use self::config::{
    AttesterConfig, AttesterFile, IssuerPeer, IssuerPeerTable, ManufacturerTable, X509Table,
};
use self::directory::Directory;
use self::dispatch::{Dispatcher, Waiting};
use self::in_flight::InFlight;
pub use self::insecure::InsecureAttestation;
use self::issuer_client::{IssuerClient, Troubles};
use self::metrics::AttesterMetrics;
pub use self::x509::{Manufacturer, X509Attestation, X509Config};
use crate::aggregator::{self, base_path};
use crate::error::{BindError, RunError};
use crate::health::{Concern, Health};
use crate::http::BodyReader;
use crate::metrics::MetricsRegistry;
use crate::peer;
use crate::pool::CpuPool;
use crate::problem::Failure;
use crate::service::{self, Sockets, Vitals};
use crate::upkeep;

/// An attester that listens and is not yet serving.
pub struct Attester {
    state: AttesterState,
    dispatchers: Vec<Dispatcher>,
    vitals: Vitals,
    sockets: Sockets,
}

impl Attester {
    /// Checks the configuration and binds the sockets. Issuers are first asked when it runs.
    pub async fn bind(config: AttesterConfig, db: AttesterDb) -> Result<Self, BindError> {
        check(&config)?;
        let Some(operator) = config.operator.clone() else {
            return Err(BindError::Config("an attester needs the name of its operator".into()));
        };
        let registry = Arc::new(MetricsRegistry::new()?);
        let vitals = Vitals {
            health: Arc::default(),
            metrics: Arc::clone(&registry),
            drain_deadline: config.http.drain_deadline,
        };
        let threads = |error| Fault(format!("the CPU threads do not start: {error}"));
        let shared = Arc::new(Shared {
            pool: CpuPool::new(config.cpu_threads, 4 * config.cpu_threads).map_err(threads)?,
            db,
            metrics: AttesterMetrics::new(&registry),
            health: Arc::clone(&vitals.health),
        });
        let (issuers, dispatchers) = issuers(&config, &shared)?;
        let sockets = Sockets::bind(&config.http).await?;
        let state = AttesterState {
            base_path: base_path(&config.http.base_path)?,
            bodies: BodyReader::new(config.http.max_body_memory, config.http.body_timeout),
            operator,
            attestations: config.attestations.into(),
            issuers,
            places: Arc::new(Semaphore::new(config.max_waiting)),
            in_flight: Arc::default(),
            shared,
        };
        Ok(Self { state, dispatchers, vitals, sockets })
    }

    /// Where the attester listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more and finishes requests in flight within the deadline.
    /// To end on the spot, drop the future: what an issuer has answered and is not recorded is asked again.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { state, dispatchers, vitals, sockets } = self;
        let metrics = Arc::clone(&vitals.metrics);
        let desks: Vec<_> =
            state.issuers.values().map(|desk| Arc::clone(&desk.directory)).collect();
        let router = router(Arc::new(state));
        service::serve(vitals, sockets, router, shutdown, |loops| {
            for dispatcher in dispatchers {
                // It ends by itself with the last request: requests in flight are finished.
                loops.spawn("dispatcher", dispatcher.run());
            }
            loops.spawn("directories", directory::keep(desks, loops.shutdown()));
            loops.spawn("metrics", upkeep::fold_metrics(metrics, loops.shutdown()));
        })
        .await
    }
}

impl std::fmt::Debug for Attester {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attester").finish_non_exhaustive()
    }
}

/// Shared by requests and dispatchers.
struct Shared {
    pool: CpuPool,
    db: AttesterDb,
    metrics: AttesterMetrics,
    health: Arc<Health>,
}

/// Shared by all requests.
struct AttesterState {
    base_path: String,
    bodies: BodyReader,
    operator: KeyName,
    attestations: Arc<[Arc<dyn Attestation>]>,
    issuers: HashMap<String, IssuerDesk>,
    /// One for each request that is worked on, until its answer is recorded.
    places: Arc<Semaphore>,
    in_flight: Arc<InFlight>,
    shared: Arc<Shared>,
}

/// An issuer, as requests see it.
struct IssuerDesk {
    name: KeyName,
    directory: Arc<Directory>,
    queue: mpsc::Sender<Waiting>,
}

fn router(state: Arc<AttesterState>) -> Router {
    Router::new()
        .route(&format!("{}/token-request", state.base_path), post(request::token_request))
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(state)
}

fn check(config: &AttesterConfig) -> Result<(), BindError> {
    let wrong = |reason: &str| Err(BindError::Config(reason.to_owned()));
    if config.issuers.is_empty() {
        return wrong("an attester needs at least one issuer");
    }
    if config.attestations.is_empty() {
        return wrong("an attester needs a kind of attestation");
    }
    if config.max_waiting == 0 || config.batches_in_flight == 0 {
        return wrong("an attester must be allowed some requests at once");
    }
    if !(1..=MAX_TOKEN_BATCH).contains(&config.max_batch) {
        let reason =
            format!("max_batch is {}, and 1 to {MAX_TOKEN_BATCH} is allowed", config.max_batch);
        return Err(BindError::Config(reason));
    }
    Ok(())
}

type Issuers = (HashMap<String, IssuerDesk>, Vec<Dispatcher>);

/// The desks of all issuers by name, and who works for them.
fn issuers(config: &AttesterConfig, shared: &Arc<Shared>) -> Result<Issuers, BindError> {
    // Another part of the process may have chosen one.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let http = peer::client(config.issuer_timeout, config.issuer_certificates.as_deref())?;
    let unreachable = Arc::new(Troubles::new(Concern::IssuerUnreachable, &shared.health));
    let refused = Arc::new(Troubles::new(Concern::IssuerRefused, &shared.health));
    let (mut desks, mut dispatchers) = (HashMap::new(), Vec::new());
    for issuer in &config.issuers {
        let name = issuer.name.as_str();
        let wrong = |reason: &str| BindError::Config(format!("the issuer {name}: {reason}"));
        let client = IssuerClient::new(issuer, config, http.clone(), Arc::clone(&unreachable))
            .map_err(wrong)?;
        let client = Arc::new(client);
        let window_s = shared.db.window_s();
        let directory = Directory::new(Arc::clone(&client), window_s, Arc::clone(&refused));
        let (queue, waiting) = mpsc::channel(config.max_waiting);
        let desk = IssuerDesk { name: issuer.name.clone(), directory: Arc::new(directory), queue };
        if desks.insert(name.to_owned(), desk).is_some() {
            return Err(wrong("it is listed twice"));
        }
        dispatchers.push(Dispatcher {
            client,
            issuer: issuer.name.clone(),
            waiting,
            shared: Arc::clone(shared),
            max_batch: config.max_batch,
            batches_in_flight: config.batches_in_flight,
            rng: aggregator::rng()?,
        });
    }
    Ok((desks, dispatchers))
}
