//! Results: how many devices a predicate selects, certified by both aggregators' operators.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AttributeName, AttributeType, FORMAT_VERSION, Signer, canonical, check};
use crate::{EntryId, FormatError};

/// The JSON Schema of a result.
pub const POPULATION_RESULT_SCHEMA: &str =
    include_str!("../../schema/population-result-v1.schema.json");

/// How many devices a predicate selects, as measured by an earlier recipe.
///
/// Signed by the operators of its leader and its helper. Without such a result nobody could tell a
/// predicate for a country from one for a single person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationResult {
    /// [`FORMAT_VERSION`].
    pub version: u64,
    /// The recipe that measured it.
    pub recipe: EntryId,
    /// The expression.
    pub predicate: String,
    /// The attributes that the expression reads, with their types.
    pub attributes: BTreeMap<AttributeName, AttributeType>,
    /// How many devices it selects.
    pub population: u64,
    /// When that was measured, in POSIX seconds.
    pub measured_at: u64,
    /// The leader's operator.
    pub leader: Signer,
    /// The helper's operator.
    pub helper: Signer,
}

canonical::canonical_json!(PopulationResult);

impl PopulationResult {
    fn check_fields(&self) -> Result<(), FormatError> {
        check::range("version", self.version, FORMAT_VERSION, FORMAT_VERSION)?;
        check::expression("predicate", &self.predicate)?;
        check::attributes(&self.attributes)?;
        check::at_least_one("population", self.population)?;
        check::integer("measured_at", self.measured_at)?;
        check::visible("leader.name", self.leader.name.as_str())?;
        check::visible("helper.name", self.helper.name.as_str())?;
        if self.leader.name == self.helper.name || self.leader.key == self.helper.key {
            return Err(FormatError::new("leader and helper must be two operators with two keys"));
        }
        Ok(())
    }
}
