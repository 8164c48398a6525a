//! The circuit of `Prio3HigherDegree`: x (x - 1) (x - 2) = 0, with a gadget of degree three, which
//! no VDAF of tasks has.

use prio::field::Field64;
use prio::flp::gadgets::PolyEval;
use prio::flp::{Flp, FlpError, Gadget, Type};

use crate::prio3::Circuit;
use crate::{AggregateResult, Measurement};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HigherDegree;

const DEGREE: usize = 3;
/// Length of a wire polynomial: one call and the seed, already a power of two.
const WIRE_LENGTH: usize = 2;

impl Flp for HigherDegree {
    type Field = Field64;

    fn gadget(&self) -> Vec<Box<dyn Gadget<Field64>>> {
        // x^3 - 3 x^2 + 2 x
        let coefficients = vec![0.into(), 2.into(), -Field64::from(3), 1.into()];
        vec![Box::new(PolyEval::new(coefficients, 1))]
    }

    fn num_gadgets(&self) -> usize {
        1
    }

    fn valid(
        &self,
        gadgets: &mut Vec<Box<dyn Gadget<Field64>>>,
        input: &[Field64],
        joint_rand: &[Field64],
        _num_shares: usize,
    ) -> Result<Vec<Field64>, FlpError> {
        self.valid_call_check(input, joint_rand)?;
        gadgets.iter_mut().map(|gadget| gadget.eval(input)).collect()
    }

    fn input_len(&self) -> usize {
        1
    }

    fn proof_len(&self) -> usize {
        1 + DEGREE * (WIRE_LENGTH - 1) + 1
    }

    fn verifier_len(&self) -> usize {
        3
    }

    fn joint_rand_len(&self) -> usize {
        0
    }

    fn eval_output_len(&self) -> usize {
        1
    }

    fn prove_rand_len(&self) -> usize {
        1
    }
}

impl Type for HigherDegree {
    type Measurement = u64;
    type AggregateResult = u64;

    fn encode_measurement(&self, measurement: &u64) -> Result<Vec<Field64>, FlpError> {
        Ok(vec![Field64::from(*measurement)])
    }

    fn truncate(&self, input: Vec<Field64>) -> Result<Vec<Field64>, FlpError> {
        self.truncate_call_check(&input)?;
        Ok(input)
    }

    fn decode_result(&self, data: &[Field64], _count: usize) -> Result<u64, FlpError> {
        match data {
            [element] => Ok(u64::from(*element)),
            _ => Err(FlpError::Decode("unexpected length".into())),
        }
    }

    fn output_len(&self) -> usize {
        1
    }
}

impl Circuit for HigherDegree {
    fn measurement(measurement: &Measurement) -> Option<u64> {
        match measurement {
            Measurement::Sum(value) => Some(*value),
            _ => None,
        }
    }

    fn result(result: u64, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Scalar(signed(result.into()))
    }
}
