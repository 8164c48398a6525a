//! Verifiable distributed aggregation over batches of shares.
//!
//! A [`VdafConfig`] names an aggregation function and its parameters. [`VdafConfig::build`] turns
//! it into an [`Arc<dyn Vdaf>`](Vdaf), which shards measurements (client), verifies and sums whole
//! batches of shares (aggregators) and combines two aggregate shares (collector). Everything that
//! crosses this interface is bytes in their wire encoding, so the protocol above it knows no
//! fields, proofs or circuits. Output shares never leave this crate: they are added to the caller's
//! accumulators here.
//!
//! Prio3 comes from the `prio` crate, behind one private adapter; PINE is here, on the fields and
//! proofs of `prio`. Not handled here: HPKE, report
//! validation, replays and batches (the protocol's task), and differential privacy.
//!
//! ```
//! use sotto_vdaf::{AggregateResult, HelperReport, LeaderReport, Measurement, VdafConfig, VerifyParams};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # use rand_chacha::rand_core::SeedableRng;
//! # let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(1);
//! let vdaf = VdafConfig::histogram(4).build()?;
//! let (ctx, nonce, bucket) = (b"dap-18 task".as_slice(), [7; 16], 0);
//! let shares = vdaf.shard(ctx, &Measurement::Histogram(2), &nonce, &mut rng)?;
//!
//! let params = VerifyParams { verify_key: &[9; 32], ctx, agg_param: b"" };
//! let (mut leader, mut helper) = ([vdaf.zero_share()], [vdaf.zero_share()]);
//! let public_share = shares.public_share.as_slice();
//! let pending = vdaf.leader_init(
//!     &params,
//!     &[LeaderReport { nonce: &nonce, public_share, input_share: &shares.leader, bucket }],
//! );
//! let answers = vdaf.helper_verify(
//!     &params,
//!     &[HelperReport {
//!         nonce: &nonce,
//!         public_share,
//!         input_share: &shares.helper,
//!         inbound: pending.outbound(0)?,
//!         bucket,
//!     }],
//!     &mut helper,
//! );
//! let inbound: Vec<_> = answers.iter().map(|a| a.as_deref().ok()).collect();
//! assert!(pending.finish(&inbound, &mut leader)[0].is_ok());
//! let result = vdaf.unshard(&leader[0], &helper[0], 1)?;
//! assert_eq!(result, AggregateResult::Vector(vec![0, 0, 1, 0]));
//! # Ok(()) }
//! ```

mod aggregate_share;
mod config;
mod measurement;
mod pine;
mod ping_pong;
mod prio3;
mod vdaf;
pub mod vectors;

pub use aggregate_share::{AggregateShare, AggregateShareError};
pub use config::{ConfigError, MAX_DIMENSION, MAX_ENCODED_LENGTH, VdafConfig};
pub use measurement::{AggregateResult, Measurement, MeasurementError};
pub use pine::{FixedPointError, PineField, to_fixed_point};
pub use vdaf::{
    HelperReport, LeaderBatch, LeaderReport, ShardError, Shares, Sizes, UnshardError, Vdaf,
    VerifyError, VerifyParams,
};
