//! The versions with AVX2.

mod field;
mod signed_sums;

pub(super) use field::{add_multiple, mix_and_scale, scale, scale_and_mix};
pub(super) use signed_sums::add_signed_sums;
