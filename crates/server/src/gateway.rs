//! The gateway: opens Oblivious HTTP requests (RFC 9458) and hands what is inside to a server.
//!
//! It is a module of the leader and of the log, to which it hands requests in the same process, and only
//! those that devices have a use for: uploads, and files of the log. [`Gateway`] is the same resource in
//! front of servers that are reached over HTTP. [`resource`] is the exchange, [`destination`] what passes
//! to servers and back. Opening, dates and replays are `sotto_protocol::gateway`'s.
//!
//! Nothing about a request is logged or counted but what became of it.

mod answer;
mod config;
mod destination;
mod metrics;
mod origin;
mod resource;
mod standalone;

pub use self::config::{
    GatewayConfig, GatewayFile, GatewayLimits, GatewayServerConfig, GatewayTable, GatewayTarget,
    GatewayTargetTable,
};
pub(crate) use self::resource::GatewayResource;
pub use self::standalone::Gateway;
