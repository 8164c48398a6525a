//! Aggregators learn recipes from the public log.
//!
//! A loop reads the log periodically, checks every open recipe exactly as a device would
//! (`sotto_protocol::admission::Watch`), and joins those that name this aggregator and are by an
//! author that it serves. What it has joined is kept with its recipe and served until the recipe is
//! over, whatever happens to the log. A request that announces an unknown task makes the loop read
//! again.
//!
//! [`tail`] reads the log, [`membership`] decides which recipes are ours and what their tasks are,
//! [`keys`] compares our keys with those that devices seal to.

mod fetch;
mod keys;
mod membership;
mod tail;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use metrics::{Counter, Gauge};
use sotto_protocol::admission::Admitted;
use sotto_store::{StoreError, StoredTask, TaskStore};
use sotto_wire::recipe::Recipe;
use sotto_wire::{
    Decode, EntryId, HpkeConfig, PublicKey, Role, TaskConfiguration, TaskId, taskprov,
};
use tokio::sync::{Notify, watch};

use self::fetch::LogClient;
use self::membership::{Membership, NotJoined};
use self::tail::{ReadError, Reading, Tail};
use crate::aggregator::{Aggregator, Peer};
use crate::auth::AuthToken;
use crate::config::RecipesConfig;
use crate::environment::{Environment, Instant, instant, timeout};
use crate::error::BindError;
use crate::health::{Concern, Health, StoreWork};
use crate::metrics::{MetricsRegistry, table};
use crate::problem::Failure;
use crate::provision;
use crate::rotating::GatewayKeys;
use crate::shutdown::Shutdown;
use crate::tasks::{ServedTask, TaskRegistry};

/// The shortest time between two reads of the log that requests cause: anybody can send one.
const ASKED_PAUSE: Duration = Duration::from_secs(10);
/// How long a request waits for the log to be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the recipes need from their server.
pub(crate) struct RecipesContext {
    pub(crate) role: Role,
    pub(crate) tasks: Arc<TaskRegistry>,
    pub(crate) store: Arc<dyn TaskStore>,
    pub(crate) hpke_configs: Vec<HpkeConfig>,
    /// Those of the server's gateway, if it has one.
    pub(crate) gateway_keys: Option<Arc<GatewayKeys>>,
    /// The key that signs receipts, if there is one.
    pub(crate) receipt_key: Option<PublicKey>,
    pub(crate) health: Arc<Health>,
    pub(crate) environment: Environment,
}

/// The recipes of a server.
pub(crate) struct Recipes {
    context: RecipesContext,
    membership: Membership,
    client: Arc<LogClient>,
    metrics: RecipeMetrics,
    /// Wakes the loop early.
    wanted: Notify,
    /// The number of the last read that ended.
    ended: watch::Sender<u64>,
    asked: Mutex<Asked>,
}

/// The reads that requests have asked for.
#[derive(Debug, Default)]
struct Asked {
    /// Reads that have begun.
    begun: u64,
    /// When a request last asked, and the read that answers it.
    last: Option<(Instant, u64)>,
}

/// What a request announces.
pub(crate) enum Announced {
    /// The task of a recipe, which is served now.
    Joined(Arc<ServedTask>),
    /// Another task under the id of a served recipe.
    Foreign,
    /// Nothing related to a recipe.
    Unknown,
}

struct RecipeMetrics {
    readings: [Counter; 5],
    open: Gauge,
    served: Gauge,
    entries: Gauge,
    witnessed: Gauge,
}

impl Recipes {
    /// Serves the recipes that were joined before, in this process or an earlier one.
    pub(crate) async fn load(
        config: RecipesConfig,
        context: RecipesContext,
        metrics: &MetricsRegistry,
    ) -> Result<Self, BindError> {
        let membership = Membership::new(context.role, config)?;
        let RecipesConfig { log_url, log_certificates, .. } = &membership.config;
        let client = LogClient::new(log_url, log_certificates.as_deref())
            .map_err(|reason| BindError::Config(format!("recipes: {reason}")))?;
        for (task_id, stored) in context.store.tasks().await? {
            let StoredTask::Recipe { json, audience } = stored else { continue };
            let task = membership.restore(&task_id, &json, audience).map_err(BindError::Config)?;
            context.tasks.add(task)?;
        }
        context.health.raise(Concern::LogUnreachable, "the log has not been read yet");
        let metrics = RecipeMetrics::new(metrics);
        let recipes = Self {
            context,
            membership,
            client: Arc::new(client),
            metrics,
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
            asked: Mutex::default(),
        };
        recipes.count_served();
        Ok(recipes)
    }

