//! How often a helper in trouble is asked again.
//!
//! A gate closes when a helper fails: for all its tasks if it cannot be reached, for one task if it
//! refuses that task's requests. It opens after a short pause that doubles with each failure, for one
//! job at a time, until an answer comes. While it is closed its jobs are parked, so that trouble with
//! one helper neither burns CPU nor stands in the way of others.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sotto_wire::TaskId;
use tokio::sync::Notify;

use crate::environment::{Environment, Instant, instant};
use crate::health::{Concern, Health, StoreWork};
use crate::peer::PeerError;
use crate::tasks::ServedTask;

/// Parked jobs come back no faster than this many per second: each return costs a read from disk.
const UNPARKED_PER_SECOND: u32 = 20;

/// The gates of all helpers and tasks.
#[derive(Debug)]
pub(crate) struct Pacing {
    min_pause: Duration,
    max_pause: Duration,
    health: Arc<Health>,
    environment: Environment,
    state: Mutex<PacingState>,
    opened: Notify,
}

#[derive(Debug, Default)]
struct PacingState {
    gates: HashMap<GateKey, Gate>,
    /// Aggregation jobs that wait for a gate.
    parked: HashSet<u64>,
    stopped: HashSet<(JobKind, u64)>,
}

/// The two kinds of job that a leader works on. Each has its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JobKind {
    Aggregation,
    Collection,
}

