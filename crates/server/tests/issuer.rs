//! The issuer over real HTTP on loopback.

mod authors;
mod harness;
mod issuing;
mod secrecy;

/// Shared with the tests of the pure issuer.
#[path = "../../protocol/tests/issuer/asking.rs"]
mod asking;
