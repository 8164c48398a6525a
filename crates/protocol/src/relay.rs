//! The relay's decisions (RFC 9458 §6.2): in which order requests are forwarded, and which sources
//! send too many.
//!
//! [`Pool`] holds requests until there are enough of them and releases them in a random order, so
//! that an observer of both sides cannot match them by time or position. [`SourceLimit`] counts the
//! requests of a source during one window and then forgets it. Time is in milliseconds of the host's
//! monotonic clock. Sockets, bodies and the list of gateways are the host's.

mod pool;
mod source_limit;

pub use pool::{Pool, PoolRule};
pub use source_limit::SourceLimit;
