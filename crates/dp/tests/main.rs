//! One test program: the accountants against references, closed forms and brute force.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod adjacency;
mod allocation;
mod calibrate;
mod closed_forms;
mod count_seen;
mod discrete_gaussian;
mod edges;
mod figures;
mod filter;
mod mechanism;
mod monotone;
mod odometer;
mod paper;
mod pld;
mod projection;
mod properties;
mod rdp;
mod rdp_events;
mod recipe;
mod sampler;
mod shuffle;
