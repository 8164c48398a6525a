//! What leader and helper have in common: keys, tasks, bodies, the pool, and authentication.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::{CACHE_CONTROL, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use sotto_protocol::receipt::Released;
use sotto_protocol::{Abort, BucketAggregate, Fault, HpkeKeyring};
use sotto_store::{StoreError, StoredTask, TaskStore};
use sotto_wire::{BatchSelector, Encode, MediaType, ProblemType, Role, TaskId};

use crate::auth::AuthToken;
use crate::config::{BodyLimits, ServerConfig};
use crate::environment::Environment;
use crate::error::BindError;
use crate::health::{Health, StoreWork};
use crate::http::{self, BodyReader, ReadBody};
use crate::metrics::MetricsRegistry;
use crate::pool::CpuPool;
use crate::problem::Failure;
use crate::provision::Provisioner;
use crate::receipts::{self, Receipts};
use crate::recipes::{self, Announced, Recipes, RecipesContext};
use crate::service::Server;
use crate::tasks::{ServedTask, TaskRegistry};
use crate::upkeep;

/// Shared by all requests and loops of one server.
pub(crate) struct Aggregator {
    pub(crate) environment: Environment,
    pub(crate) keys: Arc<HpkeKeyring>,
    pub(crate) tasks: Arc<TaskRegistry>,
    pub(crate) pool: CpuPool,
    pub(crate) cpu_threads: usize,
    pub(crate) bodies: BodyReader,
    pub(crate) body_limits: BodyLimits,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<MetricsRegistry>,
    pub(crate) base_path: String,
    pub(crate) retention_grace: Duration,
    pub(crate) recipes: Option<Recipes>,
    pub(crate) receipts: Option<Receipts>,
    provisioner: Option<Provisioner>,
    hpke_config_list: Bytes,
    hpke_cache_control: HeaderValue,
}

impl Aggregator {
    /// Checks the configuration and loads the tasks in the store.
    pub(crate) async fn new(
        role: Role,
        config: ServerConfig,
        store: Arc<dyn TaskStore>,
        server: &mut Server,
    ) -> Result<Arc<Self>, BindError> {
        if role != Role::Leader && config.gateway.is_some() {
            return Err(BindError::Config("only a leader has a gateway".into()));
        }
        let cpu_queue = config.cpu_queue_len();
        let keys = HpkeKeyring::new(&config.hpke_keys)?;
        let hpke_config_list = keys.config_list()?.to_bytes().into();
        let tasks = TaskRegistry::new(role, config.insecure_plain_tasks, config.http.insecure_http);
        let tasks = Arc::new(tasks.without(store.forgotten_tasks().await?));
        check_stored(&config, &*store).await?;
        for task in config.tasks {
            if tasks.is_forgotten(task.id()) {
                let task = task.id();
                tracing::warn!(%task, "a configured task is over and its data deleted: remove it");
            } else {
                tasks.add(task)?;
            }
        }
        server.tasks = Some(Arc::clone(&tasks));
        let (metrics, health) = (Arc::clone(&server.metrics), Arc::clone(&server.health));
        let provisioner = match config.taskprov {
            Some(taskprov) => {
                let recipes = config.recipes.is_some();
                let store = Arc::clone(&store);
                Some(Provisioner::load(role, taskprov, recipes, &tasks, store).await?)
            }
            None => None,
        };
        let mut receipts = None;
        let recipes = match config.recipes {
            Some(mut recipes) => {
                receipts = Receipts::new(role, &mut recipes, &metrics)?;
                let context = RecipesContext {
                    role,
                    tasks: Arc::clone(&tasks),
                    store,
                    hpke_configs: keys.configs(),
                    gateway_keys: config.gateway.map(|gateway| gateway.keys),
                    receipt_key: receipts.as_ref().map(Receipts::public_key),
                    health: Arc::clone(&health),
                    environment: server.environment.clone(),
                };
                Some(Recipes::load(recipes, context, &metrics).await?)
            }
            None => None,
        };
        let threads = |error| Fault(format!("cannot start the CPU threads: {error}"));
        let pool = CpuPool::new(config.cpu_threads, cpu_queue).map_err(threads)?;
        // The jobs of a leader get the other half.
        let memory = match role {
            Role::Leader => server.memory.half(),
            _ => server.memory.all(),
        };
        let max_age = format!("max-age={}", config.hpke_config_max_age.as_secs());
        Ok(Arc::new(Self {
            environment: server.environment.clone(),
            keys: Arc::new(keys),
            tasks,
            pool,
            cpu_threads: config.cpu_threads.max(1),
            bodies: BodyReader::new(memory, config.http.body_timeout),
            body_limits: config.bodies,
            health,
            metrics,
            base_path: server.base_path.clone(),
            retention_grace: config.retention_grace,
            recipes,
            receipts,
            provisioner,
            hpke_config_list,
            hpke_cache_control: HeaderValue::try_from(max_age)
                .unwrap_or(HeaderValue::from_static("no-cache")),
        }))
    }

