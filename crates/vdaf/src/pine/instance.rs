//! PINE for two aggregators: sharding and verification of one report.

use prio::flp::{Flp, FlpError};
use rand_core::Rng;

use super::Parameters;
use super::circuit::{Checks, NormEquality};
use super::encoding::{encode_vector, push_checks};
use super::randomness::{Derivation, Part, SEED, Seed, Stage, absorb};
use crate::aggregate_share::{ShareField, wipe};
use crate::proof::{prove, query};
use crate::simd::{Instructions, ROWS};

/// Seeds that sharding takes: the helper's share and two blinds, the leader's two blinds, and the
/// prover's.
pub(crate) const RAND_LEN: usize = 6 * SEED;

/// PINE over one field.
#[derive(Clone, Debug)]
pub(crate) struct Instance<F> {
    pub(super) algorithm_id: u32,
    pub(super) parameters: Parameters,
    instructions: Instructions,
    norm_equality: NormEquality<F>,
    checks: Checks<F>,
}

/// The joint-randomness parts of both aggregators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicShare {
    pub(crate) wr_parts: [Seed; 2],
    pub(crate) vf_parts: [Seed; 2],
}

/// An aggregator's share as field elements, wiped on drop. The helper's comes out of a seed.
pub(crate) struct InputShare<F: ShareField> {
    pub(crate) measurement: Vec<F>,
    pub(crate) proofs: Vec<F>,
    pub(crate) wr_blind: Seed,
    pub(crate) vf_blind: Seed,
}

/// The helper's share as it is sent.
pub(crate) struct SeedShare {
    pub(crate) seed: Seed,
    pub(crate) wr_blind: Seed,
    pub(crate) vf_blind: Seed,
}

/// What an aggregator keeps until the end: its share of the vector, wiped on drop, and the joint
/// randomness that it used.
#[derive(Clone)]
pub(crate) struct VerifyState<F: ShareField> {
    pub(crate) output: Vec<F>,
    pub(crate) seeds: Seeds,
}

/// A seed for each stage: the joint randomness, of which the helper's message consists; or an
/// aggregator's parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) wr: Seed,
    pub(crate) vf: Seed,
}

