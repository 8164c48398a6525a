//! The leader's [`Pacing`], shared by its loops, and what `/readyz` says about it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::aggregate::JobLimits;
use sotto_protocol::leader::pacing::{AttemptId, Failing, HelperOf, JobKind, Pacing, PacingLimits};
use sotto_protocol::memory;

use crate::environment::{Environment, Instant, instant};
use crate::health::{Concern, Health, StoreWork};
use crate::memory::Memory;
use crate::tasks::ServedTask;

/// What the store does for this kind of job.
pub(super) fn store_work(kind: JobKind) -> StoreWork {
    match kind {
        JobKind::Aggregation => StoreWork::Commit,
        JobKind::Collection => StoreWork::Collect,
    }
}

/// What is in flight, and the gates of all helpers and tasks.
pub(super) struct SharedPacing {
    started: Instant,
    health: Arc<Health>,
    environment: Environment,
    jobs: JobLimits,
    memory: Memory,
    pacing: Mutex<Pacing>,
}

impl SharedPacing {
    /// `jobs` says how large jobs are, `memory` is told what they hold.
    pub(super) fn new(
        limits: PacingLimits,
        jobs: JobLimits,
        memory: Memory,
        health: Arc<Health>,
        environment: Environment,
    ) -> Self {
        let pacing = Mutex::new(Pacing::new(limits));
        Self { started: instant(), health, environment, jobs, memory, pacing }
    }

    pub(super) fn admits(&self, kind: JobKind, task: &ServedTask) -> bool {
        let memory = self.memory_of(kind, task);
        self.lock().admits(kind, &helper_of(task), memory, self.now())
    }

    pub(super) fn begin(&self, kind: JobKind, task: &ServedTask) -> Option<AttemptId> {
        let memory = self.memory_of(kind, task);
        let mut pacing = self.lock();
        let begun = pacing.begin(kind, helper_of(task), memory, self.now());
        self.memory.note_jobs(pacing.memory());
        begun
    }

    fn memory_of(&self, kind: JobKind, task: &ServedTask) -> u64 {
        let sizes = task.aggregator().task.vdaf().sizes();
        match kind {
            JobKind::Aggregation => memory::aggregation(&sizes, self.jobs),
            JobKind::Collection => memory::collection(&sizes),
        }
    }

    pub(super) fn called(&self, attempt: AttemptId) {
        self.lock().called(attempt, self.now());
    }

    pub(super) fn succeeded(&self, attempt: AttemptId) {
        let mut pacing = self.lock();
        if pacing.succeeded(attempt, self.now()) {
            self.tell(&pacing);
        }
    }

    pub(super) fn failed(&self, attempt: AttemptId, error: &HelperError) -> Duration {
        // Without randomness there is no jitter, which is harmless.
        let [jitter] = self.environment.random().unwrap_or_default();
        let mut pacing = self.lock();
        let pause = pacing.failed(attempt, error, self.now(), jitter);
        self.tell(&pacing);
        pause
    }

    /// Whether nobody would notice if this helper were away.
    pub(super) fn is_idle(&self, helper: &Arc<str>) -> bool {
        self.lock().is_idle(helper, self.now())
    }

    pub(super) fn probed(&self, helper: &Arc<str>, outcome: &Result<(), HelperError>) {
        let [jitter] = self.environment.random().unwrap_or_default();
        let mut pacing = self.lock();
        if pacing.probed(helper, outcome, self.now(), jitter) {
            self.tell(&pacing);
        }
    }

    pub(super) fn end(&self, attempt: AttemptId) {
        let mut pacing = self.lock();
        pacing.end(attempt);
        self.memory.note_jobs(pacing.memory());
    }

    /// How long until the next gate opens.
    pub(super) fn next_opening(&self) -> Option<Duration> {
        self.lock().next_opening(self.now())
    }

    pub(super) fn is_in_trouble(&self, task: &ServedTask) -> bool {
        self.lock().is_in_trouble(&helper_of(task), self.now())
    }

    pub(super) fn stopped_jobs(&self, kind: JobKind) -> u64 {
        self.lock().stopped_jobs(kind)
    }

    pub(super) fn resume(&self, kind: JobKind, job: u64) {
        let mut pacing = self.lock();
        if pacing.resume(kind, job) {
            self.tell(&pacing);
        }
    }

    pub(super) fn stop(&self, kind: JobKind, job: u64) {
        let mut pacing = self.lock();
        pacing.stop(kind, job);
        self.tell(&pacing);
    }

    /// Called under the lock: a success in between must not be overwritten.
    fn tell(&self, pacing: &Pacing) {
        let Failing { unreachable, refused, stopped } = pacing.failing();
        let stopped = (stopped > 0).then(|| format!("{stopped} jobs; see the server's log output"));
        for (concern, detail) in [
            (Concern::HelperUnreachable, unreachable),
            (Concern::HelperRefuses, refused),
            (Concern::JobsStopped, stopped),
        ] {
            self.health.set(concern, detail);
        }
    }

    fn now(&self) -> Duration {
        instant() - self.started
    }

    fn lock(&self) -> MutexGuard<'_, Pacing> {
        self.pacing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn helper_of(task: &ServedTask) -> HelperOf {
    let helper = task.helper.as_ref().map(|endpoint| Arc::clone(&endpoint.base));
    HelperOf { task_id: *task.id(), helper }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::MetricsRegistry;
    use crate::tasks::tests::leader_task;

    #[test]
    fn an_operator_sees_what_fails_until_it_works() {
        let health = Arc::new(Health::default());
        let limits = PacingLimits {
            min_pause: Duration::ZERO,
            max_pause: Duration::ZERO,
            max_aggregations: 1,
            max_collections: 1,
            max_memory: 1 << 20,
        };
        let jobs = JobLimits { max_job_reports: 10, max_job_bytes: 1_000 };
        let memory = Memory::new(1 << 20, &MetricsRegistry::new().unwrap());
        let (told, environment) = (Arc::clone(&health), Environment::default());
        let pacing = SharedPacing::new(limits, jobs, memory.clone(), told, environment);
        let task = leader_task(1, "https://a.example/").unwrap();
        let reason = || health.report().1["reasons"][0]["name"].clone();
        let attempt = pacing.begin(JobKind::Aggregation, &task).unwrap();
        assert_ne!(memory.report().0.held, 0);
        pacing.failed(attempt, &HelperError::Unreachable("connect"));
        assert_eq!(reason(), "helper_unreachable");
        assert!(pacing.is_in_trouble(&task));
        assert!(!pacing.admits(JobKind::Collection, &task), "one attempt is in flight");
        pacing.succeeded(attempt);
        assert_eq!(health.report().1["status"], "ready");
        let (problem, retry_after, polled) = (None, None, false);
        let refused = HelperError::Refused { status: 403, problem, retry_after, polled };
        pacing.failed(attempt, &refused);
        assert_eq!(reason(), "helper_refuses");
        pacing.succeeded(attempt);
        pacing.stop(JobKind::Collection, 200);
        assert_eq!(reason(), "jobs_stopped");
        pacing.resume(JobKind::Collection, 200);
        assert_eq!(health.report().1["status"], "ready");
    }
}
