//! Which recipes this aggregator should serve, and what their tasks are. DESIGN: one operator, one
//! URL, one role; peers by operator and URL, each with its own secrets; authors by key, each with
//! its collector's token.
//!
//! Left to others: whether the recipe is in the log and passes a device's rules
//! (`sotto_protocol::log`).

use std::sync::Arc;

use sotto_crypto::{Secret, hpke};
use sotto_protocol::admission::Admitted;
use sotto_protocol::recipe::derive_task;
use sotto_protocol::token::TokenTerms;
use sotto_protocol::{AggregatorTask, Moment, ReleaseRules, Task};
use sotto_wire::recipe::{Aggregator, Parties, Recipe};
use sotto_wire::{EntryId, KeyName, Role, TaskId, taskprov};

use crate::config::{RecipeAuthor, RecipesConfig};
use crate::error::{BindError, TaskRefused};
use crate::tasks::{ServedTask, TaskRegistry};

/// Who we are, and whose recipes we serve.
pub(super) struct Membership {
    role: Role,
    pub(super) config: RecipesConfig,
}

/// Why a recipe is not joined.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotJoined {
    #[error("it names other operators")]
    OtherOperator,
    #[error("it is the header of a series: its rounds are served")]
    Header,
    #[error("it names this operator at {0:?}, which is not the public URL")]
    OtherUrl(String),
    #[error("its other aggregator, {0} at {1:?}, is not listed under [[recipes.peers]]")]
    Peer(KeyName, String),
    #[error("a device would not answer it: {0}")]
    Refused(String),
    #[error("the author {0} is not listed")]
    Author(KeyName),
    #[error("the author has used the name {0:?} for {1}")]
    NameReuse(String, EntryId),
    #[error("its collector's key cannot be used")]
    Collector,
    #[error("its tokens cannot be verified: {0}")]
    Tokens(String),
    #[error("it is over")]
    Over,
    #[error(transparent)]
    Task(#[from] TaskRefused),
}

impl Membership {
    /// Checks that peers have secrets of their own, and that every author has the token that its
    /// role needs.
    pub(super) fn new(role: Role, config: RecipesConfig) -> Result<Self, BindError> {
        let wrong = |reason: String| Err(BindError::Config(format!("recipes: {reason}")));
        if config.trust.operator(&config.operator).is_none() {
            return wrong(format!(
                "the trust anchors do not pin this operator, {}",
                config.operator
            ));
        }
        check_peers(&config).map_err(|reason| BindError::Config(format!("recipes: {reason}")))?;
        let mut listed = Vec::new();
        for RecipeAuthor { key, collector_token } in &config.authors {
            let name = key.name();
            if collector_token.is_some() != (role == Role::Leader) {
                return wrong(format!(
                    "author {name}: the leader, and only the leader, needs a token for each author's \
                     collector"
                ));
            }
            if listed.contains(&key) {
                return wrong(format!("author {name} is listed twice"));
            }
            listed.push(key);
        }
        Ok(Self { role, config })
    }

    /// The task of a recipe that a device would answer, if we should serve it.
    pub(super) fn judge(
        &self,
        admitted: &Admitted,
        tasks: &TaskRegistry,
        now: Moment,
    ) -> Result<ServedTask, NotJoined> {
        let recipe = admitted.assessment.recipe();
        let (us, _) = self.sides(recipe);
        if us.operator != self.config.operator {
            return Err(NotJoined::OtherOperator);
        }
        if us.url != self.config.public_url {
            return Err(NotJoined::OtherUrl(us.url.clone()));
        }
        if recipe.answer_times().closes <= now.0 {
            return Err(NotJoined::Over);
        }
        if recipe.is_header() {
            return Err(NotJoined::Header);
        }
        if let Some(other) = tasks.named_so(recipe) {
            return Err(NotJoined::NameReuse(recipe.name.clone(), other));
        }
        self.task(admitted.assessment.task().clone(), recipe, admitted.audience)
    }

