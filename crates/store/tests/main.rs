//! One test program: what each database promises.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod attester;
mod conformance;
mod issuer;
mod tlog;
mod tokens;
