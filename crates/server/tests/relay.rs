//! The relay over real sockets on loopback, in front of a gateway that records what it gets.
#![allow(clippy::disallowed_methods)]
// tests use their own clocks and tasks

mod answers;
mod failures;
mod forwarding;
mod gateway;
mod harness;
mod holding;
mod pooling;
mod secrecy;
mod sources;
mod transport;
