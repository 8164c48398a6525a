//! The parties of the protocol, for tests.

// Tests fail by panicking, and so do their helpers. Names say what short helpers do.
#![allow(clippy::new_without_default, clippy::unwrap_used, clippy::panic, missing_docs)]

pub mod aggregators;
pub mod asking;
pub mod crash;
pub mod keys;
pub mod log;
pub mod recipe;
pub mod tokens;
pub mod world;
