//! Sotto's roles over HTTP: leader and helper, log and witness, relay and gateway, attester and issuer.
//!
//! Each role wraps the pure steps of `sotto_protocol` and the verbs of `sotto_store`: a handler decodes,
//! loads, calls one function, commits and encodes. Binding a role, as in [`Leader::bind`], checks
//! everything that can be checked and gives a [`Server`], which runs until it is told to end. What
//! all roles share is in [`Server`]; what one of them adds is its [`Role`]. Time and randomness come
//! from an [`Environment`].
//!
//! Left to others: reading configuration files and catching signals (the program), what a message
//! means (`sotto_protocol`), what is durable when (`sotto_store`).

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod admin;
mod aggregator;
mod attester;
mod auth;
mod config;
mod environment;
mod error;
mod file_body;
mod gateway;
mod health;
mod helper;
mod http;
mod issuer;
mod leader;
mod listener;
mod log;
mod metrics;
mod outbound;
mod pace;
mod peer;
mod pool;
mod problem;
mod provision;
mod recipes;
mod relay;
mod rotating;
mod service;
mod shutdown;
mod tasks;
mod upkeep;
mod witness;

pub use attester::{
    Attester, AttesterConfig, InsecureAttestation, IssuerPeer, Manufacturer, X509Attestation,
    X509Config,
};
pub use auth::{AuthScheme, AuthToken, InvalidToken};
pub use config::{
    AggregationConfig, BodyLimits, ConnectionLimits, HelperConfig, HttpConfig, LeaderConfig,
    RecipeAuthor, RecipesConfig, ServerConfig, TaskprovConfig, TlsConfig,
};
pub use environment::Environment;
pub use error::{BindError, RunError, TaskRefused};
pub use gateway::{Gateway, GatewayConfig, GatewayServerConfig, GatewayTarget};
pub use helper::Helper;
pub use issuer::{Issuer, IssuerAttester, IssuerConfig};
pub use leader::Leader;
pub use log::{Log, LogConfig};
pub use relay::{Relay, RelayConfig, RelayGateway, SourceRule};
pub use rotating::{EncapsulationKeys, GatewayKeys, Keyring, Rotating};
pub use service::{Endpoint, Role, Server};
pub use tasks::{ServedTask, TaskRegistry};
pub use witness::{Witness, WitnessConfig};
