//! A single test program: what each database promises.

// Tests fail by panicking, including in their helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod attester;
mod conformance;
mod issuer;
mod tlog;
mod tokens;
