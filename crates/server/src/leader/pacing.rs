//! The leader's [`Pacing`], shared by its loops, and what `/readyz` says about it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::pacing::{Failing, HelperOf, JobKind, Pacing};
use tokio::sync::Notify;

use crate::environment::{Environment, Instant, instant, timeout};
use crate::health::{Concern, Health, StoreWork};
use crate::tasks::ServedTask;

/// What the store does for this kind of job.
pub(super) fn store_work(kind: JobKind) -> StoreWork {
    match kind {
        JobKind::Aggregation => StoreWork::Commit,
        JobKind::Collection => StoreWork::Collect,
    }
}

/// The gates of all helpers and tasks.
pub(super) struct SharedPacing {
    started: Instant,
    health: Arc<Health>,
    environment: Environment,
    pacing: Mutex<Pacing>,
    opened: Notify,
}

impl SharedPacing {
    pub(super) fn new(
        min_pause: Duration,
        max_pause: Duration,
        health: Arc<Health>,
        environment: Environment,
    ) -> Self {
        let pacing = Mutex::new(Pacing::new(min_pause, max_pause));
        Self { started: instant(), health, environment, pacing, opened: Notify::new() }
    }

    pub(super) fn admit(&self, task: &ServedTask) -> Result<(), Duration> {
        self.lock().admit(&helper_of(task), self.now())
    }

    /// Resolves when at least one helper of these tasks may be asked.
    pub(super) async fn any_open(&self, tasks: impl Fn() -> Vec<Arc<ServedTask>>) {
        while let Some(pause) = self.pause_of_all(&tasks) {
            let _ = timeout(pause, self.opened.notified()).await;
        }
    }

    pub(super) fn succeeded(&self, task: &ServedTask) {
        let mut pacing = self.lock();
        if pacing.is_any_failing() {
            pacing.succeeded(&helper_of(task));
            self.tell(&pacing);
            drop(pacing);
            self.opened.notify_waiters();
        }
    }

    pub(super) fn failed(&self, task: &ServedTask, error: &HelperError) -> Duration {
        // Without randomness there is no jitter, which is harmless.
        let [jitter] = self.environment.random().unwrap_or_default();
        let mut pacing = self.lock();
        let pause = pacing.failed(&helper_of(task), error, self.now(), jitter);
        self.tell(&pacing);
        pause
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

    fn pause_of_all(&self, tasks: impl Fn() -> Vec<Arc<ServedTask>>) -> Option<Duration> {
        let pacing = self.lock();
        if !pacing.is_any_failing() {
            return None;
        }
        pacing.pause_of_all(tasks().iter().map(|task| helper_of(task)), self.now())
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

    /// The gates, for a step that tells the operator nothing.
    pub(super) fn lock(&self) -> MutexGuard<'_, Pacing> {
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
        let long = Duration::from_secs(1000);
        let pacing = SharedPacing::new(long, long, Arc::clone(&health), Environment::default());
        let task = leader_task(1, "https://a.example/").unwrap();
        let reason = || health.report().1["reasons"][0]["name"].clone();
        pacing.failed(&task, &HelperError::Unreachable("connect"));
        assert_eq!(reason(), "helper_unreachable");
        assert!(pacing.admit(&task).is_err());
        pacing.succeeded(&task);
        assert_eq!(health.report().1["status"], "ready");
        let (problem, retry_after, polled) = (None, None, false);
        pacing.failed(&task, &HelperError::Refused { status: 403, problem, retry_after, polled });
        assert_eq!(reason(), "helper_refuses");
        pacing.succeeded(&task);
        pacing.stop(JobKind::Collection, 200);
        assert_eq!(reason(), "jobs_stopped");
        pacing.resume(JobKind::Collection, 200);
        assert_eq!(health.report().1["status"], "ready");
    }
}
