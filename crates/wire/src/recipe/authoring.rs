//! Recipes as TOML, for the people who write them.
//!
//! The TOML has the groups of the JSON, with values as people write them: `"1/50"`, `4.0`, `1h`,
//! `2026-11-20T00:00:00Z`. It is never signed or hashed. The author's key, the VDAF, the token keys
//! and all parties may be omitted: a program that has the keys and knows the VDAFs completes the
//! draft ([`RecipeDraft::complete`]).

mod fields;
mod noise;
mod number;
mod place;
mod query;
mod randomizer;
mod read;
mod series;
mod tokens;
mod write;

use std::collections::BTreeMap;

use thiserror::Error;

use super::{
    Aggregation, Aggregator, AttributeName, AttributeType, FORMAT_VERSION, Noise, Parties, Privacy,
    Probability, Query, Randomizer, Recipe, RecipeVdaf, Sampling, Series, Signer, When, Who,
};
use crate::{BatchMode, FormatError, Role};

pub use self::place::place_of;
pub use self::tokens::{KeyDraft, TokensDraft};

/// Why a text is not a draft of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuthoringError {
    /// The text is not TOML.
    #[error("line {line}, column {column}: {reason}")]
    Toml {
        /// The line, from 1.
        line: usize,
        /// The character in that line, from 1.
        column: usize,
        /// What is wrong.
        reason: String,
    },
    /// The value of a key is missing, unknown or invalid.
    #[error("line {line}: {key}: {reason}")]
    Key {
        /// Its line, or that of the table in which it is missing.
        line: usize,
        /// The character in that line at which the key begins.
        column: usize,
        /// The path of the key, like `when.window`.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// The recipe breaks a rule of the format.
    #[error(transparent)]
    Rule(#[from] FormatError),
}

impl AuthoringError {
    /// The line and the column that it is about, if it has a place.
    pub fn place(&self) -> Option<(usize, usize)> {
        match self {
            Self::Toml { line, column, .. } | Self::Key { line, column, .. } => {
                Some((*line, *column))
            }
            Self::Rule(_) => None,
        }
    }
}

/// Parses a probability such as `1/50`, `2%`, `0.02`, `2e-2` or `1`. The error is the reason as text.
pub fn parse_probability(text: &str) -> Result<Probability, String> {
    number::probability(text)
}

/// Parses an epsilon such as `4.0`, in millionths, rounded up. The error is the reason as text.
pub fn parse_epsilon(text: &str) -> Result<u64, String> {
    number::micro(text)
}

/// Parses a whole number such as `1000000`, `1,000,000` or `1e6`. The error is the reason as text.
pub fn parse_whole(text: &str) -> Result<u64, String> {
    number::whole(text)
}

/// A recipe in which the author, the VDAF, the parties and the token keys may still be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipeDraft {
    /// Names the recipe among those of its author.
    pub name: String,
    /// One sentence for the person whose device it is.
    pub purpose: String,
    /// Who asks, and signs.
    pub author: Option<Signer>,
    /// What the expressions may read from a device.
    pub attributes: BTreeMap<AttributeName, AttributeType>,
    /// The rounds, if there are several.
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
    pub noise: Option<Noise>,
    /// The VDAF.
    pub vdaf: Option<RecipeVdaf>,
    /// The smallest batch that is ever released.
    pub min_batch: u64,
    /// How reports are grouped into batches.
    pub batch_mode: BatchMode,
    /// What privacy the author claims.
    pub privacy: Privacy,
    /// Who sums, and for whom. A question may be written before anybody is found.
    pub parties: Option<PartiesDraft>,
}

/// The [`Parties`] of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartiesDraft {
    /// The DAP leader.
    pub leader: Aggregator,
    /// The DAP helper.
    pub helper: Aggregator,
    /// The collector's public key, in the form that a recipe holds.
    pub collector_hpke_config: String,
    /// The origin of the log that holds the recipe.
    pub log: String,
    /// Who checks that each device contributes once.
    pub tokens: TokensDraft,
}

