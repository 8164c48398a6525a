//! One test program: test vectors, and two aggregators in memory.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod own_vectors;
mod pine;
mod prio3;
mod vectors;
