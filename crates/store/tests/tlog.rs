//! The public log in its folder: appends, crashes, power cuts, damage, witnesses.
//!
//! `sotto-tests` has the comparison with independent implementations and the tests that really kill
//! a process.

mod admission;
mod append;
mod crash;
mod damage;
mod party;
mod power;
mod witness;
