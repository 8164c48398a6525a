//! Polynomials given by their values at roots of unity.

use prio::flp::FlpError;

use crate::aggregate_share::ShareField;

/// The coefficients c_k for which f(point) = sum of c_k f(w^k), for every polynomial f of less than
/// `n` coefficients, where w is the principal `n`-th root of unity and `n` a power of two. An error
/// if the point is such a root.
pub(super) fn basis<F: ShareField>(point: F, n: usize) -> Result<Vec<F>, FlpError> {
    // c_k = (point^n - 1) / n x w^k / (point - w^k).
    let root = root::<F>(n)?;
    let powers = || std::iter::successors(Some(F::one()), |power| Some(*power * root)).take(n);
    // All inverses from one: each is the product of those before, times the inverse of those up to
    // here.
    let mut products = Vec::with_capacity(n);
    let mut product = F::one();
    for power in powers() {
        products.push(product);
        product *= point - power;
    }
    if product == F::zero() {
        return Err(FlpError::Query("the query point is a root of unity".into()));
    }
    // The product over all k of point - w^k is point^n - 1.
    let factor = product * F::from_number(n as u128).inv();
    let mut inverse = product.inv();
    let mut power = root.inv();
    let back = root.inv();
    for before in products.iter_mut().rev() {
        let difference = point - power;
        *before = factor * power * inverse * *before;
        inverse *= difference;
        power *= back;
    }
    Ok(products)
}

/// The value at `point` of the polynomial of at most `values.len()` coefficients, one less than a
/// power of two, with these values at the first roots of unity of that order.
pub(super) fn evaluate<F: ShareField>(values: &[F], point: F) -> Result<F, FlpError> {
    let n = values.len() + 1;
    let (root, coefficients) = (root::<F>(n)?, basis(point, n)?);
    let (mut sum, mut weighted, mut power) = (F::zero(), F::zero(), F::one());
    for (value, coefficient) in values.iter().zip(&coefficients) {
        sum += *value * *coefficient;
        weighted += *value * power;
        power *= root;
    }
    // The highest of n coefficients is zero: sum over all n roots of f(w^k) w^k = 0. The last power
    // is the inverse of the root, so the last value is this.
    let last = F::zero() - root * weighted;
    Ok(coefficients.last().map_or(sum, |coefficient| sum + last * *coefficient))
}

fn root<F: ShareField>(n: usize) -> Result<F, FlpError> {
    let log = n.checked_ilog2().filter(|_| n.is_power_of_two());
    log.and_then(|log| F::root(log as usize))
        .ok_or_else(|| FlpError::Query("no root of unity of this order".into()))
}

#[cfg(test)]
mod tests {
    use prio::field::{Field64, Field128};

    use super::*;

    /// f = 3 + 5 x + 7 x^2, and higher terms as far as there are values.
    fn check<F: ShareField>(n: usize) {
        let at = |x: F, terms: usize| {
            (0..terms).rev().fold(F::zero(), |sum, k| sum * x + F::from_number(3 + 2 * k as u128))
        };
        let root = root::<F>(n).unwrap();
        let nodes = || std::iter::successors(Some(F::one()), |power| Some(*power * root)).take(n);
        let point = F::from_number(1_234_567);
        let full = nodes().map(|node| at(node, n)).zip(basis(point, n).unwrap());
        let value = full.fold(F::zero(), |sum, (value, factor)| sum + value * factor);
        assert_eq!(value, at(point, n));
        let values: Vec<F> = nodes().map(|node| at(node, n - 1)).take(n - 1).collect();
        assert_eq!(evaluate(&values, point).unwrap(), at(point, n - 1));
        for node in nodes() {
            assert!(basis(node, n).is_err());
        }
    }

    #[test]
    fn polynomials_are_evaluated_in_both_fields() {
        for n in [2, 4, 8, 64, 512] {
            check::<Field64>(n);
            check::<Field128>(n);
        }
        assert!(basis(Field64::from(5), 3).is_err());
    }
}
