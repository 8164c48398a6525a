//! The parameters of PINE, what follows from them, and how sound they are.

use prio::field::{Field64, Field128, FieldElementWithInteger};

use crate::ConfigError;

/// The field that PINE's shares are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PineField {
    /// 2^64 - 2^32 + 1: 8 bytes per element, norms up to 2^26.
    Field64,
    /// Just below 2^128: 16 bytes per element, norms up to 2^58.
    Field128,
}

/// Private-use algorithm identifiers of our own: no standard has assigned any, and the published
/// PINE uses one for both fields. A value of its own per field keeps the fields apart in every hash.
const PINE64: u32 = 0xFFFF_0064;
const PINE128: u32 = 0xFFFF_0128;

/// The wraparound checks of every task: so many, and all must pass.
const CHECKS: usize = 100;

/// Offline, a client may try inputs until one passes: the least bits of security against that.
const OFFLINE_BITS: u32 = 60;
/// Against one try per report, with randomness that depends on the aggregators' secret key.
const ONLINE_BITS: u32 = 50;

impl PineField {
    pub(crate) fn vdaf_name(self) -> &'static str {
        match self {
            Self::Field64 => "Pine64",
            Self::Field128 => "Pine128",
        }
    }

    pub(crate) fn vdaf_type(self) -> u32 {
        match self {
            Self::Field64 => PINE64,
            Self::Field128 => PINE128,
        }
    }

    pub(crate) fn from_vdaf_type(vdaf_type: u32) -> Option<Self> {
        [Self::Field64, Self::Field128].into_iter().find(|field| field.vdaf_type() == vdaf_type)
    }

    /// The largest power of two for which a wraparound check catches with probability 1/2: the
    /// range in which its result may lie must be small beside the root of the modulus, a quarter of
    /// it at most. A vector whose squared norm wraps around is at least as long as the root, and in
    /// a range as wide as that its checks may pass: (2^32, 0, ..) always does from 2^29 on.
    pub(crate) fn max_norm_bound(self) -> u64 {
        match self {
            Self::Field64 => 1 << 26,
            Self::Field128 => 1 << 58,
        }
    }

    fn modulus(self) -> u128 {
        match self {
            Self::Field64 => Field64::modulus().into(),
            Self::Field128 => Field128::modulus(),
        }
    }

    /// Proofs of bits and wraparound checks. They use joint randomness, for which a client can
    /// try many inputs, so that one proof in the small field would not do.
    fn proofs(self) -> usize {
        match self {
            Self::Field64 => 2,
            Self::Field128 => 1,
        }
    }
}

/// All parameters of an instance. Test vectors use numbers that no task may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    pub(crate) dimension: usize,
    pub(crate) norm_bound: u64,
    pub(crate) chunk_length: usize,
    pub(crate) chunk_length_norm_equality: usize,
    pub(crate) wr_checks: usize,
    pub(crate) wr_successes: usize,
    pub(crate) proofs: usize,
    pub(crate) proofs_norm_equality: usize,
}

impl Parameters {
    /// Those of a task. The norm bound and the dimension must have been checked.
    pub(crate) fn new(field: PineField, dimension: usize, norm_bound: u64) -> Self {
        let unchunked = Self {
            dimension,
            norm_bound,
            chunk_length: 1,
            chunk_length_norm_equality: 1,
            wr_checks: CHECKS,
            wr_successes: CHECKS,
            proofs: field.proofs(),
            proofs_norm_equality: 1,
        };
        Self {
            chunk_length: shortest(2, |chunk| unchunked.main_calls(chunk)),
            chunk_length_norm_equality: shortest(1, |chunk| dimension.div_ceil(chunk)),
            ..unchunked
        }
    }

    pub(crate) fn squared_bound(&self) -> u128 {
        u128::from(self.norm_bound) * u128::from(self.norm_bound)
    }

    /// Bits of a squared norm.
    pub(crate) fn norm_bits(&self) -> usize {
        (u128::BITS - self.squared_bound().leading_zeros()) as usize
    }

    /// A wraparound check passes if its result is in -bound + 1 ..= bound: the smallest power of
    /// two above 8.7 x norm bound. An honest report fails one with probability 2^-108.
    pub(crate) fn wr_bound(&self) -> u128 {
        ((u128::from(self.norm_bound) * 87).div_ceil(10) + 1).next_power_of_two()
    }

