//! One test program: the binary `sotto`, as a person or a script uses it.

// Tests fail by panicking, and so do their helpers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod binary;
mod demo;
mod interop;
mod log;
mod mistakes;
mod recipe;
mod serve;
