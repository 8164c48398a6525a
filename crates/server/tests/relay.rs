//! The relay over real sockets on loopback, in front of a gateway that records what it gets.

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
