//! What tests share: data and parties. The shipped binary uses the feature `vectors` alone.
//!
//! - [`decoders`]: every decoder of `sotto-wire` in one table, with valid messages to start from.
//! - [`arbitrary`]: recipes, key sets and results from a seed.
//! - `vectors`: the check behind `sotto vectors check`.

pub mod arbitrary;
pub mod decoders;
#[cfg(feature = "vectors")]
pub mod vectors;