/// What an aggregator tells the other.
pub(crate) struct VerifierShare<F> {
    pub(crate) verifiers: Vec<F>,
    pub(crate) parts: Seeds,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ShardFailure {
    #[error("the norm is above the bound, or the vector has another length")]
    Measurement,
    /// Too few wraparound checks passed: to be tried again with fresh randomness.
    #[error("too few wraparound checks passed")]
    Checks,
    #[error(transparent)]
    Proof(#[from] FlpError),
}

/// Why aggregators reject a report after they have exchanged their shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidProof;

impl<F: ShareField> Instance<F> {
    pub(crate) fn new(algorithm_id: u32, parameters: Parameters) -> Self {
        let (norm_equality, checks) = (NormEquality::new(parameters), Checks::new(parameters));
        let instructions = Instructions::best();
        Self { algorithm_id, parameters, instructions, norm_equality, checks }
    }

    /// As `self`, with other instructions than the best ones. They only change the speed.
    pub(crate) fn with(self, instructions: Instructions) -> Self {
        Self { instructions, ..self }
    }

    pub(crate) fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Shards with the given randomness.
    pub(crate) fn shard(
        &self,
        ctx: &[u8],
        values: &[i64],
        nonce: &[u8; 16],
        rand: &[u8; RAND_LEN],
    ) -> Result<(PublicShare, InputShare<F>, SeedShare), ShardFailure> {
        if values.len() != self.parameters.dimension {
            return Err(ShardFailure::Measurement);
        }
        let first = encode_vector(&self.parameters, values).ok_or(ShardFailure::Measurement)?;
        let checks = |encoded: &mut Vec<F>, results: &[F]| {
            push_checks(&self.parameters, encoded, results).ok_or(ShardFailure::Checks)
        };
        self.shard_encoded(ctx, first, checks, nonce, rand)
    }

    /// Shards the first part of an encoded measurement, to which `checks` appends the rest, given
    /// the results of the wraparound checks. A dishonest client may do otherwise in either.
    pub(super) fn shard_encoded(
        &self,
        ctx: &[u8],
        first: Vec<F>,
        checks: impl FnOnce(&mut Vec<F>, &[F]) -> Result<(), ShardFailure>,
        nonce: &[u8; 16],
        rand: &[u8; RAND_LEN],
    ) -> Result<(PublicShare, InputShare<F>, SeedShare), ShardFailure> {
        let mut seeds = [[0; SEED]; 6];
        for (seed, bytes) in seeds.iter_mut().zip(rand.as_chunks().0) {
            *seed = *bytes;
        }
        let [seed, helper_wr, helper_vf, leader_wr, leader_vf, prover] = seeds;
        let derivation = self.derivation(ctx);
        let mut plain = Wiped(first);
        let helper_length = self.parameters.encoded_len();
        let helper = Wiped(derivation.measurement_share::<F>(&seed, 1, helper_length));
        let mut leader = Vec::with_capacity(helper_length);
        subtract(&mut leader, &plain.0, &helper.0);

        // First stage: the shares of the vector decide the signs of the wraparound checks.
        let first_len = self.parameters.first_len();
        let mut vf_hashes = [
            derivation.part(Stage::Vf, &leader_vf, 0, nonce),
            derivation.part(Stage::Vf, &helper_vf, 1, nonce),
        ];
        let mut wr_parts = [[0; SEED]; 2];
        for (agg_id, (blind, share)) in
            [(leader_wr, &leader), (helper_wr, &helper.0)].into_iter().enumerate()
        {
            let mut hash = derivation.part(Stage::Wr, &blind, agg_id as u8, nonce);
            absorb(&mut [&mut hash, &mut vf_hashes[agg_id]], &share[..first_len]);
            wr_parts[agg_id] = hash.finish();
        }
        let wr_seed = derivation.joint_seed(Stage::Wr, &wr_parts);
        let results = self.check_results(&derivation, &wr_seed, &plain.0);
        checks(&mut plain.0, &results)?;

        // Second stage: the shares of everything decide the joint randomness of the proofs.
        subtract(&mut leader, &plain.0[first_len..], &helper.0[first_len..]);
        for (hash, share) in vf_hashes.iter_mut().zip([&leader, &helper.0]) {
            absorb(&mut [hash], &share[first_len..]);
        }
        drop(helper);
        let vf_parts = vf_hashes.map(Part::finish);
        let vf_seed = derivation.joint_seed(Stage::Vf, &vf_parts);

        let mut proofs = self.prove(&derivation, &plain.0, &results, &vf_seed, &prover)?;
        let helper_proofs = Wiped(derivation.proofs_share::<F>(&seed, 1, self.proofs_len()));
        for (proof, share) in proofs.iter_mut().zip(&helper_proofs.0) {
            *proof -= *share;
        }
        Ok((
            PublicShare { wr_parts, vf_parts },
            InputShare { measurement: leader, proofs, wr_blind: leader_wr, vf_blind: leader_vf },
            SeedShare { seed, wr_blind: helper_wr, vf_blind: helper_vf },
        ))
    }

    /// The helper's share, expanded once for everything.
    pub(crate) fn expand(&self, ctx: &[u8], agg_id: u8, share: &SeedShare) -> InputShare<F> {
        let SeedShare { seed, wr_blind, vf_blind } = *share;
        let derivation = self.derivation(ctx);
        let length = self.parameters.encoded_len();
        InputShare {
            measurement: derivation.measurement_share(&seed, agg_id, length),
            proofs: derivation.proofs_share(&seed, agg_id, self.proofs_len()),
            wr_blind,
            vf_blind,
        }
    }

    /// An aggregator's joint-randomness parts, from its own share.
    pub(crate) fn parts(
        &self,
        ctx: &[u8],
        agg_id: u8,
        nonce: &[u8; 16],
        share: &InputShare<F>,
    ) -> Seeds {
        let derivation = self.derivation(ctx);
        let (first, rest) = share.measurement.split_at(self.parameters.first_len());
        let mut wr = derivation.part(Stage::Wr, &share.wr_blind, agg_id, nonce);
        let mut vf = derivation.part(Stage::Vf, &share.vf_blind, agg_id, nonce);
        absorb(&mut [&mut wr, &mut vf], first);
        absorb(&mut [&mut vf], rest);
        Seeds { wr: wr.finish(), vf: vf.finish() }
    }

    /// Verifies a share whose parts are `own`. The only error is query randomness at a root of
    /// unity: the lengths are those of `self`.
    pub(crate) fn verify_init(
        &self,
        (verify_key, ctx, nonce): (&Seed, &[u8], &[u8; 16]),
        agg_id: u8,
        public_share: &PublicShare,
        mut share: InputShare<F>,
        own: Seeds,
    ) -> Result<(VerifyState<F>, VerifierShare<F>), FlpError> {
        let derivation = self.derivation(ctx);
        // The client said what the other's part is; an aggregator takes its own from its share.
        let seed = |stage, parts: &[Seed; 2], own| {
            let parts: [Seed; 2] =
                std::array::from_fn(|id| if id == usize::from(agg_id) { own } else { parts[id] });
            derivation.joint_seed(stage, &parts)
        };
        let seeds = Seeds {
            wr: seed(Stage::Wr, &public_share.wr_parts, own.wr),
            vf: seed(Stage::Vf, &public_share.vf_parts, own.vf),
        };
        let results = self.check_results(&derivation, &seeds.wr, &share.measurement);
        let query_randomness =
            derivation.query_randomness(verify_key, nonce, self.query_randomness_len());
        let verifiers = self.query(&derivation, &share, &results, &seeds.vf, &query_randomness)?;

        let mut output = std::mem::take(&mut share.measurement);
        let (_, bits) = output.split_at_mut(self.parameters.dimension);
        wipe(bits);
        output.truncate(self.parameters.dimension);
        output.shrink_to_fit();
        let state = VerifyState { output, seeds };
        Ok((state, VerifierShare { verifiers, parts: own }))
    }

    /// Decides from the shares of both aggregators, the leader's first.
    pub(crate) fn verifier_shares_to_message(
        &self,
        ctx: &[u8],
        [leader, helper]: [VerifierShare<F>; 2],
    ) -> Result<Seeds, InvalidProof> {
        let mut verifiers = leader.verifiers;
        if verifiers.len() != helper.verifiers.len() {
            return Err(InvalidProof);
        }
        for (sum, element) in verifiers.iter_mut().zip(&helper.verifiers) {
            *sum += *element;
        }
        let mut rest = verifiers.as_slice();
        for _ in 0..self.parameters.proofs_norm_equality {
            let verifier = front(&mut rest, self.norm_equality.verifier_len());
            decide(&self.norm_equality, verifier)?;
        }
        for _ in 0..self.parameters.proofs {
            decide(&self.checks, front(&mut rest, self.checks.verifier_len()))?;
        }
        let derivation = self.derivation(ctx);
        Ok(Seeds {
            wr: derivation.joint_seed(Stage::Wr, &[leader.parts.wr, helper.parts.wr]),
            vf: derivation.joint_seed(Stage::Vf, &[leader.parts.vf, helper.parts.vf]),
        })
    }

    pub(crate) fn proofs_len(&self) -> usize {
        self.total(|flp| flp.proof_len(), |flp| flp.proof_len())
    }

    pub(crate) fn verifiers_len(&self) -> usize {
        self.total(|flp| flp.verifier_len(), |flp| flp.verifier_len())
    }

    fn query_randomness_len(&self) -> usize {
        self.total(|flp| flp.query_rand_len(), |flp| flp.query_rand_len())
    }

    /// A length, over all proofs.
    fn total(
        &self,
        norm_equality: impl Fn(&NormEquality<F>) -> usize,
        checks: impl Fn(&Checks<F>) -> usize,
    ) -> usize {
        self.parameters.proofs_norm_equality * norm_equality(&self.norm_equality)
            + self.parameters.proofs * checks(&self.checks)
    }

    fn derivation<'a>(&self, ctx: &'a [u8]) -> Derivation<'a> {
        Derivation::new(self.algorithm_id, &self.parameters, ctx)
    }

