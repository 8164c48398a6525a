//! What each party of a whole collection sees: all in memory, in virtual time, from seeds.

pub(crate) mod aggregation;
mod swaps;
