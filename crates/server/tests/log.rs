//! Logs and witnesses over real HTTP on loopback.

mod disputes;
mod files;
pub(crate) mod harness;
mod publishing;
mod set_back;
mod submitting;
mod witness;
