//! PINE: sums of vectors of signed integers whose L2 norm is proven to be bounded.
//!
//! This is the circuit of the expired draft-chen-cfrg-vdaf-pine-01 on the framing of VDAF-18:
//! `docs/decisions/0038-pine.md`. The client sends the vector and proves two things. First, that its
//! squared norm *in the field* is at most the bound: [`circuit`]. Second, that this is the squared
//! norm of the integers, that is, that no sum wrapped around in the field: the dot products with a
//! hundred random vectors of signs must all be small, which those of a vector that wraps around are
//! only with probability 2^-100.
//!
//! The signs come from hashes of both shares, so that a client cannot choose its vector after it
//! knows them. As with Prio3, the randomness of the proofs comes from hashes too, over the shares
//! of all that is proven. So there are two stages, [`randomness::Stage`].
//!
//! [`Instance`] is PINE for one field; test vectors run through it. Tasks use the adapter.

mod adapter;
mod circuit;
mod encoding;
mod fixed_point;
mod instance;
mod kernels;
mod message;
mod parameters;
mod randomness;

pub(crate) use adapter::{build, signed};
pub(crate) use encoding::squared_norm;
pub use fixed_point::{FixedPointError, to_fixed_point};
pub(crate) use instance::{Instance, PublicShare, SeedShare, Seeds, VerifyState};
pub use parameters::PineField;
pub(crate) use parameters::{Parameters, optimal_chunk_lengths};
pub(crate) use randomness::is_valid_context;

#[cfg(test)]
mod tests;
