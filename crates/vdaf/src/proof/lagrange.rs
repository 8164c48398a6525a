//! Polynomials given by their values at all n-th roots of unity, n a power of two.

use prio::field::NttFriendlyFieldElement;

/// The coefficients with which the values of a polynomial of degree below `n` add up to its value
/// at `point`. `None` if the field has no such roots.
///
/// The i-th is the product of (point - w^j) over all j but i, times w^i / n. There is no division,
/// so any point will do.
pub(super) fn coefficients<F: NttFriendlyFieldElement>(n: usize, point: F) -> Option<Vec<F>> {
    let root = root::<F>(n)?;
    let mut coefficients = Vec::with_capacity(n);
    let mut below = inverse::<F>(n);
    let mut power = F::one();
    for _ in 0..n {
        coefficients.push(below * power);
        below *= point - power;
        power *= root;
    }
    // The powers in reverse order: the last one is the inverse of the root.
    let back = root.inv();
    power = back;
    let mut above = F::one();
    for coefficient in coefficients.iter_mut().rev() {
        *coefficient *= above;
        above *= point - power;
        power *= back;
    }
    Some(coefficients)
}

/// The value at the last root of a polynomial of degree below n - 1, from all others. `None` if the
/// field has no such roots.
///
/// Its coefficient of x^(n-1) is zero, and that is the sum of all value_i w^i, divided by n.
pub(super) fn last_value<F: NttFriendlyFieldElement>(others: &[F]) -> Option<F> {
    let root = root::<F>(others.len() + 1)?;
    // Horner, from the last to the first.
    let sum = others.iter().rev().fold(F::zero(), |sum, value| sum * root + *value);
    // The last value times w^(n-1) = w^-1 makes the sum zero.
    Some(-(sum * root))
}

/// The n-th root of unity that VDAF uses.
pub(super) fn root<F: NttFriendlyFieldElement>(n: usize) -> Option<F> {
    n.is_power_of_two().then(|| F::root(n.ilog2() as usize)).flatten()
}

/// 1 / n, for a power of two.
pub(super) fn inverse<F: NttFriendlyFieldElement>(n: usize) -> F {
    (0..n.ilog2()).fold(F::one(), |product, _| product * F::half())
}
