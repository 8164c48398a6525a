//! What a recipe means: the DAP task that follows from it, the privacy it gives, the value a device
//! sends.
//!
//! Everything here depends on the recipe alone, so it is computed once per recipe and shared by a
//! whole fleet. Leaves to others: the format and its structural rules (`sotto_wire::recipe`), what
//! a mechanism does and costs (`sotto_dp::mechanism`), whom to trust ([`crate::trust`]), whether
//! the log holds it ([`crate::admission`]) and whether to take part ([`crate::device`]).

pub mod coalitions;
mod derive;
mod measure;
mod mechanism;
pub mod windows;

use std::collections::BTreeMap;

use rand_core::CryptoRng;
use sotto_dp::crowd::Crowd;
use sotto_dp::filter::Charge;
use sotto_dp::mechanism::{self as mechanisms, Collected, Colluding, Estimate, Mechanism, Rates};
use sotto_dp::recipe::{Judgement, Terms, judge};
use sotto_dp::relay::rate_among_senders;
use sotto_dp::{Adjacency, Error, published};
use sotto_vdaf::Measurement;
use sotto_wire::recipe::{
    AttributeName, AttributeType, Privacy, Probability, Query, Recipe, Sampling,
};
use sotto_wire::{EntryId, Role};

pub use self::derive::derive_task;
pub use self::mechanism::{derive_vdaf, mechanism, recipe_vdaf, suggested_randomizer};
use self::windows::least_share;
use crate::admission::{Check, Silence};
use crate::expression::{Attributes, Expression, Reason, Type, Value};
use crate::{Task, token::TokenTerms, trust::Trust};

/// A recipe with everything that follows from it.
#[derive(Debug)]
pub struct Assessment {
    id: EntryId,
    recipe: Recipe,
    task: Task,
    mapping: Expression,
    predicate: Option<Expression>,
    mechanism: Mechanism,
    privacy: Option<Cost>,
    leader_token: Option<TokenTerms>,
    helper_token: Option<TokenTerms>,
}

/// What a recipe with a claim costs.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The device's own judgement, which is at most the claim.
    pub judgement: Judgement,
    /// The same in micro-units, rounded up.
    pub epsilon_micro: u64,
    /// What the ledger is charged, under replacement.
    pub charge: Charge,
}

impl Assessment {
    /// Derives the task, compiles the expressions and judges the claim, in the order of the
    /// device's checks.
    pub fn new(recipe: Recipe) -> Result<Self, Silence> {
        let task =
            derive_task(&recipe).map_err(|reason| Silence::new(Check::Derivation, reason))?;
        let mapping = check_mapping(&recipe.query, &recipe.attributes)
            .map_err(|reason| Silence::new(Check::Derivation, reason))?;
        let predicate = match &recipe.who.targeting {
            None => None,
            Some(targeting) => {
                let compiled = compile("predicate", &targeting.predicate, &recipe.attributes, &[]);
                Some(compiled.map_err(|reason| Silence::new(Check::Targeting, reason))?)
            }
        };
        if let Some(predicate) = &predicate
            && predicate.result_type() != Type::Bool
        {
            let found = predicate.result_type();
            let reason = format!("the predicate gives {found}, not a bool: write a comparison");
            return Err(Silence::new(Check::Targeting, reason));
        }
        let mechanism = mechanism(&recipe)
            .map_err(|error| Silence::new(Check::Derivation, error.to_string()))?;
        let privacy = price(&recipe)?;
        let [leader_token, helper_token] = [Role::Leader, Role::Helper].map(|role| {
            TokenTerms::of(&recipe, role)
                .transpose()
                .map_err(|error| Silence::new(Check::TokenKeys, format!("{role:?}: {error}")))
        });
        Ok(Self {
            id: recipe.id(),
            task,
            mapping,
            predicate,
            mechanism,
            privacy,
            leader_token: leader_token?,
            helper_token: helper_token?,
            recipe,
        })
    }

    /// The recipe's id.
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// The recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The DAP task that follows from it.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// What the token for this aggregator must be; `None` if it requires none.
    pub fn token_terms(&self, role: Role) -> Option<&TokenTerms> {
        match role {
            Role::Leader => self.leader_token.as_ref(),
            Role::Helper => self.helper_token.as_ref(),
            _ => None,
        }
    }

    /// What it costs; `None` for a recipe without a claim.
    pub fn cost(&self) -> Option<&Cost> {
        self.privacy.as_ref()
    }

    /// What happens to a measurement before it leaves the device.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// The mapping from attributes to the measurement.
    pub fn mapping(&self) -> &Expression {
        &self.mapping
    }

