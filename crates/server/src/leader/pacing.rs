//! The leader's [`Pacing`], shared by its loops, and what `/readyz` says about it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::pacing::{AttemptId, Failing, HelperOf, JobKind, Pacing, PacingLimits};

use crate::environment::{Environment, Instant, instant};
use crate::health::{Concern, Health, StoreWork};
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
    pacing: Mutex<Pacing>,
}

impl SharedPacing {
    pub(super) fn new(limits: PacingLimits, health: Arc<Health>, environment: Environment) -> Self {
        let pacing = Mutex::new(Pacing::new(limits));
        Self { started: instant(), health, environment, pacing }
    }

    pub(super) fn admits(&self, kind: JobKind, task: &ServedTask) -> bool {
        self.lock().admits(kind, &helper_of(task), self.now())
    }

    pub(super) fn begin(&self, kind: JobKind, task: &ServedTask) -> Option<AttemptId> {
        self.lock().begin(kind, helper_of(task), self.now())
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
        self.lock().end(attempt);
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
    use crate::tasks::tests::leader_task;

    #[test]
    fn an_operator_sees_what_fails_until_it_works() {
        let health = Arc::new(Health::default());
        let limits = PacingLimits {
            min_pause: Duration::ZERO,
            max_pause: Duration::ZERO,
            max_aggregations: 1,
            max_collections: 1,
        };
        let pacing = SharedPacing::new(limits, Arc::clone(&health), Environment::default());
        let task = leader_task(1, "https://a.example/").unwrap();
        let reason = || health.report().1["reasons"][0]["name"].clone();
        let attempt = pacing.begin(JobKind::Aggregation, &task).unwrap();
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
