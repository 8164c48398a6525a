//! The attester over HTTP, against an issuer that does what a test tells it to.

mod certificates;
mod directories;
mod failures;
mod granting;
mod harness;
mod issuer;
mod requests;
mod secrecy;
