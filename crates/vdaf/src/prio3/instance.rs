//! Prio3 for any number of aggregators and proofs, over bytes.

use prio::codec::{Decode, Encode, ParameterizedDecode};
use prio::field::FieldElement;
use prio::vdaf::prio3::{
    Prio3, Prio3InputShare, Prio3PublicShare, Prio3VerifierMessage, Prio3VerifierShare,
    Prio3VerifyState,
};
use prio::vdaf::test_utils::TestVectorClient;
use prio::vdaf::xof::{IntoFieldVec, Seed, Xof, XofTurboShake128};
use prio::vdaf::{Aggregator, Collector, OutputShare, VdafError, VerifyTransition};

use super::Circuit;
use crate::aggregate_share::{decode_elements, wipe};

const SEED: usize = 32;

/// VDAF's version byte, for domain separation.
const VERSION: u8 = 18;
/// Algorithm class of VDAFs.
const CLASS: u8 = 0;
/// What a XOF is used for (VDAF, section "Prio3", constants).
const USAGE_MEAS_SHARE: u16 = 1;
const USAGE_PROOF_SHARE: u16 = 2;
/// The XOF prefixes its domain separation tag (ours and the context) with a 16-bit length.
const MAX_CONTEXT: usize = u16::MAX as usize - 8;

pub(crate) type InputShare<T> = Prio3InputShare<<T as prio::flp::Flp>::Field, SEED>;
pub(crate) type PublicShare = Prio3PublicShare<SEED>;
pub(crate) type VerifyState<T> = Prio3VerifyState<<T as prio::flp::Flp>::Field, SEED>;
pub(crate) type VerifierShare<T> = Prio3VerifierShare<<T as prio::flp::Flp>::Field, SEED>;
pub(crate) type VerifierMessage = Prio3VerifierMessage<SEED>;

/// Prio3 over one circuit.
#[derive(Clone, Debug)]
pub(crate) struct Instance<T: Circuit> {
    prio3: Prio3<T, XofTurboShake128, SEED>,
    circuit: T,
    algorithm_id: u32,
    shares: u8,
    proofs: u8,
}

impl<T: Circuit> Instance<T> {
    pub(crate) fn new(
        algorithm_id: u32,
        shares: u8,
        proofs: u8,
        circuit: T,
    ) -> Result<Self, VdafError> {
        let prio3 = Prio3::new(shares, proofs, algorithm_id, circuit.clone())?;
        Ok(Self { prio3, circuit, algorithm_id, shares, proofs })
    }

    pub(crate) fn has_joint_rand(&self) -> bool {
        self.circuit.joint_rand_len() > 0
    }

    pub(crate) fn is_valid_context(ctx: &[u8]) -> bool {
        ctx.len() <= MAX_CONTEXT
    }

    /// The number of random bytes that sharding needs: a share seed per helper and one for the
    /// prover; with joint randomness also a blind per aggregator.
    pub(crate) fn rand_len(&self) -> usize {
        usize::from(self.shares) * SEED * if self.has_joint_rand() { 2 } else { 1 }
    }

    pub(crate) fn public_share_len(&self) -> usize {
        if self.has_joint_rand() { usize::from(self.shares) * SEED } else { 0 }
    }

    pub(crate) fn leader_share_len(&self) -> usize {
        let elements = self.circuit.input_len() + self.proofs_len();
        elements * T::Field::ENCODED_SIZE + self.seed_if_joint_rand()
    }

    pub(crate) fn helper_share_len(&self) -> usize {
        SEED + self.seed_if_joint_rand()
    }

    pub(crate) fn verifier_share_len(&self) -> usize {
        self.circuit.verifier_len() * usize::from(self.proofs) * T::Field::ENCODED_SIZE
            + self.seed_if_joint_rand()
    }

    pub(crate) fn verifier_message_len(&self) -> usize {
        self.seed_if_joint_rand()
    }

    pub(crate) fn output_len(&self) -> usize {
        self.circuit.output_len()
    }

    /// Shards with the given randomness, [`rand_len`](Self::rand_len) bytes. The measurement must
    /// have been checked.
    pub(crate) fn shard(
        &self,
        ctx: &[u8],
        measurement: &T::Measurement,
        nonce: &[u8; 16],
        rand: &[u8],
    ) -> Result<(PublicShare, Vec<InputShare<T>>), VdafError> {
        self.prio3.shard_with_random(ctx, measurement, nonce, rand)
    }

    pub(crate) fn decode_public_share(&self, bytes: &[u8]) -> Option<PublicShare> {
        PublicShare::get_decoded_with_param(&self.prio3, bytes).ok()
    }

