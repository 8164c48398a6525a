//! The JSON schema of VDAF test vectors.

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
pub(super) struct VectorFile {
    pub(super) operations: Vec<Operation>,
    /// Number of aggregators.
    pub(super) shares: u8,
    pub(super) ctx: Hex,
    pub(super) verify_key: Hex,
    pub(super) agg_param: Hex,
    pub(super) reports: Vec<ReportVector>,
    /// By aggregator.
    pub(super) agg_shares: Vec<Hex>,
    pub(super) agg_result: Value,
    /// Parameters of the VDAF, and perhaps its name.
    #[serde(flatten)]
    pub(super) parameters: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Operation {
    pub(super) operation: OperationKind,
    pub(super) round: Option<usize>,
    pub(super) aggregator_id: Option<usize>,
    pub(super) report_index: Option<usize>,
    pub(super) success: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OperationKind {
    Shard,
    VerifyInit,
    VerifierSharesToMessage,
    VerifyNext,
    Aggregate,
    Unshard,
}

#[derive(Debug, Deserialize)]
pub(super) struct ReportVector {
    /// Absent (null) in negative vectors.
    pub(super) measurement: Value,
    pub(super) nonce: Hex,
    pub(super) rand: Hex,
    pub(super) public_share: Hex,
    /// By aggregator.
    pub(super) input_shares: Vec<Hex>,
    /// By round, then by aggregator.
    pub(super) verifier_shares: Vec<Vec<Hex>>,
    /// By round.
    pub(super) verifier_messages: Vec<Hex>,
    /// By aggregator.
    pub(super) out_shares: Vec<Hex>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Hex(#[serde(with = "hex")] pub(super) Vec<u8>);

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shard => "shard",
            Self::VerifyInit => "verify_init",
            Self::VerifierSharesToMessage => "verifier_shares_to_message",
            Self::VerifyNext => "verify_next",
            Self::Aggregate => "aggregate",
            Self::Unshard => "unshard",
        })
    }
}
