//! One test program: the parties in memory, without a runtime.

// Tests fail by panicking, and so do their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod anonymity;
mod attester;
mod device;
mod expression;
mod issuer;
mod protocol;
mod vectors;
mod views;
