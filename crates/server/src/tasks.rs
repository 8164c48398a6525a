//! The tasks that a server takes part in, and what it needs to talk to its peers about them.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderValue;
use sotto_protocol::{AggregatorTask, ReplayScope};
use sotto_wire::recipe::Recipe;
use sotto_wire::{EntryId, HttpUrl, Role, TaskId, taskprov};

use crate::auth::AuthToken;
use crate::error::TaskRefused;
use crate::outbound::{self, Reach, peer_url};

/// A task with the tokens of its parties.
#[derive(Debug)]
pub struct ServedTask {
    aggregator: AggregatorTask,
    /// Between leader and helper.
    pub(crate) leader_token: Arc<AuthToken>,
    /// Between collector and leader; none at the helper.
    pub(crate) collector_token: Option<Arc<AuthToken>>,
    /// Where the leader finds the helper; the helper has none.
    pub(crate) helper: Option<HelperEndpoint>,
    /// A plain task has none.
    pub(crate) recipe: Option<Arc<Recipe>>,
}

impl ServedTask {
    /// A task at its leader. The leader sends `leader_token` to the helper and expects
    /// `collector_token` from the collector.
    pub fn leader(
        aggregator: AggregatorTask,
        leader_token: Arc<AuthToken>,
        collector_token: Arc<AuthToken>,
    ) -> Result<Self, TaskRefused> {
        let task_id = *aggregator.task.id();
        if aggregator.role != Role::Leader {
            return Err(TaskRefused::OtherRole(task_id));
        }
        let helper = HelperEndpoint::new(&aggregator)
            .map_err(|reason| TaskRefused::HelperUrl { task_id, reason })?;
        Ok(Self {
            aggregator,
            leader_token,
            collector_token: Some(collector_token),
            helper: Some(helper),
            recipe: None,
        })
    }

    /// A task at its helper. The helper expects `leader_token` from the leader.
    pub fn helper(
        aggregator: AggregatorTask,
        leader_token: Arc<AuthToken>,
    ) -> Result<Self, TaskRefused> {
        if aggregator.role != Role::Helper {
            return Err(TaskRefused::OtherRole(*aggregator.task.id()));
        }
        Ok(Self { aggregator, leader_token, collector_token: None, helper: None, recipe: None })
    }

    /// Makes this the task of a recipe, whose terms it keeps. An author chose the helper's URL among
    /// those of our peers, so requests go to public addresses only, unless the peer's entry allows
    /// others.
    pub(crate) fn of_recipe(self, recipe: Arc<Recipe>, private_addresses: bool) -> Self {
        let reach = if private_addresses { Reach::Anywhere } else { Reach::Public };
        let helper = self.helper.map(|helper| HelperEndpoint { reach, ..helper });
        Self { recipe: Some(recipe), helper, ..self }
    }

    /// The task's id.
    pub fn id(&self) -> &TaskId {
        self.aggregator.task.id()
    }

    /// The task itself.
    pub fn aggregator(&self) -> &AggregatorTask {
        &self.aggregator
    }
}

/// Where the leader of a task finds its helper.
#[derive(Debug)]
pub(crate) struct HelperEndpoint {
    /// The helper's base URL as the task spells it. Tasks with the same URL share pauses after
    /// failures.
    pub(crate) base: Arc<str>,
    pub(crate) aggregation_jobs: HttpUrl,
    pub(crate) aggregate_shares: HttpUrl,
    pub(crate) hpke_config: HttpUrl,
    /// The `DAP-Taskprov` header of tasks that were provisioned in band.
    pub(crate) taskprov: Option<HeaderValue>,
    /// Where requests may go.
    pub(crate) reach: Reach,
}

impl HelperEndpoint {
    fn new(task: &AggregatorTask) -> Result<Self, String> {
        let base = task.task.configuration().helper_aggregator_endpoint().as_str();
        let url = peer_url(base)?;
        let below = |path: &str| url.below(path).map_err(|error| format!("its URL {error}"));
        let resource = |name: &str| below(&format!("tasks/{}/{name}", task.task.id()));
        let taskprov = task
            .taskprov
            .then(|| taskprov::header_value(task.task.encoded_configuration()))
            .map(|value| {
                HeaderValue::try_from(value).map_err(|_| "its task is too long".to_owned())
            })
            .transpose()?;
        Ok(Self {
            base: base.into(),
            aggregation_jobs: resource("aggregation_jobs")?,
            aggregate_shares: resource("aggregate_shares")?,
            hpke_config: below("hpke_config")?,
            taskprov,
            reach: Reach::Anywhere,
        })
    }

    /// Whether requests to it leave the machine unencrypted.
    fn is_exposed(&self) -> bool {
        self.aggregation_jobs.is_exposed()
    }
}