    /// Lets a request pass that carries the token of the task of any recipe.
    pub(crate) fn check(&self, peer: Peer, headers: &HeaderMap) -> Result<(), Failure> {
        let RecipesConfig { peers, authors, .. } = &self.membership.config;
        match peer {
            Peer::Leader => AuthToken::check_any(peers.iter().map(|peer| &*peer.token), headers),
            Peer::Collector => {
                let tokens = authors.iter().filter_map(|author| author.collector_token.as_deref());
                AuthToken::check_any(tokens, headers)
            }
        }
    }

    /// Finds the task that a request announces, and reads the log if necessary. The task must be
    /// exactly the one that follows from its recipe: its id is the hash of the configuration.
    pub(crate) async fn announced(&self, task_id: TaskId, headers: &HeaderMap) -> Announced {
        let Some(recipe_id) = announced_recipe(&task_id, headers) else {
            return Announced::Unknown;
        };
        self.read_again().await;
        if let Some(task) = self.context.tasks.task(&task_id) {
            return Announced::Joined(task);
        }
        let is_known = |recipe: Arc<Recipe>| recipe.id() == recipe_id;
        if self.served().into_iter().any(is_known) {
            Announced::Foreign
        } else {
            Announced::Unknown
        }
    }

    /// Waits until the log has been read because of a request, now or within the last few seconds.
    async fn read_again(&self) {
        let mut ended = self.ended.subscribe();
        let awaited = {
            let mut asked = self.asked();
            let next = asked.begun + 1;
            match asked.last {
                Some((at, reading)) if instant() - at < ASKED_PAUSE => reading,
                _ => {
                    asked.last = Some((instant(), next));
                    self.wanted.notify_one();
                    next
                }
            }
        };
        let _ = timeout(PATIENCE, ended.wait_for(|ended| *ended >= awaited)).await;
    }

