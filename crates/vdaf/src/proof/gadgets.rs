//! What a circuit calls in place of its gadget: one that records the inputs, for the prover, and
//! one that answers from the proof, for the verifier.

use std::any::Any;

use prio::flp::{FlpError, Gadget};

use crate::aggregate_share::wipe;
use crate::simd::Instructions;
use crate::vector_field::VectorField;

/// Records the inputs of all calls. They are a device's own values, so they are wiped on drop.
#[derive(Debug)]
pub(super) struct Recorder<F: VectorField> {
    pub(super) gadget: Box<dyn Gadget<F>>,
    /// The seeds, the inputs of each call, and zeros: one row per root of unity.
    pub(super) rows: Vec<F>,
    /// The gadget of each row.
    pub(super) values: Vec<F>,
    calls: usize,
}

impl<F: VectorField> Recorder<F> {
    pub(super) fn new(mut gadget: Box<dyn Gadget<F>>, seeds: &[F]) -> Result<Self, FlpError> {
        let points = (1 + gadget.calls()).next_power_of_two();
        let mut rows = vec![F::zero(); points * gadget.arity()];
        rows[..seeds.len()].copy_from_slice(seeds);
        // The gadgets of PINE are sums of products: of a row of zeros, they are zero.
        let mut values = vec![F::zero(); points];
        values[0] = gadget.eval(seeds)?;
        Ok(Self { gadget, rows, values, calls: 0 })
    }
}

impl<F: VectorField> Drop for Recorder<F> {
    fn drop(&mut self) {
        wipe(&mut self.rows);
        wipe(&mut self.values);
    }
}

impl<F: VectorField> Gadget<F> for Recorder<F> {
    fn eval(&mut self, inputs: &[F]) -> Result<F, FlpError> {
        self.calls += 1;
        let row = self.rows.chunks_exact_mut(self.gadget.arity()).nth(self.calls);
        let (Some(row), Some(value)) = (row, self.values.get_mut(self.calls)) else {
            return Err(FlpError::Gadget("too many calls".into()));
        };
        *value = self.gadget.eval(inputs)?;
        row.copy_from_slice(inputs);
        Ok(*value)
    }

    fn eval_poly(&self, _: &mut [F], _: &[Vec<F>]) -> Result<(), FlpError> {
        Err(FlpError::Gadget("only calls are recorded".into()))
    }

    fn arity(&self) -> usize {
        self.gadget.arity()
    }

    fn degree(&self) -> usize {
        self.gadget.degree()
    }

    fn calls(&self) -> usize {
        self.gadget.calls()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// Answers calls from a share of a proof, and evaluates the wire polynomials as it goes.
#[derive(Debug)]
pub(super) struct Evaluator<F: VectorField> {
    gadget: Box<dyn Gadget<F>>,
    instructions: Instructions,
    /// The gadget polynomial at twice as many roots as there are coefficients.
    values: Vec<F>,
    /// Those of Lagrange at the query point.
    coefficients: Vec<F>,
    /// Each wire polynomial at the query point, when all calls have been made.
    pub(super) wires: Vec<F>,
    calls: usize,
}

impl<F: VectorField> Evaluator<F> {
    pub(super) fn new(
        gadget: Box<dyn Gadget<F>>,
        instructions: Instructions,
        seeds: &[F],
        coefficients: Vec<F>,
        values: Vec<F>,
    ) -> Self {
        let mut wires = seeds.to_vec();
        F::scale(instructions, &mut wires, coefficients[0]);
        Self { gadget, instructions, values, coefficients, wires, calls: 0 }
    }
}

impl<F: VectorField> Gadget<F> for Evaluator<F> {
    fn eval(&mut self, inputs: &[F]) -> Result<F, FlpError> {
        self.calls += 1;
        let Some(coefficient) = self.coefficients.get(self.calls) else {
            return Err(FlpError::Gadget("too many calls".into()));
        };
        if inputs.len() != self.wires.len() {
            return Err(FlpError::Gadget("the wrong number of inputs".into()));
        }
        F::add_multiple(self.instructions, &mut self.wires, inputs, *coefficient);
        Ok(self.values[2 * self.calls])
    }

    fn eval_poly(&self, _: &mut [F], _: &[Vec<F>]) -> Result<(), FlpError> {
        Err(FlpError::Gadget("only calls are answered".into()))
    }

    fn arity(&self) -> usize {
        self.gadget.arity()
    }

    fn degree(&self) -> usize {
        self.gadget.degree()
    }

    fn calls(&self) -> usize {
        self.gadget.calls()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
