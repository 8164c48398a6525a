//! Fully linear proofs of circuits with one gadget of degree two, with the same bytes as `prio`'s.
//!
//! VDAF-18, section 7.3. A gadget with m inputs (*wires*) is called k times. With p the power of two
//! above k, wire j is the polynomial of degree below p whose values at the p-th roots of unity are a
//! seed, then the j-th inputs of all calls, then zeros. A proof is the m seeds and the values of the
//! gadget of these polynomials at all but the last of the 2 p-th roots of unity.
//!
//! What differs from `prio` is the order of the work. The inputs of a call are a *row*: the
//! transform of all wires at once adds and scales rows, and so does their evaluation at one point.
//! The value at the last root follows from the others by one sum, where `prio` interpolates in
//! O(p^2).
//!
//! No branch and no index depends on an element, except that query randomness may be refused.

mod gadgets;
mod lagrange;
#[cfg(test)]
mod tests;
mod transform;

use prio::field::{FieldElement, FieldElementWithInteger};
use prio::flp::{Flp, FlpError, Gadget};

use self::gadgets::{Evaluator, Recorder};
use crate::simd::Instructions;
use crate::vector_field::VectorField;

/// The proof that `input` is valid, as [`Flp::prove`] returns it.
pub(crate) fn prove<C: Flp<Field: VectorField>>(
    circuit: &C,
    instructions: Instructions,
    input: &[C::Field],
    prove_rand: &[C::Field],
    joint_rand: &[C::Field],
) -> Result<Vec<C::Field>, FlpError> {
    let gadget = only_gadget(circuit)?;
    let arity = gadget.arity();
    if prove_rand.len() != arity {
        return Err(FlpError::Prove("a seed for each wire is needed".into()));
    }
    let mut gadgets: Vec<BoxedGadget<_>> = vec![Box::new(Recorder::new(gadget, prove_rand)?)];
    circuit.valid(&mut gadgets, input, joint_rand, 1)?;
    let recorder: &mut Recorder<C::Field> = the_only(&mut gadgets)?;

    // At the even roots the wires have their values, at the odd ones those of the transform.
    transform::to_odd_roots(instructions, &mut recorder.rows, arity)
        .ok_or_else(|| FlpError::Prove("too many gadget calls".into()))?;
    let mut proof = Vec::with_capacity(arity + 2 * recorder.values.len());
    proof.extend_from_slice(prove_rand);
    for (value, row) in recorder.values.iter().zip(recorder.rows.chunks_exact(arity)) {
        proof.extend([*value, recorder.gadget.eval(row)?]);
    }
    proof.pop();
    Ok(proof)
}

/// The verifier share, as [`Flp::query`] returns it.
pub(crate) fn query<C: Flp<Field: VectorField>>(
    circuit: &C,
    instructions: Instructions,
    input: &[C::Field],
    proof: &[C::Field],
    query_rand: &[C::Field],
    joint_rand: &[C::Field],
    num_shares: usize,
) -> Result<Vec<C::Field>, FlpError> {
    let wrong = |what: &str| FlpError::Query(what.to_owned());
    let gadget = only_gadget(circuit)?;
    let points = (1 + gadget.calls()).next_power_of_two();
    let &[point] = query_rand else {
        return Err(wrong("one random element is needed"));
    };
    if proof.len() != gadget.arity() + 2 * points - 1 {
        return Err(wrong("a proof of the wrong length"));
    }
    // At a root the verifier share would show a value of the input.
    if point.pow(integer::<C::Field>(points)?) == C::Field::one() {
        return Err(wrong("the random element is a root of unity"));
    }
    let (seeds, values) = proof.split_at(gadget.arity());
    let too_many = || wrong("too many gadget calls");
    let mut values = values.to_vec();
    values.push(lagrange::last_value(&values).ok_or_else(too_many)?);
    let at_point = lagrange::coefficients(2 * points, point)
        .ok_or_else(too_many)?
        .into_iter()
        .zip(&values)
        .fold(C::Field::zero(), |sum, (coefficient, value)| sum + coefficient * *value);

    let coefficients = lagrange::coefficients(points, point).ok_or_else(too_many)?;
    let evaluator = Evaluator::new(gadget, instructions, seeds, coefficients, values);
    let mut gadgets: Vec<BoxedGadget<_>> = vec![Box::new(evaluator)];
    let output = circuit.valid(&mut gadgets, input, joint_rand, num_shares)?;
    let evaluator: &mut Evaluator<C::Field> = the_only(&mut gadgets)?;
    Ok([&output, evaluator.wires.as_slice(), &[at_point]].concat())
}

type BoxedGadget<F> = Box<dyn Gadget<F>>;

fn only_gadget<C: Flp>(circuit: &C) -> Result<BoxedGadget<C::Field>, FlpError> {
    let wrong = || FlpError::Gadget("not one gadget of degree two and one output".into());
    let gadgets = <[_; 1]>::try_from(circuit.gadget());
    let [gadget] = gadgets.map_err(|_| wrong())?;
    let fits = gadget.degree() == 2 && gadget.arity() > 0 && circuit.eval_output_len() == 1;
    if fits { Ok(gadget) } else { Err(wrong()) }
}

fn the_only<G: 'static, F: VectorField>(
    gadgets: &mut [BoxedGadget<F>],
) -> Result<&mut G, FlpError> {
    let gadget = gadgets.first_mut().and_then(|gadget| gadget.as_any().downcast_mut());
    gadget.ok_or_else(|| FlpError::Valid("the circuit replaced its gadget".into()))
}

fn integer<F: FieldElementWithInteger>(number: usize) -> Result<F::Integer, FlpError> {
    F::Integer::try_from(number).map_err(|_| FlpError::Gadget("too many gadget calls".into()))
}
