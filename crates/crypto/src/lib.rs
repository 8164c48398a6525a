//! Secrets, HPKE, signed notes and Merkle trees for Sotto.
//!
//! [`Secret`] wraps key material; [`HpkeKeypair`] is a receiver's key pair for one of two suites:
//! the one that DAP makes mandatory (DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM; DAP, HPKE
//! configuration), or the same with X-Wing, which adds ML-KEM-768 to X25519. There are two
//! implementations of RFC 9180 base mode: [`hpke`], pure Rust, for devices and collectors, and, with
//! the feature `server`, `server_hpke` on AWS-LC, which opens a share in less than half the time.
//! Equal randomness gives equal ciphertexts in both.
//!
//! [`ohttp`] seals requests to an oblivious gateway, and the responses to them.
//!
//! [`note`] signs and verifies notes and checkpoints of transparency logs, and [`merkle`] provides
//! their trees.
//!
//! [`blind_rsa`] signs tokens without seeing them. [`key_blinding`] and [`rate_limited`] let an
//! attester and an issuer limit how many tokens a client gets, although neither sees both the
//! client and what the token is for.
//!
//! Labels and associated data belong to `sotto-wire` and `sotto-protocol`. The caller decides which
//! key to use, and for how long.

pub mod blind_rsa;
mod encapsulated;
mod error;
pub mod hpke;
pub mod key_blinding;
mod keypair;
pub mod merkle;
pub mod note;
pub mod ohttp;
pub mod rate_limited;
mod secret;
#[cfg(feature = "server")]
pub mod server_hpke;

pub use error::HpkeError;
pub use keypair::HpkeKeypair;
pub use secret::Secret;