    /// Decodes the input share of aggregator `agg_id`, and expands it.
    ///
    /// A helper's share is a seed. `prio` would expand it in `verify_init`, and its first half
    /// again in `verify_next`. Expanding it here, into the form of a leader's share, does this only
    /// once, and the verification state holds the output share right away.
    pub(crate) fn decode_input_share(
        &self,
        ctx: &[u8],
        agg_id: u8,
        bytes: &[u8],
    ) -> Option<ExpandedShare<T>> {
        if agg_id == 0 {
            if bytes.len() != self.leader_share_len() {
                return None;
            }
            let (measurement, rest) =
                bytes.split_at_checked(self.circuit.input_len() * T::Field::ENCODED_SIZE)?;
            let (proofs, blind) =
                rest.split_at_checked(self.proofs_len() * T::Field::ENCODED_SIZE)?;
            return Some(ExpandedShare(InputShare::<T>::Leader {
                measurement_share: decode_elements(measurement)?,
                proofs_share: decode_elements(proofs)?,
                joint_rand_blind: self.decode_blind(blind)?,
            }));
        }
        let (seed, blind) = bytes.split_first_chunk::<SEED>()?;
        let joint_rand_blind = self.decode_blind(blind)?;
        let expand = |usage, binder: &[u8], length| {
            let tag = self.domain_separation_tag(usage);
            XofTurboShake128::seed_stream(seed, &[&tag, ctx], &[binder]).into_field_vec(length)
        };
        Some(ExpandedShare(InputShare::<T>::Leader {
            measurement_share: expand(USAGE_MEAS_SHARE, &[agg_id], self.circuit.input_len()),
            proofs_share: expand(USAGE_PROOF_SHARE, &[self.proofs, agg_id], self.proofs_len()),
            joint_rand_blind,
        }))
    }

    pub(crate) fn verify_init(
        &self,
        verify_key: &[u8; SEED],
        ctx: &[u8],
        agg_id: u8,
        nonce: &[u8; 16],
        public_share: &PublicShare,
        input_share: &ExpandedShare<T>,
    ) -> Result<(VerifyState<T>, VerifierShare<T>), VdafError> {
        let agg_id = agg_id.into();
        self.prio3.verify_init(verify_key, ctx, agg_id, &(), nonce, public_share, &input_share.0)
    }

    pub(crate) fn decode_verifier_share(
        state: &VerifyState<T>,
        bytes: &[u8],
    ) -> Option<VerifierShare<T>> {
        VerifierShare::<T>::get_decoded_with_param(state, bytes).ok()
    }

    pub(crate) fn decode_verifier_message(
        state: &VerifyState<T>,
        bytes: &[u8],
    ) -> Option<VerifierMessage> {
        VerifierMessage::get_decoded_with_param(state, bytes).ok()
    }

    pub(crate) fn verifier_shares_to_message(
        &self,
        ctx: &[u8],
        shares: impl IntoIterator<Item = VerifierShare<T>>,
    ) -> Result<VerifierMessage, VdafError> {
        self.prio3.verifier_shares_to_message(ctx, &(), shares)
    }

    pub(crate) fn verify_next(
        &self,
        ctx: &[u8],
        state: VerifyState<T>,
        message: VerifierMessage,
    ) -> Result<OutputShare<T::Field>, VdafError> {
        match self.prio3.verify_next(ctx, state, message)? {
            VerifyTransition::Finish(output_share) => Ok(output_share),
            VerifyTransition::Continue(..) => {
                Err(VdafError::Uncategorized("Prio3 has one round only".into()))
            }
        }
    }

    pub(crate) fn unshard(
        &self,
        shares: impl IntoIterator<Item = Vec<T::Field>>,
        count: usize,
    ) -> Result<T::AggregateResult, VdafError> {
        self.prio3.unshard(&(), shares.into_iter().map(Into::into), count)
    }

    fn proofs_len(&self) -> usize {
        self.circuit.proof_len() * usize::from(self.proofs)
    }

    fn seed_if_joint_rand(&self) -> usize {
        if self.has_joint_rand() { SEED } else { 0 }
    }

    /// The blind at the end of an input share, present exactly when there is joint randomness.
    fn decode_blind(&self, bytes: &[u8]) -> Option<Option<Seed<SEED>>> {
        if self.has_joint_rand() {
            Seed::get_decoded(bytes).ok().map(Some)
        } else {
            bytes.is_empty().then_some(None)
        }
    }

    fn domain_separation_tag(&self, usage: u16) -> [u8; 8] {
        let [a, b, c, d] = self.algorithm_id.to_be_bytes();
        let [e, f] = usage.to_be_bytes();
        [VERSION, CLASS, a, b, c, d, e, f]
    }
}

/// An input share as field elements, wiped on drop.
pub(crate) struct ExpandedShare<T: Circuit>(InputShare<T>);

impl<T: Circuit> Drop for ExpandedShare<T> {
    fn drop(&mut self) {
        if let InputShare::<T>::Leader { measurement_share, proofs_share, .. } = &mut self.0 {
            wipe(measurement_share);
            wipe(proofs_share);
        }
    }
}

/// Appends the encoding of one of `prio`'s messages. Encoding those used here cannot fail.
pub(crate) fn encode_into(value: &impl Encode, bytes: &mut Vec<u8>) {
    let encoded = value.encode(bytes);
    debug_assert!(encoded.is_ok());
}
