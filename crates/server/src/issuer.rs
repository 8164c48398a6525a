//! The issuer as a server: signs blinded tokens for its attester and makes token keys for authors.
//!
//! `POST token-request` answers one request as the specification has it, `POST token-requests` a batch of them
//! ([`requests`]); both are for the one attester. `POST token-keys` is for listed authors ([`desk`]), and the
//! directory is for everybody.
//!
//! The name of an origin is read in `sotto_protocol::issuer` and stays there: no log line, metric, error or
//! answer holds one. How many tokens each origin asks for is counted nowhere.

mod config;
mod desk;
mod directory;
mod keys;
mod metrics;
mod requests;
mod table;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use sotto_protocol::Fault;
use sotto_protocol::issuer::author::AuthorRules;
use sotto_store::IssuerDb;
use sotto_wire::KeyType;
use tokio::sync::Semaphore;

pub use self::config::{
    IssuerAttester, IssuerAttesterTable, IssuerConfig, IssuerFile, IssuerRules,
};
use self::desk::Desk;
pub use self::keys::EncapsulationKeys;
use self::metrics::IssuerMetrics;
use self::table::KeyTable;
use crate::aggregator::base_path;
use crate::error::{BindError, RunError};
use crate::health::Health;
use crate::http::BodyReader;
use crate::metrics::MetricsRegistry;
use crate::pool::CpuPool;
use crate::problem::Failure;
use crate::service::{self, Sockets, Vitals};
use crate::upkeep;

/// An issuer that listens and is not yet serving.
pub struct Issuer {
    state: Arc<IssuerState>,
    vitals: Vitals,
    sockets: Sockets,
}

impl Issuer {
    /// Checks the configuration, loads the keys and binds the sockets.
    pub async fn bind(config: IssuerConfig, db: IssuerDb) -> Result<Self, BindError> {
        check(&config)?;
        let base_path = base_path(&config.http.base_path)?;
        let stored = db.load().map_err(|error| Fault(error.to_string()))?;
        let sockets = Sockets::bind(&config.http).await?;
        let registry = Arc::new(MetricsRegistry::new()?);
        let vitals = Vitals {
            health: Arc::default(),
            metrics: Arc::clone(&registry),
            drain_deadline: config.http.drain_deadline,
        };
        let rules = config.rules;
        let pool = CpuPool::new(rules.cpu_threads, 4 * rules.cpu_threads)
            .map_err(|error| Fault(error.to_string()))?;
        let author_rules = AuthorRules { authors: rules.authors, window_s: rules.window_s };
        let state = IssuerState {
            bodies: BodyReader::new(config.http.max_body_memory, config.http.body_timeout),
            batches: Semaphore::new(rules.max_batches.max(1)),
            cpu_threads: rules.cpu_threads.max(1),
            table: KeyTable::new(stored),
            metrics: IssuerMetrics::new(&registry),
            health: Arc::clone(&vitals.health),
            encapsulation_keys: config.encapsulation_keys,
            attester: config.attester,
            desk: Desk::new(
                db,
                config.operator,
                author_rules,
                rules.max_live_keys,
                rules.key_grace,
            ),
            base_path,
            pool,
        };
        Ok(Self { state: Arc::new(state), vitals, sockets })
    }

    /// Where the issuer listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more and finishes requests in flight
    /// within the deadline. To end on the spot, drop the future.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { state, vitals, sockets } = self;
        let router = router(&state);
        let metrics = Arc::clone(&vitals.metrics);
        service::serve(vitals, sockets, router, shutdown, |loops| {
            loops.spawn("metrics", upkeep::fold_metrics(metrics, loops.shutdown()));
            loops.spawn("expiry", desk::delete_expired(state, loops.shutdown()));
        })
        .await
    }
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").finish_non_exhaustive()
    }
}

/// Shared by all requests.
struct IssuerState {
    table: KeyTable,
    desk: Desk,
    encapsulation_keys: Arc<EncapsulationKeys>,
    attester: IssuerAttester,
    base_path: String,
    bodies: BodyReader,
    pool: CpuPool,
    cpu_threads: usize,
    /// Taken by each batch until it is answered.
    batches: Semaphore,
    health: Arc<Health>,
    metrics: IssuerMetrics,
}

fn router(state: &Arc<IssuerState>) -> Router {
    let base = &state.base_path;
    let directory = format!("{base}/.well-known/private-token-issuer-directory");
    Router::new()
        .route(&format!("{base}/token-request"), post(requests::post_one))
        .route(&format!("{base}/token-requests"), post(requests::post_batch))
        .route(&format!("{base}/token-keys"), post(desk::post))
        .route(&directory, get(directory::get))
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(Arc::clone(state))
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
