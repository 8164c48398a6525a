//! One test program: every role over real HTTP on loopback.

// A panic is how a test fails, also in its helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// Tests use their own clocks and tasks.
#![allow(clippy::disallowed_methods)]

mod attester;
mod background;
mod captured;
mod gateway;
mod issuer;
mod log;
mod relay;
mod server;
