//! The tasks that a server takes part in, and what it needs to talk to its peers about them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderValue;
use sotto_protocol::AggregatorTask;
use sotto_wire::recipe::Recipe;
use sotto_wire::{HttpUrl, Role, TaskId, taskprov};

use crate::auth::AuthToken;
use crate::error::TaskRefused;
use crate::outbound::{self, peer_url};

/// A task with the tokens of its parties.
#[derive(Debug)]
pub struct ServedTask {
    aggregator: AggregatorTask,
    leader_token: Arc<AuthToken>,
    collector_token: Option<Arc<AuthToken>>,
    helper: Option<HelperEndpoint>,
    recipe: Option<Arc<Recipe>>,
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

    /// Makes this the task of a recipe, whose terms it keeps.
    pub(crate) fn of_recipe(self, recipe: Arc<Recipe>) -> Self {
        Self { recipe: Some(recipe), ..self }
    }

    /// The recipe of the task; a plain task has none.
    pub(crate) fn recipe(&self) -> Option<&Arc<Recipe>> {
        self.recipe.as_ref()
    }

    /// The task's id.
    pub fn id(&self) -> &TaskId {
        self.aggregator.task.id()
    }

    /// The task itself.
    pub fn aggregator(&self) -> &AggregatorTask {
        &self.aggregator
    }

    /// Between leader and helper.
    pub(crate) fn leader_token(&self) -> &AuthToken {
        &self.leader_token
    }

    /// Between collector and leader; none at the helper.
    pub(crate) fn collector_token(&self) -> Option<&AuthToken> {
        self.collector_token.as_deref()
    }

    /// Where the leader finds the helper; the helper has none.
    pub(crate) fn helper_endpoint(&self) -> Option<&HelperEndpoint> {
        self.helper.as_ref()
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
    /// The `DAP-Taskprov` header of tasks that were provisioned in band.
    pub(crate) taskprov: Option<HeaderValue>,
}

impl HelperEndpoint {
    fn new(task: &AggregatorTask) -> Result<Self, String> {
        let base = task.task.configuration().helper_aggregator_endpoint().as_str();
        let url = peer_url(base)?;
        let resource = |name: &str| {
            let below = url.below(&format!("tasks/{}/{name}", task.task.id()));
            below.map_err(|error| format!("its URL {error}"))
        };
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
            taskprov,
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
    /// Ids of tasks that are over: an upload in progress may still store one of their reports.
    forgotten: RwLock<HashSet<TaskId>>,
}

impl TaskRegistry {
    pub(crate) fn new(role: Role, insecure_plain_tasks: bool, insecure_http: bool) -> Self {
        Self {
            role,
            insecure_plain_tasks,
            insecure_http,
            tasks: RwLock::default(),
            forgotten: RwLock::default(),
        }
    }

    /// Serves a task from now on. This does not survive a restart.
    pub fn add(&self, task: ServedTask) -> Result<(), TaskRefused> {
        self.check(&task)?;
        let id = *task.id();
        let mut tasks = self.tasks.write().unwrap_or_else(PoisonError::into_inner);
        if tasks.contains_key(&id) {
            return Err(TaskRefused::Exists(id));
        }
        tasks.insert(id, Arc::new(task));
        Ok(())
    }

    /// Whether a task may be served: what [`Self::add`] checks, except for the id.
    pub(crate) fn check(&self, task: &ServedTask) -> Result<(), TaskRefused> {
        let id = *task.id();
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

    /// All tasks, in no order.
    pub fn all(&self) -> Vec<Arc<ServedTask>> {
        self.tasks.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Stops serving a task that is over.
    pub(crate) fn forget(&self, id: &TaskId) {
        self.forgotten.write().unwrap_or_else(PoisonError::into_inner).insert(*id);
        self.tasks.write().unwrap_or_else(PoisonError::into_inner).remove(id);
    }

    /// Whether this process served a task until it was over.
    pub(crate) fn is_forgotten(&self, id: &TaskId) -> bool {
        self.forgotten.read().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use sotto_crypto::{HpkeKeypair, Secret};
    use sotto_protocol::Task;
    use sotto_vdaf::VdafConfig;
    use sotto_wire::{
        BatchMode, HpkeConfigId, TaskConfiguration, TaskParameters, TimePrecision, Url as WireUrl,
        VdafType,
    };

    use super::*;

    /// A leader's task with this id and helper.
    pub(crate) fn leader_task(id: u8, helper: &str) -> Result<ServedTask, TaskRefused> {
        let vdaf = VdafConfig::count();
        let configuration = TaskConfiguration::new(TaskParameters {
            task_info: vec![id],
            leader_aggregator_endpoint: WireUrl::new("https://leader.example/").unwrap(),
            helper_aggregator_endpoint: WireUrl::new(helper).unwrap(),
            time_precision: TimePrecision::from_seconds(60).unwrap(),
            min_batch_size: 1,
            batch_mode: BatchMode::TimeInterval,
            vdaf_type: VdafType::new(vdaf.vdaf_type()),
            vdaf_configuration: vdaf.encode_configuration(),
            extensions: Vec::new(),
        })
        .unwrap();
        let mut rng = crate::environment::Environment::default().rng().unwrap();
        let aggregator = AggregatorTask {
            task: Task::new(TaskId::new([id; 32]), configuration).unwrap(),
            role: Role::Leader,
            verify_key: Secret::new([0; 32]),
            collector_hpke_config: HpkeKeypair::generate(HpkeConfigId::new(1), &mut rng)
                .config()
                .clone(),
            taskprov: false,
            tokens: None,
            max_window_s: None,
        };
        let token = Arc::new(AuthToken::bearer("token").unwrap());
        ServedTask::leader(aggregator, Arc::clone(&token), token)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::leader_task;
    use super::*;

    #[test]
    fn resources_lie_below_the_helper_as_it_is_spelled() {
        let id = TaskId::new([1; 32]);
        for base in ["https://helper.example/dap/", "https://helper.example/dap"] {
            let task = leader_task(1, base).unwrap();
            let endpoint = task.helper_endpoint().unwrap();
            let expected = format!("https://helper.example/dap/tasks/{id}/aggregate_shares");
            assert_eq!(endpoint.aggregate_shares.as_str(), expected);
        }
        for bad in ["helper.example", "ftp://helper.example/", "https://helper.example/?a=b"] {
            let refused = leader_task(1, bad).unwrap_err();
            assert!(matches!(refused, TaskRefused::HelperUrl { .. }), "{bad}");
        }
    }

    #[test]
    fn plain_http_is_for_loopback() {
        let registry = TaskRegistry::new(Role::Leader, true, false);
        for (id, (helper, fine)) in [
            ("https://helper.example/", true),
            ("http://127.0.0.1:8080/", true),
            ("http://[::1]:8080/", true),
            ("http://localhost/", true),
            ("http://helper.example/", false),
            ("http://192.0.2.1/", false),
            ("http://localhost.example/", false),
        ]
        .into_iter()
        .enumerate()
        {
            let task = leader_task(id as u8, helper).unwrap();
            assert_eq!(registry.add(task).is_ok(), fine, "{helper}");
        }
    }
}
