//! PINE as the subject of a test-vector file, and the parameters that such files state.

use prio::field::{Field64, Field128};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::VectorFailure;
use super::file::VectorFile;
use super::run::{Run, Subject};
use crate::aggregate_share::ShareField;
use crate::pine::{
    Instance, Parameters, PineField, PublicShare, SeedShare, Seeds, VerifyState, is_valid_context,
    signed,
};
use crate::{AggregateResult, AggregateShare, to_fixed_point};

/// The algorithm identifier in the vectors, for both fields.
const VECTOR_ID: u32 = 0xFFFF_FFFF;

/// The parameters as a file states them.
#[derive(Debug, Deserialize)]
pub(super) struct Stated {
    field: String,
    alpha: f64,
    num_frac_bits: u32,
    dimension: usize,
    l2_norm_bound: u64,
    chunk_length: usize,
    chunk_length_norm_equality: usize,
    num_wr_checks: usize,
    num_wr_successes: usize,
    proofs: usize,
    proofs_norm_equality: usize,
}

impl Stated {
    pub(super) fn read(vdaf: &str, parameters: &Map<String, Value>) -> Result<Self, VectorFailure> {
        serde_json::from_value(parameters.clone().into())
            .map_err(|e| VectorFailure::Parameters { vdaf: vdaf.to_owned(), error: e.to_string() })
    }

    /// Test vectors use small numbers of everything; any number of checks is allowed.
    fn checked(&self, vdaf: &str) -> Result<(PineField, Parameters), VectorFailure> {
        let error = |error: &str| VectorFailure::Parameters {
            vdaf: vdaf.to_owned(),
            error: error.to_owned(),
        };
        let field = match self.field.as_str() {
            "Field64" => PineField::Field64,
            "Field128" => PineField::Field128,
            _ => return Err(error("a field that is not implemented here")),
        };
        if field.vdaf_name() != vdaf {
            return Err(error("the field does not fit the name"));
        }
        if self.alpha != 8.7 {
            return Err(error("alpha must be 8.7"));
        }
        let counts = [
            self.dimension,
            self.chunk_length,
            self.chunk_length_norm_equality,
            self.num_wr_checks,
            self.proofs,
            self.proofs_norm_equality,
        ];
        if counts.iter().any(|count| !(1..=MAX_COUNT).contains(count))
            || self.proofs.max(self.proofs_norm_equality) > 8
            || self.num_wr_successes > self.num_wr_checks
            || !(1..=field.max_norm_bound()).contains(&self.l2_norm_bound)
        {
            return Err(error("a number is out of range"));
        }
        let parameters = Parameters {
            dimension: self.dimension,
            norm_bound: self.l2_norm_bound,
            chunk_length: self.chunk_length,
            chunk_length_norm_equality: self.chunk_length_norm_equality,
            wr_checks: self.num_wr_checks,
            wr_successes: self.num_wr_successes,
            proofs: self.proofs,
            proofs_norm_equality: self.proofs_norm_equality,
        };
        Ok((field, parameters))
    }

    /// A vector of fractions, as integers.
    pub(super) fn fixed_point(&self, value: &Value) -> Option<Vec<i64>> {
        let encode = |value: &Value| to_fixed_point(value.as_f64()?, self.num_frac_bits).ok();
        value.as_array()?.iter().map(encode).collect()
    }
}

/// Of everything that is counted: what keeps a run short.
const MAX_COUNT: usize = 10_000;

/// Runs a file in the schema of VDAF-18.
pub(super) fn run(vdaf: &str, file: &VectorFile) -> Result<(usize, usize), VectorFailure> {
    let stated = Stated::read(vdaf, &file.parameters)?;
    let (field, parameters) = stated.checked(vdaf)?;
    let usable = file.shares == 2 && file.agg_param.0.is_empty() && is_valid_context(&file.ctx.0);
    if !usable {
        let error = "needs two shares, no aggregation parameter and a short context".to_owned();
        return Err(VectorFailure::Parameters { vdaf: vdaf.to_owned(), error });
    }
    match field {
        PineField::Field64 => Run::new(PineSubject::<Field64>::new(stated, parameters), file).all(),
        PineField::Field128 => {
            Run::new(PineSubject::<Field128>::new(stated, parameters), file).all()
        }
    }
}

