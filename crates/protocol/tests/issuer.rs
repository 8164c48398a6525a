//! The issuer: published transcripts, refusals, what it sees of a device, and token keys for
//! authors.

mod authors;
mod keys;
mod refusals;
mod transcripts;
mod view;
