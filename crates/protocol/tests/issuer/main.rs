//! The issuer: published transcripts, refusals, what it sees of a device, and token keys for authors.

// Clippy takes only functions with the test attribute for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod asking;
mod authors;
mod keys;
mod refusals;
mod transcripts;
mod view;
