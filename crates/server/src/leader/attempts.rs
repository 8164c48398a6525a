//! Starts attempts at jobs of one kind, as many at once as the helpers allow.
//!
//! Tasks take turns, and each helper has its own places (`sotto_protocol::leader::pacing`), so a
//! helper that is slow or silent delays only its own tasks. The attempts in flight are bounded by
//! the places of their helpers, and by the memory that all of them need together, which is taken
//! before a job is leased: only then are its reports read. The CPU pool bounds what is computed at
//! once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sotto_protocol::leader::HelperError;
use sotto_protocol::leader::pacing::{AttemptId, JobKind};
use sotto_protocol::leader::unfinished::{IDLE_PAUSE, Unfinished};
use sotto_store::{Lease, StoreError, Turn};
use sotto_wire::TaskId;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::LeaderState;
use crate::environment::timeout;
use crate::health::StoreWork;
use crate::peer::{Created, Resource};
use crate::shutdown::Shutdown;
use crate::tasks::ServedTask;

/// A kind of job.
pub(super) trait Kind: Send + 'static {
    const KIND: JobKind;
    type Job: Send;

    /// Wakes the loop: a job may be ready.
    fn ready(leader: &LeaderState) -> &Notify;

    fn lease(
        leader: &LeaderState,
        turn: Turn,
    ) -> impl Future<Output = Result<Option<Self::Job>, StoreError>> + Send;

    fn lease_of(job: &Self::Job) -> (Lease, TaskId);

    fn work(
        leader: &Arc<LeaderState>,
        attempt: &Attempt,
        job: Self::Job,
    ) -> impl Future<Output = Result<(), Unfinished>> + Send;
}

/// An attempt at a job, until it is dropped.
pub(super) struct Attempt {
    leader: Arc<LeaderState>,
    id: AttemptId,
    kind: JobKind,
    pub(super) task: Arc<ServedTask>,
}

pub(super) async fn run<K: Kind>(leader: Arc<LeaderState>, mut shutdown: Shutdown) {
    let mut attempts = JoinSet::new();
    let mut after = None;
    while !shutdown.has_begun() {
        while let Some(ended) = attempts.try_join_next() {
            resume_panic(ended);
        }
        // Not cancelled by the shutdown: a lease that got lost there would keep the job from others.
        let leased = K::lease(&leader, turn(&leader, K::KIND, after)).await;
        if let Ok(Some(job)) = leader.aggregator.health.noted(StoreWork::Lease, leased) {
            let (_, task_id) = K::lease_of(&job);
            after = Some(task_id);
            let task = leader.aggregator.tasks.task(&task_id);
            let attempt = task.map(|task| Attempt::begin(&leader, K::KIND, task));
            attempts.spawn(run_one::<K>(Arc::clone(&leader), attempt, job, shutdown.clone()));
            continue;
        }
        let pause = leader.pacing.next_opening().unwrap_or(IDLE_PAUSE).min(IDLE_PAUSE);
        shutdown.or(timeout(pause, K::ready(&leader).notified())).await;
    }
    while let Some(ended) = attempts.join_next().await {
        resume_panic(ended);
    }
}

/// Leaves out the tasks whose helper has no free place. Jobs of unknown tasks are leased: an
/// operator has to know of them.
fn turn(leader: &Arc<LeaderState>, kind: JobKind, after: Option<TaskId>) -> Turn {
    let leader = Arc::clone(leader);
    let is_ready = move |task_id: &TaskId| {
        let task = leader.aggregator.tasks.task(task_id);
        task.is_none_or(|task| leader.pacing.admits(kind, &task))
    };
    Turn { after, is_ready: Arc::new(is_ready) }
}

/// Works on a leased job. `None` if its task is unknown, and within it if no place is free any more.
async fn run_one<K: Kind>(
    leader: Arc<LeaderState>,
    attempt: Option<Option<Attempt>>,
    job: K::Job,
    mut shutdown: Shutdown,
) {
    let (lease, task_id) = K::lease_of(&job);
    leader.pacing.resume(K::KIND, lease.job);
    let outcome = match &attempt {
        Some(Some(attempt)) => shutdown.or(K::work(&leader, attempt, job)).await,
        Some(None) => None,
        None => Some(Err(Unfinished::Stop(format!("task {task_id} is no longer configured")))),
    };
    match outcome {
        Some(Ok(())) => {}
        Some(Err(unfinished)) => leader.release_unfinished(K::KIND, lease, unfinished).await,
        None => leader.give_back(K::KIND, lease, Duration::ZERO).await,
    }
    drop(attempt);
    K::ready(&leader).notify_one();
}

/// A panic of an attempt is one of its loop, which ends the server.
fn resume_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}

impl Attempt {
    fn begin(leader: &Arc<LeaderState>, kind: JobKind, task: Arc<ServedTask>) -> Option<Self> {
        let id = leader.pacing.begin(kind, &task)?;
        Some(Self { leader: Arc::clone(leader), id, kind, task })
    }

    /// Calls the helper.
    pub(super) async fn create(
        &self,
        resource: Resource,
        body: Vec<u8>,
    ) -> Result<Created, HelperError> {
        let Self { leader, id, task, .. } = self;
        leader.pacing.called(*id);
        let created = leader.helper.create(task, resource, Bytes::from(body)).await;
        match &created {
            Ok(_) => leader.pacing.succeeded(*id),
            Err(error) => leader.metrics.helper_errors.add(error.reason(), 1),
        }
        created
    }

    /// The helper answered, and speaks DAP.
    pub(super) fn succeeded(&self) {
        self.leader.pacing.succeeded(self.id);
    }

    /// The helper failed. Returns what happens to the job: it waits a little longer than its helper,
    /// so that another job of the same task has the next attempt.
    pub(super) fn failed(&self, error: &HelperError) -> Unfinished {
        let reason = error.reason();
        let helper = self.task.helper.as_ref().map(|helper| &*helper.base);
        tracing::warn!(helper, reason, kind = ?self.kind, "the helper did not answer; retrying");
        let pause = self.leader.pacing.failed(self.id, error);
        Unfinished::Wait(pause + pause / 4)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.leader.pacing.end(self.id);
    }
}