    /// Bits of a check's result, moved to 0 ..= 2 bound - 1.
    pub(crate) fn wr_bits(&self) -> usize {
        (u128::BITS - (2 * self.wr_bound() - 1).leading_zeros()) as usize
    }

    /// Elements before the wraparound checks: the vector and the bits of its norm.
    pub(crate) fn first_len(&self) -> usize {
        self.dimension + 2 * self.norm_bits()
    }

    /// Elements that are proven to be bits: those of the norm, and of each check's result with
    /// whether it passed.
    pub(crate) fn bits_len(&self) -> usize {
        2 * self.norm_bits() + self.wr_checks * (self.wr_bits() + 1)
    }

    /// Elements of an encoded measurement.
    pub(crate) fn encoded_len(&self) -> usize {
        self.dimension + self.bits_len()
    }

    /// Gadget calls of the circuit of bits and checks. The two kinds are padded separately.
    pub(crate) fn main_calls(&self, chunk: usize) -> usize {
        self.bits_len().div_ceil(chunk) + self.wr_checks.div_ceil(chunk)
    }

    /// Refuses parameters with which an invalid measurement could be accepted.
    pub(crate) fn check_soundness(&self, field: PineField) -> Result<(), ConfigError> {
        let name = field.vdaf_name();
        for (bits, least) in [
            (self.wraparound_bits().min(self.main_bits(field)), OFFLINE_BITS),
            (self.norm_equality_bits(field), ONLINE_BITS),
        ] {
            if bits < f64::from(least) {
                return Err(ConfigError::Soundness { name, bits: bits.max(0.0) as u32, least });
            }
        }
        Ok(())
    }

    /// -log2 of the probability that a vector that wraps around passes: each check catches it with
    /// probability 1/2 (PINE, lemma 3.3).
    fn wraparound_bits(&self) -> f64 {
        let checks = self.wr_checks;
        // P[Bin(checks, 1/2) >= successes]: binomial coefficients as exact as f64 holds them.
        let (mut ways, mut passing) = (1.0, 0.0);
        for passes in 0..=checks {
            if passes >= self.wr_successes {
                passing += ways;
            }
            ways *= (checks - passes) as f64 / (passes + 1) as f64;
        }
        checks as f64 - f64::log2(passing)
    }

    /// As above, for all proofs of bits and checks: the degree of the gadget polynomial and of the
    /// polynomial in the joint randomness, over the size of the field.
    fn main_bits(&self, field: PineField) -> f64 {
        let terms = 2 * self.main_calls(self.chunk_length) + self.bits_len() + self.wr_checks;
        (field_bits(field) - (terms as f64).log2()) * self.proofs as f64
    }

    fn norm_equality_bits(&self, field: PineField) -> f64 {
        let calls = self.dimension.div_ceil(self.chunk_length_norm_equality.max(1));
        (field_bits(field) - (2.0 * calls as f64).log2()) * self.proofs_norm_equality as f64
    }
}

fn field_bits(field: PineField) -> f64 {
    (field.modulus() as f64).log2()
}

/// The chunk lengths with the shortest proofs: of bits and checks, and of the norm.
pub(crate) fn optimal_chunk_lengths(dimension: u32, norm_bound: u64) -> (u32, u32) {
    let parameters = Parameters::new(PineField::Field64, dimension as usize, norm_bound);
    (parameters.chunk_length as u32, parameters.chunk_length_norm_equality as u32)
}

/// The chunk length with the shortest proof: `wires` elements per element of a chunk, and
/// 2 (P - 1) + 1 for the gadget polynomial, where P is the smallest power of two above the number
/// of calls. So for each P only the smallest chunk length that needs no larger one matters.
fn shortest(wires: usize, calls: impl Fn(usize) -> usize) -> usize {
    let mut best = (usize::MAX, 1);
    for log in 1..=20 {
        let points = 1usize << log;
        let Some(chunk) = smallest(|chunk| calls(chunk) < points) else { continue };
        // Ties go to the smaller chunk, whose messages are shorter.
        best = best.min((wires * chunk + 2 * (points - 1) + 1, chunk));
    }
    best.1
}

/// The smallest chunk length for which `fits` holds, which it does for all larger ones.
fn smallest(fits: impl Fn(usize) -> bool) -> Option<usize> {
    let mut high = 1usize;
    while !fits(high) {
        high = high.checked_mul(2).filter(|high| *high <= 1 << 32)?;
    }
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
