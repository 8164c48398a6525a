//! One test program: gradients against differences, optimizers against their formulas, data sets,
//! and fast mode against central noise.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod clipping;
mod data;
mod evaluation;
mod fast;
mod local;
mod models;
mod optimizers;
mod parties;
