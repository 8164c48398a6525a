//! One test program: every role over real HTTP on loopback.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attester;
mod captured;
mod gateway;
mod issuer;
mod log;
mod relay;
mod server;
