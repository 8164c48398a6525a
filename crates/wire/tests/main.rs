//! One test program: formats: round trips, vectors, and what must be refused.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod bhttp;
mod fuzz_targets;
mod must_fail;
mod ohttp;
mod recipe;
mod recipe_entry;
mod recipe_tokens;
mod recipe_toml;
mod roundtrip;
mod token;
mod vectors;