    /// The predicate of a targeted recipe.
    pub fn predicate(&self) -> Option<&Expression> {
        self.predicate.as_ref()
    }

    /// Whether the recipe asks a device with these attributes. It does not ask a device that lacks
    /// an attribute of the predicate.
    pub fn is_for(&self, attributes: &Attributes) -> bool {
        self.predicate
            .as_ref()
            .is_none_or(|predicate| matches!(predicate.evaluate(attributes), Ok(Value::Bool(true))))
    }

    /// The measurement of a device with these attributes, before randomization. There always is
    /// one: if the mapping gives none, the recipe's fallback is used. So whether a device sends
    /// something says nothing about its data.
    pub fn measurement(&self, attributes: &Attributes) -> Measurement {
        mechanism::measurement(&self.mechanism, self.answer(attributes))
    }

    /// The measurement after randomization: what is split into shares.
    pub fn randomized(&self, attributes: &Attributes, rng: &mut dyn CryptoRng) -> Measurement {
        let sent = self.mechanism.randomize(self.answer(attributes), rng);
        mechanism::measurement(&self.mechanism, sent)
    }

    fn answer(&self, attributes: &Attributes) -> sotto_dp::mechanism::Value {
        let query = &self.recipe.query;
        let value = self.mapping.evaluate(attributes).ok();
        let answer = value.and_then(|value| measure::meaning(query, &value));
        answer.unwrap_or_else(|| measure::fallback(query))
    }

    /// Why a device with these attributes counts as the fallback; `None` if it does not. Names
    /// attributes, never their values.
    pub fn fallback_reason(&self, attributes: &Attributes) -> Option<String> {
        match self.mapping.evaluate(attributes) {
            Err(error) => Some(error.to_string()),
            Ok(value) if measure::meaning(&self.recipe.query, &value).is_some() => None,
            Ok(_) => Some("the mapping gives a value that is counted nowhere".to_owned()),
        }
    }

    /// Checks the limits of a trust file that concern the recipe alone: operators and floors.
    pub fn check_limits(&self, trust: &Trust) -> Result<(), Silence> {
        trust.check_operators(&self.recipe)?;
        trust.check_floors(self)?;
        trust.check_attributes(self)
    }
}

/// Judges the recipe by the device's rules: half of the other devices are honest, the count is
/// seen, the worst population, and whoever sees the result may know who sent something: a relay
/// does. Returns `None` if the recipe claims nothing.
///
/// Among those who sent something, the rate is higher than among all, unless everybody sends cover.
/// The larger epsilon counts.
pub fn judgement(recipe: &Recipe) -> Result<Option<Judgement>, Error> {
    let unseen = judgement_of_unseen(recipe)?;
    let Sampling { rate, cover } = &recipe.sampling;
    if cover.is_one() {
        return Ok(unseen);
    }
    let seen = judgement_at(recipe, rate_among_senders(at_least(rate), at_most(cover))?)?;
    let both = unseen.into_iter().chain(seen);
    Ok(both.max_by(|one, other| one.epsilon.total_cmp(&other.epsilon)))
}

/// The same, against somebody who does not see who sends something.
pub fn judgement_of_unseen(recipe: &Recipe) -> Result<Option<Judgement>, Error> {
    judgement_at(recipe, at_least(&recipe.sampling.rate))
}

fn judgement_at(recipe: &Recipe, rate: f64) -> Result<Option<Judgement>, Error> {
    let Privacy::Claim { delta, rounds, .. } = &recipe.privacy else { return Ok(None) };
    let terms = Terms {
        law: mechanism(recipe)?.law(),
        rate,
        dummy_rate: 0.0,
        min_batch: recipe.aggregation.min_batch,
        rounds: *rounds,
    };
    // Nobody has certified a population to whoever reads only the recipe. A law under add/remove
    // needs one: until it is passed here, no claim of such a recipe holds.
    judge(&terms, None, at_most(delta)).map(Some)
}

/// What remains of a recipe's claim if both aggregators collude; `None` if nothing does.
pub fn colluding(recipe: &Recipe) -> Result<Option<Colluding>, Error> {
    let Privacy::Claim { delta, .. } = &recipe.privacy else { return Ok(None) };
    let (population, rate) = (recipe.who.population, &recipe.sampling.rate);
    let (rate_low, rate_high) = (at_most(rate), at_least(rate));
    let sampling = mechanisms::Sampling { population, rate_low, rate_high };
    mechanism(recipe)?.colluding(&sampling, at_most(delta))
}

/// How many answers the recipe can expect.
pub fn crowd(recipe: &Recipe) -> Crowd {
    let share = least_share(&recipe.when);
    let rate = recipe.sampling.rate.to_f64();
    Crowd::new(recipe.who.population, rate, share, recipe.aggregation.min_batch)
}

