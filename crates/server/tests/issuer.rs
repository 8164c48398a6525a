//! The issuer over real HTTP on loopback.

mod authors;
mod harness;
mod issuing;
mod secrecy;