    /// The dot products of a vector, or of a share of it, with the signs of the wraparound checks.
    fn check_results(&self, derivation: &Derivation<'_>, seed: &Seed, encoded: &[F]) -> Vec<F> {
        let mut stream = derivation.signs(seed);
        let vector = &encoded[..self.parameters.dimension];
        let mut results = vec![F::zero(); self.parameters.wr_checks];
        // The signs of a few checks at a time, a quarter of a byte each. A check starts with a fresh
        // byte.
        let row_length = vector.len().div_ceil(4);
        let mut signs = vec![0; row_length * results.len().min(ROWS)];
        for sums in results.chunks_mut(ROWS) {
            let signs = &mut signs[..row_length * sums.len()];
            stream.fill_bytes(signs);
            F::add_signed_sums(self.instructions, vector, signs, sums);
        }
        results
    }

    /// The inputs of the two circuits.
    fn inputs<'a>(&self, encoded: &'a [F], results: &[F]) -> (&'a [F], Wiped<F>) {
        let norm = &encoded[..self.parameters.dimension + self.parameters.norm_bits()];
        (norm, Wiped([&encoded[self.parameters.dimension..], results].concat()))
    }

    fn prove(
        &self,
        derivation: &Derivation<'_>,
        encoded: &[F],
        results: &[F],
        vf_seed: &Seed,
        prover: &Seed,
    ) -> Result<Vec<F>, FlpError> {
        let randomness = self.total(|flp| flp.prove_rand_len(), |flp| flp.prove_rand_len());
        let randomness = Wiped(derivation.prove_randomness::<F>(prover, randomness));
        let joint = self.joint_randomness(derivation, vf_seed);
        let (mut randomness, mut joint) = (randomness.0.as_slice(), joint.as_slice());
        let (norm, bits) = self.inputs(encoded, results);

        let mut proofs = Vec::with_capacity(self.proofs_len());
        for _ in 0..self.parameters.proofs_norm_equality {
            let own = front(&mut randomness, self.norm_equality.prove_rand_len());
            let proof = Wiped(prove(&self.norm_equality, self.instructions, norm, own, &[])?);
            proofs.extend_from_slice(&proof.0);
        }
        for _ in 0..self.parameters.proofs {
            let own = front(&mut randomness, self.checks.prove_rand_len());
            let joint = front(&mut joint, self.checks.joint_rand_len());
            let proof = Wiped(prove(&self.checks, self.instructions, &bits.0, own, joint)?);
            proofs.extend_from_slice(&proof.0);
        }
        Ok(proofs)
    }

    fn query(
        &self,
        derivation: &Derivation<'_>,
        share: &InputShare<F>,
        results: &[F],
        vf_seed: &Seed,
        mut randomness: &[F],
    ) -> Result<Vec<F>, FlpError> {
        let joint = self.joint_randomness(derivation, vf_seed);
        let (mut joint, mut proofs) = (joint.as_slice(), share.proofs.as_slice());
        let (norm, bits) = self.inputs(&share.measurement, results);

        let mut verifiers = Vec::with_capacity(self.verifiers_len());
        for _ in 0..self.parameters.proofs_norm_equality {
            let proof = front(&mut proofs, self.norm_equality.proof_len());
            let own = front(&mut randomness, self.norm_equality.query_rand_len());
            verifiers.extend(query(
                &self.norm_equality,
                self.instructions,
                norm,
                proof,
                own,
                &[],
                2,
            )?);
        }
        for _ in 0..self.parameters.proofs {
            let proof = front(&mut proofs, self.checks.proof_len());
            let own = front(&mut randomness, self.checks.query_rand_len());
            let joint = front(&mut joint, self.checks.joint_rand_len());
            verifiers.extend(query(
                &self.checks,
                self.instructions,
                &bits.0,
                proof,
                own,
                joint,
                2,
            )?);
        }
        Ok(verifiers)
    }

    fn joint_randomness(&self, derivation: &Derivation<'_>, seed: &Seed) -> Vec<F> {
        derivation.vf_joint_randomness(seed, self.parameters.proofs * self.checks.joint_rand_len())
    }
}

/// Splits off the first `length` elements; all there are, if there are fewer.
fn front<'a, F>(rest: &mut &'a [F], length: usize) -> &'a [F] {
    let (front, back) = rest.split_at(length.min(rest.len()));
    *rest = back;
    front
}

fn decide<T: Flp>(flp: &T, verifier: &[T::Field]) -> Result<(), InvalidProof> {
    match flp.decide(verifier) {
        Ok(true) => Ok(()),
        _ => Err(InvalidProof),
    }
}

/// Appends `a - b`.
fn subtract<F: ShareField>(difference: &mut Vec<F>, a: &[F], b: &[F]) {
    difference.extend(a.iter().zip(b).map(|(a, b)| *a - *b));
}

/// Elements that are wiped on drop.
struct Wiped<F: ShareField>(Vec<F>);

impl<F: ShareField> Drop for Wiped<F> {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl<F: ShareField> Drop for InputShare<F> {
    fn drop(&mut self) {
        wipe(&mut self.measurement);
        wipe(&mut self.proofs);
    }
}

impl<F: ShareField> Drop for VerifyState<F> {
    fn drop(&mut self) {
        wipe(&mut self.output);
    }
}
