//! Who sent what: oblivious exchanges between a device and a gateway, in memory, over real wire bytes, and the
//! relay's pools and limits in virtual time.

// Panicking is how tests fail, in their helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod exchange;
mod order;
mod others;
mod padding;
mod parties;
mod pools;
mod replays;
mod sources;
