//! The parties of DAP as pure steps: state, message, time and randomness in; state and message out.
//!
//! Nothing here opens a socket or a file, reads a clock or draws from a global generator. A host
//! (`sotto-server`, `sotto-client`, a test) loads, calls one function, commits what it returned and
//! sends it. Functions come in pairs named after the message: `produce_<message>` on the sending
//! side, `consume_<message>` on the receiving side.
//!
//! ```
//! # use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
//! use sotto_protocol::{Moment, Task, client};
//! use sotto_vdaf::{Measurement, VdafConfig};
//! use sotto_wire::{BatchMode, TaskConfiguration, TaskId, TaskParameters, TimePrecision, Url, VdafType};
//! # use sotto_crypto::HpkeKeypair;
//! # use sotto_wire::HpkeConfigId;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut rng = ChaCha20Rng::seed_from_u64(1);
//! # let leader = HpkeKeypair::generate(HpkeConfigId::new(1), &mut rng);
//! # let helper = HpkeKeypair::generate(HpkeConfigId::new(2), &mut rng);
//! let vdaf = VdafConfig::histogram(4);
//! let configuration = TaskConfiguration::new(TaskParameters {
//!     task_info: b"at least 16 random bytes".to_vec(),
//!     leader_aggregator_endpoint: Url::new("https://leader.example/")?,
//!     helper_aggregator_endpoint: Url::new("https://helper.example/")?,
//!     time_precision: TimePrecision::from_seconds(3600)?,
//!     min_batch_size: 100,
//!     batch_mode: BatchMode::TimeInterval,
//!     vdaf_type: VdafType::new(vdaf.vdaf_type()),
//!     vdaf_configuration: vdaf.encode_configuration(),
//!     extensions: vec![],
//! })?;
//! let task = Task::new(TaskId::new([7; 32]), configuration)?;
//! let (now, measurement) = (Moment(1_700_000_000), Measurement::Histogram(2));
//! let report = client::produce_report(
//!     &task, leader.config(), helper.config(), &measurement, task.time(now), None, &mut rng,
//! )?;
//! # assert!(report.len() > 500);
//! # Ok(()) }
//! ```

pub mod admission;
#[cfg(feature = "server")]
mod aggregate_share;
#[cfg(feature = "server")]
pub mod attester;
mod base64url;
mod batch;
pub mod client;
pub mod collector;
pub mod device;
mod error;
pub mod expression;
#[cfg(feature = "server")]
pub mod gateway;
#[cfg(feature = "server")]
pub mod helper;
pub mod http_date;
#[cfg(feature = "server")]
mod input_share;
#[cfg(feature = "server")]
pub mod issuer;
#[cfg(feature = "server")]
mod keyed_hash;
#[cfg(feature = "server")]
pub mod leader;
pub mod log;
#[cfg(feature = "server")]
pub mod memory;
pub mod oblivious;
#[cfg(feature = "server")]
pub mod plan;
#[cfg(feature = "server")]
pub mod receipt;
pub mod recipe;
#[cfg(feature = "server")]
pub mod relay;
#[cfg(feature = "server")]
mod release;
#[cfg(feature = "server")]
mod request;
#[cfg(feature = "server")]
pub mod sources;
mod task;
#[cfg(feature = "server")]
pub mod taskprov;
pub mod token;
pub mod trust;
#[cfg(feature = "server")]
pub mod witness;

pub use batch::{Bucket, BucketAggregate, BucketAggregates, Digest, ReplayScope};
pub use error::{Abort, BadResponse, Failure, Fault, Rejection, Rejections};
#[cfg(feature = "server")]
pub use release::ReleaseRules;
#[cfg(feature = "server")]
pub use request::{RequestKind, request_digest};
pub use sotto_dp::uniform::{shuffle, uniform_below};
#[cfg(feature = "server")]
pub use task::{AggregatorTask, HpkeKeyring};
pub use task::{MAX_CLOCK_SKEW_S, Moment, Task, TaskError};

/// The id of a task's only verification key. DAP allows several per task; we use one.
#[cfg(feature = "server")]
const VERIFICATION_KEY_ID: u8 = 0;
