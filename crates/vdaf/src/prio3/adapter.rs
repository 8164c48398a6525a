//! [`Vdaf`] over Prio3 with two aggregators.

use std::sync::Arc;

use prio::field::FieldElementWithInteger;
use prio::vdaf::{OutputShare, VdafError};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::instance::{VerifierShare, VerifyState, encode_into};
use super::{Circuit, Instance};
use crate::ping_pong::{HEADER, MessageType, consume_message, produce_header};
use crate::{
    AggregateResult, AggregateShare, AggregateShareError, HelperReport, LeaderBatch, LeaderReport,
    Measurement, MeasurementError, ShardError, Shares, Sizes, UnshardError, Vdaf, VdafConfig,
    VerifyError, VerifyParams,
};

const LEADER: u8 = 0;
const HELPER: u8 = 1;
const SHARES: u8 = 2;
const PROOFS: u8 = 1;
/// Bytes of a joint-randomness part.
const PART: usize = 32;

/// A circuit with its configuration.
#[derive(Debug)]
pub(crate) struct Prio3Adapter<T: Circuit> {
    config: VdafConfig,
    instance: Arc<Instance<T>>,
}

impl<T: Circuit> Prio3Adapter<T> {
    pub(crate) fn new(config: VdafConfig, circuit: T) -> Result<Self, VdafError> {
        let instance = Instance::new(config.vdaf_type(), SHARES, PROOFS, circuit)?;
        Ok(Self { config, instance: Arc::new(instance) })
    }

    fn check_params(&self, params: &VerifyParams<'_>) -> Result<(), VerifyError> {
        if !self.is_valid_agg_param(params.agg_param) {
            return Err(VerifyError::AggParam);
        }
        if !Instance::<T>::is_valid_context(params.ctx) {
            return Err(VerifyError::Context);
        }
        Ok(())
    }

    fn leader_init_one(
        &self,
        params: &VerifyParams<'_>,
        report: &LeaderReport<'_>,
    ) -> Result<Pending<T>, VerifyError> {
        let LeaderReport { nonce, public_share, input_share, bucket } = *report;
        let (state, verifier_share) =
            self.verify_init(params, LEADER, nonce, public_share, input_share)?;
        let mut outbound =
            produce_header(MessageType::Initialize, self.instance.verifier_share_len());
        encode_into(&verifier_share, &mut outbound);
        self.check_own_part(LEADER, public_share, &outbound)?;
        Ok(Pending { state, outbound, bucket })
    }

    fn helper_verify_one(
        &self,
        params: &VerifyParams<'_>,
        report: &HelperReport<'_>,
        accumulators: &mut [AggregateShare],
    ) -> Result<Vec<u8>, VerifyError> {
        let HelperReport { nonce, public_share, input_share, inbound, bucket } = *report;
        let accumulator = accumulator(&self.instance, accumulators, bucket)?;
        let verifier_share_len = self.instance.verifier_share_len();
        let inbound = consume_message(MessageType::Initialize, verifier_share_len, inbound)
            .ok_or(VerifyError::PeerMessage)?;

        let (state, helper_share) =
            self.verify_init(params, HELPER, nonce, public_share, input_share)?;
        if self.instance.has_joint_rand() {
            let mut encoded = Vec::with_capacity(verifier_share_len);
            encode_into(&helper_share, &mut encoded);
            self.check_own_part(HELPER, public_share, &encoded)?;
        }

        let leader_share = Instance::<T>::decode_verifier_share(&state, inbound)
            .ok_or(VerifyError::PeerMessage)?;
        let message = self
            .instance
            .verifier_shares_to_message(params.ctx, [leader_share, helper_share])
            .map_err(|_| VerifyError::Proof)?;
        let mut outbound =
            produce_header(MessageType::Finish, self.instance.verifier_message_len());
        encode_into(&message, &mut outbound);
        let output_share = self
            .instance
            .verify_next(params.ctx, state, message)
            .map_err(|_| VerifyError::JointRandomness)?;
        accumulate(accumulator, &output_share);
        Ok(outbound)
    }

    fn verify_init(
        &self,
        params: &VerifyParams<'_>,
        agg_id: u8,
        nonce: &[u8; 16],
        public_share: &[u8],
        input_share: &[u8],
    ) -> Result<(VerifyState<T>, VerifierShare<T>), VerifyError> {
        let public_share =
            self.instance.decode_public_share(public_share).ok_or(VerifyError::PublicShare)?;
        let input_share = self
            .instance
            .decode_input_share(params.ctx, agg_id, input_share)
            .ok_or(VerifyError::InputShare)?;
        self.instance
            .verify_init(params.verify_key, params.ctx, agg_id, nonce, &public_share, &input_share)
            // All lengths have been checked: the only remaining error is query randomness at a root
            // of unity.
            .map_err(|_| VerifyError::QueryRandomness)
    }

