//! Measurements as field elements: the vector, the bits of its norm, and the bits of the results of
//! the wraparound checks.

use super::Parameters;
use crate::aggregate_share::ShareField;

/// The first part of an encoded measurement: the vector, and its squared norm v and the rest up to
/// the squared bound in bits. `None` if the norm is above the bound.
pub(super) fn encode_vector<F: ShareField>(
    parameters: &Parameters,
    values: &[i64],
) -> Option<Vec<F>> {
    let norm = squared_norm(values)?;
    let rest = parameters.squared_bound().checked_sub(norm)?;
    // All that is ever appended fits: a buffer that grows would leave copies behind.
    let mut encoded = Vec::with_capacity(parameters.encoded_len());
    encoded.extend(values.iter().map(|value| signed::<F>(*value)));
    push_bits(&mut encoded, norm, parameters.norm_bits());
    push_bits(&mut encoded, rest, parameters.norm_bits());
    Some(encoded)
}

/// Appends the bits of each check's result, and whether it counts as passed. `None` if fewer pass
/// than have to: then the client starts again with fresh randomness.
pub(super) fn push_checks<F: ShareField>(
    parameters: &Parameters,
    encoded: &mut Vec<F>,
    results: &[F],
) -> Option<()> {
    let bound = parameters.wr_bound();
    let mut missing = parameters.wr_successes;
    for result in results {
        let moved = (*result + F::from_number(bound - 1)).to_number();
        let in_range = moved < 2 * bound;
        let counts = in_range && missing > 0;
        missing -= usize::from(counts);
        // The bits of a check that does not count are not compared with anything.
        push_bits(encoded, if in_range { moved } else { 0 }, parameters.wr_bits());
        push_bits(encoded, counts.into(), 1);
    }
    (missing == 0).then_some(())
}

/// The square of the L2 norm; `None` if it needs more than 128 bits.
pub(crate) fn squared_norm(values: &[i64]) -> Option<u128> {
    values.iter().try_fold(0u128, |sum, value| {
        let value = u128::from(value.unsigned_abs());
        sum.checked_add(value * value)
    })
}

pub(super) fn push_bits<F: ShareField>(encoded: &mut Vec<F>, number: u128, bits: usize) {
    encoded.extend((0..bits).map(|bit| F::from_number(number >> bit & 1)));
}

pub(super) fn signed<F: ShareField>(value: i64) -> F {
    let magnitude = F::from_number(value.unsigned_abs().into());
    if value < 0 { F::zero() - magnitude } else { magnitude }
}