/// All tasks of a server. Tasks can be added while it runs.
#[derive(Debug)]
pub struct TaskRegistry {
    role: Role,
    insecure_plain_tasks: bool,
    insecure_http: bool,
    tasks: RwLock<HashMap<TaskId, Arc<ServedTask>>>,
    /// The names that authors use: for what, and for how many tasks.
    names: RwLock<HashMap<String, (EntryId, usize)>>,
    /// Tasks whose data the store has deleted, now or earlier. They are never served again: their
    /// reports could count twice. An upload in progress may still store one.
    forgotten: RwLock<HashSet<TaskId>>,
    /// Open recipes that name this aggregator and are not served, each with the reason.
    not_served: RwLock<BTreeMap<EntryId, String>>,
}

impl TaskRegistry {
    pub(crate) fn new(role: Role, insecure_plain_tasks: bool, insecure_http: bool) -> Self {
        Self {
            role,
            insecure_plain_tasks,
            insecure_http,
            tasks: RwLock::default(),
            names: RwLock::default(),
            forgotten: RwLock::default(),
            not_served: RwLock::default(),
        }
    }

    /// Without these tasks, which the store has forgotten.
    pub(crate) fn without(self, forgotten: Vec<TaskId>) -> Self {
        Self { forgotten: RwLock::new(forgotten.into_iter().collect()), ..self }
    }

    /// Serves a task from now on. This does not survive a restart.
    pub fn add(&self, task: ServedTask) -> Result<(), TaskRefused> {
        self.check(&task)?;
        let id = *task.id();
        let mut tasks = self.tasks.write().unwrap_or_else(PoisonError::into_inner);
        if tasks.contains_key(&id) {
            return Err(TaskRefused::Exists(id));
        }
        if let Some(recipe) = &task.recipe {
            let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
            names.entry(name_of(recipe)).or_insert_with(|| (recipe.series_id(), 0)).1 += 1;
        }
        tasks.insert(id, Arc::new(task));
        Ok(())
    }

    /// Whether a task may be served: what [`Self::add`] checks, except for the id.
    pub(crate) fn check(&self, task: &ServedTask) -> Result<(), TaskRefused> {
        let id = *task.id();
        if self.is_forgotten(&id) {
            return Err(TaskRefused::Forgotten(id));
        }
        if let ReplayScope::Series(series) = task.aggregator.replay_scope()
            && self.is_forgotten(&series)
        {
            return Err(TaskRefused::SeriesForgotten { task_id: id, series });
        }
        if task.aggregator.role != self.role {
            return Err(TaskRefused::OtherRole(id));
        }
        if task.recipe.is_none() && !self.insecure_plain_tasks {
            return Err(TaskRefused::Plain(id));
        }
        if self.role == Role::Leader && task.collector_token.is_none() {
            return Err(TaskRefused::NoCollectorToken(id));
        }
        if !self.insecure_http && task.helper.as_ref().is_some_and(HelperEndpoint::is_exposed) {
            return Err(TaskRefused::HelperUrl { task_id: id, reason: outbound::EXPOSED.into() });
        }
        Ok(())
    }

    /// The task with this id.
    pub fn task(&self, id: &TaskId) -> Option<Arc<ServedTask>> {
        self.tasks.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// The recipe, or the header of the series, for which the author uses this recipe's name, if it is
    /// another one.
    pub(crate) fn named_so(&self, recipe: &Recipe) -> Option<EntryId> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let known = names.get(&name_of(recipe)).map(|(known, _)| *known);
        known.filter(|known| *known != recipe.series_id())
    }

    /// All tasks, in no order.
    pub fn all(&self) -> Vec<Arc<ServedTask>> {
        self.tasks.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Open recipes that name this aggregator and are not served, each with the reason.
    pub(crate) fn not_served(&self) -> BTreeMap<EntryId, String> {
        self.not_served.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the recipes that are not served. Returns those with a new reason.
    pub(crate) fn set_not_served(
        &self,
        reasons: BTreeMap<EntryId, String>,
    ) -> Vec<(EntryId, String)> {
        let mut known = self.not_served.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = |(id, reason): &(&EntryId, &String)| known.get(*id) != Some(*reason);
        let new = reasons.iter().filter(is_new).map(|(id, reason)| (*id, reason.clone())).collect();
        *known = reasons;
        new
    }

    /// Stops serving a task that the store has forgotten.
    pub(crate) fn forget(&self, id: &TaskId) {
        self.forgotten.write().unwrap_or_else(PoisonError::into_inner).insert(*id);
        let mut tasks = self.tasks.write().unwrap_or_else(PoisonError::into_inner);
        let Some(recipe) = tasks.remove(id).and_then(|task| task.recipe.clone()) else { return };
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut known) = names.entry(name_of(&recipe)) {
            known.get_mut().1 -= 1;
            if known.get().1 == 0 {
                known.remove();
            }
        }
    }

    /// Whether the data of a task was deleted, in this process or an earlier one.
    pub(crate) fn is_forgotten(&self, id: &TaskId) -> bool {
        self.forgotten.read().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

/// The name of a recipe and its author.
fn name_of(recipe: &Recipe) -> String {
    format!("{}/{}", recipe.author.key, recipe.name)
}
