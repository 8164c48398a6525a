//! In-band provisioning: whether an aggregator takes part in a task that a request advertises.
//! Taskprov, section "Opting into a Task".
//!
//! The author of a task is treated as an adversary: every parameter is checked against the
//! operator's policy. Leaves to others: the header itself (`sotto_wire::taskprov`), and remembering
//! the tasks that were joined.

use sotto_crypto::Secret;
use sotto_wire::{
    Decode, DecodeError, HpkeConfig, ProblemType, Role, TaskConfiguration, TaskId, Url, taskprov,
};

use crate::{Abort, AggregatorTask, Moment, ReleaseRules, Task, TaskError};

/// Which advertised tasks an aggregator joins, and with what.
#[derive(Debug)]
pub struct TaskprovPolicy {
    /// This aggregator's role.
    pub role: Role,
    /// The secret shared with the other aggregator, from which verification keys are derived.
    pub verify_key_init: Secret<[u8; 32]>,
    /// The key that aggregate shares are sealed to.
    pub collector_hpke_config: HpkeConfig,
    /// The only leader that tasks may name, in this spelling.
    pub leader_endpoint: Url,
    /// The only helper that tasks may name. Without this an author could point a leader at any
    /// address.
    pub helper_endpoint: Url,
    /// The smallest minimum batch size.
    pub min_batch_size: u64,
    /// The longest task interval, in seconds, and how far ahead it may end. Tasks without an
    /// interval are not joined: their report ids would have to be kept forever.
    pub max_lifetime_s: u64,
}

/// Decides whether to join the task that a request for `task_id` advertises.
///
/// Once joined, a task is never left: the host remembers it and does not ask again.
pub fn opt_in(
    task_id: &TaskId,
    task_configuration: &[u8],
    policy: &TaskprovPolicy,
    now: Moment,
) -> Result<AggregatorTask, Abort> {
    judge(task_id, task_configuration, policy, now).map_err(|abort| abort.for_task(*task_id))
}

/// Makes the aggregator's task from a configuration that was joined before.
pub fn restore(
    task_id: &TaskId,
    task_configuration: TaskConfiguration,
    policy: &TaskprovPolicy,
) -> Result<AggregatorTask, TaskError> {
    Ok(AggregatorTask {
        task: Task::new(*task_id, task_configuration)?,
        role: policy.role,
        verify_key: Secret::new(taskprov::verify_key(policy.verify_key_init.expose(), task_id)),
        collector_hpke_config: policy.collector_hpke_config.clone(),
        taskprov: true,
        // Only a recipe can require tokens or limit the window.
        tokens: None,
        series: None,
        release: ReleaseRules::default(),
    })
}

fn judge(
    task_id: &TaskId,
    encoded: &[u8],
    policy: &TaskprovPolicy,
    now: Moment,
) -> Result<AggregatorTask, Abort> {
    let opt_out = |detail: &str| Abort::new(ProblemType::InvalidTask, detail);
    if taskprov::task_id(encoded) != *task_id {
        return Err(Abort::new(
            ProblemType::UnrecognizedTask,
            "the advertised task has another id than the request",
        ));
    }
    let configuration = TaskConfiguration::from_bytes(encoded).map_err(|error| match error {
        DecodeError::UnknownValue { .. } => opt_out("the batch mode is not known"),
        // A value that is not a task configuration is ignored, and then the task is unknown.
        error => Abort::new(ProblemType::UnrecognizedTask, format!("advertised task: {error}")),
    })?;

    // Must not be joined: a VDAF or task extension that is not implemented, a task that has ended.
    let task =
        restore(task_id, configuration, policy).map_err(|error| opt_out(&error.to_string()))?;
    if task.task.noise().is_some() {
        return Err(opt_out("only the task of a recipe has noise, and is learned from the log"));
    }
    let configuration = task.task.configuration();
    let precision = configuration.time_precision();
    let interval = task.task.interval().ok_or_else(|| opt_out("the task has no interval"))?;
    if interval.end().start_seconds(precision) <= now.0 {
        return Err(opt_out("the task has ended"));
    }
    // Excluded by the policy.
    if configuration.leader_aggregator_endpoint() != &policy.leader_endpoint
        || configuration.helper_aggregator_endpoint() != &policy.helper_endpoint
    {
        return Err(opt_out("the task names another leader or helper"));
    }
    if configuration.min_batch_size() < policy.min_batch_size {
        return Err(opt_out("the minimum batch size is too small"));
    }
    if interval.duration().as_seconds(precision) > policy.max_lifetime_s {
        return Err(opt_out("the task's interval is too long"));
    }
    // A short task in the far future would count as a joined task until then: anybody could use
    // such tasks to use up the limit permanently.
    if interval.end().start_seconds(precision) > now.0.saturating_add(policy.max_lifetime_s) {
        return Err(opt_out("the task ends too far in the future"));
    }
    Ok(task)
}