pub(super) struct PineSubject<F> {
    stated: Stated,
    instance: Instance<F>,
}

impl<F: ShareField> PineSubject<F> {
    pub(super) fn new(stated: Stated, parameters: Parameters) -> Self {
        Self { stated, instance: Instance::new(VECTOR_ID, parameters) }
    }
}

impl<F: ShareField> Subject for PineSubject<F> {
    type State = VerifyState<F>;

    fn shard(
        &self,
        ctx: &[u8],
        measurement: &Value,
        nonce: &[u8; 16],
        rand: &[u8],
    ) -> Result<(Vec<u8>, Vec<Vec<u8>>), String> {
        let values = self.stated.fixed_point(measurement).ok_or("not a vector of numbers")?;
        let rand = rand.try_into().map_err(|_| "rand of wrong size")?;
        let (public_share, leader, helper) =
            self.instance.shard(ctx, &values, nonce, rand).map_err(|e| e.to_string())?;
        let mut input_shares = vec![Vec::new(), Vec::new()];
        leader.encode_into(&mut input_shares[0]);
        helper.encode_into(&mut input_shares[1]);
        Ok((public_share.encode(), input_shares))
    }

    fn verify_init(
        &self,
        verify_key: &[u8; 32],
        ctx: &[u8],
        agg_id: u8,
        (nonce, public_share, input_share): (&[u8; 16], &[u8], &[u8]),
    ) -> Result<(Self::State, Vec<u8>), String> {
        let public_share = PublicShare::decode(public_share).ok_or("malformed public share")?;
        let share = match agg_id {
            0 => self.instance.decode_leader_share(input_share),
            _ => SeedShare::decode(input_share)
                .map(|share| self.instance.expand(ctx, agg_id, &share)),
        };
        let share = share.ok_or("malformed input share")?;
        let own = self.instance.parts(ctx, agg_id, nonce, &share);
        let (state, share) = self
            .instance
            .verify_init((verify_key, ctx, nonce), agg_id, &public_share, share, own)
            .map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        share.encode_into(&mut bytes);
        Ok((state, bytes))
    }

    fn verifier_shares_to_message(
        &self,
        ctx: &[u8],
        _state: &Self::State,
        shares: &[&[u8]],
    ) -> Result<Vec<u8>, String> {
        let &[leader, helper] = shares else { return Err("not two verifier shares".into()) };
        let decode = |bytes| self.instance.decode_verifier_share(bytes);
        let (Some(leader), Some(helper)) = (decode(leader), decode(helper)) else {
            return Err("malformed verifier share".into());
        };
        let message = self
            .instance
            .verifier_shares_to_message(ctx, [leader, helper])
            .map_err(|_| "the proof does not hold")?;
        let mut bytes = Vec::new();
        message.encode_into(&mut bytes);
        Ok(bytes)
    }

    fn verify_next(
        &self,
        _ctx: &[u8],
        state: &Self::State,
        message: &[u8],
    ) -> Result<Vec<u8>, String> {
        let message = Seeds::decode(message).ok_or("malformed verifier message")?;
        if state.seeds != message {
            return Err("joint randomness mismatch".into());
        }
        Ok(AggregateShare::from_elements(state.output.clone()).encode())
    }

    fn zero_share(&self) -> AggregateShare {
        AggregateShare::zero::<F>(self.instance.parameters().dimension)
    }

    fn decode_aggregate_share(&self, bytes: &[u8]) -> Result<AggregateShare, String> {
        AggregateShare::decode::<F>(bytes, self.instance.parameters().dimension)
            .map_err(|e| e.to_string())
    }

    fn unshard(&self, shares: &[AggregateShare], _count: usize) -> Result<AggregateResult, String> {
        let mut sum = self.zero_share();
        for share in shares {
            sum.merge(share).map_err(|e| e.to_string())?;
        }
        let elements =
            sum.elements::<F>(self.instance.parameters().dimension).map_err(|e| e.to_string())?;
        Ok(AggregateResult::Vector(elements.iter().map(|element| signed(*element)).collect()))
    }

    /// The files give fractions.
    fn expected_result(&self, value: &Value) -> Option<Vec<i128>> {
        let values = self.stated.fixed_point(value)?;
        Some(values.into_iter().map(i128::from).collect())
    }
}
