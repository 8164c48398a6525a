//! Tasks that a request announces in its `DAP-Taskprov` header. Taskprov, "Opting into a Task".
//!
//! `sotto_protocol::taskprov` decides whether to join. This module makes a joined task durable
//! before the request that announced it is served, and bounds the number of such tasks: anybody can
//! announce one with an upload.

use std::sync::Arc;

use axum::http::HeaderMap;
use sotto_protocol::taskprov::{opt_in, restore};
use sotto_protocol::{Abort, AggregatorTask, Moment, TaskError};
use sotto_store::{StoredTask, TaskStore};
use sotto_wire::{Decode, EntryId, ProblemType, Role, TaskConfiguration, TaskId, taskprov};
use tokio::sync::Mutex;

use crate::aggregator::{Peer, unrecognized_task};
use crate::config::TaskprovConfig;
use crate::error::{BindError, TaskRefused};
use crate::problem::Failure;
use crate::tasks::{ServedTask, TaskRegistry};

/// Joins announced tasks.
pub(crate) struct Provisioner {
    role: Role,
    config: TaskprovConfig,
    /// Whether this aggregator also serves recipes.
    serves_recipes: bool,
    store: Arc<dyn TaskStore>,
    /// One at a time, so that the bound holds.
    joining: Mutex<()>,
}

impl Provisioner {
    /// Serves the tasks that were joined before, in this process or an earlier one.
    pub(crate) async fn load(
        role: Role,
        config: TaskprovConfig,
        serves_recipes: bool,
        tasks: &TaskRegistry,
        store: Arc<dyn TaskStore>,
    ) -> Result<Self, BindError> {
        if config.policy.role != role {
            return Err(BindError::Config("the taskprov policy is for the other role".into()));
        }
        let stored = store.tasks().await?;
        let provisioner = Self { role, config, serves_recipes, store, joining: Mutex::default() };
        for (task_id, stored) in stored {
            let StoredTask::Announced(configuration) = stored else { continue };
            let refused = |error| TaskRefused::Stored { task_id, error };
            let configuration = TaskConfiguration::from_bytes(&configuration)
                .map_err(|_| refused(TaskError::Invalid("its configuration does not decode")))?;
            if provisioner.is_of_a_recipe(&configuration) {
                return Err(TaskRefused::RecipeInBand(task_id).into());
            }
            // Once joined, a task stays joined: the policy is not consulted again.
            let task = restore(&task_id, configuration, &provisioner.config.policy);
            tasks.add(provisioner.served(task.map_err(refused)?)?)?;
        }
        Ok(provisioner)
    }

    /// Lets a request pass that carries the token that all announced tasks share.
    pub(crate) fn check(&self, peer: Peer, headers: &HeaderMap) -> Result<(), Failure> {
        let token = match peer {
            Peer::Leader => Some(&self.config.leader_token),
            Peer::Collector => self.config.collector_token.as_ref(),
        };
        token.ok_or(Failure::Forbidden)?.check(headers)
    }

    /// Joins the task that a request announces, durably.
    pub(crate) async fn provision(
        &self,
        task_id: TaskId,
        headers: &HeaderMap,
        tasks: &TaskRegistry,
        now: Moment,
    ) -> Result<Arc<ServedTask>, Failure> {
        let announced = announced(headers).ok_or_else(|| unrecognized_task(task_id))?;
        let _turn = self.joining.lock().await;
        if let Some(task) = tasks.task(&task_id) {
            return Ok(task);
        }
        let task = opt_in(&task_id, &announced, &self.config.policy, now)?;
        let opt_out = |detail: &str| Abort::new(ProblemType::InvalidTask, detail).for_task(task_id);
        let in_band = |task: &&Arc<ServedTask>| task.aggregator().taskprov && task.recipe.is_none();
        if self.is_of_a_recipe(task.task.configuration()) {
            return Err(opt_out("A task of a recipe is learned from the log alone.").into());
        }
        let joined = tasks.all().iter().filter(in_band).count();
        if joined >= self.config.max_tasks {
            return Err(opt_out("This aggregator takes part in no more tasks.").into());
        }
        let task = self.served(task).map_err(|refused| opt_out(&refused.to_string()))?;
        self.store.put_task(task_id, StoredTask::Announced(announced)).await?;
        tasks.add(task).map_err(|refused| opt_out(&refused.to_string()))?;
        tracing::info!(task = %task_id, "joined a task that was announced in band");
        tasks.task(&task_id).ok_or_else(|| unrecognized_task(task_id))
    }

    /// Whether a task may be that of a recipe, which is only learned from the log. If it were
    /// announced before the log was read or before recipes were served here, it would be served
    /// without the recipe's tokens.
    fn is_of_a_recipe(&self, configuration: &TaskConfiguration) -> bool {
        self.serves_recipes && configuration.task_info().len() == EntryId::LEN
    }

    fn served(&self, task: AggregatorTask) -> Result<ServedTask, TaskRefused> {
        let leader_token = Arc::clone(&self.config.leader_token);
        match (self.role, &self.config.collector_token) {
            (Role::Leader, Some(collector_token)) => {
                ServedTask::leader(task, leader_token, Arc::clone(collector_token))
            }
            (Role::Leader, None) => Err(TaskRefused::NoCollectorToken(*task.task.id())),
            _ => ServedTask::helper(task, leader_token),
        }
    }
}

/// The task configuration that a request announces. A header that is not a byte sequence is
/// ignored, as if it were absent.
pub(crate) fn announced(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(taskprov::HEADER)?;
    taskprov::parse_header(value.to_str().ok()?).ok()
}
