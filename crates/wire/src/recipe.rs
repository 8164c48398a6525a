//! Recipes: what an author asks of devices, as canonical JSON.
//!
//! A device, an aggregator and a monitor must read the same bytes and come to the same conclusions.
//! So each recipe has exactly one encoding, unknown fields are errors, and every rule that needs
//! only the recipe itself is checked here. The layers above interpret expressions, derive the task
//! from a recipe and check whether its claim is true.
//!
//! The format is described in `docs/recipe-format.md`, and by [`RECIPE_SCHEMA`].

#[cfg(feature = "authoring")]
mod authoring;
mod canonical;
mod check;
mod key_set;
mod noise;
mod population_result;
mod query;
mod randomizer;
mod receipt;
mod sampling;
mod scalar;
mod series;
mod tokens;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{BatchMode, EntryId, FormatError, HpkeConfig, KeyName};

#[cfg(feature = "authoring")]
pub use authoring::{
    AuthoringError, KeyDraft, PartiesDraft, RecipeDraft, TokensDraft, parse_epsilon,
    parse_probability, parse_whole, place_of,
};
pub use check::url as check_url;
pub use key_set::{KEY_SET_SCHEMA, KeySet};
pub use noise::Noise;
pub use population_result::{POPULATION_RESULT_SCHEMA, PopulationResult};
pub use query::{Compression, Query, VectorQuery};
pub use randomizer::Randomizer;
pub use receipt::{RECEIPT_SCHEMA, Receipt};
pub use sampling::Sampling;
pub use scalar::{AttributeName, AttributeType, Probability, PublicKey, Signer};
pub use series::{Discovery, EVALUATION, Model, Participation, Round, Series, Training, UPDATE};
pub use tokens::{
    EndorsedKey, TOKEN_KEY_HEADER, TOKEN_KEY_REQUEST_HEADER, TokenKeyRequest, TokenKeyStatement,
    Tokens,
};

/// The JSON Schema of a recipe. It rejects what [`Recipe::parse`] rejects, as far as a schema can
/// express it.
pub const RECIPE_SCHEMA: &str = include_str!("../schema/recipe-v1.schema.json");

/// The version of the format of recipes, key sets, results and receipts.
pub const FORMAT_VERSION: u64 = 1;

/// What devices are asked, by whom, and how the answers are protected.
///
/// The fields are public, so that a recipe can be constructed and changed. [`Recipe::check`] says
/// whether it follows the rules of the format; what [`Recipe::parse`] returns follows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// [`FORMAT_VERSION`].
    pub version: u64,
    /// Names the recipe among those of its author.
    pub name: String,
    /// One sentence for the person whose device it is.
    pub purpose: String,
    /// Who asks, and signs.
    pub author: Signer,
    /// What the expressions may read from a device.
    pub attributes: BTreeMap<AttributeName, AttributeType>,
    /// The rounds, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Which devices are asked.
    pub who: Who,
    /// When they may answer, and in which units of time.
    pub when: When,
    /// How many of them answer.
    pub sampling: Sampling,
    /// What is measured.
    pub query: Query,
    /// What the device does to its measurement before sending it.
    pub randomizer: Randomizer,
    /// What the aggregators add to the sums before they release them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// How the measurements are summed.
    pub aggregation: Aggregation,
    /// What privacy the author claims.
    pub privacy: Privacy,
    /// Who sums, and for whom.
    pub parties: Parties,
}

/// Which devices are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Who {
    /// The author's estimate of how many devices there are. It never lowers an epsilon.
    pub population: u64,
    /// Asks only some of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targeting: Option<Targeting>,
}

/// Asks only devices for which an expression is true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Targeting {
    /// The expression, over the attributes.
    pub predicate: String,
    /// The logged result that certifies how many devices the predicate selects.
    pub certified: EntryId,
}

/// When devices may answer, in POSIX seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// From this second on.
    pub opens: u64,
    /// Until just before this second.
    pub closes: u64,
    /// The time precision of the task, in seconds.
    pub window_s: u64,
    /// The longest interval that is ever released, in seconds. Batches that the leader selects have
    /// no interval, so the aggregators cannot enforce it there.
    pub max_window_s: u64,
}

/// How the measurements are summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregation {
    /// The VDAF. It follows from the query; a device compares it with the one it derives itself.
    pub vdaf: RecipeVdaf,
    /// The smallest batch that is ever released.
    pub min_batch: u64,
    /// How reports are grouped into batches.
    #[serde(with = "scalar::batch_mode")]
    pub batch_mode: BatchMode,
}

/// A VDAF with its parameters, named as in the VDAF specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub enum RecipeVdaf {
    /// Counts.
    Prio3Count,
    /// Adds numbers.
    Prio3Sum {
        /// The largest number.
        max_measurement: u64,
    },
    /// Counts per bucket.
    Prio3Histogram {
        /// How many buckets there are.
        length: u32,
        /// How many elements the proof groups together.
        chunk_length: u32,
    },
    /// Counts per bucket, of devices that are in several buckets or in none.
    Prio3MultihotCountVec {
        /// How many buckets there are.
        length: u32,
        /// How many elements the proof groups together.
        chunk_length: u32,
        /// In how many buckets one device may be.
        max_weight: u64,
    },
    /// Adds vectors of bounded norm, in a field of 64 bits.
    Pine64 {
        /// How many coordinates there are.
        dimension: u32,
        /// The largest norm (L2), in units of `2^-fraction_bits`.
        norm_bound: u64,
        /// How many elements the main proof groups together.
        chunk_length: u32,
        /// How many elements the proof of the norm groups together.
        chunk_length_norm_equality: u32,
    },
}

/// The privacy that the author claims for one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Privacy {
    /// Differential privacy.
    Claim {
        /// Epsilon, in millionths.
        epsilon_micro: u64,
        /// Delta.
        delta: Probability,
        /// Which data sets are neighbours.
        adjacency: Adjacency,
        /// How epsilon is computed.
        accountant: Accountant,
        /// The number of rounds; 1 without a series.
        rounds: u64,
    },
    /// None: the exact values of a batch are summed. A device answers only if its owner has allowed
    /// it.
    InsecureUnbounded,
}

/// Which data sets are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adjacency {
    /// One device's data is replaced.
    Replace,
    /// One device is added or removed.
    AddRemove,
}

/// How epsilon is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accountant {
    /// The best bound that applies.
    Best,
}

/// Who sums, and for whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parties {
    /// The DAP leader.
    pub leader: Aggregator,
    /// The DAP helper.
    pub helper: Aggregator,
    /// The collector's public key: an encoded [`HpkeConfig`], base64url without padding.
    pub collector_hpke_config: String,
    /// The origin of the log that holds the recipe.
    pub log: String,
    /// Who checks that each device contributes once.
    pub tokens: Tokens,
}

impl Parties {
    /// The collector's public key.
    pub fn collector_config(&self) -> Result<HpkeConfig, FormatError> {
        scalar::hpke_config("parties.collector_hpke_config", &self.collector_hpke_config)
    }
}

/// One of the two aggregators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregator {
    /// Who runs it: the name under which devices pin its operator's key.
    pub operator: KeyName,
    /// Its URL.
    pub url: String,
}

canonical::canonical_json!(Recipe);
