//! The gateway over real HTTP on loopback: of a leader, of a log, and by itself.
#![allow(clippy::disallowed_methods)]
// tests have clocks and tasks of their own

// Clippy takes only functions with the test attribute for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod device;
mod inner_refusals;
mod log_reads;
mod oracle;
mod outer_refusals;
mod remembering;
mod rotation;
mod secrecy;
mod standalone;
mod trouble;
mod uploads;

/// Shared with the tests of leader and helper, which use more of it.
#[allow(dead_code)]
#[path = "../server/harness.rs"]
mod harness;

/// Shared with the tests of the log, which use more of it.
#[allow(dead_code)]
#[path = "../log/harness.rs"]
mod log_harness;

/// Shared with the tests of leader and helper.
#[path = "../server/captured.rs"]
mod captured;
