//! The relay's two decisions (RFC 9458 §6.2): in which order requests go on, and whose are too many.
//!
//! [`Pool`] holds requests back until enough of them are together and gives them out in a random order, so
//! that who sees both sides cannot match them by time or place in line. [`SourceLimit`] counts the requests
//! of a source for one window and remembers none longer; [`SourceConnections`] counts the connections that it
//! has open. Time is the host's milliseconds, which never go back; sockets, bodies and the list of gateways
//! are the host's.

mod pool;
mod source_connections;
mod source_limit;

pub use pool::{Pool, PoolRule};
pub use source_connections::SourceConnections;
pub use source_limit::{SourceLimit, SourceTag};
