//! One test program: the binary `sotto`, as a person or a script uses it.

// Tests fail by panicking, and so do their helpers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod binary;
mod demo;
mod examples;
mod fleet;
mod interop;
mod json;
mod log;
mod mistakes;
mod pages;
mod recipe;
mod result;
mod serve;
mod terminal;
mod train;

use std::process::Output;

use serde_json::Value;

/// The one JSON object that a command printed, which must fit the schema.
#[track_caller]
fn json(output: &Output) -> Value {
    read(&output.stdout)
}

/// The same, from what was printed.
#[track_caller]
fn read(printed: &[u8]) -> Value {
    sotto_testing::output::read(printed).unwrap_or_else(|reason| panic!("{reason}"))
}

/// The words of a text, however its lines are wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
