//! The attester over HTTP, against an issuer that does what a test tells it to.
#![allow(clippy::disallowed_methods)] // tests have clocks and tasks of their own
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod captured;
mod certificates;
mod directories;
mod harness;
mod issuer;
mod requests;
mod secrecy;
mod trouble;
mod walk;
