//! The device and the collector, blocking and small.
//!
//! [`Participant`] is a device that follows recipes: it reads the public log, decides, stores and
//! sends. One call is one pass, with the steps in the only safe order. The application provides a
//! [`Host`]: network, clock, randomness, attestation, conditions and attributes.
//! `examples/device.rs` is a complete device:
//!
//! ```no_run
#![doc = include_str!("../examples/device.rs")]
//! ```
//!
//! [`Collector`] collects batches from the leader and opens them, and a [`QueryResult`] says what they
//! mean. [`Uploader`] is the client of a
//! plain DAP task, without a recipe. All of them send through a [`Transport`]: [`HttpTransport`] is
//! included, and tests use their own. `sotto-protocol` decides what messages contain; this crate
//! does the exchange: URLs, headers, relays, retries.
//!
//! A device that trains a model has a [`Trainer`] in its host: its examples. [`write_model`] is for
//! who publishes the rounds.
//!
//! There is no runtime and no background thread, and no cryptography provider for TLS: a host that
//! uses `https` provides one (see [`HttpOptions::crypto_provider`]).

mod attestors;
mod auth;
mod collector;
mod exchange;
mod http;
mod log;
mod model_files;
mod participant;
mod problem;
pub mod query_result;
mod relay;
mod retry;
#[cfg(test)]
mod script;
mod sealing;
mod state_file;
mod training;
mod transport;
mod uploader;

pub use attestors::{DeviceCertificate, InsecureName};
pub use auth::AuthToken;
pub use collector::{Cancelled, CollectError, Collected, CollectionJob, Collector, Poll, Progress};
pub use exchange::ExchangeError;
pub use http::{HttpOptions, HttpTransport};
pub use log::HttpLog;
pub use model_files::{ModelFileError, PIECE_LEN, fetch_model, remove_model, write_model};
pub use participant::{
    Delivery, Host, HostError, Log, Participant, ParticipantError, PassReport, RouteError,
    TokenFailure, TokenRound,
};
pub use problem::Problem;
pub use query_result::QueryResult;
pub use relay::{Clock, Random, RelayTransport};
pub use retry::RetryPolicy;
pub use sealing::SealingKey;
pub use sotto_protocol::collector::Collection;
pub use state_file::StateFile;
pub use training::{
    Classifier, DeviceLearner, Examples, Models, OwnModel, Trainer, classifying, evaluation_scale,
    local_training, plan,
};
pub use transport::{HttpRequest, HttpResponse, Method, Transport, TransportError};
pub use uploader::{PreparedReport, UploadError, UploadOutcome, Uploader};
