//! The issuer over real HTTP on loopback.
#![allow(clippy::disallowed_methods)]
// tests have clocks and tasks of their own

// Clippy takes only functions with the test attribute for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authors;
mod harness;
mod issuing;
mod secrecy;

/// Shared with the tests of the pure issuer.
#[path = "../../../protocol/tests/issuer/asking.rs"]
mod asking;

/// Shared with the tests of leader and helper.
#[path = "../server/captured.rs"]
mod captured;
