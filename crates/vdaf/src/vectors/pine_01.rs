//! The published files of PINE-01, which is framed by VDAF-11: hashes without the application
//! context, seeds of 16 bytes, proofs as coefficients. So shares and proofs are other bytes than
//! ours. What is compared is what the framing does not change: parameters, by the lengths of all
//! objects; encodings of vectors, by the sums of output shares; aggregate shares; results; and that
//! each measurement is accepted, by our own run.

use prio::field::{Field64, Field128};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::file::Hex;
use super::pine::Stated;
use super::run::first_difference;
use super::{VectorFailure, VectorReport, stem};
use crate::aggregate_share::{ShareField, decode_elements};
use crate::pine::{Instance, Parameters, PineField, RAND_LEN, signed};

const PARTIAL: &str = "lengths, encodings, sums and results only: the framing is that of VDAF-11";

/// Bytes of a seed there.
const SEED: usize = 16;
/// The randomness and context of our own runs: any will do.
const RAND: [u8; RAND_LEN] = [1; RAND_LEN];
const KEY: [u8; 32] = [2; 32];

#[derive(Deserialize)]
pub(super) struct OldFile {
    shares: u8,
    prep: Vec<OldReport>,
    /// By aggregator.
    agg_shares: Vec<Hex>,
    agg_result: Value,
    #[serde(flatten)]
    parameters: Map<String, Value>,
}

#[derive(Deserialize)]
struct OldReport {
    measurement: Value,
    input_shares: Vec<Hex>,
    prep_shares: Vec<Vec<Hex>>,
    /// By aggregator, then by element.
    out_shares: Vec<Vec<Hex>>,
}

impl OldFile {
    pub(super) fn check(self, file_name: &str) -> Result<VectorReport, VectorFailure> {
        let vdaf = stem(file_name).unwrap_or_default().to_owned();
        if !vdaf.starts_with("Pine") {
            return Err(VectorFailure::UnknownVdaf(Some(vdaf)));
        }
        // Pine32..., Pine40..., and those with HMAC-SHA256 and AES-128.
        let (Ok(stated), true) =
            (Stated::read(&vdaf, &self.parameters), ["Pine64", "Pine128"].contains(&vdaf.as_str()))
        else {
            return Err(VectorFailure::NotImplemented { vdaf });
        };
        if self.prep.is_empty() {
            return Err(VectorFailure::NoOperations);
        }
        let (field, parameters) = stated.checked(&vdaf)?;
        let compared = match field {
            PineField::Field64 => self.compare::<Field64>(&stated, parameters),
            PineField::Field128 => self.compare::<Field128>(&stated, parameters),
        };
        let succeeded = compared.map_err(|(operation, difference)| VectorFailure::Difference {
            operation,
            difference: difference.to_owned(),
        })?;
        Ok(VectorReport {
            vdaf,
            shares: self.shares,
            reports: self.prep.len(),
            succeeded,
            failed: 0,
            partial: Some(PARTIAL),
        })
    }

    /// The number of comparisons, or the first that fails.
    fn compare<F: ShareField>(
        &self,
        stated: &Stated,
        parameters: Parameters,
    ) -> Result<usize, (String, &'static str)> {
        let instance = Instance::<F>::new(0xFFFF_FFFF, parameters);
        let mut sums = vec![vec![F::zero(); parameters.dimension]; 2];
        for (index, report) in self.prep.iter().enumerate() {
            let checked = report.compare(stated, &instance, &mut sums);
            checked.map_err(|difference| (format!("report {index}"), difference))?;
        }
        let unsharded = || -> Option<Vec<i128>> {
            let agg_shares: Option<Vec<Vec<F>>> =
                self.agg_shares.iter().map(|share| decode_elements(&share.0)).collect();
            if agg_shares? != sums {
                return None;
            }
            let [leader, helper] = &sums[..] else { return None };
            Some(leader.iter().zip(helper).map(|(a, b)| signed(*a + *b)).collect())
        };
        let aggregate = |difference| ("aggregation".to_owned(), difference);
        let actual = unsharded().ok_or_else(|| aggregate("other aggregate shares"))?;
        let expected = stated
            .fixed_point(&self.agg_result)
            .ok_or_else(|| aggregate("agg_result is not made of numbers"))?;
        let expected: Vec<_> = expected.into_iter().map(i128::from).collect();
        if first_difference(&expected, &actual).is_some() {
            return Err(aggregate("another aggregate result"));
        }
        Ok(4 * self.prep.len() + 2)
    }
}

impl OldReport {
    fn compare<F: ShareField>(
        &self,
        stated: &Stated,
        instance: &Instance<F>,
        sums: &mut [Vec<F>],
    ) -> Result<(), &'static str> {
        let [leader, helper] = &self.input_shares[..] else { return Err("not two input shares") };
        let elements = instance.parameters().encoded_len() + instance.proofs_len();
        let lengths = [leader.0.len(), helper.0.len()];
        if lengths != [elements * F::ENCODED_SIZE + 2 * SEED, 4 * SEED] {
            return Err("input shares of another length");
        }
        let prep_share = instance.verifiers_len() * F::ENCODED_SIZE + 2 * SEED;
        if self.prep_shares.iter().flatten().any(|share| share.0.len() != prep_share) {
            return Err("prep shares of another length");
        }

        let values = stated.fixed_point(&self.measurement).ok_or("not a vector of numbers")?;
        let mut output = vec![F::zero(); values.len()];
        for (sum, share) in sums.iter_mut().zip(&self.out_shares) {
            let share: Option<Vec<F>> =
                share.iter().map(|element| F::try_from(element.0.as_slice()).ok()).collect();
            let share = share.filter(|share| share.len() == values.len());
            let share = share.ok_or("malformed output share")?;
            for (at, element) in share.into_iter().enumerate() {
                output[at] += element;
                sum[at] += element;
            }
        }
        if !output.into_iter().map(signed).eq(values.iter().map(|value| i128::from(*value))) {
            return Err("the output shares do not add up to the encoded measurement");
        }
        if accepted(instance, &values) { Ok(()) } else { Err("rejected by our own run") }
    }
}

/// Whether both aggregators accept the vector, in our framing.
fn accepted<F: ShareField>(instance: &Instance<F>, values: &[i64]) -> bool {
    let (ctx, nonce) = (b"", &[0; 16]);
    let Ok((public_share, leader, helper)) = instance.shard(ctx, values, nonce, &RAND) else {
        return false;
    };
    let verify = |agg_id, share| {
        let own = instance.parts(ctx, agg_id, nonce, &share);
        instance.verify_init((&KEY, ctx, nonce), agg_id, &public_share, share, own).ok()
    };
    let (Some((leader, leader_share)), Some((helper, helper_share))) =
        (verify(0, leader), verify(1, instance.expand(ctx, 1, &helper)))
    else {
        return false;
    };
    let message = instance.verifier_shares_to_message(ctx, [leader_share, helper_share]);
    message.is_ok_and(|message| leader.seeds == message && helper.seeds == message)
}
