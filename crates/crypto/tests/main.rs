//! A single test program: keys, sealing, trees and tokens against other implementations.

// Tests fail by panicking, including in their helpers.
#![allow(clippy::unwrap_used)]

mod agreement;
mod merkle_agreement;
mod ohttp;
mod privacypass;
mod unlinkability;