impl JobKind {
    /// The store's part in such a job.
    pub(crate) fn store_work(self) -> StoreWork {
        match self {
            Self::Aggregation => StoreWork::Commit,
            Self::Collection => StoreWork::Collect,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GateKey {
    Helper(Arc<str>),
    Task(TaskId),
}

#[derive(Debug)]
struct Gate {
    failures: u32,
    opens: Instant,
}

impl Pacing {
    pub(crate) fn new(
        min_pause: Duration,
        max_pause: Duration,
        health: Arc<Health>,
        environment: Environment,
    ) -> Self {
        let max_pause = max_pause.max(min_pause);
        let (state, opened) = (Mutex::default(), Notify::new());
        Self { min_pause, max_pause, health, environment, state, opened }
    }

    /// Whether the helper of a task may be asked now; if not, after which pause. Where a gate has
    /// just opened, the first to ask goes ahead and the others wait for its luck.
    pub(crate) fn admit(&self, task: &ServedTask) -> Result<(), Duration> {
        let mut state = self.lock();
        if let Some(pause) = state.pause(task) {
            return Err(pause);
        }
        let next = instant() + self.max_pause;
        for key in keys(task) {
            if let Some(gate) = state.gates.get_mut(&key) {
                gate.opens = next;
            }
        }
        Ok(())
    }

    /// How long until any of these tasks' helpers may be asked; `None` if one may be asked now.
    pub(crate) fn pause_of_all(
        &self,
        tasks: impl FnOnce() -> Vec<Arc<ServedTask>>,
    ) -> Option<Duration> {
        let state = self.lock();
        if state.gates.is_empty() {
            return None;
        }
        let pauses: Option<Vec<_>> = tasks().iter().map(|task| state.pause(task)).collect();
        pauses?.into_iter().min()
    }

    /// Resolves when a gate opens because its helper answered.
    pub(crate) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Whether any helper is in trouble.
    pub(crate) fn is_troubled(&self) -> bool {
        !self.lock().gates.is_empty()
    }

    /// The helper answered.
    pub(crate) fn succeeded(&self, task: &ServedTask) {
        let mut state = self.lock();
        if state.gates.is_empty() {
            return;
        }
        for key in keys(task) {
            state.gates.remove(&key);
        }
        if state.gates.is_empty() {
            // From now on they wait for a worker like any other.
            state.parked.clear();
        }
        for concern in [Concern::HelperUnreachable, Concern::HelperRefuses] {
            if !state.gates.keys().any(|key| key.concern() == concern) {
                self.health.clear(concern);
            }
        }
        drop(state);
        self.opened.notify_waiters();
    }

    /// The helper failed. Returns after which pause it may be asked again.
    pub(crate) fn failed(&self, task: &ServedTask, error: &PeerError) -> Duration {
        let key = blame(task, error);
        let concern = key.concern();
        let mut state = self.lock();
        let now = instant();
        let gate = state.gates.entry(key).or_insert(Gate { failures: 0, opens: now });
        gate.failures = gate.failures.saturating_add(1);
        let doublings = gate.failures.saturating_sub(1).min(16);
        let pause = (self.min_pause * 2u32.pow(doublings)).min(self.max_pause);
        let pause = jitter(pause, &self.environment);
        let asked_for = match error {
            PeerError::Refused { retry_after, .. } => *retry_after,
            PeerError::Unreachable(_) => None,
        };
        let pause = pause.max(asked_for.unwrap_or_default());
        gate.opens = now + pause;
        let detail = format!("{}, {} in a row", error.reason(), gate.failures);
        // Under the lock: a success in between must not be overtaken.
        self.health.raise(concern, detail);
        pause
    }

    /// Notes that a job waits for its gate. Returns for how long it should.
    pub(crate) fn park(&self, job: u64, pause: Duration) -> Duration {
        let mut state = self.lock();
        state.parked.insert(job);
        let turn = u32::try_from(state.parked.len()).unwrap_or(u32::MAX);
        pause.max(Duration::from_secs(1) * turn / UNPARKED_PER_SECOND)
    }

    /// Notes that a job is worked on again.
    pub(crate) fn resume(&self, kind: JobKind, job: u64) {
        let mut state = self.lock();
        if kind == JobKind::Aggregation {
            state.parked.remove(&job);
        }
        if state.stopped.remove(&(kind, job)) {
            self.report_stopped(&state);
        }
    }

    /// Notes that a job was stopped, because to go on could make the two sums differ.
    pub(crate) fn stop(&self, kind: JobKind, job: u64) {
        let mut state = self.lock();
        state.stopped.insert((kind, job));
        self.report_stopped(&state);
    }

    /// Aggregation jobs that wait for something else than a worker.
    pub(crate) fn waiting_jobs(&self) -> u64 {
        let state = self.lock();
        let stopped = state.stopped.iter().filter(|(kind, _)| *kind == JobKind::Aggregation);
        (state.parked.len() + stopped.count()) as u64
    }

    fn report_stopped(&self, state: &PacingState) {
        match state.stopped.len() {
            0 => self.health.clear(Concern::JobsStopped),
            jobs => {
                self.health.raise(Concern::JobsStopped, format!("{jobs} jobs; see the log"));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, PacingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GateKey {
    fn concern(&self) -> Concern {
        match self {
            Self::Helper(_) => Concern::HelperUnreachable,
            Self::Task(_) => Concern::HelperRefuses,
        }
    }
}

impl PacingState {
    fn pause(&self, task: &ServedTask) -> Option<Duration> {
        let now = instant();
        keys(task)
            .filter_map(|key| self.gates.get(&key)?.opens.checked_duration_since(now))
            .filter(|pause| !pause.is_zero())
            .max()
    }
}

/// A refusal that is about the task says nothing about the helper's other tasks.
fn blame(task: &ServedTask, error: &PeerError) -> GateKey {
    match (error, task.helper_endpoint()) {
        (PeerError::Refused { status: 400..=428, .. }, _) | (_, None) => GateKey::Task(*task.id()),
        (_, Some(endpoint)) => GateKey::Helper(Arc::clone(&endpoint.base)),
    }
}

fn keys(task: &ServedTask) -> impl Iterator<Item = GateKey> + use<> {
    let helper = task.helper_endpoint().map(|endpoint| GateKey::Helper(Arc::clone(&endpoint.base)));
    helper.into_iter().chain([GateKey::Task(*task.id())])
}

/// Between half and all of a pause, so that leaders that failed together do not return together.
fn jitter(pause: Duration, environment: &Environment) -> Duration {
    // Without randomness there is no jitter, which is no harm.
    let [random] = environment.random().unwrap_or_default();
    pause / 2 + pause * u32::from(random) / 512
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::testing::leader_task;

    const AWAY: PeerError = PeerError::Unreachable("connect");
    const FORBIDDEN: PeerError =
        PeerError::Refused { status: 403, problem: None, retry_after: None, polled: false };
    const LONG: Duration = Duration::from_secs(1000);

    fn pacing() -> (Pacing, Arc<Health>) {
        let health = Arc::new(Health::default());
        (Pacing::new(LONG, LONG * 10, Arc::clone(&health), Environment::default()), health)
    }

    #[test]
    fn a_helper_that_is_away_closes_the_gate_for_all_its_tasks() {
        let (pacing, health) = pacing();
        let [one, two] = [1, 2].map(|id| leader_task(id, "https://a.example/").unwrap());
        let other = leader_task(3, "https://b.example/").unwrap();
        assert_eq!(pacing.admit(&one), Ok(()));
        let first = pacing.failed(&one, &AWAY);
        assert!(first >= LONG / 2 && first <= LONG, "{first:?}");
        assert!(pacing.admit(&one).is_err());
        assert!(pacing.admit(&two).is_err());
        assert_eq!(pacing.admit(&other), Ok(()));
        assert_eq!(health.report().1["reasons"][0]["name"], "helper_unreachable");
        // The pause grows, up to its bound.
        for _ in 0..40 {
            assert!(pacing.failed(&one, &AWAY) <= LONG * 10);
        }
        assert!(pacing.failed(&one, &AWAY) >= LONG * 5);
        pacing.succeeded(&two);
        assert_eq!(pacing.admit(&one), Ok(()));
        assert_eq!(health.report().1["status"], "ready");
    }

    #[test]
    fn a_refusal_concerns_one_task() {
        let (pacing, health) = pacing();
        let [one, two] = [1, 2].map(|id| leader_task(id, "https://a.example/").unwrap());
        pacing.failed(&one, &FORBIDDEN);
        assert!(pacing.admit(&one).is_err());
        assert_eq!(pacing.admit(&two), Ok(()));
        // An answer about one task says nothing about the other's token.
        pacing.succeeded(&two);
        assert!(pacing.admit(&one).is_err());
        assert_eq!(health.report().1["reasons"][0]["name"], "helper_refuses");
        let (one, two) = (Arc::new(one), Arc::new(two));
        assert!(pacing.pause_of_all(|| vec![Arc::clone(&one)]).is_some());
        assert!(pacing.pause_of_all(|| vec![one, two]).is_none());
    }

    #[test]
    fn an_open_gate_lets_one_go_ahead() {
        let pacing = Pacing::new(Duration::ZERO, LONG, Arc::default(), Environment::default());
        let task = leader_task(1, "https://a.example/").unwrap();
        assert_eq!(pacing.failed(&task, &AWAY), Duration::ZERO);
        assert_eq!(pacing.admit(&task), Ok(()));
        assert!(pacing.admit(&task).is_err(), "the first has not come back");
        let busy = PeerError::Refused {
            status: 429,
            problem: None,
            retry_after: Some(LONG),
            polled: false,
        };
        assert!(pacing.failed(&task, &busy) >= LONG, "the helper named a pause");
    }

    #[test]
    fn waiting_jobs_are_counted_until_they_are_worked_on() {
        let (pacing, health) = pacing();
        for job in 0..100 {
            pacing.park(job, Duration::ZERO);
        }
        assert!(pacing.park(100, Duration::ZERO) >= Duration::from_secs(5), "they return slowly");
        pacing.stop(JobKind::Aggregation, 200);
        pacing.stop(JobKind::Collection, 200);
        assert_eq!(pacing.waiting_jobs(), 102);
        pacing.resume(JobKind::Aggregation, 0);
        pacing.resume(JobKind::Aggregation, 200);
        assert_eq!(pacing.waiting_jobs(), 100);
        assert_eq!(health.report().1["reasons"][0]["name"], "jobs_stopped");
        pacing.resume(JobKind::Collection, 200);
        assert_eq!(health.report().1["status"], "ready");
    }
}
