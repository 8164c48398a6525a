//! The public log in its folder: appends, crashes, power cuts, damage, witnesses.
//!
//! The comparison with independent implementations and real kills are in `sotto-tests`.

mod admission;
mod append;
mod crash;
mod damage;
mod party;
mod power;
mod witness;
