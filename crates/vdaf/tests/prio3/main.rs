//! Prio3 through the public interface: two aggregators in memory.

// Panicking is how tests fail, in their helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod corruption;
mod differential;
mod end_to_end;
mod exchange;
mod hostile_inputs;
mod one_sided_rejection;
