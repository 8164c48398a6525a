//! What an aggregator does now and then: measure the CPU pool, forget tasks that are over.

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
/// How often tasks are looked through for those that are over.
const RETENTION_PAUSE: Duration = Duration::from_secs(60);

pub(crate) async fn run(
    aggregator: Arc<Aggregator>,
    store: Arc<dyn TaskStore>,
    mut shutdown: Shutdown,
) {
    let queue = aggregator.metrics.gauge(
        "sotto_cpu_pool_occupied",
        None,
        "Pieces of work that run or wait in the CPU pool.",
    );
    let mut forgotten = HashSet::new();
    let mut looked: Option<Instant> = None;
    loop {
        queue.set(aggregator.pool.occupied() as f64);
        if looked.is_none_or(|looked| looked.elapsed() >= RETENTION_PAUSE) {
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

/// Deletes everything about a task; whether that went well. Nobody can reach the task any more: with
/// its report ids gone, a report from its time would count again.
async fn forget(aggregator: &Aggregator, store: &dyn TaskStore, task: &ServedTask) -> bool {
    match store.forget_task(*task.id()).await {
        Ok(()) => {
            tracing::info!(task = %task.id(), "a task is over; its data is deleted");
            aggregator.health.store_worked(StoreWork::Forget);
            if task.aggregator().taskprov {
                aggregator.tasks.forget(task.id());
            }
            true
        }
        Err(error) => {
            aggregator.store_failed(StoreWork::Forget, &error);
            false
        }
    }
}
