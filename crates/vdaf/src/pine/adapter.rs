//! [`Vdaf`] over PINE.

use std::sync::Arc;

use prio::field::{Field64, Field128};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::instance::{
    InputShare, Instance, PublicShare, RAND_LEN, SeedShare, Seeds, ShardFailure,
};
use super::instance::{VerifierShare, VerifyState};
use super::message::{HELPER_SHARE_LEN, MESSAGE_LEN, PUBLIC_SHARE_LEN};
use super::{Parameters, PineField, is_valid_context};
use crate::aggregate_share::ShareField;
use crate::ping_pong::{HEADER, MessageType, consume_message, produce_header};
use crate::{
    AggregateResult, AggregateShare, AggregateShareError, ConfigError, HelperReport, LeaderBatch,
    LeaderReport, Measurement, MeasurementError, ShardError, Shares, Sizes, UnshardError, Vdaf,
    VdafConfig, VerifyError, VerifyParams,
};

const LEADER: u8 = 0;
const HELPER: u8 = 1;

/// Attempts at sharding. Each fails with a probability below 2^-100, unless the random numbers are
/// broken: then a loop would not end.
const ATTEMPTS: usize = 4;

/// The aggregation function of a configuration whose parameters have been checked.
pub(crate) fn build(
    config: VdafConfig,
    field: PineField,
    parameters: Parameters,
) -> Result<Arc<dyn Vdaf>, ConfigError> {
    Ok(match field {
        PineField::Field64 => Arc::new(Adapter::<Field64>::new(config, parameters)),
        PineField::Field128 => Arc::new(Adapter::<Field128>::new(config, parameters)),
    })
}

/// An instance with its configuration.
#[derive(Debug)]
struct Adapter<F> {
    config: VdafConfig,
    instance: Arc<Instance<F>>,
}

impl<F: ShareField> Adapter<F> {
    fn new(config: VdafConfig, parameters: Parameters) -> Self {
        let instance = Instance::new(config.vdaf_type(), parameters);
        Self { config, instance: Arc::new(instance) }
    }

    fn check_params(&self, params: &VerifyParams<'_>) -> Result<(), VerifyError> {
        if !self.is_valid_agg_param(params.agg_param) {
            return Err(VerifyError::AggParam);
        }
        if !is_valid_context(params.ctx) {
            return Err(VerifyError::Context);
        }
        Ok(())
    }

    fn leader_init_one(
        &self,
        params: &VerifyParams<'_>,
        report: &LeaderReport<'_>,
    ) -> Result<Pending<F>, VerifyError> {
        let LeaderReport { nonce, public_share, input_share, bucket } = *report;
        let public_share = PublicShare::decode(public_share).ok_or(VerifyError::PublicShare)?;
        let input_share =
            self.instance.decode_leader_share(input_share).ok_or(VerifyError::InputShare)?;
        let (state, share) = self.verify_init(params, LEADER, nonce, &public_share, input_share)?;
        let length = self.instance.verifier_share_len();
        let mut outbound = produce_header(MessageType::Initialize, length);
        share.encode_into(&mut outbound);
        Ok(Pending { state, outbound, bucket })
    }

    fn helper_verify_one(
        &self,
        params: &VerifyParams<'_>,
        report: &HelperReport<'_>,
        accumulators: &mut [AggregateShare],
    ) -> Result<Vec<u8>, VerifyError> {
        let HelperReport { nonce, public_share, input_share, inbound, bucket } = *report;
        let accumulator = accumulator::<F>(&self.instance, accumulators, bucket)?;
        let length = self.instance.verifier_share_len();
        let inbound = consume_message(MessageType::Initialize, length, inbound)
            .ok_or(VerifyError::PeerMessage)?;
        let leader_share =
            self.instance.decode_verifier_share(inbound).ok_or(VerifyError::PeerMessage)?;
        let public_share = PublicShare::decode(public_share).ok_or(VerifyError::PublicShare)?;
        let seeds = SeedShare::decode(input_share).ok_or(VerifyError::InputShare)?;

        let input_share = self.instance.expand(params.ctx, HELPER, &seeds);
        let (state, helper_share) =
            self.verify_init(params, HELPER, nonce, &public_share, input_share)?;
        let message = self
            .instance
            .verifier_shares_to_message(params.ctx, [leader_share, helper_share])
            .map_err(|_| VerifyError::Proof)?;
        let output = finished(&state, &message)?;
        let mut outbound = produce_header(MessageType::Finish, MESSAGE_LEN);
        message.encode_into(&mut outbound);
        accumulate(accumulator, output);
        Ok(outbound)
    }