    /// The task of a URL. If the request announces an unknown task, it is provisioned first.
    pub(crate) async fn task(
        &self,
        task_id: &str,
        headers: &HeaderMap,
    ) -> Result<Arc<ServedTask>, Failure> {
        let task_id = http::parse_task_id(task_id)?;
        match self.tasks.task(&task_id) {
            // Its ids and buckets are being deleted, and with them the record of what was counted.
            Some(task) if self.is_over(&task) => Err(unrecognized_task(task_id)),
            Some(task) => Ok(task),
            None if self.tasks.is_forgotten(&task_id) => Err(unrecognized_task(task_id)),
            None => self.announced_task(task_id, headers).await,
        }
    }

    /// Joins an unknown task, if the request announces it and the policy allows it: as the task of
    /// a recipe in the log, or else as a plain task.
    async fn announced_task(
        &self,
        task_id: TaskId,
        headers: &HeaderMap,
    ) -> Result<Arc<ServedTask>, Failure> {
        if let Some(recipes) = &self.recipes {
            match recipes.announced(task_id, headers).await {
                Announced::Joined(task) => return Ok(task),
                Announced::Foreign => return Err(unrecognized_task(task_id)),
                Announced::Unknown => {}
            }
        }
        match &self.provisioner {
            Some(provisioner) => {
                provisioner.provision(task_id, headers, &self.tasks, self.environment.now()).await
            }
            None => Err(unrecognized_task(task_id)),
        }
    }

    /// Lets a request for an unknown task pass only with the token of a task that could be joined:
    /// a stranger must neither make us store a task nor make us read the log.
    fn check_stranger(&self, peer: Peer, headers: &HeaderMap) -> Result<(), Failure> {
        let by_recipes = self.recipes.as_ref().map(|recipes| recipes.check(peer, headers));
        match (by_recipes, &self.provisioner) {
            (Some(Ok(())), _) | (None, None) => Ok(()),
            (_, Some(provisioner)) => provisioner.check(peer, headers),
            (Some(refused), None) => refused,
        }
    }

    /// Like [`Self::task`], for a request that must carry a token.
    pub(crate) async fn authenticated_task(
        &self,
        task_id: &str,
        headers: &HeaderMap,
        peer: Peer,
    ) -> Result<Arc<ServedTask>, Failure> {
        let known = self.tasks.task(&http::parse_task_id(task_id)?);
        if known.is_none() {
            self.check_stranger(peer, headers)?;
        }
        let task = self.task(task_id, headers).await?;
        peer.token(&task).ok_or(Failure::Forbidden)?.check(headers)?;
        Ok(task)
    }

    /// The task and the body of a request that must carry a token.
    pub(crate) async fn receive(
        &self,
        task_id: &str,
        request: Request,
        peer: Peer,
        media_type: MediaType,
        limit: usize,
    ) -> Result<(Arc<ServedTask>, ReadBody), Failure> {
        let (parts, body) = request.into_parts();
        let task = self.authenticated_task(task_id, &parts.headers, peer).await?;
        http::expect_media_type(&parts.headers, media_type)?;
        Ok((task, self.bodies.read(body, limit).await?))
    }

    /// Whether a task's interval, and the collector's grace after it, have passed.
    pub(crate) fn is_over(&self, task: &ServedTask) -> bool {
        let task = &task.aggregator().task;
        let precision = task.configuration().time_precision();
        task.interval().is_some_and(|interval| {
            let end = interval.end().start_seconds(precision);
            end.saturating_add(self.retention_grace.as_secs()) <= self.environment.now().0
        })
    }

    /// The path of a resource of a task, for `Location`.
    pub(crate) fn path(&self, task: &ServedTask, resource: &str) -> String {
        format!("{}/tasks/{}/{resource}", self.base_path, task.id())
    }

    /// The routes that leader and helper have in common.
    pub(crate) fn router(self: &Arc<Self>) -> Router {
        let hpke_config = get(self.metrics.measured("hpke_config", hpke_config));
        let router = Router::new().route(&format!("{}/hpke_config", self.base_path), hpke_config);
        router.with_state(Arc::clone(self))
    }

