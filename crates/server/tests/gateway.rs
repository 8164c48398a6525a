//! The gateway over real HTTP on loopback: in a leader, in a log, and standalone.

mod device;
mod hostile_bodies;
mod inner_refusals;
mod log_reads;
mod oracle;
mod outer_refusals;
mod remembering;
mod rotation;
mod secrecy;
mod standalone;
mod uploads;
