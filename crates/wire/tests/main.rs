//! A single test program for the formats: round trips, vectors, and what must be rejected.

// Tests fail by panicking, including in their helpers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bhttp;
mod fuzz_targets;
mod must_fail;
mod ohttp;
mod receipt;
mod recipe;
mod recipe_entry;
mod recipe_series;
mod recipe_tokens;
mod recipe_toml;
mod roundtrip;
mod token;
mod vectors;
