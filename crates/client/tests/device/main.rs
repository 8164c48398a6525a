//! A device whose state is a real file: crashes at every step, and files that are damaged. And its
//! ways: relays, gateways, routes.

// Panicking is how tests fail, in their helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attestors;
mod behind_relay;
mod damage;
mod files;
mod relay;
mod routes;
mod tokens;

// The log, the device's world and the campaign of crashes, as the protocol's own tests have them.
#[path = "../../../protocol/tests/device/crash.rs"]
mod crash;
#[path = "../../../protocol/tests/device/token_world.rs"]
mod token_world;
#[path = "../../../protocol/tests/device/world.rs"]
#[allow(dead_code, reason = "some of it is for the table of checks")]
mod world;
