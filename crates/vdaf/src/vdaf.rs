//! The object-safe interface to a verifiable distributed aggregation function.
//!
//! Two aggregators, in the ping-pong topology (VDAF, section "The Ping-Pong Topology"): the leader
//! sends the first message, the helper answers and is done, the leader finishes with that answer.
//! All calls take batches, so that an implementation may verify many reports in lockstep.

use std::fmt;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::{
    AggregateResult, AggregateShare, AggregateShareError, Measurement, MeasurementError, VdafConfig,
};

/// An aggregation function with its parameters, for all three roles.
///
/// A rejected report leaves every accumulator unchanged. Reports of a batch are independent: a
/// malformed or invalid report is rejected individually, and no input makes a call panic.
///
/// Invariant: if the helper accepts a report, and the leader gets the helper's unaltered answer,
/// then the leader accepts it too. Otherwise one crafted report would make the two sums differ
/// permanently. Each aggregator therefore compares its own joint-randomness part with the public
/// share before it sends a message: the leader in [`Vdaf::leader_init`], the helper in
/// [`Vdaf::helper_verify`].
pub trait Vdaf: Send + Sync + fmt::Debug {
    /// The configuration this was built from.
    fn config(&self) -> &VdafConfig;

    /// The exact length in bytes of everything that is sent.
    fn sizes(&self) -> Sizes;

    /// Whether `agg_param` is an aggregation parameter of this function. (Prio3: only the empty
    /// string.)
    fn is_valid_agg_param(&self, agg_param: &[u8]) -> bool;

    /// Client: splits a measurement into shares. All randomness is drawn from `rng`, in one call
    /// per attempt; all but PINE make a single attempt.
    fn shard(
        &self,
        ctx: &[u8],
        measurement: &Measurement,
        nonce: &[u8; 16],
        rng: &mut dyn CryptoRng,
    ) -> Result<Shares, ShardError>;

    /// Leader, first step: computes the outbound message of every report. Deterministic, so a
    /// leader that restarts may compute the batch again from the same reports.
    ///
    /// The returned batch holds one output share per accepted report (about
    /// [`Sizes::aggregate_share`] bytes each).
    fn leader_init(
        &self,
        params: &VerifyParams<'_>,
        reports: &[LeaderReport<'_>],
    ) -> Box<dyn LeaderBatch>;

    /// Helper, its only step: verifies every report against the leader's message, adds the output
    /// shares of the valid ones to `accumulators[report.bucket]` and returns, in the order of
    /// `reports`, the message that lets the leader finish.
    fn helper_verify(
        &self,
        params: &VerifyParams<'_>,
        reports: &[HelperReport<'_>],
        accumulators: &mut [AggregateShare],
    ) -> Vec<Result<Vec<u8>, VerifyError>>;

    /// The aggregate share of no reports.
    fn zero_share(&self) -> AggregateShare;

    /// Decodes an aggregate share from its wire bytes: exact length, canonical elements.
    fn decode_aggregate_share(&self, bytes: &[u8]) -> Result<AggregateShare, AggregateShareError>;

    /// How many reports a batch may have before its sum might wrap around in the field.
    fn max_reports(&self) -> u64;

    /// Collector: combines the two aggregate shares of a batch of `count` reports, to which the
    /// aggregators may have added noise. A sum below 0 is a negative number.
    fn unshard(
        &self,
        leader: &AggregateShare,
        helper: &AggregateShare,
        count: u64,
    ) -> Result<AggregateResult, UnshardError>;
}

/// A batch of reports at the leader, between its message and the helper's answer.
pub trait LeaderBatch: Send {
    /// The number of reports, including rejected ones.
    fn len(&self) -> usize;

    /// Whether the batch has no reports.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message of report `index` to the helper, or why the leader rejects the report.
    fn outbound(&self, index: usize) -> Result<&[u8], VerifyError>;

    /// Leader, last step: `inbound[i]` is the helper's message for report `i`, or `None` if the
    /// helper rejected it. Adds the output shares of the accepted reports to
    /// `accumulators[report.bucket]`.
    fn finish(
        self: Box<Self>,
        inbound: &[Option<&[u8]>],
        accumulators: &mut [AggregateShare],
    ) -> Vec<Result<(), VerifyError>>;
}

/// The exact length in bytes of each encoded object of a VDAF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The public share, seen by both aggregators.
    pub public_share: usize,
    /// The leader's input share.
    pub leader_share: usize,
    /// The helper's input share.
    pub helper_share: usize,
    /// The leader's message to the helper, as a DAP payload carries it.
    pub leader_message: usize,
    /// The helper's message to the leader, as a DAP payload carries it.
    pub helper_message: usize,
    /// An aggregate share.
    pub aggregate_share: usize,
}

/// What a client sends, before encryption.
#[derive(Clone)]
pub struct Shares {
    /// Goes to both aggregators, in the clear.
    pub public_share: Vec<u8>,
    /// Only for the leader.
    pub leader: Zeroizing<Vec<u8>>,
    /// Only for the helper.
    pub helper: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

/// What is the same for every report of an aggregation job.
#[derive(Clone, Copy)]
pub struct VerifyParams<'a> {
    /// The secret that both aggregators share and no client knows.
    pub verify_key: &'a [u8; 32],
    /// The application context: binds shares to the protocol version and the task.
    pub ctx: &'a [u8],
    /// The aggregation parameter.
    pub agg_param: &'a [u8],
}

impl fmt::Debug for VerifyParams<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifyParams").field("agg_param", &self.agg_param).finish_non_exhaustive()
    }
}

