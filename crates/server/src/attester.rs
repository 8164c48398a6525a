//! The attester: knows devices, and passes on their token requests without learning what they are
//! for.
//!
//! A device posts to `<base>/token-request?issuer=NAME`. The steps, in this order: identify the
//! device (`sotto_protocol::attester::Attestation`); check that the client key belongs to it and
//! whether the request was answered before ([`AttesterDb::stored_answer`]); check the request
//! (`consume_token_request`); ask the issuer ([`dispatch`]); check the alias
//! (`consume_issuer_answer`); record the batch in one durable transaction ([`AttesterDb::record`]);
//! answer.
//!
//! Nothing about a device is written down except what [`AttesterDb`] keeps: no log line, metric or
//! answer contains an identity, a key, an alias or an address. Each status has one text; only the
//! counters tell which check failed. Two answers say more, by their problem types, because devices
//! act on them: that the token is withheld, which is final, and that the encapsulation key is not
//! the issuer's. The latter is sent only if the request has not been answered before and no copy of
//! it is in progress. An attester that fails answers 503.

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
use self::dispatch::{Dispatcher, Exchange, Waiting};
use self::in_flight::InFlight;
pub use self::insecure::InsecureAttestation;
use self::issuer_client::{Failures, IssuerClient};
use self::metrics::AttesterMetrics;
pub use self::x509::{Manufacturer, Purpose, X509Attestation, X509Config};
use crate::config::HttpConfig;
use crate::environment::Environment;
use crate::error::BindError;
use crate::health::{Concern, Health};
use crate::http::BodyReader;
use crate::outbound::HttpClient;
use crate::pool::CpuPool;
use crate::service::{Role, Server};

/// The attester, for [`Server::bind`].
pub struct Attester {
    /// What its operator decides.
    pub config: AttesterConfig,
    /// What it knows of devices.
    pub db: AttesterDb,
}

impl Attester {
    /// Checks the configuration and binds the sockets. Issuers are contacted only once it runs.
    pub async fn bind(config: AttesterConfig, db: AttesterDb) -> Result<Server, BindError> {
        Server::bind(Self { config, db }, Environment::default()).await
    }
}

impl Role for Attester {
    fn http(&self) -> &HttpConfig {
        &self.config.http
    }

    /// If the server is killed, tokens that an issuer has signed but that are not recorded are
    /// requested again.
    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config, db } = self;
        check(&config)?;
        let Some(operator) = config.operator.clone() else {
            return Err(BindError::Config("an attester needs the name of its operator".into()));
        };
        let threads = |error| Fault(format!("cannot start the CPU threads: {error}"));
        let shared = Arc::new(Shared {
            environment: server.environment.clone(),
            pool: CpuPool::new(config.cpu_threads, 4 * config.cpu_threads).map_err(threads)?,
            db,
            metrics: AttesterMetrics::new(&server.metrics),
            health: Arc::clone(&server.health),
        });
        let (issuers, dispatchers) = issuers(&config, &shared)?;
        for dispatcher in dispatchers {
            // It ends by itself with the last request, so that requests in flight are finished.
            server.add_loop("dispatcher", |_| dispatcher.run());
        }
        let directories: Vec<_> =
            issuers.values().map(|issuer| Arc::clone(&issuer.directory)).collect();
        server.add_loop("directories", |shutdown| directory::keep(directories, shutdown));
        let state = AttesterState {
            bodies: BodyReader::new(server.memory.all(), config.http.body_timeout),
            operator,
            attestations: config.attestations.into(),
            issuers,
            places: Arc::new(Semaphore::new(config.max_waiting)),
            in_flight: Arc::default(),
            shared,
        };
        let handler = server.metrics.measured("token_request", request::token_request);
        Ok(Router::new()
            .route(&format!("{}/token-request", server.base_path), post(handler))
            .with_state(Arc::new(state)))
    }
}

/// Shared by requests and dispatchers.
struct Shared {
    environment: Environment,
    pool: CpuPool,
    db: AttesterDb,
    metrics: AttesterMetrics,
    health: Arc<Health>,
}

/// Shared by all requests.
struct AttesterState {
    bodies: BodyReader,
    operator: KeyName,
    attestations: Arc<[Arc<dyn Attestation>]>,
    issuers: HashMap<String, IssuerHandle>,
    /// One permit for each request in progress, until its answer is recorded.
    places: Arc<Semaphore>,
    in_flight: Arc<InFlight>,
    shared: Arc<Shared>,
}

/// An issuer, as requests see it.
struct IssuerHandle {
    name: KeyName,
    directory: Arc<Directory>,
    queue: mpsc::Sender<Waiting>,
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
        return wrong("max_waiting and batches_in_flight must be at least 1");
    }
    if !(1..=MAX_TOKEN_BATCH).contains(&config.max_batch) {
        let reason =
            format!("max_batch is {}, but must be 1 to {MAX_TOKEN_BATCH}", config.max_batch);
        return Err(BindError::Config(reason));
    }
    Ok(())
}

type Issuers = (HashMap<String, IssuerHandle>, Vec<Dispatcher>);

/// The handles of all issuers by name, and their dispatchers.
fn issuers(config: &AttesterConfig, shared: &Arc<Shared>) -> Result<Issuers, BindError> {
    let http = HttpClient::new(config.issuer_timeout, config.issuer_certificates.as_deref())?;
    let unreachable = Arc::new(Failures::new(Concern::IssuerUnreachable, &shared.health));
    let refused = Arc::new(Failures::new(Concern::IssuerRefused, &shared.health));
    let (mut handles, mut dispatchers) = (HashMap::new(), Vec::new());
    for issuer in &config.issuers {
        let name = issuer.name.as_str();
        let wrong = |reason: String| BindError::Config(format!("the issuer {name}: {reason}"));
        let client = IssuerClient::new(issuer, config, http.clone(), Arc::clone(&unreachable))
            .map_err(wrong)?;
        let client = Arc::new(client);
        let window_s = shared.db.window_s();
        let directory = Directory::new(Arc::clone(&client), window_s, Arc::clone(&refused));
        let (queue, waiting) = mpsc::channel(config.max_waiting);
        let handle =
            IssuerHandle { name: issuer.name.clone(), directory: Arc::new(directory), queue };
        if handles.insert(name.to_owned(), handle).is_some() {
            return Err(wrong("it is listed twice".into()));
        }
        let (issuer, shared) = (issuer.name.clone(), Arc::clone(shared));
        dispatchers.push(Dispatcher {
            rng: shared.environment.rng()?,
            exchange: Arc::new(Exchange { client, issuer, shared }),
            waiting,
            max_batch: config.max_batch,
            batches_in_flight: config.batches_in_flight,
        });
    }
    Ok((handles, dispatchers))
}