impl RecipeDraft {
    /// Parses a draft from TOML. Errors name the line and the key.
    pub fn from_toml(text: &str) -> Result<Self, AuthoringError> {
        read::draft(text).map_err(|error| place::placed(error, text))
    }

    /// The tokens, if the parties are known.
    pub fn tokens(&self) -> Option<&TokensDraft> {
        self.parties.as_ref().map(|parties| &parties.tokens)
    }

    /// The key of this aggregator, if the parties are known and it checks tokens.
    pub fn token_key_mut(&mut self, role: Role) -> Option<&mut KeyDraft> {
        self.parties.as_mut()?.tokens.key_mut(role)
    }

    /// The draft as TOML, with a line of explanation for each group.
    pub fn to_toml(&self) -> String {
        write::draft(self)
    }

    /// The recipe with this author and this VDAF. If the draft already names them, they must be the
    /// same, and it must have its parties and its token keys.
    pub fn complete(self, author: Signer, vdaf: RecipeVdaf) -> Result<Recipe, FormatError> {
        if self.author.is_some_and(|named| named != author) {
            return Err(FormatError::new("the recipe's author is not the signer"));
        }
        if self.vdaf.is_some_and(|named| named != vdaf) {
            return Err(FormatError::new(
                "the recipe's VDAF is not the one that follows from its query",
            ));
        }
        let Some(parties) = self.parties else {
            return Err(FormatError::new("[parties] is missing"));
        };
        let parties = Parties {
            leader: parties.leader,
            helper: parties.helper,
            collector_hpke_config: parties.collector_hpke_config,
            log: parties.log,
            tokens: parties.tokens.complete()?,
        };
        let recipe = Recipe {
            version: FORMAT_VERSION,
            name: self.name,
            purpose: self.purpose,
            author,
            attributes: self.attributes,
            series: self.series,
            who: self.who,
            when: self.when,
            sampling: self.sampling,
            query: self.query,
            randomizer: self.randomizer,
            noise: self.noise,
            aggregation: Aggregation {
                vdaf,
                min_batch: self.min_batch,
                batch_mode: self.batch_mode,
            },
            privacy: self.privacy,
            parties,
        };
        recipe.check()?;
        Ok(recipe)
    }
}

impl From<Recipe> for RecipeDraft {
    fn from(recipe: Recipe) -> Self {
        Self {
            name: recipe.name,
            purpose: recipe.purpose,
            author: Some(recipe.author),
            attributes: recipe.attributes,
            series: recipe.series,
            who: recipe.who,
            when: recipe.when,
            sampling: recipe.sampling,
            query: recipe.query,
            randomizer: recipe.randomizer,
            noise: recipe.noise,
            vdaf: Some(recipe.aggregation.vdaf),
            min_batch: recipe.aggregation.min_batch,
            batch_mode: recipe.aggregation.batch_mode,
            privacy: recipe.privacy,
            parties: Some(PartiesDraft {
                leader: recipe.parties.leader,
                helper: recipe.parties.helper,
                collector_hpke_config: recipe.parties.collector_hpke_config,
                log: recipe.parties.log,
                tokens: recipe.parties.tokens.into(),
            }),
        }
    }
}

impl Recipe {
    /// Parses a recipe from TOML, which must name the author and the VDAF. Errors name the key.
    pub fn from_toml(text: &str) -> Result<Self, AuthoringError> {
        let draft = RecipeDraft::from_toml(text)?;
        let missing = |key: &str| place::placed(fields::missing(key.to_owned()), text);
        let author = draft.author.clone().ok_or_else(|| missing("author"))?;
        let vdaf = draft.vdaf.ok_or_else(|| missing("aggregation.vdaf"))?;
        Ok(draft.complete(author, vdaf)?)
    }

    /// The recipe as TOML, with a line of explanation for each group.
    pub fn to_toml(&self) -> String {
        RecipeDraft::from(self.clone()).to_toml()
    }
}
