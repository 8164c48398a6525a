//! One test program: the binary `sotto`, as a person or a script uses it.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod account;
mod binary;
mod demo;
mod interop;
mod log;
mod recipe;
mod serve;
