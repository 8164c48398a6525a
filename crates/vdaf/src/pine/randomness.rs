//! What is derived from what: every seed and random element of PINE (MEAS, WR and VF name the
//! measurement, the wraparound checks and the verification).
//!
//! The domain separation is that of VDAF-18: version, class, algorithm, usage, then the application
//! context, in every call. The last three usages are PINE's own.

use prio::field::FieldElement;
use prio::vdaf::xof::{IntoFieldVec, Xof, XofTurboShake128};

use super::Parameters;
use crate::aggregate_share::encode_elements;

pub(crate) const SEED: usize = 32;
pub(crate) type Seed = [u8; SEED];

/// VDAF's version byte.
const VERSION: u8 = 18;
/// Algorithm class of VDAFs.
const CLASS: u8 = 0;
/// The XOF prefixes its domain separation tag (ours and the context) with a 16-bit length.
const MAX_CONTEXT: usize = u16::MAX as usize - 8;

#[derive(Clone, Copy)]
pub(super) enum Usage {
    MeasurementShare = 1,
    ProofsShare = 2,
    VfJointRandomness = 3,
    ProveRandomness = 4,
    QueryRandomness = 5,
    VfSeed = 6,
    VfPart = 7,
    WrSigns = 8,
    WrSeed = 9,
    WrPart = 10,
}

/// The two kinds of joint randomness: for the wraparound checks and for the proofs of the rest.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    Wr,
    Vf,
}

/// Derives everything for one instance and one application context.
#[derive(Clone, Copy)]
pub(super) struct Derivation<'a> {
    pub(super) algorithm_id: u32,
    pub(super) ctx: &'a [u8],
    /// (Norm equality proofs, other proofs): bound into everything that depends on them.
    pub(super) proofs: [u8; 2],
}

pub(crate) fn is_valid_context(ctx: &[u8]) -> bool {
    ctx.len() <= MAX_CONTEXT
}

impl<'a> Derivation<'a> {
    pub(super) fn new(algorithm_id: u32, parameters: &Parameters, ctx: &'a [u8]) -> Self {
        // At most 2, or what a test vector says.
        let byte = |proofs| u8::try_from(proofs).unwrap_or(u8::MAX);
        let proofs = [byte(parameters.proofs_norm_equality), byte(parameters.proofs)];
        Self { algorithm_id, ctx, proofs }
    }

    pub(super) fn measurement_share<F: FieldElement>(
        &self,
        seed: &Seed,
        agg_id: u8,
        length: usize,
    ) -> Vec<F> {
        self.elements(Usage::MeasurementShare, seed, &[&[agg_id]], length)
    }

    pub(super) fn proofs_share<F: FieldElement>(
        &self,
        seed: &Seed,
        agg_id: u8,
        length: usize,
    ) -> Vec<F> {
        self.elements(Usage::ProofsShare, seed, &[&self.proofs, &[agg_id]], length)
    }

    pub(super) fn prove_randomness<F: FieldElement>(&self, seed: &Seed, length: usize) -> Vec<F> {
        self.elements(Usage::ProveRandomness, seed, &[&self.proofs], length)
    }

    pub(super) fn query_randomness<F: FieldElement>(
        &self,
        verify_key: &Seed,
        nonce: &[u8; 16],
        length: usize,
    ) -> Vec<F> {
        self.elements(Usage::QueryRandomness, verify_key, &[&self.proofs, nonce], length)
    }

    pub(super) fn vf_joint_randomness<F: FieldElement>(
        &self,
        seed: &Seed,
        length: usize,
    ) -> Vec<F> {
        self.elements(Usage::VfJointRandomness, seed, &[&self.proofs[1..]], length)
    }

    /// The stream of the signs of all wraparound checks.
    pub(super) fn signs(&self, seed: &Seed) -> <XofTurboShake128 as Xof<SEED>>::SeedStream {
        self.xof(Usage::WrSigns, seed).into_seed_stream()
    }

    /// The seed that follows from the parts of both aggregators.
    pub(super) fn joint_seed(&self, stage: Stage, parts: &[Seed; 2]) -> Seed {
        let usage = match stage {
            Stage::Wr => Usage::WrSeed,
            Stage::Vf => Usage::VfSeed,
        };
        let mut xof = self.xof(usage, &[0; SEED]);
        parts.iter().for_each(|part| xof.update(part));
        *xof.into_seed().as_ref()
    }

    /// The hash of one aggregator's share, to be fed with the share's elements.
    pub(super) fn part(&self, stage: Stage, blind: &Seed, agg_id: u8, nonce: &[u8; 16]) -> Part {
        let usage = match stage {
            Stage::Wr => Usage::WrPart,
            Stage::Vf => Usage::VfPart,
        };
        let mut xof = self.xof(usage, blind);
        xof.update(&[agg_id]);
        xof.update(nonce);
        Part(xof)
    }

    fn elements<F: FieldElement>(
        &self,
        usage: Usage,
        seed: &Seed,
        binder: &[&[u8]],
        length: usize,
    ) -> Vec<F> {
        let mut xof = self.xof(usage, seed);
        binder.iter().for_each(|part| xof.update(part));
        xof.into_seed_stream().into_field_vec(length)
    }

    fn xof(&self, usage: Usage, seed: &Seed) -> XofTurboShake128 {
        let [a, b, c, d] = self.algorithm_id.to_be_bytes();
        let [e, f] = (usage as u16).to_be_bytes();
        XofTurboShake128::init(seed, &[&[VERSION, CLASS, a, b, c, d, e, f], self.ctx])
    }
}

/// A part of joint randomness, while it absorbs a share.
pub(super) struct Part(XofTurboShake128);

impl Part {
    pub(super) fn finish(self) -> Seed {
        *self.0.into_seed().as_ref()
    }
}

/// Feeds the elements into all `parts`, encoding them only once.
pub(super) fn absorb<F: FieldElement>(parts: &mut [&mut Part], elements: &[F]) {
    let mut buffer = zeroize::Zeroizing::new(Vec::with_capacity(BLOCK * F::ENCODED_SIZE));
    for block in elements.chunks(BLOCK) {
        buffer.clear();
        encode_elements(block, &mut buffer);
        parts.iter_mut().for_each(|part| part.0.update(&buffer));
    }
}

/// Elements that are encoded at a time.
const BLOCK: usize = 1024;
