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
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use sotto_protocol::Digest;
use sotto_store::HelperStore;
use sotto_wire::{self as wire, AggregationJobId, MediaType};

use self::metrics::HelperMetrics;
use crate::aggregator::{Aggregator, Peer, forget_tasks};
use crate::config::{HelperConfig, HttpConfig};
use crate::environment::Environment;
use crate::error::BindError;
use crate::http::{self, ReadBody};
use crate::problem::Failure;
use crate::service::{Role, Server};
use crate::tasks::ServedTask;

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

impl HelperState {
    /// The task of a request from the leader.
    async fn task(&self, task_id: &str, headers: &HeaderMap) -> Result<Arc<ServedTask>, Failure> {
        self.aggregator.authenticated_task(task_id, headers, Peer::Leader).await
    }

    /// The task and the body of a request from the leader.
    async fn receive(
        &self,
        task_id: &str,
        request: Request,
        media_type: MediaType,
        limit: usize,
    ) -> Result<(Arc<ServedTask>, ReadBody), Failure> {
        self.aggregator.receive(task_id, request, Peer::Leader, media_type, limit).await
    }

    /// The longest aggregation job, in bytes.
    fn max_job(&self) -> usize {
        self.aggregator.body_limits.max_aggregation_job
    }

    /// The stored answer that created a resource.
    async fn stored(&self, task: &ServedTask, id: &str) -> Result<Option<Vec<u8>>, Failure> {
        match digest(id) {
            Some(digest) => Ok(self.store.response(*task.id(), digest).await?),
            None => Ok(None),
        }
    }
}

/// The digest of the request that created a resource: ids of both kinds are such digests.
fn digest(id: &str) -> Option<Digest> {
    id.parse().ok().map(|id: AggregationJobId| *id.as_bytes())
}

/// The state kept changing under a request.
fn contended() -> Failure {
    Failure::unavailable("Other requests keep changing the batch.")
}

/// `DELETE` of any resource.
async fn delete(
    State(helper): State<Arc<HelperState>>,
    Path((task_id, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let task = helper.task(&task_id, &headers).await?;
    if let Some(digest) = digest(&id) {
        helper.store.forget_response(*task.id(), digest).await?;
    }
    Ok(http::empty(StatusCode::NO_CONTENT))
}

fn router(state: &Arc<HelperState>) -> Router {
    let (base, metrics) = (&state.aggregator.base_path, &state.aggregator.metrics);
    let jobs = format!("{base}/tasks/{{task_id}}/aggregation_jobs");
    let shares = format!("{base}/tasks/{{task_id}}/aggregate_shares");
    Router::new()
        .route(&jobs, post(metrics.measured("aggregation_job_post", aggregation::post)))
        .route(
            &format!("{jobs}/{{aggregation_job_id}}"),
            get(metrics.measured("aggregation_job_get", aggregation::get))
                .post(metrics.measured("aggregation_job_continue", aggregation::resume))
                .delete(metrics.measured("aggregation_job_delete", delete)),
        )
        .route(&shares, post(metrics.measured("aggregate_share_post", share::post)))
        .route(
            &format!("{shares}/{{aggregate_share_id}}"),
            get(metrics.measured("aggregate_share_get", share::get))
                .delete(metrics.measured("aggregate_share_delete", delete)),
        )
        .with_state(Arc::clone(state))
        .merge(state.aggregator.router())
}
