//! The public log in its folder: appends, crashes, power cuts, damage, witnesses.
//!
//! The comparison with independent implementations and real kills are in `sotto-tests`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "tlog/admission.rs"]
mod admission;
#[path = "tlog/append.rs"]
mod append;
#[path = "tlog/crash.rs"]
mod crash;
#[path = "tlog/damage.rs"]
mod damage;
#[path = "tlog/party.rs"]
mod party;
#[path = "tlog/power.rs"]
mod power;
#[path = "tlog/witness.rs"]
mod witness;
