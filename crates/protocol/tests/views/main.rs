//! What each party of a whole collection sees: all of it in memory, in virtual time, from seeds.

// Panicking is how tests fail, in their helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod aggregation;
mod swaps;
// The world of the device's tests, of which this needs a part.
#[allow(dead_code)]
#[path = "../device/world.rs"]
mod world;
