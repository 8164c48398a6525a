//! What a leader counts, and the loop that measures the load.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics::{Counter, Gauge};
use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::pacing::JobKind;
use sotto_protocol::leader::room::has_room;
use sotto_store::{Load, TaskJobs};
use sotto_wire::{ProblemType, TaskId};

use super::LeaderState;
use crate::health::{Concern, StoreWork};
use crate::metrics::{CountersByName, MetricsRegistry, table};
use crate::shutdown::Shutdown;
use crate::vitals::Disk;

/// How often the load is measured.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

pub(super) struct LeaderMetrics {
    pub(super) reports_accepted: Counter,
    pub(super) reports_rejected: CountersByName,
    pub(super) cover_dropped: Counter,
    pub(super) uploads_throttled: Counter,
    pub(super) reports_aggregated: Counter,
    pub(super) reports_dropped: CountersByName,
    pub(super) jobs: JobCounters,
    pub(super) collections: CollectionCounters,
    pub(super) helper_errors: CountersByName,
    load: LoadGauges,
}

pub(super) struct JobCounters {
    pub(super) formed: Counter,
    pub(super) committed: Counter,
    pub(super) abandoned: Counter,
    pub(super) stopped: Counter,
}

pub(super) struct CollectionCounters {
    pub(super) created: Counter,
    pub(super) finished: Counter,
    pub(super) failed: Counter,
    pub(super) deleted: Counter,
    pub(super) stopped: Counter,
}

struct LoadGauges {
    backlog: Gauge,
    segments: Gauge,
    jobs: Gauge,
    waiting_jobs: Gauge,
    collections: Gauge,
}

impl LeaderMetrics {
    pub(super) fn new(registry: &MetricsRegistry) -> Self {
        let [formed, committed, abandoned, stopped] =
            registry.counters(&table::JOBS, ["formed", "committed", "abandoned", "stopped"]);
        let [created, finished, failed, deleted, collections_stopped] = registry
            .counters(&table::COLLECTIONS, ["created", "finished", "failed", "deleted", "stopped"]);
        let problems = ProblemType::ALL.map(ProblemType::token);
        let reasons = HelperError::REASONS.into_iter().chain(problems);
        Self {
            reports_accepted: registry.counter(&table::REPORTS_ACCEPTED),
            reports_rejected: registry.rejections(&table::REPORTS_REJECTED),
            cover_dropped: registry.counter(&table::COVER_DROPPED),
            uploads_throttled: registry.counter(&table::UPLOADS_THROTTLED),
            reports_aggregated: registry.counter(&table::REPORTS_AGGREGATED),
            reports_dropped: registry.rejections(&table::REPORTS_DROPPED),
            jobs: JobCounters { formed, committed, abandoned, stopped },
            collections: CollectionCounters {
                created,
                finished,
                failed,
                deleted,
                stopped: collections_stopped,
            },
            helper_errors: registry.by_name(&table::HELPER_ERRORS, reasons),
            load: LoadGauges {
                backlog: registry.gauge(&table::BACKLOG),
                segments: registry.gauge(&table::SEGMENTS),
                jobs: registry.gauge(&table::JOBS_OPEN),
                waiting_jobs: registry.gauge(&table::JOBS_WAITING),
                collections: registry.gauge(&table::COLLECTIONS_OPEN),
            },
        }
    }

    fn set_load(&self, load: Load, waiting_jobs: u64) {
        self.load.backlog.set(load.backlog_bytes as f64);
        self.load.segments.set(load.segment_bytes as f64);
        self.load.jobs.set(load.jobs as f64);
        self.load.waiting_jobs.set(waiting_jobs as f64);
        self.load.collections.set(load.collections as f64);
    }
}

/// Jobs that wait for a helper or an operator.
fn waiting_jobs(leader: &LeaderState, jobs: &HashMap<TaskId, TaskJobs>) -> u64 {
    let in_trouble = jobs.iter().filter(|(task_id, _)| leader.is_in_trouble(task_id));
    let waiting: u64 = in_trouble.map(|(_, of_task)| of_task.jobs).sum();
    waiting + leader.pacing.stopped_jobs(JobKind::Aggregation)
}

/// The tasks that hold too much of the room.
fn full_tasks(
    leader: &LeaderState,
    stored: u64,
    jobs: &HashMap<TaskId, TaskJobs>,
) -> HashSet<TaskId> {
    let waiting = leader.intake.lock().counted();
    let mut longest = leader.longest();
    longest.retain(|task_id| leader.aggregator.tasks.task(task_id).is_some());
    let is_full = |task_id: &&TaskId| {
        let reports = jobs.get(*task_id).map_or(0, |of_task| of_task.reports);
        let in_backlog = waiting.get(*task_id).map_or(0, |(_, bytes)| *bytes);
        let held = longest.bytes(task_id, reports).saturating_add(in_backlog);
        !has_room(leader.config.max_segment_bytes, stored, held)
    };
    jobs.keys().chain(waiting.keys()).filter(is_full).copied().collect()
}

/// Rejects uploads while too few bytes of the disk are free.
fn measure_disk(leader: &LeaderState) {
    let limit = leader.config.min_free_disk;
    let disk = leader.data_dir.as_deref().and_then(Disk::of);
    let free = disk.map(|disk| disk.free).filter(|free| *free < limit);
    leader.disk_full.store(free.is_some(), Ordering::Relaxed);
    let detail = free.map(|_| format!("less than min_free_disk_bytes, {limit}, are free"));
    if leader.aggregator.health.set(Concern::DiskFull, detail) {
        tracing::error!(free, limit, "the disk is almost full: uploads are refused");
    }
}

/// Measures the load, and rejects uploads while too many bytes of reports are on disk.
pub(super) async fn run(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    loop {
        let health = &leader.aggregator.health;
        measure_disk(&leader);
        if let Ok(load) = health.noted(StoreWork::Load, leader.store.load().await) {
            let jobs = leader.store.jobs_by_task().await.unwrap_or_default();
            leader.metrics.set_load(load, waiting_jobs(&leader, &jobs).min(load.jobs));
            *leader.full_tasks() = full_tasks(&leader, load.segment_bytes, &jobs);
            let full = load.segment_bytes >= leader.config.max_segment_bytes;
            leader.uploads_paused.store(full, Ordering::Relaxed);
            let detail = full.then_some("reports on disk have reached the limit");
            health.set(Concern::BacklogFull, detail);
        }
        if shutdown.begins_within(LOAD_PAUSE).await {
            return;
        }
    }
}
