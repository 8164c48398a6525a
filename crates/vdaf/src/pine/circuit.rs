//! PINE's two validity circuits, as proof systems of `prio`.
//!
//! Both take a part of the encoded measurement. [`NormEquality`] says that the bits of the norm are
//! those of the vector's squared norm in the field, [`Checks`] that all bits are bits, that the norm
//! is in range, and that enough wraparound checks passed, so that the squared norm in the field is
//! the squared norm of the integers.

use std::marker::PhantomData;

use prio::flp::gadgets::{Mul, ParallelSum, ParallelSumGadget, PolyEval};
use prio::flp::{Flp, FlpError, Gadget};

use super::Parameters;
use crate::aggregate_share::ShareField;

/// Both gadgets are of degree two.
const DEGREE: usize = 2;

/// `v - sum of x_i^2`, over the vector and the bits of v. Uses no joint randomness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NormEquality<F> {
    parameters: Parameters,
    field: PhantomData<F>,
}

/// Everything else, over all bits and the results of the wraparound checks, which the aggregators
/// compute from their shares of the vector. Uses three random elements: to combine the bit checks,
/// the wraparound checks, and the four results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checks<F> {
    parameters: Parameters,
    field: PhantomData<F>,
}

impl<F> NormEquality<F> {
    pub(super) fn new(parameters: Parameters) -> Self {
        Self { parameters, field: PhantomData }
    }

    fn calls(&self) -> usize {
        self.parameters.dimension.div_ceil(self.parameters.chunk_length_norm_equality)
    }
}

impl<F> Checks<F> {
    pub(super) fn new(parameters: Parameters) -> Self {
        Self { parameters, field: PhantomData }
    }

    fn calls(&self) -> usize {
        self.parameters.main_calls(self.parameters.chunk_length)
    }

    /// Elements of a gadget call: factors in pairs.
    fn arity(&self) -> usize {
        2 * self.parameters.chunk_length
    }
}

impl<F: ShareField> Flp for NormEquality<F> {
    type Field = F;

    fn gadget(&self) -> Vec<Box<dyn Gadget<F>>> {
        let square = PolyEval::new(vec![F::zero(), F::zero(), F::one()], self.calls());
        let gadget = ParallelSum::new(square, self.parameters.chunk_length_norm_equality);
        vec![Box::new(gadget)]
    }

    fn num_gadgets(&self) -> usize {
        1
    }

    fn valid(
        &self,
        gadgets: &mut Vec<Box<dyn Gadget<F>>>,
        input: &[F],
        joint_rand: &[F],
        _num_shares: usize,
    ) -> Result<Vec<F>, FlpError> {
        self.valid_call_check(input, joint_rand)?;
        let (vector, bits) = input.split_at(self.parameters.dimension);
        let squares = sum_of_calls(gadgets, vector, self.parameters.chunk_length_norm_equality)?;
        Ok(vec![number(bits)? - squares])
    }

    fn input_len(&self) -> usize {
        self.parameters.dimension + self.parameters.norm_bits()
    }

    fn proof_len(&self) -> usize {
        proof_len(self.parameters.chunk_length_norm_equality, self.calls())
    }

    fn verifier_len(&self) -> usize {
        verifier_len(self.parameters.chunk_length_norm_equality)
    }

    fn joint_rand_len(&self) -> usize {
        0
    }

    fn eval_output_len(&self) -> usize {
        1
    }

    fn prove_rand_len(&self) -> usize {
        self.parameters.chunk_length_norm_equality
    }
}

impl<F: ShareField> Flp for Checks<F> {
    type Field = F;

    fn gadget(&self) -> Vec<Box<dyn Gadget<F>>> {
        let gadget = ParallelSum::new(Mul::new(self.calls()), self.parameters.chunk_length);
        vec![Box::new(gadget)]
    }

    fn num_gadgets(&self) -> usize {
        1
    }

    fn valid(
        &self,
        gadgets: &mut Vec<Box<dyn Gadget<F>>>,
        input: &[F],
        joint_rand: &[F],
        num_shares: usize,
    ) -> Result<Vec<F>, FlpError> {
        self.valid_call_check(input, joint_rand)?;
        let &[r_bits, r_checks, r_final] = joint_rand else {
            return Err(FlpError::Valid("three random elements are needed".into()));
        };
        let share = F::from_number(num_shares as u128).inv();
        let (bits, results) = input.split_at(self.parameters.bits_len());

        let mut power = F::one();
        let mut factors = Vec::with_capacity(2 * bits.len());
        for bit in bits {
            factors.extend([power * *bit, *bit - share]);
            power *= r_bits;
        }
        let bit_checks = sum_of_calls(gadgets, &factors, self.arity())?;

        let (norm, checks) = bits.split_at(2 * self.parameters.norm_bits());
        let (v, u) = norm.split_at(self.parameters.norm_bits());
        let range =
            number(v)? + number(u)? - F::from_number(self.parameters.squared_bound()) * share;

        let offset = F::from_number(self.parameters.wr_bound() - 1) * share;
        let mut passed = F::zero();
        let mut power = F::one();
        factors.clear();
        for (check, result) in checks.chunks(self.parameters.wr_bits() + 1).zip(results) {
            let (v, success) = check.split_at(self.parameters.wr_bits());
            let claimed = number(v)? - offset;
            factors.push(power * (*result - claimed));
            factors.extend_from_slice(success);
            passed = success.iter().fold(passed, |passed, success| passed + *success);
            power *= r_checks;
        }
        let wraparound = sum_of_calls(gadgets, &factors, self.arity())?;
        let count = passed - F::from_number(self.parameters.wr_successes as u128) * share;

        Ok(vec![bit_checks + r_final * (range + r_final * (wraparound + r_final * count))])
    }

    fn input_len(&self) -> usize {
        self.parameters.bits_len() + self.parameters.wr_checks
    }

    fn proof_len(&self) -> usize {
        proof_len(self.arity(), self.calls())
    }

    fn verifier_len(&self) -> usize {
        verifier_len(self.arity())
    }

    fn joint_rand_len(&self) -> usize {
        3
    }

    fn eval_output_len(&self) -> usize {
        1
    }

    fn prove_rand_len(&self) -> usize {
        self.arity()
    }
}

/// The wire seeds and the gadget polynomial.
fn proof_len(arity: usize, calls: usize) -> usize {
    arity + DEGREE * ((1 + calls).next_power_of_two() - 1) + 1
}

/// The circuit's output, each wire polynomial and the gadget polynomial at the query point.
fn verifier_len(arity: usize) -> usize {
    1 + arity + 1
}

/// Calls the only gadget on all inputs, `arity` at a time. The last call is padded with zeros.
fn sum_of_calls<F: ShareField>(
    gadgets: &mut [Box<dyn Gadget<F>>],
    inputs: &[F],
    arity: usize,
) -> Result<F, FlpError> {
    let gadget = gadgets.first_mut().ok_or_else(|| FlpError::Valid("no gadget".into()))?;
    let mut sum = F::zero();
    let chunks = inputs.chunks_exact(arity);
    let mut last = chunks.remainder().to_vec();
    for chunk in chunks {
        sum += gadget.eval(chunk)?;
    }
    if !last.is_empty() {
        last.resize(arity, F::zero());
        sum += gadget.eval(&last)?;
    }
    Ok(sum)
}

/// The number of which these are the bits, the lowest first; or a share of it.
fn number<F: ShareField>(bits: &[F]) -> Result<F, FlpError> {
    Ok(F::decode_bitvector(bits)?)
}
