//! One test program: every role over real HTTP on loopback.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// Tests have clocks and tasks of their own.
#![allow(clippy::disallowed_methods)]

mod attester;
mod captured;
mod gateway;
mod issuer;
mod log;
mod relay;
mod server;