    /// Compares the joint-randomness parts that this aggregator computes from its own share with its
    /// parts in the public share, before it says anything; then verifies.
    ///
    /// Without this, a client could make one aggregator accept what the other rejects: see
    /// `check_own_part` of Prio3. With PINE it would even be easy. All dot products of a vector of
    /// zeros are zero, whatever the signs, so that its proofs hold if the aggregators disagree about
    /// the first stage.
    fn verify_init(
        &self,
        params: &VerifyParams<'_>,
        agg_id: u8,
        nonce: &[u8; 16],
        public_share: &PublicShare,
        share: InputShare<F>,
    ) -> Result<(VerifyState<F>, VerifierShare<F>), VerifyError> {
        let own = self.instance.parts(params.ctx, agg_id, nonce, &share);
        let id = usize::from(agg_id);
        let claimed = [public_share.wr_parts.get(id), public_share.vf_parts.get(id)];
        if claimed != [Some(&own.wr), Some(&own.vf)] {
            return Err(VerifyError::JointRandomness);
        }
        let common = (params.verify_key, params.ctx, nonce);
        self.instance
            .verify_init(common, agg_id, public_share, share, own)
            .map_err(|_| VerifyError::QueryRandomness)
    }
}

impl<F: ShareField> Vdaf for Adapter<F> {
    fn config(&self) -> &VdafConfig {
        &self.config
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            public_share: PUBLIC_SHARE_LEN,
            leader_share: self.instance.leader_share_len(),
            helper_share: HELPER_SHARE_LEN,
            leader_message: HEADER + self.instance.verifier_share_len(),
            helper_message: HEADER + MESSAGE_LEN,
            aggregate_share: self.instance.parameters().dimension * F::ENCODED_SIZE,
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
        let Measurement::Vector(values) = measurement else {
            let (name, expected) = (self.config.name(), "its own kind of measurement");
            return Err(MeasurementError::Kind { name, expected }.into());
        };
        if !is_valid_context(ctx) {
            return Err(ShardError::Context);
        }
        let (public_share, leader, helper) = attempts(|| {
            let mut rand = Zeroizing::new([0; RAND_LEN]);
            rng.fill_bytes(&mut *rand);
            self.instance.shard(ctx, values, nonce, &rand)
        })?;
        let mut shares = Shares {
            public_share: public_share.encode(),
            // Allocated at full size: a buffer that grows would leave copies behind.
            leader: Zeroizing::new(Vec::with_capacity(self.instance.leader_share_len())),
            helper: Zeroizing::new(Vec::with_capacity(HELPER_SHARE_LEN)),
        };
        leader.encode_into(&mut shares.leader);
        helper.encode_into(&mut shares.helper);
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
        Box::new(PendingBatch { instance: Arc::clone(&self.instance), reports })
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
        AggregateShare::zero::<F>(self.instance.parameters().dimension)
    }

    fn decode_aggregate_share(&self, bytes: &[u8]) -> Result<AggregateShare, AggregateShareError> {
        AggregateShare::decode::<F>(bytes, self.instance.parameters().dimension)
    }

    fn max_reports(&self) -> u64 {
        // Sums have a sign, so half of the field is left for each.
        let modulus: u128 = F::modulus().into();
        let most = (modulus - 1) / 2 / u128::from(self.config.max_element().max(1));
        u64::try_from(most).unwrap_or(u64::MAX)
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
        let length = self.instance.parameters().dimension;
        let (leader, helper) = (leader.elements::<F>(length)?, helper.elements::<F>(length)?);
        let sums = leader.iter().zip(helper).map(|(leader, helper)| signed(*leader + *helper));
        Ok(AggregateResult::Vector(sums.collect()))
    }
}

