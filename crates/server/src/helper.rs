//! The helper as a server: answers the leader, and nobody else.
//!
//! [`aggregation`] and [`share`] are its resources. Every answer is stored with the commit that it
//! reports, under the digest of its request: the same bytes get the same answer, also concurrently,
//! also from another process later.

mod aggregation;
mod metrics;
mod share;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use sotto_store::HelperStore;
use sotto_wire::Role;

use self::metrics::HelperMetrics;
use crate::aggregator::{Aggregator, forget_tasks, hpke_config};
use crate::config::HelperConfig;
use crate::error::{BindError, RunError};
use crate::problem::Failure;
use crate::service::{self, Sockets};
use crate::tasks::TaskRegistry;
use crate::{recipes, upkeep};

/// How often a request is recomputed because the state changed under it.
const MAX_CONFLICTS: usize = 8;

/// A helper that listens and is not yet serving.
pub struct Helper {
    state: Arc<HelperState>,
    sockets: Sockets,
}

impl Helper {
    /// Checks the configuration and binds the sockets.
    pub async fn bind(
        config: HelperConfig,
        store: Arc<dyn HelperStore>,
    ) -> Result<Self, BindError> {
        let sockets = Sockets::bind(&config.server.http).await?;
        forget_tasks(&config.server, &*store).await?;
        let tasks = Arc::clone(&store);
        let aggregator = Arc::new(Aggregator::new(Role::Helper, config.server, tasks).await?);
        let metrics = HelperMetrics::new(&aggregator.metrics);
        Ok(Self { state: Arc::new(HelperState { aggregator, store, metrics }), sockets })
    }

    /// Where the helper listens.
    pub fn addr(&self) -> SocketAddr {
        self.sockets.main.address()
    }

    /// Where the operator's listener is, if there is one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.sockets.admin_address()
    }

    /// The tasks; more can be added at any time.
    pub fn tasks(&self) -> Arc<TaskRegistry> {
        Arc::clone(&self.state.aggregator.tasks)
    }

    /// Serves until `shutdown` resolves, then drains: accepts no more and finishes requests in flight
    /// within the deadline. To end on the spot, drop the future.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
        let Self { state, sockets } = self;
        let router = router(&state);
        let aggregator = Arc::clone(&state.aggregator);
        service::serve(aggregator.vitals(), sockets, router, shutdown, |loops| {
            let store = Arc::clone(&state.store);
            loops.spawn("store check", metrics::run(Arc::clone(&state), loops.shutdown()));
            if aggregator.recipes.is_some() {
                loops.spawn("recipes", recipes::run(Arc::clone(&aggregator), loops.shutdown()));
            }
            loops.spawn("upkeep", upkeep::run(aggregator, store, loops.shutdown()));
        })
        .await
    }
}

impl std::fmt::Debug for Helper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helper").finish_non_exhaustive()
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
        .fallback(async || Failure::NotFound.into_response())
        .method_not_allowed_fallback(async || Failure::MethodNotAllowed.into_response())
        .with_state(Arc::clone(&state.aggregator))
}