/// Estimates over the whole population, one for each number of the result, with intervals that hold
/// with probability `level`. `sums` and `reports` are what was collected.
pub fn estimates(
    recipe: &Recipe,
    sums: &[i128],
    reports: u64,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    let sampling = Rates::all(recipe.sampling.rate.to_f64());
    mechanism(recipe)?.estimates(&Collected { sums, reports, sampling, level })
}

/// The mapping of a query that may read these attributes: its type must fit the query, and so must
/// every constant that it can give.
pub fn check_mapping(
    query: &Query,
    attributes: &BTreeMap<AttributeName, AttributeType>,
) -> Result<Expression, String> {
    let labels = match query {
        Query::Histogram { labels: Some(labels), .. } => labels.as_slice(),
        _ => &[],
    };
    let mapping = compile("mapping", query.mapping(), attributes, labels)?;
    let (found, expected) = (mapping.result_type(), measure::mapping_types(query));
    if !expected.contains(&found) {
        let names: Vec<String> = expected.iter().map(ToString::to_string).collect();
        let instead = match found {
            Type::Bool => "write `condition ? value : other value`",
            Type::Int | Type::String => "write a comparison, or `condition ? value : other value`",
        };
        let expected = names.join(" or ");
        return Err(format!("the mapping gives {found}, not {expected}: {instead}"));
    }
    measure::check_constants(query, &mapping)?;
    Ok(mapping)
}

/// The expression, or what is wrong with it, beginning with its name and the place: `mapping,
/// column 3: ...`. A label is often written without its quotes.
fn compile(
    name: &str,
    source: &str,
    attributes: &BTreeMap<AttributeName, AttributeType>,
    labels: &[String],
) -> Result<Expression, String> {
    Expression::compile(source, attributes).map_err(|error| {
        let place = error.position.map(|position| format!(", {position}")).unwrap_or_default();
        let reason = format!("{name}{place}: {}", error.reason);
        match error.reason {
            Reason::Undeclared(name) if labels.contains(&name) => {
                format!("{reason}; if it is the label, write it in quotes: {name:?}")
            }
            Reason::Undeclared(_) if !attributes.is_empty() => {
                let names: Vec<&str> = attributes.keys().map(AttributeName::as_str).collect();
                format!("{reason}; declared are: {}", names.join(", "))
            }
            Reason::Undeclared(_) => format!("{reason}; declare it under [attributes]"),
            _ => reason,
        }
    })
}

fn price(recipe: &Recipe) -> Result<Option<Cost>, Silence> {
    let refuse = |reason: String| Silence::new(Check::Claim, reason);
    let judged = judgement(recipe).map_err(|error| refuse(error.to_string()))?;
    let (Some(judgement), Privacy::Claim { epsilon_micro: claimed, adjacency, .. }) =
        (judged, &recipe.privacy)
    else {
        return Ok(None);
    };
    let neighbours = claimed_adjacency(*adjacency);
    if judgement.adjacency != neighbours {
        let holds = judgement.adjacency;
        return Err(refuse(format!(
            "the claim is for {neighbours} neighbours, but the guarantee holds for {holds} ones"
        )));
    }
    let epsilon_micro = published(judgement.epsilon)
        .map_err(|_| refuse("its parameters imply no finite epsilon".to_owned()))?;
    if epsilon_micro > *claimed {
        return Err(refuse(format!(
            "it claims epsilon {}, but its parameters imply {}: claim that, or more",
            show_micro(*claimed),
            show_micro(epsilon_micro)
        )));
    }
    let charge = Charge::replacing(judgement.epsilon, judgement.delta, judgement.adjacency)
        .map_err(|error| refuse(error.to_string()))?;
    Ok(Some(Cost { judgement, epsilon_micro, charge }))
}

fn claimed_adjacency(adjacency: sotto_wire::recipe::Adjacency) -> Adjacency {
    match adjacency {
        sotto_wire::recipe::Adjacency::Replace => Adjacency::Replace,
        sotto_wire::recipe::Adjacency::AddRemove => Adjacency::AddRemove,
    }
}

/// Micro-units as a decimal number.
pub fn show_micro(micro: u64) -> String {
    let text = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A probability as a number that is not below it.
fn at_least(probability: &Probability) -> f64 {
    probability.to_f64().next_up().min(1.0)
}

/// A probability as a number that is not above it.
fn at_most(probability: &Probability) -> f64 {
    if probability.is_one() { 1.0 } else { probability.to_f64().next_down().max(0.0) }
}
