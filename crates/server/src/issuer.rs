//! The issuer as a server: signs blinded tokens for its attester and makes token keys for authors.
//!
//! `POST token-request` answers one request as in the specification, `POST token-requests` answers
//! a batch ([`requests`]). Both are for the one attester. `POST token-keys` is for listed authors
//! ([`token_keys`]), and the directory is public.
//!
//! The name of an origin is read in `sotto_protocol::issuer` and stays there: no log line, metric,
//! error or answer contains one. The number of tokens per origin is counted nowhere.

mod config;
mod directory;
mod metrics;
mod requests;
mod table;
mod token_keys;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use sotto_protocol::Fault;
use sotto_store::IssuerDb;
use sotto_wire::KeyType;
use tokio::sync::Semaphore;

pub use self::config::{
    IssuerAttester, IssuerAttesterTable, IssuerConfig, IssuerFile, IssuerRules,
};
use self::metrics::IssuerMetrics;
use self::table::Keys;
use self::token_keys::KeyService;
use crate::config::HttpConfig;
use crate::environment::Environment;
use crate::error::BindError;
use crate::health::Health;
use crate::http::BodyReader;
use crate::pool::CpuPool;
use crate::rotating::{EncapsulationKeys, Rotating};
use crate::service::{Role, Server};

/// The issuer, for [`Server::bind`].
pub struct Issuer {
    /// What its operator decides.
    pub config: IssuerConfig,
    /// Where the token keys are kept.
    pub db: IssuerDb,
}

impl Issuer {
    /// Checks the configuration, loads the keys and binds the sockets.
    pub async fn bind(config: IssuerConfig, db: IssuerDb) -> Result<Server, BindError> {
        Server::bind(Self { config, db }, Environment::default()).await
    }
}

impl Role for Issuer {
    fn http(&self) -> &HttpConfig {
        &self.config.http
    }

    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config, db } = self;
        check(&config)?;
        let stored = db.load().map_err(|error| Fault(error.to_string()))?;
        let rules = config.rules;
        let pool = CpuPool::new(rules.cpu_threads, 4 * rules.cpu_threads)
            .map_err(|error| Fault(error.to_string()))?;
        let state = Arc::new(IssuerState {
            environment: server.environment.clone(),
            base_path: server.base_path.clone(),
            bodies: BodyReader::new(server.memory.all(), config.http.body_timeout),
            batches: Semaphore::new(rules.max_batches.max(1)),
            cpu_threads: rules.cpu_threads.max(1),
            table: Rotating::holding(Keys::new(stored)),
            metrics: IssuerMetrics::new(&server.metrics),
            health: Arc::clone(&server.health),
            encapsulation_keys: config.encapsulation_keys,
            attester: config.attester,
            key_service: KeyService::new(db, config.operator, rules),
            pool,
        });
        let expiring = Arc::clone(&state);
        server.add_loop("expiry", |shutdown| token_keys::delete_expired(expiring, shutdown));
        let (base, metrics) = (&server.base_path, &server.metrics);
        let one = post(metrics.measured("token_request", requests::post_one));
        let batch = post(metrics.measured("token_requests", requests::post_batch));
        let keys = post(metrics.measured("token_keys", token_keys::post));
        let directory = get(metrics.measured("issuer_directory", directory::get));
        Ok(Router::new()
            .route(&format!("{base}/token-request"), one)
            .route(&format!("{base}/token-requests"), batch)
            .route(&format!("{base}/token-keys"), keys)
            .route(&format!("{base}/.well-known/private-token-issuer-directory"), directory)
            .with_state(state))
    }
}

/// Shared by all requests.
struct IssuerState {
    environment: Environment,
    base_path: String,
    /// Requests use the keys that are current when they arrive, and never wait for a change.
    table: Rotating<Keys>,
    key_service: KeyService,
    encapsulation_keys: Arc<EncapsulationKeys>,
    attester: IssuerAttester,
    bodies: BodyReader,
    pool: CpuPool,
    cpu_threads: usize,
    /// Each batch holds a permit until it is answered.
    batches: Semaphore,
    health: Arc<Health>,
    metrics: IssuerMetrics,
}

fn check(config: &IssuerConfig) -> Result<(), BindError> {
    let refuse = |reason: String| Err(BindError::Config(reason));
    if let Some(author) = config.rules.authors.iter().find(|key| key.key_type() != KeyType::Ed25519)
    {
        return refuse(format!("the key of the author {} does not sign notes", author.name()));
    }
    if config.rules.window_s == 0 {
        return refuse("the policy window must be at least one second".into());
    }
    Ok(())
}
