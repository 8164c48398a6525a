//! How often a failing helper is retried.
//!
//! A gate closes when a helper fails: for all its tasks if it cannot be reached, for one task if it
//! refuses that task's requests. It opens after a short pause that doubles with each failure, for
//! one job at a time, until an answer comes. While it is closed its jobs are parked, so one failing
//! helper neither wastes CPU nor delays the others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sotto_wire::TaskId;

use super::HelperError;

/// Parked jobs come back at no more than this many per second: each return costs a read from disk.
const UNPARKED_PER_SECOND: u32 = 20;

/// The two kinds of job that a leader works on. Each kind numbers its jobs separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobKind {
    /// Aggregation.
    Aggregation,
    /// Collection.
    Collection,
}

/// The helper of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelperOf {
    /// The task.
    pub task_id: TaskId,
    /// The helper's base URL as the task spells it. Tasks with the same URL fail together.
    pub helper: Option<Arc<str>>,
}

/// The gates of all helpers and tasks.
#[derive(Clone, Debug, Default)]
pub struct Pacing {
    min_pause: Duration,
    max_pause: Duration,
    gates: HashMap<GateKey, Gate>,
    /// Aggregation jobs that are waiting for a gate.
    parked: HashSet<u64>,
    stopped: HashSet<(JobKind, u64)>,
}

/// What an operator should know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    /// A helper cannot be reached: the last failure.
    pub unreachable: Option<String>,
    /// A helper refuses the requests of a task: the last failure.
    pub refused: Option<String>,
    /// How many jobs were stopped because continuing could make the two sums differ.
    pub stopped: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GateKey {
    Helper(Arc<str>),
    Task(TaskId),
}

#[derive(Clone, Debug)]
struct Gate {
    failures: u32,
    /// When the last failure was noticed.
    failed: Duration,
    reason: &'static str,
    opens: Duration,
}

impl Pacing {
    /// Pauses double from `min_pause` up to `max_pause`.
    pub fn new(min_pause: Duration, max_pause: Duration) -> Self {
        Self { min_pause, max_pause: max_pause.max(min_pause), ..Self::default() }
    }

    /// Whether the helper of a task may be called now; if not, how long to wait. When a gate has
    /// just opened, the first caller goes ahead and the others wait for its result.
    pub fn admit(&mut self, of: &HelperOf, now: Duration) -> Result<(), Duration> {
        if let Some(pause) = self.pause(of, now) {
            return Err(pause);
        }
        for key in of.keys() {
            if let Some(gate) = self.gates.get_mut(&key) {
                gate.opens = now.saturating_add(self.max_pause);
            }
        }
        Ok(())
    }

    /// How long until any of these tasks' helpers may be called; `None` if one may be called now.
    pub fn pause_of_all(
        &self,
        tasks: impl IntoIterator<Item = HelperOf>,
        now: Duration,
    ) -> Option<Duration> {
        let pauses: Option<Vec<_>> = tasks.into_iter().map(|of| self.pause(&of, now)).collect();
        pauses?.into_iter().min()
    }

    /// Whether any helper is failing.
    pub fn is_any_failing(&self) -> bool {
        !self.gates.is_empty()
    }

    /// The helper answered.
    pub fn succeeded(&mut self, of: &HelperOf) {
        for key in of.keys() {
            self.gates.remove(&key);
        }
        if self.gates.is_empty() {
            // From now on they wait for a worker like any other.
            self.parked.clear();
        }
    }

