//! The device that decides for itself, against a log in memory: what it refuses, what survives a crash, what a fleet does.

// Panicking is how tests fail, in their helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod checks;
mod crash;
mod derivation;
mod fleet;
mod mutation;
mod restarts;
mod rows;
mod state;
mod views;
mod world;