    /// Adds the loops that leader and helper have in common.
    pub(crate) fn add_loops(self: &Arc<Self>, store: Arc<dyn TaskStore>, server: &mut Server) {
        if self.recipes.is_some() {
            let aggregator = Arc::clone(self);
            server.add_loop("recipes", |shutdown| recipes::run(aggregator, shutdown));
        }
        if self.receipts.is_some() {
            let (aggregator, store) = (Arc::clone(self), Arc::clone(&store));
            server.add_loop("receipts", |shutdown| receipts::run(aggregator, store, shutdown));
        }
        let aggregator = Arc::clone(self);
        server.add_loop("upkeep", |shutdown| upkeep::run(aggregator, store, shutdown));
    }

    /// What the release of a batch owes the public log, if this aggregator writes receipts.
    pub(crate) fn released(
        &self,
        task: &ServedTask,
        selector: &BatchSelector,
        batch: &BucketAggregate,
    ) -> Result<Option<Released>, Fault> {
        match &self.receipts {
            Some(receipts) => receipts.released(task, selector, batch),
            None => Ok(None),
        }
    }

    /// Has the receipt of a release sent.
    pub(crate) fn send_receipts(&self) {
        self.receipts.iter().for_each(Receipts::wake);
    }

    /// Records that the store failed in one of the loops.
    pub(crate) fn store_failed(&self, work: StoreWork, error: &StoreError) {
        tracing::error!(%error, "the store failed");
        self.health.store_failed(work);
    }

    /// Records whether a request failed because of the store. The failure itself is logged
    /// elsewhere.
    pub(crate) fn note_failure(&self, work: StoreWork, failure: &Failure) {
        if let Failure::Store(StoreError::Backend(_)) = failure {
            self.health.store_failed(work);
        }
    }
}

/// Deletes the tasks that the operator wants forgotten. Deletes nothing if one of them is also
/// configured.
pub(crate) async fn forget_tasks(
    config: &ServerConfig,
    store: &dyn TaskStore,
) -> Result<(), BindError> {
    let served = |id: &&TaskId| config.tasks.iter().any(|task| task.id() == *id);
    if let Some(task_id) = config.forget_tasks.iter().find(served) {
        return Err(BindError::ForgetServed(*task_id));
    }
    for task_id in &config.forget_tasks {
        store.forget_task(*task_id).await?;
        tracing::info!(task = %task_id, "deleted the data of a task listed under forget_tasks");
    }
    Ok(())
}

/// Tasks learned at run time can only be served with the configuration that they were learned
/// under.
async fn check_stored(config: &ServerConfig, store: &dyn TaskStore) -> Result<(), BindError> {
    if config.taskprov.is_some() && !config.insecure_plain_tasks {
        return Err(BindError::Config(
            "taskprov announces plain DAP tasks, which need insecure_plain_tasks".into(),
        ));
    }
    for (_, stored) in store.tasks().await? {
        let (what, is_configured) = match stored {
            StoredTask::Announced(_) => {
                ("were announced by taskprov, and taskprov is", config.taskprov.is_some())
            }
            StoredTask::Recipe { .. } => {
                ("were learned from recipes, and recipes are", config.recipes.is_some())
            }
        };
        if !is_configured {
            return Err(BindError::Config(format!(
                "the store holds tasks that {what} no longer configured: their reports would be \
                 lost"
            )));
        }
    }
    Ok(())
}

/// Who sends a request that needs a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Leader,
    Collector,
}

impl Peer {
    fn token(self, task: &ServedTask) -> Option<&AuthToken> {
        match self {
            Self::Leader => Some(&task.leader_token),
            Self::Collector => task.collector_token.as_deref(),
        }
    }
}

/// Serves `hpke_config`. DAP, section "HPKE Configuration Request".
async fn hpke_config(State(aggregator): State<Arc<Aggregator>>) -> Response {
    let body = aggregator.hpke_config_list.clone();
    let mut response = http::message(StatusCode::OK, MediaType::HpkeConfigList, body);
    response.headers_mut().insert(CACHE_CONTROL, aggregator.hpke_cache_control.clone());
    response
}

pub(crate) fn unrecognized_task(task_id: TaskId) -> Failure {
    let detail = "This aggregator does not serve the task.";
    Abort::new(ProblemType::UnrecognizedTask, detail).for_task(task_id).into()
}
