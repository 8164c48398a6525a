//! Number-theoretic transforms of many polynomials at once.
//!
//! The values of all of them at one root of unity are a row. A step of a transform takes two rows
//! and one power of a root, so it is an operation on whole vectors. The inverse transform takes the
//! rows in their order and leaves them in bit-reversed order, in which the forward transform takes
//! them: nothing is ever moved.

use prio::field::NttFriendlyFieldElement;

use super::lagrange::{inverse, root};
use crate::simd::Instructions;
use crate::vector_field::VectorField;

/// From the values of polynomials of degree below p at all p-th roots of unity (the even ones of
/// the 2 p-th) to those at the odd 2 p-th roots. `None` if the field has no such roots.
pub(super) fn to_odd_roots<F: VectorField>(
    instructions: Instructions,
    rows: &mut [F],
    width: usize,
) -> Option<()> {
    let points = rows.len() / width;
    let shift = root::<F>(2 * points)?;
    to_coefficients(instructions, rows, width)?;
    // The coefficients of f(shift x).
    let powers = powers(shift, points);
    for (index, row) in rows.chunks_exact_mut(width).enumerate() {
        let degree = reversed(index, points);
        F::scale(instructions, row, inverse::<F>(points) * powers[degree]);
    }
    to_values(instructions, rows, width)
}

/// From values to coefficients in bit-reversed order, each `points` times too large.
fn to_coefficients<F: VectorField>(
    instructions: Instructions,
    rows: &mut [F],
    width: usize,
) -> Option<()> {
    let mut points = rows.len() / width;
    while points > 1 {
        let powers = powers(root::<F>(points)?.inv(), points / 2);
        for block in rows.chunks_exact_mut(points * width) {
            for_pairs(block, width, &powers, |a, b, power| {
                F::mix_and_scale(instructions, a, b, power);
            });
        }
        points /= 2;
    }
    Some(())
}

/// From coefficients in bit-reversed order to values.
fn to_values<F: VectorField>(
    instructions: Instructions,
    rows: &mut [F],
    width: usize,
) -> Option<()> {
    let mut points = 2;
    while points * width <= rows.len() {
        let powers = powers(root::<F>(points)?, points / 2);
        for block in rows.chunks_exact_mut(points * width) {
            for_pairs(block, width, &powers, |a, b, power| {
                F::scale_and_mix(instructions, a, b, power);
            });
        }
        points *= 2;
    }
    Some(())
}

/// Takes the rows of the first half of a block, each with its partner in the second half.
fn for_pairs<F: VectorField>(
    block: &mut [F],
    width: usize,
    powers: &[F],
    mut step: impl FnMut(&mut [F], &mut [F], F),
) {
    let (first, second) = block.split_at_mut(block.len() / 2);
    let pairs = first.chunks_exact_mut(width).zip(second.chunks_exact_mut(width));
    for ((a, b), power) in pairs.zip(powers) {
        step(a, b, *power);
    }
}

fn powers<F: NttFriendlyFieldElement>(base: F, count: usize) -> Vec<F> {
    std::iter::successors(Some(F::one()), |power| Some(*power * base)).take(count).collect()
}

/// The index with its bits, as many as `points` has below the highest one, in reverse order.
fn reversed(index: usize, points: usize) -> usize {
    match points.ilog2() {
        0 => 0,
        bits => index.reverse_bits() >> (usize::BITS - bits),
    }
}