    /// Compares the joint-randomness part that this aggregator computed from its own input share
    /// (the last bytes of its encoded verifier share) with its part in the public share.
    ///
    /// VDAF does not require this: a wrong part makes the *other* aggregator reject in its last
    /// step. But by the leader's last step the helper has already committed. A client can craft a
    /// report whose proof holds for any joint randomness (all encoded elements one, a proof of
    /// zeros) and give a wrong helper part. The helper would accept it, the leader would then
    /// reject it, and the batch would never match again. With both checks, either the two
    /// aggregators hold the same joint-randomness seed, or one of them rejects before it sends
    /// anything.
    fn check_own_part(
        &self,
        agg_id: u8,
        public_share: &[u8],
        verifier_share: &[u8],
    ) -> Result<(), VerifyError> {
        if !self.instance.has_joint_rand() {
            return Ok(());
        }
        let claimed = public_share.chunks_exact(PART).nth(agg_id.into());
        let own = verifier_share.last_chunk::<PART>().map(<[u8; PART]>::as_slice);
        if claimed.is_some() && claimed == own { Ok(()) } else { Err(VerifyError::JointRandomness) }
    }
}

impl<T: Circuit> Vdaf for Prio3Adapter<T> {
    fn config(&self) -> &VdafConfig {
        &self.config
    }

    fn sizes(&self) -> Sizes {
        use prio::field::FieldElement;
        Sizes {
            public_share: self.instance.public_share_len(),
            leader_share: self.instance.leader_share_len(),
            helper_share: self.instance.helper_share_len(),
            leader_message: HEADER + self.instance.verifier_share_len(),
            helper_message: HEADER + self.instance.verifier_message_len(),
            aggregate_share: self.instance.output_len() * <T::Field as FieldElement>::ENCODED_SIZE,
        }
    }

    fn is_valid_agg_param(&self, agg_param: &[u8]) -> bool {
        agg_param.is_empty()
    }

    fn shard(
        &self,
        ctx: &[u8],
        measurement: &Measurement,
        nonce: &[u8; 16],
        rng: &mut dyn CryptoRng,
    ) -> Result<Shares, ShardError> {
        measurement.check(&self.config)?;
        if !Instance::<T>::is_valid_context(ctx) {
            return Err(ShardError::Context);
        }
        let measurement = T::measurement(measurement).ok_or(MeasurementError::Kind {
            name: self.config.name(),
            expected: "its own kind of measurement",
        })?;
        let mut rand = Zeroizing::new(vec![0; self.instance.rand_len()]);
        rng.fill_bytes(&mut rand);
        let (public_share, input_shares) = self
            .instance
            .shard(ctx, &measurement, nonce, &rand)
            .map_err(|e| ShardError::Internal(e.to_string()))?;

        let sizes = self.sizes();
        let mut shares = Shares {
            public_share: Vec::with_capacity(sizes.public_share),
            // Allocated at full size: a buffer that grows would leave copies behind.
            leader: Zeroizing::new(Vec::with_capacity(sizes.leader_share)),
            helper: Zeroizing::new(Vec::with_capacity(sizes.helper_share)),
        };
        encode_into(&public_share, &mut shares.public_share);
        for (input_share, bytes) in
            input_shares.iter().zip([&mut *shares.leader, &mut *shares.helper])
        {
            encode_into(input_share, bytes);
        }
        Ok(shares)
    }

