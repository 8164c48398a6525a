//! Arithmetic on whole vectors, with the instructions that the processor has.
//!
//! This folder has the only unsafe code of the crate. Each function here has a *scalar* version in
//! plain Rust, which is the definition, and versions with AVX2 and AVX-512, which give the same
//! elements. Which one runs is told by [`Instructions`], a value that only exists if the processor
//! has them. On processors other than x86-64 there is only the scalar version.
//!
//! The elements are secret: no branch and no index depends on them. Signs and lengths are public.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod scalar;
#[cfg(test)]
mod tests;

pub(crate) use blocks::ROWS;

use crate::goldilocks::Goldilocks;

/// Instructions that this processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instructions(Set);

// Invariant, which the unsafe blocks below rely on: nothing but `available` makes an `Avx2` or an
// `Avx512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// What every processor has.
    pub const SCALAR: Self = Self(Set::Scalar);

    /// All sets that this processor has, the fastest last.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut sets = vec![Self::SCALAR];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                sets.push(Self(Set::Avx2));
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vnni")
            {
                sets.push(Self(Set::Avx512));
            }
        }
        sets
    }

    /// The fastest set that this processor has.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::SCALAR)
    }

    /// A name for people: `scalar`, `AVX2` or `AVX-512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "AVX-512",
        }
    }
}

/// Calls the version of a function that these instructions allow.
macro_rules! dispatch {
    ($instructions:expr, $function:ident($($argument:expr),*)) => {
        match $instructions.0 {
            Set::Scalar => scalar::$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has AVX2, by the invariant of `Set`.
            Set::Avx2 => unsafe { avx2::$function($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has these parts of AVX-512, by the invariant of `Set`.
            Set::Avx512 => unsafe { avx512::$function($($argument),*) },
        }
    };
}

/// See `VectorField`.
pub(crate) fn add_signed_sums(
    instructions: Instructions,
    x: &[Goldilocks],
    signs: &[u8],
    sums: &mut [Goldilocks],
) {
    debug_assert_eq!(signs.len(), sums.len() * x.len().div_ceil(4));
    dispatch!(instructions, add_signed_sums(x, signs, sums));
}

/// See `VectorField`.
pub(crate) fn add_multiple(
    instructions: Instructions,
    sums: &mut [Goldilocks],
    x: &[Goldilocks],
    factor: Goldilocks,
) {
    debug_assert_eq!(sums.len(), x.len());
    dispatch!(instructions, add_multiple(sums, x, factor));
}

/// See `VectorField`.
pub(crate) fn scale(instructions: Instructions, x: &mut [Goldilocks], factor: Goldilocks) {
    dispatch!(instructions, scale(x, factor));
}

/// See `VectorField`.
pub(crate) fn mix_and_scale(
    instructions: Instructions,
    a: &mut [Goldilocks],
    b: &mut [Goldilocks],
    factor: Goldilocks,
) {
    debug_assert_eq!(a.len(), b.len());
    dispatch!(instructions, mix_and_scale(a, b, factor));
}

/// See `VectorField`.
pub(crate) fn scale_and_mix(
    instructions: Instructions,
    a: &mut [Goldilocks],
    b: &mut [Goldilocks],
    factor: Goldilocks,
) {
    debug_assert_eq!(a.len(), b.len());
    dispatch!(instructions, scale_and_mix(a, b, factor));
}
