//! The device and the collector of DAP over HTTP, blocking and small.
//!
//! [`Device`] fetches the aggregators' HPKE keys, turns measurements into reports and uploads them.
//! [`Collector`] asks the leader for batches and opens them. Both speak through a [`Transport`], of which
//! [`HttpTransport`] is the one that ships and [`RelayTransport`] the one that hides a device's address behind a
//! relay; a test brings its own. [`Routes`] gives each exchange of a device its way. What the messages hold is
//! decided in `sotto-protocol`; here is only the exchange: addresses, headers, retries, patience.
//!
//! There is no runtime and no background thread, and no cryptography provider for TLS: a host that talks
//! `https` brings one (see [`HttpOptions::crypto_provider`]).
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use sotto_client::{Device, HttpOptions, HttpTransport};
//! use sotto_protocol::{Moment, Task};
//! use sotto_vdaf::Measurement;
//!
//! # fn example(task: Task, rng: &mut dyn rand_core::CryptoRng) -> Result<(), Box<dyn std::error::Error>> {
//! let transport = Arc::new(HttpTransport::new(HttpOptions::default())?);
//! let device = Device::new(task, transport);
//! let now = Moment(1_700_000_000); // from the clock
//! let outcome = device.send(&Measurement::Histogram(3), now, rng)?;
//! println!("{outcome:?}");
//! # Ok(())
//! # }
//! ```

mod attestors;
mod auth;
mod collector;
mod deliver;
mod device;
mod exchange;
mod http;
mod log;
mod problem;
mod relay;
mod retry;
mod routes;
#[cfg(test)]
mod script;
mod sealing;
mod state_file;
mod tokens;
mod transport;

pub use attestors::{DeviceCertificate, InsecureName};
pub use auth::AuthToken;
pub use collector::{CollectError, Collected, CollectionJob, Collector, Poll, Progress};
pub use deliver::{Delivery, deliver};
pub use device::{AggregatorName, Device, DeviceError, PreparedReport, UploadOutcome};
pub use exchange::ExchangeError;
pub use http::{HttpOptions, HttpTransport};
pub use log::HttpLog;
pub use problem::Problem;
pub use relay::{Clock, Random, RelayTransport};
pub use retry::RetryPolicy;
pub use routes::{LogRoute, RouteError, Routes};
pub use sealing::SealingKey;
pub use sotto_protocol::collector::Collection;
pub use state_file::StateFile;
pub use tokens::{TokenRound, TokenTrouble, TokensError, fetch_tokens};
pub use transport::{HttpRequest, HttpResponse, Method, Transport, TransportError};
