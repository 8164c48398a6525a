//! Receipts: what an aggregator's operator says about a batch that it released.

use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, Signer, canonical, check, scalar};
use crate::limits::{MAX_RECEIPTS, MAX_RECIPE_LIFE_S};
use crate::{BatchId, EntryId, FormatError, Role};

/// The JSON Schema of a receipt.
pub const RECEIPT_SCHEMA: &str = include_str!("../../schema/receipt-v1.schema.json");

/// One released batch of a recipe, as one of its two aggregators saw it.
///
/// Signing it also says that the batch had at least the recipe's minimum batch size: the count is
/// rounded, so it may be below that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// [`FORMAT_VERSION`].
    pub version: u64,
    /// The recipe.
    pub recipe: EntryId,
    /// Who released it, and signs.
    pub operator: Signer,
    /// As what: leader or helper.
    #[serde(with = "scalar::aggregator")]
    pub role: Role,
    /// The number of the receipt among those of this operator for this recipe, from 1.
    pub seq: u64,
    /// The first second of the batch's interval. A batch that the leader selected has the window
    /// that its reports are from.
    pub start: u64,
    /// The first second after it.
    pub end: u64,
    /// How many reports it held, rounded down to a power of two.
    pub count: u64,
    /// The batch, if the leader selected it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchId>,
}

canonical::canonical_json!(Receipt);

impl Receipt {
    /// A number of reports as receipts give it: rounded down to a power of two; 0 stays 0.
    pub fn rounded(count: u64) -> u64 {
        count.checked_ilog2().map_or(0, |log| 1 << log)
    }

    /// Whether a batch of at least `least` reports can have this count.
    pub fn may_reach(&self, least: u64) -> bool {
        self.count >= Self::rounded(least)
    }

    fn check_fields(&self) -> Result<(), FormatError> {
        check::range("version", self.version, FORMAT_VERSION, FORMAT_VERSION)?;
        check::visible("operator.name", self.operator.name.as_str())?;
        check::range("seq", self.seq, 1, MAX_RECEIPTS)?;
        check::integer("end", self.end)?;
        let length = self.end.checked_sub(self.start).filter(|length| *length > 0);
        let length = length.ok_or_else(|| FormatError::new("start must be earlier than end"))?;
        check::range("end - start", length, 1, MAX_RECIPE_LIFE_S)?;
        check::integer("count", self.count)?;
        match self.count.is_power_of_two() {
            true => Ok(()),
            false => Err(FormatError::new("count must be a power of two")),
        }
    }
}