    /// The helper failed. Returns how long to wait before the next call. `jitter` is a random byte.
    pub fn failed(
        &mut self,
        of: &HelperOf,
        error: &HelperError,
        now: Duration,
        jitter: u8,
    ) -> Duration {
        let reason = error.reason();
        let first = Gate { failures: 0, failed: now, reason, opens: now };
        let gate = self.gates.entry(blame(of, error)).or_insert(first);
        gate.failures = gate.failures.saturating_add(1);
        let doublings = gate.failures.saturating_sub(1).min(16);
        let pause = (self.min_pause * 2u32.pow(doublings)).min(self.max_pause);
        // Between half and all of the pause, so that leaders that failed together do not return
        // together.
        let pause = pause / 2 + pause * u32::from(jitter) / 512;
        let asked_for = match error {
            HelperError::Refused { retry_after, .. } => *retry_after,
            HelperError::Unreachable(_) => None,
        };
        let pause = pause.max(asked_for.unwrap_or_default());
        (gate.failed, gate.reason) = (now, reason);
        gate.opens = now.saturating_add(pause);
        pause
    }

    /// Notes that a job is waiting for its gate. Returns how long it should wait.
    pub fn park(&mut self, job: u64, pause: Duration) -> Duration {
        self.parked.insert(job);
        let parked = u32::try_from(self.parked.len()).unwrap_or(u32::MAX);
        pause.max(Duration::from_secs(1) * parked / UNPARKED_PER_SECOND)
    }

    /// Notes that a job is being worked on again. Returns whether it was stopped.
    pub fn resume(&mut self, kind: JobKind, job: u64) -> bool {
        if kind == JobKind::Aggregation {
            self.parked.remove(&job);
        }
        self.stopped.remove(&(kind, job))
    }

    /// Notes that a job was stopped because continuing could make the two sums differ.
    pub fn stop(&mut self, kind: JobKind, job: u64) {
        self.stopped.insert((kind, job));
    }

    /// Aggregation jobs that are waiting for something other than a worker.
    pub fn waiting_jobs(&self) -> u64 {
        let stopped = self.stopped.iter().filter(|(kind, _)| *kind == JobKind::Aggregation);
        (self.parked.len() + stopped.count()) as u64
    }

    /// What an operator should know.
    pub fn failing(&self) -> Failing {
        let last = |is_task: bool| {
            let gates = self.gates.iter();
            let gates = gates.filter(|(key, _)| matches!(key, GateKey::Task(_)) == is_task);
            let (_, gate) = gates.max_by_key(|(_, gate)| gate.failed)?;
            Some(format!("{}, {} in a row", gate.reason, gate.failures))
        };
        Failing { unreachable: last(false), refused: last(true), stopped: self.stopped.len() }
    }

    fn pause(&self, of: &HelperOf, now: Duration) -> Option<Duration> {
        let opens = of.keys().filter_map(|key| Some(self.gates.get(&key)?.opens)).max()?;
        opens.checked_sub(now).filter(|pause| !pause.is_zero())
    }
}

impl HelperOf {
    fn keys(&self) -> impl Iterator<Item = GateKey> + use<> {
        let helper = self.helper.clone().map(GateKey::Helper);
        helper.into_iter().chain([GateKey::Task(self.task_id)])
    }
}

