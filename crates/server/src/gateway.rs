//! The gateway: opens Oblivious HTTP requests (RFC 9458) and passes what is inside to a server.
//!
//! It is a module of the leader and of the log. It hands them requests in the same process, and
//! only those that devices need: uploads, and reads of log files. [`Gateway`] is the same resource
//! in front of servers that are reached over HTTP. [`resource`] is the exchange, [`destination`]
//! says what passes to servers and back. `sotto_protocol::gateway` opens requests and checks dates
//! and replays.
//!
//! About a request, only its outcome is logged and counted.

mod answer;
mod config;
mod content;
mod destination;
mod metrics;
mod origin;
mod resource;
mod standalone;

pub use self::config::{
    GatewayConfig, GatewayFile, GatewayLimits, GatewayServerConfig, GatewayTable, GatewayTarget,
    GatewayTargetTable,
};
pub(crate) use self::destination::Destination;
pub(crate) use self::resource::GatewayResource;
pub use self::standalone::Gateway;
