//! Prio3 as the subject of a test-vector file.

use prio::codec::Encode;
use serde_json::Value;

use super::VectorFailure;
use super::file::VectorFile;
use super::run::Subject;
use crate::config::integer_from_json;
use crate::prio3::{Circuit, Instance, VerifyState};
use crate::{AggregateResult, AggregateShare, Measurement, VdafConfig};

pub(super) struct Prio3Subject<'a, T: Circuit> {
    config: &'a VdafConfig,
    instance: Instance<T>,
}

impl<'a, T: Circuit> Prio3Subject<'a, T> {
    pub(super) fn new(
        config: &'a VdafConfig,
        algorithm_id: u32,
        proofs: u8,
        circuit: T,
        file: &VectorFile,
    ) -> Result<Self, VectorFailure> {
        let parameters_error =
            |error: String| VectorFailure::Parameters { vdaf: config.name().to_owned(), error };
        if !Instance::<T>::is_valid_context(&file.ctx.0) {
            return Err(parameters_error("the context is too long".into()));
        }
        if !file.agg_param.0.is_empty() {
            return Err(parameters_error("the aggregation parameter must be empty".into()));
        }
        let instance = Instance::new(algorithm_id, file.shares, proofs, circuit)
            .map_err(|e| parameters_error(e.to_string()))?;
        Ok(Self { config, instance })
    }
}

impl<T: Circuit> Subject for Prio3Subject<'_, T> {
    type State = VerifyState<T>;

    fn shard(
        &self,
        ctx: &[u8],
        measurement: &Value,
        nonce: &[u8; 16],
        rand: &[u8],
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
        let measurement =
            Measurement::parse(self.config, measurement).map_err(|e| e.to_string())?;
        let measurement = T::measurement(&measurement).ok_or("not a measurement of this VDAF")?;
        let (public_share, input_shares) =
            self.instance.shard(ctx, &measurement, nonce, rand).map_err(|e| e.to_string())?;
        let input_shares: Result<_, _> = input_shares.iter().map(encoded).collect();
        Ok((encoded(&public_share)?, input_shares?))
    }

    fn verify_init(
        &self,
        verify_key: &[u8; 32],
        ctx: &[u8],
        agg_id: u8,
        (nonce, public_share, input_share): (&[u8; 16], &[u8], &[u8]),
    ) -> Result<(Self::State, Vec<u8>), String> {
        let public_share =
            self.instance.decode_public_share(public_share).ok_or("malformed public share")?;
        let input_share = self
            .instance
            .decode_input_share(ctx, agg_id, input_share)
            .ok_or("malformed input share")?;
        let (state, share) = self
            .instance
            .verify_init(verify_key, ctx, agg_id, nonce, &public_share, &input_share)
            .map_err(|e| e.to_string())?;
        Ok((state, encoded(&share)?))
    }

    fn verifier_shares_to_message(
        &self,
        ctx: &[u8],
        state: &Self::State,
        shares: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let shares: Option<Vec<_>> =
            shares.iter().map(|share| Instance::<T>::decode_verifier_share(state, share)).collect();
        let shares = shares.ok_or("malformed verifier share")?;
        let message = self.instance.verifier_shares_to_message(ctx, shares);
        encoded(&message.map_err(|e| e.to_string())?)
    }

    fn verify_next(
        &self,
        ctx: &[u8],
        state: &Self::State,
        message: &[u8],
    ) -> Result<Vec<u8>, String> {
        let message = Instance::<T>::decode_verifier_message(state, message)
            .ok_or("malformed verifier message")?;
        let output_share = self.instance.verify_next(ctx, state.clone(), message);
        encoded(&output_share.map_err(|e| e.to_string())?)
    }

    fn zero_share(&self) -> AggregateShare {
        AggregateShare::zero::<T::Field>(self.instance.output_len())
    }

    fn decode_aggregate_share(&self, bytes: &[u8]) -> Result<AggregateShare, String> {
        AggregateShare::decode::<T::Field>(bytes, self.instance.output_len())
            .map_err(|e| e.to_string())
    }

    fn unshard(&self, shares: &[AggregateShare], count: usize) -> Result<AggregateResult, String> {
        let elements = |share: &AggregateShare| {
            share.elements::<T::Field>(self.instance.output_len()).map(<[_]>::to_vec)
        };
        let shares: Result<Vec<_>, _> = shares.iter().map(elements).collect();
        let result = self
            .instance
            .unshard(shares.map_err(|e| e.to_string())?, count)
            .map_err(|e| e.to_string())?;
        // Results of vectors are small: none is negative.
        Ok(T::result(result, |sum| sum as i128))
    }

    fn expected_result(&self, value: &Value) -> Option<Vec<i128>> {
        match value {
            Value::Array(values) => {
                values.iter().map(|value| integer_from_json(value).map(i128::from)).collect()
            }
            value => integer_from_json(value).map(|value| vec![value.into()]),
        }
    }
}

fn encoded(value: &impl Encode) -> Result<Vec<u8>, String> {
    value.get_encoded().map_err(|e| e.to_string())
}