/// A report as the leader holds it.
#[derive(Clone, Copy)]
pub struct LeaderReport<'a> {
    /// The report ID.
    pub nonce: &'a [u8; 16],
    /// The public share.
    pub public_share: &'a [u8],
    /// The leader's input share, decrypted.
    pub input_share: &'a [u8],
    /// Index of the accumulator that receives the output share.
    pub bucket: usize,
}

/// A report as the helper holds it, with the leader's message.
#[derive(Clone, Copy)]
pub struct HelperReport<'a> {
    /// The report ID.
    pub nonce: &'a [u8; 16],
    /// The public share.
    pub public_share: &'a [u8],
    /// The helper's input share, decrypted.
    pub input_share: &'a [u8],
    /// The leader's message.
    pub inbound: &'a [u8],
    /// Index of the accumulator that receives the output share.
    pub bucket: usize,
}

/// Why a measurement could not be sharded.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// The measurement does not fit the configuration.
    #[error(transparent)]
    Measurement(#[from] MeasurementError),
    /// The application context is too long to be hashed.
    #[error("the application context is longer than 65527 bytes")]
    Context,
    /// Random checks that an honest report passes failed again and again (probability below 2^-400;
    /// rather the random numbers are broken).
    #[error("sharding failed {0} times")]
    Attempts(usize),
    /// The proof system failed, although the measurement was checked.
    #[error("sharding failed: {0}")]
    Internal(String),
}

/// Why one report was rejected. Says nothing about the report's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The public share has the wrong length.
    #[error("malformed public share")]
    PublicShare,
    /// The input share has the wrong length or an element outside the field.
    #[error("malformed input share")]
    InputShare,
    /// The peer's message is malformed.
    #[error("malformed message from the peer")]
    PeerMessage,
    /// The joint randomness in the public share, the input share or the peer's message differ.
    #[error("joint randomness mismatch")]
    JointRandomness,
    /// The proof does not hold: the measurement is invalid or a share was altered.
    #[error("proof verification failed")]
    Proof,
    /// The verification key and the nonce give query randomness that would leak (probability about
    /// 2^-50 or less per report; both aggregators detect it).
    #[error("unusable query randomness")]
    QueryRandomness,
    /// The helper gave no message for this report.
    #[error("rejected by the peer")]
    RejectedByPeer,
    /// The aggregation parameter is not valid for this VDAF.
    #[error("invalid aggregation parameter")]
    AggParam,
    /// The application context is too long to be hashed.
    #[error("the application context is longer than 65527 bytes")]
    Context,
    /// The caller named a report or bucket that does not exist.
    #[error("report or bucket index out of range")]
    OutOfRange,
    /// The caller's accumulator belongs to another VDAF.
    #[error("the accumulator has another shape")]
    Accumulator,
}

/// Why two aggregate shares could not be combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnshardError {
    /// A share does not belong to this VDAF.
    #[error(transparent)]
    Share(#[from] AggregateShareError),
    /// So many large measurements that their sum may have wrapped around in the field.
    #[error("the sum of {count} measurements of up to {max} may exceed the field")]
    MayWrap {
        /// The number of reports.
        count: u64,
        /// The largest value of one measurement.
        max: u64,
    },
}
