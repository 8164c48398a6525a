//! Leader and helper over real HTTP on loopback.
#![allow(clippy::disallowed_methods)]
// tests have clocks and tasks of their own

// Clippy takes only functions with the test attribute for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backlog;
mod captured;
mod collection;
mod harness;
mod helper;
mod public_log;
mod recipes;
mod requests;
mod retention;
mod secrecy;
mod taskprov;
mod tokens;
mod transport;
mod trouble;
mod walk;
