//! Which helpers may be called, and how often a failing one is retried.
//!
//! **Attempts in flight** are limited per helper, so that one slow helper keeps nobody else
//! waiting; all of them together are limited by the memory that they need
//! ([`memory`](crate::memory)). A helper is **in trouble** if its last call failed, or if a call has
//! been without an answer for much longer than usual; a single task is in trouble if the helper
//! refuses that task's requests. In trouble, there is at most one attempt in flight, and none until
//! a pause is over that doubles with each failure. Until then the jobs stay in the store, where they
//! cost nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sotto_wire::TaskId;

use super::HelperError;
use crate::memory::admits_job;

/// A call that takes longer than this is slow, unless the helper usually takes long.
const SLOW: Duration = Duration::from_secs(1);
/// A call is slow if it takes this many times as long as usual.
const SLOW_FACTOR: u32 = 4;

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

/// How often helpers are called.
#[derive(Clone, Copy, Debug)]
pub struct PacingLimits {
    /// The pause after a helper's first failure. It doubles with each further one.
    pub min_pause: Duration,
    /// The longest pause.
    pub max_pause: Duration,
    /// Attempts at aggregation jobs that may be in flight at one helper.
    pub max_aggregations: usize,
    /// Attempts at collection jobs that may be in flight at one helper.
    pub max_collections: usize,
    /// Bytes that all attempts may need together.
    pub max_memory: u64,
}

/// One attempt at a job, until it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AttemptId(u64);

/// The attempts in flight, and the gates of all helpers and tasks in trouble.
#[derive(Clone, Debug)]
pub struct Pacing {
    limits: PacingLimits,
    attempts: BTreeMap<AttemptId, Attempt>,
    next_attempt: u64,
    gates: HashMap<GateKey, Gate>,
    /// How long each helper usually takes to answer.
    usual: HashMap<GateKey, Duration>,
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

#[derive(Clone, Debug)]
struct Attempt {
    kind: JobKind,
    of: HelperOf,
    /// The bytes that it needs.
    memory: u64,
    /// When the helper was called, until it answers or fails.
    called: Option<Duration>,
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
    /// Only probes have failed so far. A probe opens no gate that jobs closed: they need more than
    /// a sign of life.
    by_probe: bool,
}

impl Pacing {
    /// Nothing is in flight, and nobody is in trouble.
    pub fn new(limits: PacingLimits) -> Self {
        Self {
            limits,
            attempts: BTreeMap::new(),
            next_attempt: 0,
            gates: HashMap::new(),
            usual: HashMap::new(),
            stopped: HashSet::new(),
        }
    }

    /// Whether an attempt at a job of this task, which needs `memory` bytes, may begin now.
    pub fn admits(&self, kind: JobKind, of: &HelperOf, memory: u64, now: Duration) -> bool {
        let is_open = |key: &GateKey| self.gates.get(key).is_none_or(|gate| gate.opens <= now);
        let is_blocked =
            |key: &GateKey| self.attempts_at(key).next().is_some() && self.is_troubled(key, now);
        let max = match kind {
            JobKind::Aggregation => self.limits.max_aggregations,
            JobKind::Collection => self.limits.max_collections,
        };
        let server = of.server();
        let in_flight = self.attempts_at(&server).filter(|attempt| attempt.kind == kind);
        let here = self.attempts_at(&server).map(|attempt| attempt.memory).sum();
        in_flight.count() < max.max(1)
            && admits_job(self.limits.max_memory, self.memory(), here, memory)
            && of.keys().all(|key| is_open(&key) && !is_blocked(&key))
    }

    /// The bytes that all attempts in flight need.
    pub fn memory(&self) -> u64 {
        self.attempts.values().map(|attempt| attempt.memory).sum()
    }

