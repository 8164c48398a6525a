//! What a recipe means: the DAP task that follows from it, the privacy it gives, the value a device
//! sends.
//!
//! Everything here depends on the recipe alone, so it is computed once per recipe and shared by a
//! whole fleet. Leaves to others: the format and its structural rules (`sotto_wire::recipe`), what
//! a mechanism does and costs (`sotto_dp::mechanism`), whom to trust ([`crate::trust`]), whether
//! the log holds it ([`crate::admission`]) and whether to take part ([`crate::device`]).

pub mod coalitions;
mod derive;
mod judging;
mod measure;
mod mechanism;
mod projection;
mod sides;
pub mod windows;

use std::collections::BTreeMap;

use rand_core::CryptoRng;
use sotto_dp::Error;
use sotto_dp::crowd::Crowd;
use sotto_dp::mechanism::{Collected, Estimate, Mechanism, Value as Answer};
use sotto_dp::projection::Projection;
use sotto_vdaf::Measurement;
use sotto_wire::recipe::{
    AttributeName, AttributeType, Probability, Query, Recipe, Sampling, When,
};
use sotto_wire::{EntryId, Role};

pub use self::derive::derive_task;
use self::judging::price;
pub use self::judging::{
    Cost, colluding, judgement, judgement_of, judgement_of_unseen, judgement_to_claim,
    needs_audience, sending_epsilon,
};
pub use self::mechanism::{
    derive_vdaf, mechanism, rates, recipe_vdaf, set_claim, suggested_randomizer,
};
pub use self::projection::projection;
pub use self::sides::{Side, Sides, sides};
use self::windows::{least_share, sending_rate};
use crate::admission::{Check, Silence};
use crate::expression::{Attributes, Expression, Reason, Type, Value};
use crate::{Task, token::TokenTerms, trust::Trust};

/// More devices than there are.
const MOST_DEVICES: u64 = 1 << 40;

/// A recipe with everything that follows from it.
#[derive(Clone, Debug)]
pub struct Assessment {
    id: EntryId,
    recipe: Recipe,
    task: Task,
    mapping: Expression,
    predicate: Option<Expression>,
    mechanism: Mechanism,
    projection: Option<Projection>,
    privacy: Option<Cost>,
    leader_token: Option<TokenTerms>,
    helper_token: Option<TokenTerms>,
}

impl Assessment {
    /// The assessment of a recipe of which nobody has certified an audience.
    pub fn new(recipe: Recipe) -> Result<Self, Silence> {
        Self::certified(recipe, None)
    }

    /// The assessment if the audience is as large as can be. What fails even then is the author's
    /// fault; what holds may still fail for the audience that the logged result certifies.
    pub fn at_best(recipe: Recipe) -> Result<Self, Silence> {
        let certified = recipe.who.targeting.is_some().then_some(MOST_DEVICES);
        Self::certified(recipe, certified)
    }

    /// Derives the task, compiles the expressions and judges the claim, in the order of the
    /// device's checks. `certified` is the number of devices that the logged result counted which
    /// the recipe names.
    pub fn certified(recipe: Recipe, certified: Option<u64>) -> Result<Self, Silence> {
        let task =
            derive_task(&recipe).map_err(|reason| Silence::new(Check::Derivation, reason))?;
        let mapping = match recipe.discovery() {
            Some(_) => check_words(recipe.query.mapping(), &recipe.attributes),
            None => check_mapping(&recipe.query, &recipe.attributes),
        };
        let mapping = mapping.map_err(|reason| Silence::new(Check::Derivation, reason))?;
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
        let projection = projection(&recipe.query)
            .map_err(|error| Silence::new(Check::Derivation, error.to_string()))?;
        let privacy = price(&recipe, certified)?;
        let [leader_token, helper_token] = token_terms(&recipe)?;
        Ok(Self {
            id: recipe.id(),
            task,
            mapping,
            predicate,
            mechanism,
            projection,
            privacy,
            leader_token,
            helper_token,
            recipe,
        })
    }