    fn begin(&self) -> u64 {
        let mut asked = self.asked();
        asked.begun += 1;
        asked.begun
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The recipes that are served.
    fn served(&self) -> Vec<Arc<Recipe>> {
        self.context.tasks.all().iter().filter_map(|task| task.recipe.clone()).collect()
    }

    fn count_served(&self) {
        self.metrics.served.set(self.served().len() as f64);
    }

    /// Joins the recipes that are new in a read of the log.
    async fn learn(&self, reading: &Reading) -> Result<(), StoreError> {
        self.metrics.entries.set(reading.size as f64);
        self.metrics.witnessed.set(reading.time as f64);
        self.metrics.open.set(reading.recipes.len() as f64);
        let (health, newest) = (&self.context.health, &reading.keys);
        keys::check(health, &self.context.hpke_configs, newest);
        if let Some(keys) = &self.context.gateway_keys {
            keys::check_gateway(health, &keys.configs(), newest);
        }
        if let Some(key) = &self.context.receipt_key {
            let RecipesConfig { trust, operator, .. } = &self.membership.config;
            keys::check_receipt_key(health, key, trust.operator(operator), newest);
        }
        let mut reasons = BTreeMap::new();
        for (id, verdict) in &reading.recipes {
            let joined = match verdict {
                Ok(admitted) => self.join(admitted).await?,
                Err(silence) => Err(NotJoined::Refused(silence.to_string())),
            };
            match joined {
                // The log also has recipes for other operators, and headers.
                Ok(()) | Err(NotJoined::OtherOperator | NotJoined::Header) => {}
                Err(reason) => drop(reasons.insert(*id, reason.to_string())),
            }
        }
        for (recipe, reason) in self.context.tasks.set_not_served(reasons) {
            tracing::info!(%recipe, reason, "a recipe is not served");
        }
        self.count_served();
        Ok(())
    }

    /// Joins one recipe, durably, unless it is served already.
    async fn join(&self, admitted: &Admitted) -> Result<Result<(), NotJoined>, StoreError> {
        let assessment = &admitted.assessment;
        let (tasks, task_id) = (&self.context.tasks, *assessment.task().id());
        if tasks.task(&task_id).is_some_and(|task| task.recipe.is_some()) {
            return Ok(Ok(()));
        }
        let now = self.context.environment.now();
        let task = match self.membership.judge(admitted, tasks, now) {
            Ok(task) => task,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Err(refused) = tasks.check(&task) {
            return Ok(Err(NotJoined::Task(refused)));
        }
        let recipe = assessment.recipe();
        let stored = StoredTask::Recipe { json: recipe.to_json(), audience: admitted.audience };
        self.context.store.put_task(task_id, stored).await?;
        if let Err(refused) = tasks.add(task) {
            return Ok(Err(NotJoined::Task(refused)));
        }
        let (name, author) = (&recipe.name, &recipe.author.name);
        tracing::info!(recipe = %assessment.id(), name, %author, task = %task_id, "joined a recipe");
        Ok(Ok(()))
    }

    /// Records the outcome of a read.
    fn note(&self, outcome: &Result<(), ReadError>) {
        let health = &self.context.health;
        let [read, unreachable, refused, forked, store] = &self.metrics.readings;
        let (counter, concern) = match outcome {
            Ok(()) => (read, None),
            Err(ReadError::Unreachable(_)) => (unreachable, Some(Concern::LogUnreachable)),
            Err(ReadError::Refused(_)) => (refused, Some(Concern::LogRefused)),
            Err(ReadError::Forked(_)) => (forked, Some(Concern::LogForked)),
            Err(ReadError::Store(_)) => (store, None),
        };
        counter.increment(1);
        for other in [Concern::LogUnreachable, Concern::LogRefused] {
            if concern != Some(other) {
                health.clear(other);
            }
        }
        match outcome {
            Err(ReadError::Store(error)) => {
                tracing::error!(%error, "the store failed");
                health.store_failed(StoreWork::Learn);
            }
            _ => health.store_worked(StoreWork::Learn),
        }
        let (Some(concern), Err(error)) = (concern, outcome) else { return };
        let reason = error.to_string();
        if !health.raise(concern, reason.as_str()) {
            return;
        }
        match concern {
            Concern::LogForked => tracing::error!(
                reason,
                "THE LOG HAS BEEN CAUGHT LYING: no more recipes are learned; those that are known are \
                 still served"
            ),
            _ => {
                let log = &self.membership.config.log_url;
                tracing::warn!(log, reason, "the log was not read; what is known is still served");
            }
        }
    }
}

/// Reads the log until the server ends.
pub(crate) async fn run(aggregator: Arc<Aggregator>, mut shutdown: Shutdown) {
    let Some(recipes) = &aggregator.recipes else { return shutdown.begun().await };
    let client = Arc::clone(&recipes.client);
    let mut tail =
        Tail::new(&recipes.membership.config, client, Arc::clone(&recipes.context.store));
    loop {
        let number = recipes.begin();
        let outcome = async {
            let reading = tail.read(recipes.context.environment.now()).await?;
            recipes.learn(&reading).await.map_err(ReadError::Store)
        };
        let Some(outcome) = shutdown.or(outcome).await else { return };
        recipes.note(&outcome);
        recipes.ended.send_replace(number);
        if let Err(ReadError::Forked(_)) = outcome {
            break;
        }
        let wanted = timeout(recipes.membership.config.poll, recipes.wanted.notified());
        let Some(_) = shutdown.or(wanted).await else { return };
    }
    // Nobody must wait for reads that will never happen.
    recipes.ended.send_replace(u64::MAX);
    shutdown.begun().await;
}

/// The recipe whose task a request announces, going by the form of the task.
fn announced_recipe(task_id: &TaskId, headers: &HeaderMap) -> Option<EntryId> {
    let announced = provision::announced(headers)?;
    if taskprov::task_id(&announced) != *task_id {
        return None;
    }
    let configuration = TaskConfiguration::from_bytes(&announced).ok()?;
    configuration.task_info().try_into().ok().map(EntryId::new)
}

impl RecipeMetrics {
    fn new(registry: &MetricsRegistry) -> Self {
        Self {
            readings: registry.counters(
                &table::LOG_READINGS,
                ["read", "unreachable", "refused", "forked", "store"],
            ),
            open: registry.gauge(&table::RECIPES_OPEN),
            served: registry.gauge(&table::RECIPES_SERVED),
            entries: registry.gauge(&table::LOG_ENTRIES),
            witnessed: registry.gauge(&table::LOG_WITNESSED),
        }
    }
}
