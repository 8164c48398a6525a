//! What an aggregator does periodically: measure the CPU pool, delete tasks that are over.

use std::sync::Arc;
use std::time::Duration;

use sotto_protocol::ReplayScope;
use sotto_store::TaskStore;

use crate::aggregator::Aggregator;
use crate::environment::{Instant, instant};
use crate::health::StoreWork;
use crate::metrics::table;
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

/// How often the CPU pool is measured.
const UPKEEP_PAUSE: Duration = Duration::from_secs(5);
/// How often to look for tasks that are over.
const RETENTION_PAUSE: Duration = Duration::from_secs(60);

pub(crate) async fn run(
    aggregator: Arc<Aggregator>,
    store: Arc<dyn TaskStore>,
    mut shutdown: Shutdown,
) {
    let queue = aggregator.metrics.gauge(&table::CPU_POOL);
    let mut looked: Option<Instant> = None;
    loop {
        queue.set(aggregator.pool.occupied() as f64);
        if looked.is_none_or(|looked| instant() - looked >= RETENTION_PAUSE) {
            looked = Some(instant());
            for task in aggregator.tasks.all() {
                if aggregator.is_over(&task) {
                    forget(&aggregator, &*store, &task).await;
                }
            }
        }
        if shutdown.begins_within(UPKEEP_PAUSE).await {
            return;
        }
    }
}

/// Deletes everything about a task, which requests cannot reach by now, and never serves it again:
/// without its report ids, an old report would count again.
async fn forget(aggregator: &Aggregator, store: &dyn TaskStore, task: &ServedTask) {
    let forgotten = store.forget_task(*task.id()).await;
    if aggregator.health.noted(StoreWork::Forget, forgotten).is_ok() {
        tracing::info!(task = %task.id(), "a task is over; its data is deleted");
        if let ReplayScope::Series(series) = task.aggregator().replay_scope() {
            // Other rounds may still be open.
            tracing::info!(%series, "its spent tokens stay until forget_tasks lists the series");
        }
        aggregator.tasks.forget(task.id());
    }
}
