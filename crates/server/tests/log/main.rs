//! Logs and witnesses over real HTTP on loopback.
#![allow(clippy::disallowed_methods)]
// tests have clocks and tasks of their own

// Clippy takes only functions with the test attribute for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod disputes;
mod files;
mod harness;
mod publishing;
mod set_back;
mod submitting;
mod witness;
