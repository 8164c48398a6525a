//! The wire encodings of PINE: fixed lengths, elements in little-endian order, seeds last.

use super::instance::{InputShare, Instance, PublicShare, SeedShare, Seeds, VerifierShare};
use super::randomness::{SEED, Seed};
use crate::aggregate_share::{ShareField, decode_elements, encode_elements};

pub(crate) const PUBLIC_SHARE_LEN: usize = 4 * SEED;
pub(crate) const HELPER_SHARE_LEN: usize = 3 * SEED;
pub(crate) const MESSAGE_LEN: usize = 2 * SEED;

impl PublicShare {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [self.wr_parts.as_flattened(), self.vf_parts.as_flattened()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let [wr_leader, wr_helper, vf_leader, vf_helper] = seeds(bytes)?;
        Some(Self { wr_parts: [wr_leader, wr_helper], vf_parts: [vf_leader, vf_helper] })
    }
}

impl SeedShare {
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        [self.seed, self.wr_blind, self.vf_blind].iter().for_each(|seed| bytes.extend(seed));
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let [seed, wr_blind, vf_blind] = seeds(bytes)?;
        Some(Self { seed, wr_blind, vf_blind })
    }
}

impl Seeds {
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        [self.wr, self.vf].iter().for_each(|seed| bytes.extend(seed));
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let [wr, vf] = seeds(bytes)?;
        Some(Self { wr, vf })
    }
}

impl<F: ShareField> InputShare<F> {
    /// As the leader's share is sent.
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        encode_elements(&self.measurement, bytes);
        encode_elements(&self.proofs, bytes);
        bytes.extend(self.wr_blind);
        bytes.extend(self.vf_blind);
    }
}

impl<F: ShareField> VerifierShare<F> {
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        encode_elements(&self.verifiers, bytes);
        self.parts.encode_into(bytes);
    }
}

impl<F: ShareField> Instance<F> {
    pub(crate) fn leader_share_len(&self) -> usize {
        (self.parameters().encoded_len() + self.proofs_len()) * F::ENCODED_SIZE + 2 * SEED
    }

    pub(crate) fn verifier_share_len(&self) -> usize {
        self.verifiers_len() * F::ENCODED_SIZE + 2 * SEED
    }

    pub(crate) fn decode_leader_share(&self, bytes: &[u8]) -> Option<InputShare<F>> {
        let [measurement, proofs] = [self.parameters().encoded_len(), self.proofs_len()];
        let (measurement, bytes) = bytes.split_at_checked(measurement * F::ENCODED_SIZE)?;
        let (proofs, bytes) = bytes.split_at_checked(proofs * F::ENCODED_SIZE)?;
        let [wr_blind, vf_blind] = seeds(bytes)?;
        Some(InputShare {
            measurement: decode_elements(measurement)?,
            proofs: decode_elements(proofs)?,
            wr_blind,
            vf_blind,
        })
    }

    pub(crate) fn decode_verifier_share(&self, bytes: &[u8]) -> Option<VerifierShare<F>> {
        let (verifiers, parts) = bytes.split_at_checked(self.verifiers_len() * F::ENCODED_SIZE)?;
        let parts = Seeds::decode(parts)?;
        Some(VerifierShare { verifiers: decode_elements(verifiers)?, parts })
    }
}

/// Exactly `N` seeds.
fn seeds<const N: usize>(bytes: &[u8]) -> Option<[Seed; N]> {
    let (seeds, rest) = bytes.as_chunks::<SEED>();
    if rest.is_empty() { seeds.try_into().ok() } else { None }
}
