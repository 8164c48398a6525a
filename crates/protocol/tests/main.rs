//! One test program: the parties in memory, without a runtime.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod anonymity;
mod attester;
mod device;
mod expression;
mod issuer;
mod protocol;
mod vectors;
mod views;
