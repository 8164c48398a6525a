//! What an aggregator does periodically: measure the CPU pool, delete tasks that are over.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sotto_store::TaskStore;

use crate::aggregator::Aggregator;
use crate::environment::{Instant, instant};
use crate::health::StoreWork;
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
    let queue = aggregator
        .metrics
        .gauge("sotto_cpu_pool_occupied", "Work items that run or wait in the CPU pool.");
    let mut forgotten = HashSet::new();
    let mut looked: Option<Instant> = None;
    loop {
        queue.set(aggregator.pool.occupied() as f64);
        if looked.is_none_or(|looked| instant() - looked >= RETENTION_PAUSE) {
            looked = Some(instant());
            for task in aggregator.tasks.all() {
                let over = aggregator.is_over(&task);
                if over
                    && !forgotten.contains(task.id())
                    && forget(&aggregator, &*store, &task).await
                {
                    forgotten.insert(*task.id());
                }
            }
        }
        if shutdown.begins_within(UPKEEP_PAUSE).await {
            return;
        }
    }
}

/// Deletes everything about a task. Returns whether that succeeded. The task must be unreachable by
/// now: without its report ids, an old report would count again.
async fn forget(aggregator: &Aggregator, store: &dyn TaskStore, task: &ServedTask) -> bool {
    let forgotten = store.forget_task(*task.id()).await;
    let is_forgotten = aggregator.health.noted(StoreWork::Forget, forgotten).is_ok();
    if is_forgotten {
        tracing::info!(task = %task.id(), "a task is over; its data is deleted");
        if task.aggregator().taskprov {
            aggregator.tasks.forget(task.id());
        }
    }
    is_forgotten
}