/// A refusal that concerns one task says nothing about the helper's other tasks.
fn blame(of: &HelperOf, error: &HelperError) -> GateKey {
    match (error, &of.helper) {
        (HelperError::Refused { status: 400..=428, .. }, _) | (_, None) => {
            GateKey::Task(of.task_id)
        }
        (_, Some(helper)) => GateKey::Helper(Arc::clone(helper)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWAY: HelperError = HelperError::Unreachable("connect");
    const FORBIDDEN: HelperError =
        HelperError::Refused { status: 403, problem: None, retry_after: None, polled: false };
    const LONG: Duration = Duration::from_secs(1000);
    const NOW: Duration = Duration::from_secs(7);

    fn task(id: u8, helper: &str) -> HelperOf {
        HelperOf { task_id: TaskId::new([id; 32]), helper: Some(helper.into()) }
    }

    #[test]
    fn a_helper_that_is_away_closes_the_gate_for_all_its_tasks() {
        let mut pacing = Pacing::new(LONG, LONG * 10);
        let [one, two] = [1, 2].map(|id| task(id, "https://a.example/"));
        let other = task(3, "https://b.example/");
        assert_eq!(pacing.admit(&one, NOW), Ok(()));
        for jitter in [0, 255] {
            let mut pacing = pacing.clone();
            let first = pacing.failed(&one, &AWAY, NOW, jitter);
            assert!(first >= LONG / 2 && first <= LONG, "{first:?}");
        }
        let first = pacing.failed(&one, &AWAY, NOW, 7);
        assert_eq!(pacing.admit(&one, NOW), Err(first));
        assert_eq!(pacing.admit(&two, NOW + first / 2), Err(first - first / 2));
        assert_eq!(pacing.admit(&other, NOW), Ok(()));
        assert_eq!(pacing.failing().unreachable.as_deref(), Some("connect, 1 in a row"));
        // The pause grows up to its bound.
        for _ in 0..40 {
            assert!(pacing.failed(&one, &AWAY, NOW, 255) <= LONG * 10);
        }
        assert!(pacing.failed(&one, &AWAY, NOW, 0) >= LONG * 5);
        pacing.succeeded(&two);
        assert_eq!(pacing.admit(&one, NOW), Ok(()));
        assert_eq!(pacing.failing(), Failing::default());
    }

    #[test]
    fn a_refusal_concerns_one_task() {
        let mut pacing = Pacing::new(LONG, LONG * 10);
        let [one, two] = [1, 2].map(|id| task(id, "https://a.example/"));
        pacing.failed(&one, &FORBIDDEN, NOW, 0);
        assert!(pacing.admit(&one, NOW).is_err());
        assert_eq!(pacing.admit(&two, NOW), Ok(()));
        // An answer about one task says nothing about the other's token.
        pacing.succeeded(&two);
        assert!(pacing.admit(&one, NOW).is_err());
        assert_eq!(pacing.failing().refused.as_deref(), Some("unauthorized, 1 in a row"));
        assert_eq!(pacing.failing().unreachable, None);
        assert!(pacing.pause_of_all([one.clone()], NOW).is_some());
        assert!(pacing.pause_of_all([one, two], NOW).is_none());
    }

    #[test]
    fn an_open_gate_lets_one_go_ahead() {
        let mut pacing = Pacing::new(Duration::ZERO, LONG);
        let task = task(1, "https://a.example/");
        assert_eq!(pacing.failed(&task, &AWAY, NOW, 255), Duration::ZERO);
        assert_eq!(pacing.admit(&task, NOW), Ok(()));
        assert!(pacing.admit(&task, NOW).is_err(), "the first has not come back");
        assert_eq!(pacing.admit(&task, NOW + LONG), Ok(()), "it never came back");
        let busy = HelperError::Refused {
            status: 429,
            problem: None,
            retry_after: Some(LONG),
            polled: false,
        };
        assert!(pacing.failed(&task, &busy, NOW, 0) >= LONG, "the helper named a pause");
    }

    #[test]
    fn waiting_jobs_are_counted_until_they_are_worked_on() {
        let mut pacing = Pacing::new(LONG, LONG);
        for job in 0..100 {
            pacing.park(job, Duration::ZERO);
        }
        assert!(pacing.park(100, Duration::ZERO) >= Duration::from_secs(5), "they return slowly");
        pacing.stop(JobKind::Aggregation, 200);
        pacing.stop(JobKind::Collection, 200);
        assert_eq!(pacing.waiting_jobs(), 102);
        assert!(!pacing.resume(JobKind::Aggregation, 0));
        assert!(pacing.resume(JobKind::Aggregation, 200));
        assert_eq!(pacing.waiting_jobs(), 100);
        assert_eq!(pacing.failing().stopped, 1);
        assert!(pacing.resume(JobKind::Collection, 200));
        assert_eq!(pacing.failing(), Failing::default());
    }
}