/// The number closest to zero that an element stands for.
pub(crate) fn signed<F: ShareField>(element: F) -> i128 {
    let (number, modulus): (u128, u128) = (element.to_number(), F::modulus().into());
    // Below 2^127 in both cases: Field128 is smaller than 2^128.
    if number <= (modulus - 1) / 2 { number as i128 } else { -((modulus - number) as i128) }
}

/// Shards until the wraparound checks pass, but not for ever.
fn attempts<T>(mut shard: impl FnMut() -> Result<T, ShardFailure>) -> Result<T, ShardError> {
    for _ in 0..ATTEMPTS {
        match shard() {
            Err(ShardFailure::Checks) => {}
            other => return other.map_err(|e| ShardError::Internal(e.to_string())),
        }
    }
    Err(ShardError::Attempts(ATTEMPTS))
}

/// The leader's side of a report that waits for the helper.
struct Pending<F: ShareField> {
    state: VerifyState<F>,
    outbound: Vec<u8>,
    bucket: usize,
}

struct PendingBatch<F: ShareField> {
    instance: Arc<Instance<F>>,
    reports: Vec<Result<Pending<F>, VerifyError>>,
}

impl<F: ShareField> PendingBatch<F> {
    fn finish_one(
        &self,
        pending: &Pending<F>,
        inbound: Option<&[u8]>,
        accumulators: &mut [AggregateShare],
    ) -> Result<(), VerifyError> {
        let accumulator = accumulator::<F>(&self.instance, accumulators, pending.bucket)?;
        let inbound = inbound.ok_or(VerifyError::RejectedByPeer)?;
        let message = consume_message(MessageType::Finish, MESSAGE_LEN, inbound)
            .and_then(Seeds::decode)
            .ok_or(VerifyError::PeerMessage)?;
        accumulate(accumulator, finished(&pending.state, &message)?);
        Ok(())
    }
}

impl<F: ShareField> LeaderBatch for PendingBatch<F> {
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
                report.and_then(|pending| self.finish_one(&pending, inbound, accumulators))
            })
            .collect()
    }
}

/// The output share, if both aggregators used the same joint randomness.
fn finished<'a, F: ShareField>(
    state: &'a VerifyState<F>,
    message: &Seeds,
) -> Result<&'a [F], VerifyError> {
    if state.seeds == *message { Ok(&state.output) } else { Err(VerifyError::JointRandomness) }
}

/// The elements of a bucket's accumulator. Looked up before anything is verified, so that nothing
/// can fail once a report is accepted.
fn accumulator<'a, F: ShareField>(
    instance: &Instance<F>,
    accumulators: &'a mut [AggregateShare],
    bucket: usize,
) -> Result<&'a mut [F], VerifyError> {
    accumulators
        .get_mut(bucket)
        .ok_or(VerifyError::OutOfRange)?
        .elements_mut(instance.parameters().dimension)
        .map_err(|_| VerifyError::Accumulator)
}

/// Adds an output share of the accumulator's length.
fn accumulate<F: ShareField>(accumulator: &mut [F], output: &[F]) {
    debug_assert_eq!(accumulator.len(), output.len());
    for (sum, element) in accumulator.iter_mut().zip(output) {
        *sum += *element;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Broken random numbers must not make an endless loop.
    #[test]
    fn attempts_are_bounded() {
        let mut made = 0;
        let failed = attempts::<()>(|| {
            made += 1;
            Err(ShardFailure::Checks)
        });
        assert!(matches!(failed, Err(ShardError::Attempts(ATTEMPTS))));
        assert_eq!(made, ATTEMPTS);

        let mut outcomes = [Err(ShardFailure::Checks), Ok(7)].into_iter();
        assert_eq!(attempts(|| outcomes.next().unwrap()).unwrap(), 7);

        // Another failure would not go away.
        let mut made = 0;
        let failed = attempts::<()>(|| {
            made += 1;
            Err(ShardFailure::Measurement)
        });
        assert!(matches!((failed, made), (Err(ShardError::Internal(_)), 1)));
    }
}
