//! The helper as a server: answers the leader, and nobody else.
//!
//! [`aggregation`] and [`share`] are its resources. Every answer is stored in the commit that it
//! reports, under the digest of its request: the same bytes get the same answer, even concurrently,
//! and even from another process later.

mod aggregation;
mod metrics;
mod share;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use sotto_store::HelperStore;
use sotto_wire as wire;

use self::metrics::HelperMetrics;
use crate::aggregator::{Aggregator, forget_tasks, hpke_config};
use crate::config::{HelperConfig, HttpConfig};
use crate::environment::Environment;
use crate::error::BindError;
use crate::service::{Role, Server};

/// How often a request is recomputed because the state has changed in the meantime.
const MAX_CONFLICTS: usize = 8;

/// The helper, for [`Server::bind`].
pub struct Helper {
    /// What its operator decides.
    pub config: HelperConfig,
    /// Where jobs, batches and answers are kept.
    pub store: Arc<dyn HelperStore>,
}

impl Helper {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(
        config: HelperConfig,
        store: Arc<dyn HelperStore>,
    ) -> Result<Server, BindError> {
        Server::bind(Self { config, store }, Environment::default()).await
    }
}

impl Role for Helper {
    fn http(&self) -> &HttpConfig {
        &self.config.server.http
    }

    async fn open(self, server: &mut Server) -> Result<Router, BindError> {
        let Self { config: HelperConfig { server: config }, store } = self;
        forget_tasks(&config, &*store).await?;
        let tasks = Arc::clone(&store);
        let aggregator = Aggregator::new(wire::Role::Helper, config, tasks, server).await?;
        let metrics = HelperMetrics::new(&aggregator.metrics);
        let state = Arc::new(HelperState { aggregator, store, metrics });
        let checked = Arc::clone(&state);
        server.add_loop("store check", |shutdown| metrics::run(checked, shutdown));
        let store = Arc::clone(&state.store);
        state.aggregator.add_loops(store, server);
        Ok(router(&state))
    }
}

/// Shared by all requests of the helper.
struct HelperState {
    aggregator: Arc<Aggregator>,
    store: Arc<dyn HelperStore>,
    metrics: HelperMetrics,
}

fn router(state: &Arc<HelperState>) -> Router {
    let tasks = format!("{}/tasks/{{task_id}}", state.aggregator.base_path);
    Router::new()
        .route(&format!("{tasks}/aggregation_jobs"), post(aggregation::post))
        .route(
            &format!("{tasks}/aggregation_jobs/{{aggregation_job_id}}"),
            get(aggregation::get).post(aggregation::resume).delete(aggregation::delete),
        )
        .route(&format!("{tasks}/aggregate_shares"), post(share::post))
        .route(
            &format!("{tasks}/aggregate_shares/{{aggregate_share_id}}"),
            get(share::get).delete(share::delete),
        )
        .with_state(Arc::clone(state))
        .route(&format!("{}/hpke_config", state.aggregator.base_path), get(hpke_config))
        .with_state(Arc::clone(&state.aggregator))
}