    fn leader_init(
        &self,
        params: &VerifyParams<'_>,
        reports: &[LeaderReport<'_>],
    ) -> Box<dyn LeaderBatch> {
        let checked = self.check_params(params);
        let reports = reports
            .iter()
            .map(|report| checked.and_then(|()| self.leader_init_one(params, report)))
            .collect();
        let instance = Arc::clone(&self.instance);
        Box::new(PendingBatch { instance, ctx: params.ctx.to_vec(), reports })
    }

    fn helper_verify(
        &self,
        params: &VerifyParams<'_>,
        reports: &[HelperReport<'_>],
        accumulators: &mut [AggregateShare],
    ) -> Vec<Result<Vec<u8>, VerifyError>> {
        let checked = self.check_params(params);
        reports
            .iter()
            .map(|report| {
                checked.and_then(|()| self.helper_verify_one(params, report, accumulators))
            })
            .collect()
    }

    fn zero_share(&self) -> AggregateShare {
        AggregateShare::zero::<T::Field>(self.instance.output_len())
    }

    fn decode_aggregate_share(&self, bytes: &[u8]) -> Result<AggregateShare, AggregateShareError> {
        AggregateShare::decode::<T::Field>(bytes, self.instance.output_len())
    }

    fn max_reports(&self) -> u64 {
        let modulus: u128 = T::Field::modulus().into();
        // Parameters are checked to be at least 1; `max` only makes sure that the division cannot
        // panic.
        // Results are signed, so a sum has at most 127 bits.
        let largest = (modulus - 1).min(i128::MAX.unsigned_abs());
        let largest = largest / u128::from(self.config.max_element().max(1));
        u64::try_from(largest).unwrap_or(u64::MAX)
    }

    fn unshard(
        &self,
        leader: &AggregateShare,
        helper: &AggregateShare,
        count: u64,
    ) -> Result<AggregateResult, UnshardError> {
        if count > self.max_reports() {
            return Err(UnshardError::MayWrap { count, max: self.config.max_element() });
        }
        let length = self.instance.output_len();
        let shares = [
            leader.elements::<T::Field>(length)?.to_vec(),
            helper.elements::<T::Field>(length)?.to_vec(),
        ];
        // Prio3's circuits ignore the count.
        let result = self
            .instance
            .unshard(shares, usize::try_from(count).unwrap_or(usize::MAX))
            .map_err(|_| AggregateShareError::Shape)?;
        // At most the field, as was checked.
        let most = u128::from(count) * u128::from(self.config.max_element());
        Ok(T::result(result, |sum| signed(sum, most, T::Field::modulus().into())))
    }
}

/// The number that an element stands for: `sum`, or what is left of it without the modulus,
/// whichever is closer to the sums that measurements can have, which are 0 to `most`. Noise of less
/// than half of the field that is left beside them is read correctly, whatever its sign.
fn signed(sum: u128, most: u128, modulus: u128) -> i128 {
    match i128::try_from(sum) {
        Ok(number) if sum <= most + (modulus - 1 - most) / 2 => number,
        // Below 2^127 in both cases: Field128 is smaller than 2^128.
        _ => -((modulus - sum) as i128),
    }
}

/// The leader's side of a report that waits for the helper.
struct Pending<T: Circuit> {
    state: VerifyState<T>,
    outbound: Vec<u8>,
    bucket: usize,
}

struct PendingBatch<T: Circuit> {
    instance: Arc<Instance<T>>,
    ctx: Vec<u8>,
    reports: Vec<Result<Pending<T>, VerifyError>>,
}

impl<T: Circuit> PendingBatch<T> {
    fn finish_one(
        &self,
        pending: Pending<T>,
        inbound: Option<&[u8]>,
        accumulators: &mut [AggregateShare],
    ) -> Result<(), VerifyError> {
        let Pending { state, bucket, .. } = pending;
        let accumulator = accumulator(&self.instance, accumulators, bucket)?;
        let inbound = inbound.ok_or(VerifyError::RejectedByPeer)?;
        let message_len = self.instance.verifier_message_len();
        let message = consume_message(MessageType::Finish, message_len, inbound)
            .and_then(|payload| Instance::<T>::decode_verifier_message(&state, payload))
            .ok_or(VerifyError::PeerMessage)?;
        let output_share = self
            .instance
            .verify_next(&self.ctx, state, message)
            .map_err(|_| VerifyError::JointRandomness)?;
        accumulate(accumulator, &output_share);
        Ok(())
    }
}

impl<T: Circuit> LeaderBatch for PendingBatch<T> {
    fn len(&self) -> usize {
        self.reports.len()
    }

    fn outbound(&self, index: usize) -> Result<&[u8], VerifyError> {
        match self.reports.get(index) {
            Some(Ok(pending)) => Ok(&pending.outbound),
            Some(Err(error)) => Err(*error),
            None => Err(VerifyError::OutOfRange),
        }
    }

    fn finish(
        mut self: Box<Self>,
        inbound: &[Option<&[u8]>],
        accumulators: &mut [AggregateShare],
    ) -> Vec<Result<(), VerifyError>> {
        let reports = std::mem::take(&mut self.reports);
        let inbound = inbound.iter().copied().chain(std::iter::repeat(None));
        reports
            .into_iter()
            .zip(inbound)
            .map(|(report, inbound)| {
                report.and_then(|pending| self.finish_one(pending, inbound, accumulators))
            })
            .collect()
    }
}

/// The elements of a bucket's accumulator. Looked up before anything is verified, so that nothing
/// can fail once a report is accepted.
fn accumulator<'a, T: Circuit>(
    instance: &Instance<T>,
    accumulators: &'a mut [AggregateShare],
    bucket: usize,
) -> Result<&'a mut [T::Field], VerifyError> {
    accumulators
        .get_mut(bucket)
        .ok_or(VerifyError::OutOfRange)?
        .elements_mut(instance.output_len())
        .map_err(|_| VerifyError::Accumulator)
}

/// Adds an output share of the accumulator's length.
fn accumulate<F: prio::field::FieldElement>(accumulator: &mut [F], output_share: &OutputShare<F>) {
    debug_assert_eq!(accumulator.len(), output_share.as_ref().len());
    for (sum, element) in accumulator.iter_mut().zip(output_share.as_ref()) {
        *sum += *element;
    }
}