    /// The assessment of a round of this header: only the task is another one, and the tokens.
    pub(crate) fn round(&self, recipe: Recipe) -> Result<Self, Silence> {
        let task = derive_task(&recipe);
        let task = task.map_err(|reason| Silence::new(Check::Derivation, reason))?;
        let [leader_token, helper_token] = token_terms(&recipe)?;
        Ok(Self { id: recipe.id(), task, recipe, leader_token, helper_token, ..self.clone() })
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

    /// The answer of a device with these attributes, before randomization. There always is one: if
    /// the mapping gives none, the recipe's fallback is used. So whether a device sends something
    /// says nothing about its data, unless its rate depends on it ([`Self::rate`]).
    pub fn answer(&self, attributes: &Attributes) -> Answer {
        let query = &self.recipe.query;
        let value = self.mapping.evaluate(attributes).ok();
        let answer = value.and_then(|value| self.meaning(&value));
        answer.unwrap_or_else(|| measure::fallback(query))
    }

    fn meaning(&self, value: &Value) -> Option<Answer> {
        measure::meaning(&self.recipe.query, self.projection.as_ref(), value)
    }

    /// The same as its mechanism takes it: what a simulated device randomizes.
    pub fn input(&self, attributes: &Attributes) -> Answer {
        mechanism::value(&self.recipe.query, &self.mechanism, self.answer(attributes))
    }

    /// The probability with which a device with these attributes takes part.
    pub fn rate(&self, attributes: &Attributes) -> Probability {
        let sampling = &self.recipe.sampling;
        match (&self.recipe.query, sampling.default_rate) {
            (Query::SparseHistogram { default, .. }, Some(default_rate))
                if self.answer(attributes) == Answer::OneHot(*default) =>
            {
                default_rate
            }
            _ => sampling.rate,
        }
    }

    /// The answer after randomization: what is split into shares.
    pub fn randomized(&self, attributes: &Attributes, rng: &mut dyn CryptoRng) -> Measurement {
        self.protected(self.answer(attributes), rng)
    }

    /// The same in a round of a training, whose answer is an update of the model: zero if there is
    /// none.
    pub fn randomized_update(
        &self,
        update: Option<Vec<f64>>,
        rng: &mut dyn CryptoRng,
    ) -> Measurement {
        let answer = update.and_then(|update| self.meaning(&Value::Vector(update.into())));
        self.protected(answer.unwrap_or_else(|| measure::fallback(&self.recipe.query)), rng)
    }

    /// The words of a device in a discovery.
    pub fn words(&self, attributes: &Attributes) -> Vec<String> {
        let texts = match self.mapping.evaluate(attributes) {
            Ok(Value::List(values)) => values,
            Ok(value) => vec![value],
            Err(_) => Vec::new(),
        };
        let text = |value| if let Value::String(text) = value { Some(text) } else { None };
        texts.into_iter().filter_map(text).collect()
    }

    /// The answer in a round of a discovery after randomization: the fallback if there is no such
    /// bucket.
    pub fn randomized_bucket(&self, bucket: Option<u32>, rng: &mut dyn CryptoRng) -> Measurement {
        let query = &self.recipe.query;
        let bucket = bucket.filter(|bucket| Some(*bucket) < query.buckets());
        let answer = bucket.map_or_else(|| measure::fallback(query), Answer::OneHot);
        self.protected(answer, rng)
    }

    fn protected(&self, answer: Answer, rng: &mut dyn CryptoRng) -> Measurement {
        let value = mechanism::value(&self.recipe.query, &self.mechanism, answer);
        mechanism::measurement(&self.mechanism, self.mechanism.randomize(value, rng))
    }

    /// A report that says nothing, with the same randomness; `None` if there is none. The format
    /// allows no dummies then.
    pub fn dummy(&self, rng: &mut dyn CryptoRng) -> Option<Measurement> {
        let value = self.mechanism.dummy(rng)?;
        Some(mechanism::measurement(&self.mechanism, value))
    }

    /// Why a device with these attributes counts as the fallback; `None` if it does not. Names
    /// attributes, never their values.
    pub fn fallback_reason(&self, attributes: &Attributes) -> Option<String> {
        match self.mapping.evaluate(attributes) {
            Err(error) => Some(error.to_string()),
            Ok(value) if self.meaning(&value).is_some() => None,
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

/// What the tokens for leader and helper must be.
fn token_terms(recipe: &Recipe) -> Result<[Option<TokenTerms>; 2], Silence> {
    let of = |role| {
        TokenTerms::of(recipe, role)
            .transpose()
            .map_err(|error| Silence::new(Check::TokenKeys, format!("{role:?}: {error}")))
    };
    Ok([of(Role::Leader)?, of(Role::Helper)?])
}

/// How many reports the recipe can expect, dummies included. `certified` is the number of devices
/// in a certified audience: no others are asked, whatever population the author states.
pub fn crowd(recipe: &Recipe, certified: Option<u64>) -> Crowd {
    let Recipe { who, sampling, aggregation, .. } = recipe;
    let when = &recipe.answer_times();
    crowd_of(who.population, certified, sampling, when, aggregation.min_batch)
}

/// The same before there is a recipe. With importance sampling, if all devices have the default
/// value.
pub fn crowd_of(
    population: u64,
    certified: Option<u64>,
    sampling: &Sampling,
    when: &When,
    min_batch: u64,
) -> Crowd {
    let rate = sending_rate(sampling, sampling.least_rate());
    Crowd::new(asked(population, certified), rate, least_share(when), min_batch)
}

/// How many devices are asked: the author's estimate, or fewer if fewer are certified.
fn asked(population: u64, certified: Option<u64>) -> u64 {
    certified.map_or(population, |certified| certified.min(population))
}

/// Estimates over the whole population, one for each number of the result, with intervals that hold
/// with probability `level`. `sums` and `reports` are what was collected.
pub fn estimates(
    recipe: &Recipe,
    sums: &[i128],
    reports: u64,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    let sampling = rates(recipe);
    mechanism(recipe)?.estimates(&Collected { sums, reports, sampling, level })
}

/// The mapping of a query that may read these attributes: its type must fit the query, and so must
/// every constant that it can give.
pub fn check_mapping(
    query: &Query,
    attributes: &BTreeMap<AttributeName, AttributeType>,
) -> Result<Expression, String> {
    let labels = query.labels().unwrap_or_default();
    let mapping = compile("mapping", query.mapping(), attributes, labels)?;
    let (found, expected) = (mapping.result_type(), measure::mapping_types(query));
    if !expected.contains(&found) {
        let names: Vec<String> = expected.iter().map(ToString::to_string).collect();
        let instead = match (found, &expected[..]) {
            (_, [Type::Vector(_)]) => "write the name of an attribute of this type",
            (Type::Vector(_), _) => "only a query of vectors can use one",
            (_, [Type::List]) => "write it in brackets: `[value]`",
            (Type::List, [Type::Bool]) => "write `'text' in list`",
            (Type::Bool | Type::List, _) => "write `condition ? value : other value`",
            (Type::Int | Type::String, _) => {
                "write a comparison, or `condition ? value : other value`"
            }
        };
        let expected = names.join(" or ");
        return Err(format!("the mapping gives {found}, not {expected}: {instead}"));
    }
    measure::check_constants(query, &mapping)?;
    Ok(mapping)
}

/// The mapping of a discovery, which must give words.
pub fn check_words(
    source: &str,
    attributes: &BTreeMap<AttributeName, AttributeType>,
) -> Result<Expression, String> {
    let mapping = compile("mapping", source, attributes, &[])?;
    match mapping.result_type() {
        Type::String | Type::List => Ok(mapping),
        found => Err(format!(
            "the mapping gives {found}, not {} or {}: with [series.discovery] write the name of an \
             attribute that holds words",
            Type::String,
            Type::List
        )),
    }
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

/// Micro-units as a decimal number.
pub fn show_micro(micro: u64) -> String {
    let text = format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
