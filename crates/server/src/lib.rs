//! The roles of Sotto over HTTP: leader, helper, log, witness, relay, gateway, attester, issuer.
//!
//! Each role wraps the pure steps of `sotto_protocol` and the verbs of `sotto_store`: a handler
//! decodes, loads, calls one function, commits and encodes. Binding a role, as in [`Leader::bind`],
//! checks everything that can be checked and returns a [`Server`], which runs until it is told to
//! stop. [`Server`] is what all roles share; a [`Role`] is what one of them adds. Time and
//! randomness come from an [`Environment`].
//!
//! Their configurations deserialize and describe themselves ([`settings`]).
//!
//! Left to others: loading the files that a configuration names and catching signals (the program),
//! what a message means (`sotto_protocol`), what is durable when (`sotto_store`).

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod admin;
mod aggregator;
mod attester;
mod auth;
mod backoff;
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
mod memory;
mod metrics;
mod outbound;
mod pace;
mod peer;
mod pool;
mod problem;
mod provision;
mod receipts;
mod recipes;
mod relay;
mod rotating;
mod service;
pub mod settings;
mod shutdown;
mod tasks;
mod upkeep;
mod vitals;
mod witness;

pub use attester::{
    Attester, AttesterConfig, AttesterFile, InsecureAttestation, IssuerPeer, IssuerPeerTable,
    Manufacturer, ManufacturerTable, Purpose, X509Attestation, X509Config, X509Table,
};
pub use auth::{AuthScheme, AuthToken, InvalidToken};
pub use config::{
    AggregationConfig, AggregatorFile, BodyLimits, ConnectionLimits, HelperConfig, HelperFile,
    HttpConfig, HttpFile, LeaderConfig, LeaderFile, LeaderTables, Moved, MovedSecrets,
    PostgresTable, ReceiptsConfig, ReceiptsTable, RecipeAuthor, RecipeAuthorTable, RecipePeer,
    RecipePeerTable, RecipesConfig, RecipesTable, ServerConfig, TaskprovConfig, TaskprovTable,
    TlsConfig,
};
pub use environment::Environment;
pub use error::{BindError, RunError, TaskRefused};
pub use gateway::{
    Gateway, GatewayConfig, GatewayFile, GatewayLimits, GatewayServerConfig, GatewayTable,
    GatewayTarget, GatewayTargetTable,
};
pub use helper::Helper;
pub use issuer::{
    Issuer, IssuerAttester, IssuerAttesterTable, IssuerConfig, IssuerFile, IssuerRules,
};
pub use leader::Leader;
pub use listener::{Certificates, Certified};
pub use log::{Log, LogConfig, LogFile};
pub use relay::{
    PoolTable, Relay, RelayConfig, RelayFile, RelayGateway, RelayGatewayTable, SourceRule,
};
pub use rotating::{EncapsulationKeys, GatewayKeys, Keyring, Rotating};
pub use service::{Role, Server};
pub use tasks::{ServedTask, TaskRegistry};
pub use witness::{Witness, WitnessConfig, WitnessFile};
