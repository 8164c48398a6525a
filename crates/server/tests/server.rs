//! Leader and helper over real HTTP on loopback.

mod backlog;
mod batch_modes;
mod collection;
mod cover;
pub(crate) mod harness;
mod helper;
mod helper_failures;
mod noise;
mod public_log;
mod recipes;
mod requests;
mod retention;
mod secrecy;
mod taskprov;
mod tokens;
mod transport;
mod window;