    /// This aggregator and the other one, as the recipe names them.
    fn sides<'a>(&self, recipe: &'a Recipe) -> (&'a Aggregator, &'a Aggregator) {
        let Parties { leader, helper, .. } = &recipe.parties;
        match self.role {
            Role::Leader => (leader, helper),
            _ => (helper, leader),
        }
    }

    /// The task of a recipe that was joined before. Once joined, a task stays joined, as long as
    /// its author and its other aggregator are still listed.
    pub(super) fn restore(
        &self,
        task_id: &TaskId,
        json: &[u8],
        audience: Option<u64>,
    ) -> Result<ServedTask, String> {
        let failed = |reason: &dyn std::fmt::Display| {
            format!(
                "the stored recipe behind task {task_id} cannot be served: {reason}. List the task under \
                 forget_tasks to give it up with its reports"
            )
        };
        let recipe = Recipe::parse(json).map_err(|error| failed(&error))?;
        let task = derive_task(&recipe).map_err(|reason| failed(&reason))?;
        if task.id() != task_id {
            return Err(failed(&"another task follows from it"));
        }
        self.task(task, &recipe, audience).map_err(|reason| failed(&reason))
    }

    fn task(
        &self,
        task: Task,
        recipe: &Recipe,
        audience: Option<u64>,
    ) -> Result<ServedTask, NotJoined> {
        let author = self.config.authors.iter().find(|author| recipe.author.is(&author.key));
        let author = author.ok_or_else(|| NotJoined::Author(recipe.author.name.clone()))?;
        let (_, other) = self.sides(recipe);
        let mut peers = self.config.peers.iter();
        let peer = peers.find(|peer| peer.operator == other.operator && peer.url == other.url);
        let unknown = || NotJoined::Peer(other.operator.clone(), other.url.clone());
        let peer = peer.ok_or_else(unknown)?;
        let collector_hpke_config = recipe.parties.collector_config().ok();
        let collector_hpke_config =
            collector_hpke_config.filter(hpke::is_supported).ok_or(NotJoined::Collector)?;
        let tokens = match TokenTerms::of(recipe, self.role) {
            Some(terms) => {
                let verifier = terms.and_then(|terms| terms.verifier());
                Some(verifier.map_err(|error| NotJoined::Tokens(error.to_string()))?)
            }
            None => None,
        };
        let mut release = ReleaseRules::of(recipe, audience);
        release.grace_s.take_if(|_| self.config.insecure_early_release);
        let verify_key = taskprov::verify_key(peer.verify_key_init.expose(), task.id());
        let aggregator = AggregatorTask {
            task,
            role: self.role,
            verify_key: Secret::new(verify_key),
            collector_hpke_config,
            taskprov: true,
            tokens,
            series: recipe.round().map(|_| recipe.series_id()),
            release,
        };
        let leader_token = Arc::clone(&peer.token);
        let served = match &author.collector_token {
            Some(collector) => ServedTask::leader(aggregator, leader_token, Arc::clone(collector)),
            None => ServedTask::helper(aggregator, leader_token),
        };
        Ok(served?.of_recipe(Arc::new(recipe.clone()), peer.private_addresses))
    }
}

/// Checks that each peer is another operator, listed once, with secrets that no other operator has.
/// An operator that moves may be listed with its old and its new URL.
fn check_peers(config: &RecipesConfig) -> Result<(), String> {
    if config.peers.is_empty() {
        return Err("no peer is listed under [[recipes.peers]]".to_owned());
    }
    for (index, peer) in config.peers.iter().enumerate() {
        let name = &peer.operator;
        if config.trust.is_same_operator(name, &config.operator) {
            return Err(format!("peer {name}: this is the operator of this server"));
        }
        for earlier in config.peers.iter().take(index) {
            let other = &earlier.operator;
            if name == other && peer.url == earlier.url {
                return Err(format!("peer {name} is listed twice at {}", peer.url));
            }
            let secret = if name == other {
                continue;
            } else if peer.token.is(&earlier.token) {
                "authentication_token"
            } else if peer.verify_key_init == earlier.verify_key_init {
                "verify_key_init"
            } else {
                continue;
            };
            return Err(format!(
                "peers {other} and {name} have the same {secret}: make one for each with `sotto keys secret`"
            ));
        }
    }
    Ok(())
}