    /// Begins an attempt, if one may begin now.
    pub fn begin(
        &mut self,
        kind: JobKind,
        of: HelperOf,
        memory: u64,
        now: Duration,
    ) -> Option<AttemptId> {
        if !self.admits(kind, &of, memory, now) {
            return None;
        }
        let id = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        self.attempts.insert(id, Attempt { kind, of, memory, called: None });
        Some(id)
    }

    /// An attempt calls its helper.
    pub fn called(&mut self, id: AttemptId, now: Duration) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.called = Some(now);
        }
    }

    /// The helper answered an attempt. Returns whether it, or the task, was in trouble.
    pub fn succeeded(&mut self, id: AttemptId, now: Duration) -> bool {
        let Some(attempt) = self.attempts.get(&id) else { return false };
        let (of, called) = (attempt.of.clone(), attempt.called);
        let was_in_trouble = self.is_in_trouble(&of, now);
        if let Some(called) = called {
            let took = now.saturating_sub(called);
            let usual = self.usual.entry(of.server()).or_insert(took);
            *usual = (*usual * 7 + took) / 8;
        }
        for key in of.keys() {
            self.gates.remove(&key);
        }
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.called = None;
        }
        was_in_trouble
    }

    /// An attempt failed. Returns how long to wait before the next call. `jitter` is a random byte.
    pub fn failed(
        &mut self,
        id: AttemptId,
        error: &HelperError,
        now: Duration,
        jitter: u8,
    ) -> Duration {
        let Some(attempt) = self.attempts.get_mut(&id) else { return self.limits.max_pause };
        attempt.called = None;
        let key = blame(&attempt.of, error);
        self.close(key, false, error, now, jitter)
    }

    /// Whether a helper can be asked for a sign of life: no attempt is in flight there, and no job
    /// has found it in trouble. Those jobs will notice when it is back.
    pub fn is_idle(&self, helper: &Arc<str>, now: Duration) -> bool {
        let key = GateKey::Helper(Arc::clone(helper));
        let is_ours = |gate: &Gate| gate.by_probe && gate.opens <= now;
        self.gates.get(&key).is_none_or(is_ours) && self.attempts_at(&key).next().is_none()
    }

    /// An idle helper gave a sign of life, or none. Returns whether that is news.
    pub fn probed(
        &mut self,
        helper: &Arc<str>,
        outcome: &Result<(), HelperError>,
        now: Duration,
        jitter: u8,
    ) -> bool {
        let key = GateKey::Helper(Arc::clone(helper));
        if self.gates.get(&key).is_some_and(|gate| !gate.by_probe) {
            return false;
        }
        match outcome {
            Ok(()) => self.gates.remove(&key).is_some(),
            Err(error) => {
                self.close(key, true, error, now, jitter);
                true
            }
        }
    }

    /// Closes a gate after a failure, for a while.
    fn close(
        &mut self,
        key: GateKey,
        by_probe: bool,
        error: &HelperError,
        now: Duration,
        jitter: u8,
    ) -> Duration {
        let reason = error.reason();
        let first = Gate { failures: 0, failed: now, reason, opens: now, by_probe };
        let gate = self.gates.entry(key).or_insert(first);
        gate.by_probe &= by_probe;
        gate.failures = gate.failures.saturating_add(1);
        let doublings = gate.failures.saturating_sub(1).min(16);
        let max_pause = self.limits.max_pause.max(self.limits.min_pause);
        let pause = (self.limits.min_pause * 2u32.pow(doublings)).min(max_pause);
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

    /// An attempt has ended, however.
    pub fn end(&mut self, id: AttemptId) {
        self.attempts.remove(&id);
    }

    /// How long until the next gate opens; `None` if none is closed.
    pub fn next_opening(&self, now: Duration) -> Option<Duration> {
        let pauses = self.gates.values().filter_map(|gate| gate.opens.checked_sub(now));
        pauses.filter(|pause| !pause.is_zero()).min()
    }

    /// Whether a task, or its helper, is in trouble.
    pub fn is_in_trouble(&self, of: &HelperOf, now: Duration) -> bool {
        of.keys().any(|key| self.is_troubled(&key, now))
    }

    /// Notes that a job is being worked on again. Returns whether it was stopped.
    pub fn resume(&mut self, kind: JobKind, job: u64) -> bool {
        self.stopped.remove(&(kind, job))
    }

    /// Notes that a job was stopped because continuing could make the two sums differ.
    pub fn stop(&mut self, kind: JobKind, job: u64) {
        self.stopped.insert((kind, job));
    }

    /// Jobs of this kind that are waiting for an operator.
    pub fn stopped_jobs(&self, kind: JobKind) -> u64 {
        self.stopped.iter().filter(|(stopped, _)| *stopped == kind).count() as u64
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

    fn attempts_at(&self, key: &GateKey) -> impl Iterator<Item = &Attempt> {
        self.attempts.values().filter(move |attempt| attempt.of.keys().any(|at| at == *key))
    }

    fn is_troubled(&self, key: &GateKey, now: Duration) -> bool {
        let usual = self.usual.get(key).copied().unwrap_or_default();
        let slow = SLOW.max(usual * SLOW_FACTOR);
        let hangs = |attempt: &Attempt| {
            attempt.of.server() == *key
                && attempt.called.is_some_and(|called| now.saturating_sub(called) > slow)
        };
        self.gates.contains_key(key) || self.attempts.values().any(hangs)
    }
}

impl HelperOf {
    /// What fails as a whole: the helper, or the task if it has none.
    fn server(&self) -> GateKey {
        self.helper.clone().map_or(GateKey::Task(self.task_id), GateKey::Helper)
    }

    fn keys(&self) -> impl Iterator<Item = GateKey> + use<> {
        let helper = self.helper.clone().map(GateKey::Helper);
        helper.into_iter().chain([GateKey::Task(self.task_id)])
    }
}

/// A refusal that concerns one task says nothing about the helper's other tasks.
fn blame(of: &HelperOf, error: &HelperError) -> GateKey {
    match error {
        HelperError::Refused { status: 400..=428, .. } => GateKey::Task(of.task_id),
        _ => of.server(),
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
    const KIND: JobKind = JobKind::Aggregation;

    fn task(id: u8, helper: &str) -> HelperOf {
        HelperOf { task_id: TaskId::new([id; 32]), helper: Some(helper.into()) }
    }

    fn pacing(min_pause: Duration, max_pause: Duration) -> Pacing {
        Pacing::new(PacingLimits {
            min_pause,
            max_pause,
            max_aggregations: 3,
            max_collections: 2,
            max_memory: 1_000,
        })
    }

    impl Pacing {
        /// One attempt that fails.
        fn fail(
            &mut self,
            of: &HelperOf,
            error: &HelperError,
            now: Duration,
            jitter: u8,
        ) -> Duration {
            let id = AttemptId(u64::MAX);
            self.attempts
                .insert(id, Attempt { kind: KIND, of: of.clone(), called: Some(now), memory: 0 });
            let pause = self.failed(id, error, now, jitter);
            self.end(id);
            pause
        }

        /// One attempt that the helper answers after this long.
        fn answer(&mut self, of: &HelperOf, now: Duration, took: Duration) {
            let id = AttemptId(u64::MAX);
            self.attempts
                .insert(id, Attempt { kind: KIND, of: of.clone(), called: Some(now), memory: 0 });
            self.succeeded(id, now + took);
            self.end(id);
        }
    }

    #[test]
    fn a_helper_that_is_away_closes_the_gate_for_all_its_tasks() {
        let mut pacing = pacing(LONG, LONG * 10);
        let [one, two] = [1, 2].map(|id| task(id, "https://a.example/"));
        let other = task(3, "https://b.example/");
        assert!(pacing.admits(KIND, &one, 0, NOW));
        for jitter in [0, 255] {
            let mut pacing = pacing.clone();
            let first = pacing.fail(&one, &AWAY, NOW, jitter);
            assert!(first >= LONG / 2 && first <= LONG, "{first:?}");
        }
        let first = pacing.fail(&one, &AWAY, NOW, 7);
        assert!(!pacing.admits(KIND, &one, 0, NOW));
        assert!(!pacing.admits(KIND, &two, 0, NOW + first / 2));
        assert_eq!(pacing.next_opening(NOW + first / 2), Some(first - first / 2));
        assert!(pacing.admits(KIND, &two, 0, NOW + first));
        assert!(pacing.admits(KIND, &other, 0, NOW));
        assert_eq!(pacing.failing().unreachable.as_deref(), Some("connect, 1 in a row"));
        // The pause grows up to its bound.
        for _ in 0..40 {
            assert!(pacing.fail(&one, &AWAY, NOW, 255) <= LONG * 10);
        }
        assert!(pacing.fail(&one, &AWAY, NOW, 0) >= LONG * 5);
        pacing.answer(&two, NOW, Duration::ZERO);
        assert!(pacing.admits(KIND, &one, 0, NOW));
        assert_eq!(pacing.failing(), Failing::default());
        assert_eq!(pacing.next_opening(NOW), None);
    }

    #[test]
    fn a_probe_finds_an_idle_helper_away_and_back() {
        let mut pacing = pacing(LONG, LONG * 10);
        let one = task(1, "https://a.example/");
        let helper = one.helper.clone().unwrap();
        assert!(pacing.is_idle(&helper, NOW));
        assert!(!pacing.probed(&helper, &Ok(()), NOW, 0), "no news");
        assert!(pacing.probed(&helper, &Err(AWAY), NOW, 255));
        assert_eq!(pacing.failing().unreachable.as_deref(), Some("connect, 1 in a row"));
        assert!(!pacing.is_idle(&helper, NOW) && !pacing.admits(KIND, &one, 0, NOW));
        assert!(pacing.is_idle(&helper, NOW + LONG));
        assert!(pacing.probed(&helper, &Ok(()), NOW + LONG, 0));
        assert_eq!(pacing.failing(), Failing::default());
        // What jobs have found, only jobs take back.
        pacing.probed(&helper, &Err(AWAY), NOW, 0);
        pacing.fail(&one, &AWAY, NOW, 0);
        assert!(!pacing.is_idle(&helper, NOW + 100 * LONG));
        assert!(!pacing.probed(&helper, &Ok(()), NOW, 0));
        assert!(pacing.failing().unreachable.is_some());
        pacing.answer(&one, NOW, Duration::ZERO);
        assert!(pacing.is_idle(&helper, NOW));
        let attempt = pacing.begin(KIND, one, 0, NOW).unwrap();
        assert!(!pacing.is_idle(&helper, NOW), "a job is in flight");
        pacing.end(attempt);
    }

    #[test]
    fn a_refusal_concerns_one_task() {
        let mut pacing = pacing(LONG, LONG * 10);
        let [one, two] = [1, 2].map(|id| task(id, "https://a.example/"));
        pacing.fail(&one, &FORBIDDEN, NOW, 0);
        assert!(!pacing.admits(KIND, &one, 0, NOW));
        assert!(pacing.admits(KIND, &two, 0, NOW));
        // An answer about one task says nothing about the other's token.
        pacing.answer(&two, NOW, Duration::ZERO);
        assert!(!pacing.admits(KIND, &one, 0, NOW));
        assert_eq!(pacing.failing().refused.as_deref(), Some("unauthorized, 1 in a row"));
        assert_eq!(pacing.failing().unreachable, None);
        assert!(pacing.is_in_trouble(&one, NOW) && !pacing.is_in_trouble(&two, NOW));
    }

    #[test]
    fn an_open_gate_lets_one_go_ahead() {
        let mut pacing = pacing(Duration::ZERO, LONG);
        let [one, two] = [1, 2].map(|id| task(id, "https://a.example/"));
        assert_eq!(pacing.fail(&one, &AWAY, NOW, 255), Duration::ZERO);
        let first = pacing.begin(KIND, one.clone(), 0, NOW).unwrap();
        pacing.called(first, NOW);
        for kind in [JobKind::Aggregation, JobKind::Collection] {
            assert!(!pacing.admits(kind, &two, 0, NOW), "the first has not come back");
            assert!(!pacing.admits(kind, &two, 0, NOW + 10 * LONG), "however long it takes");
        }
        pacing.end(first);
        assert!(pacing.admits(KIND, &two, 0, NOW), "it ended without an answer");
        let busy = HelperError::Refused {
            status: 429,
            problem: None,
            retry_after: Some(LONG),
            polled: false,
        };
        assert!(pacing.fail(&one, &busy, NOW, 0) >= LONG, "the helper named a pause");
    }

    #[test]
    fn each_helper_has_its_own_places() {
        let mut pacing = pacing(LONG, LONG);
        let slow = [1, 2].map(|id| task(id, "https://slow.example/"));
        for index in 0..3 {
            assert!(pacing.begin(KIND, slow[index % 2].clone(), 0, NOW).is_some());
        }
        for slow in &slow {
            assert_eq!(pacing.begin(KIND, slow.clone(), 0, NOW), None);
        }
        assert!(pacing.admits(JobKind::Collection, &slow[0], 0, NOW), "another kind");
        assert!(pacing.admits(KIND, &task(3, "https://b.example/"), 0, NOW), "another helper");
        pacing.end(AttemptId(1));
        assert!(pacing.admits(KIND, &slow[1], 0, NOW));
    }

    #[test]
    fn a_call_that_hangs_is_trouble_before_it_fails() {
        let ms = Duration::from_millis;
        // How long the helper took before, and how long a call has been without an answer.
        for (before, waited, is_in_trouble) in [
            (None, ms(900), false),
            (None, ms(1_100), true),
            (Some(ms(10)), ms(900), false),
            (Some(ms(10)), ms(1_100), true),
            (Some(ms(2_000)), ms(7_900), false),
            (Some(ms(2_000)), ms(8_100), true),
        ] {
            let mut pacing = pacing(ms(100), ms(100));
            let [one, two] = [1, 2].map(|id| task(id, "https://a.example/"));
            if let Some(before) = before {
                pacing.answer(&one, Duration::ZERO, before);
            }
            let hanging = pacing.begin(KIND, one.clone(), 0, NOW).unwrap();
            assert!(pacing.admits(KIND, &two, 0, NOW + LONG), "it has not called yet");
            pacing.called(hanging, NOW);
            let now = NOW + waited;
            assert_eq!(pacing.admits(KIND, &two, 0, now), !is_in_trouble, "{before:?} {waited:?}");
            assert_eq!(pacing.is_in_trouble(&two, now), is_in_trouble);
            assert_eq!(pacing.failing(), Failing::default());
            assert_eq!(pacing.succeeded(hanging, now), is_in_trouble);
            assert!(pacing.admits(KIND, &two, 0, now), "it answered after all");
        }
    }

    #[test]
    fn stopped_jobs_are_counted_until_they_are_worked_on() {
        let mut pacing = pacing(LONG, LONG);
        pacing.stop(JobKind::Aggregation, 200);
        pacing.stop(JobKind::Collection, 200);
        assert_eq!(pacing.stopped_jobs(JobKind::Aggregation), 1);
        assert_eq!(pacing.failing().stopped, 2);
        assert!(!pacing.resume(JobKind::Aggregation, 0));
        assert!(pacing.resume(JobKind::Aggregation, 200));
        assert_eq!(pacing.stopped_jobs(JobKind::Aggregation), 0);
        assert!(pacing.resume(JobKind::Collection, 200));
        assert_eq!(pacing.failing(), Failing::default());
    }
}
