//! One test program: keys, seals, trees and tokens against other implementations.

// A panic is how a test fails, in its helpers too.
#![allow(clippy::unwrap_used)]

mod agreement;
mod merkle_agreement;
mod ohttp;
mod privacypass;
mod unlinkability;
