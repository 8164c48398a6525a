//! One test program: the real binary over real HTTP.

// Tests fail by panicking, and so do their helpers.
#![allow(clippy::unwrap_used, clippy::panic)]

mod aggregation;
mod anonymity;
mod collecting;
mod crash;
mod demo;
mod discovery;
mod fleet;
mod init;
mod key_rotation;
mod large;
mod log;
mod logs;
mod minimum_batch;
mod models;
mod one_address;
mod peers;
mod pipeline;
mod plan;
mod receipts;
mod recipes;
mod release;
mod repeat;
mod replicas;
mod silent_servers;
mod slow_helpers;
mod squared_error;
mod tls;
mod tokens;
mod training;
