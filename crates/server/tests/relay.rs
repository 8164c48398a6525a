//! The relay over real sockets on loopback, with a gateway behind it that records what it gets.
#![allow(clippy::disallowed_methods)]
// tests have clocks and tasks of their own

mod answers;
mod forwarding;
mod gateway;
mod harness;
mod holding;
mod pooling;
mod secrecy;
mod sources;
mod transport;
mod trouble;
