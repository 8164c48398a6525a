//! Estimates that could be true: not negative, and with the sum that they must have.
//!
//! Unbiased estimates are often neither: where nobody is, half of them are negative. The consistent
//! estimates are the point nearest to them, by the sum of squares, that satisfies the constraints.
//! No single truth is further from that point than from the unbiased one; but it is biased, mostly
//! upwards where the truth is small, so that sums and averages of it mean little.

/// The nearest point whose coordinates are not negative and add up to `total`.
///
/// It is `max(0, v - t)` for the one `t` at which the sum is right: found from the largest value
/// down, as long as the values used stay above their `t` (Held, Wolfe, Crowder 1974). A total of
/// zero or less gives zeros.
pub fn onto_simplex(values: &[f64], total: f64) -> Vec<f64> {
    let mut descending = values.to_vec();
    descending.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut excess) = (0.0, f64::INFINITY);
    for (used, value) in (1_u32..).zip(&descending) {
        let next = (sum + value - total) / f64::from(used);
        if next >= *value {
            break;
        }
        (sum, excess) = (sum + value, next);
    }
    values.iter().map(|value| (value - excess).max(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::*;

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
    }

    #[test]
    fn negative_estimates_are_paid_for_by_the_others() {
        assert_eq!(onto_simplex(&[60.0, 50.0, -10.0], 100.0), [55.0, 45.0, 0.0]);
        assert_eq!(onto_simplex(&[70.0, 30.0], 100.0), [70.0, 30.0], "consistent already");
        assert_eq!(onto_simplex(&[-1.0, -5.0], 10.0), [7.0, 3.0]);
        assert_eq!(onto_simplex(&[3.0, 4.0], 0.0), [0.0, 0.0]);
        assert_eq!(onto_simplex(&[], 10.0), [0.0; 0]);
    }

    /// A projection onto a convex set is the point `p` with `<v - p, x - p> <= 0` for all `x` in the
    /// set; it is enough to look at the corners.
    #[test]
    fn nothing_consistent_is_nearer() {
        let mut rng = ChaCha20Rng::seed_from_u64(18);
        let mut number = || f64::from(rng.next_u32() % 2_000) - 700.0;
        for length in 1..40_usize {
            let values: Vec<f64> = (0..length).map(|_| number()).collect();
            let total = number().abs() + 1.0;
            let nearest = onto_simplex(&values, total);
            assert!((nearest.iter().sum::<f64>() - total).abs() < 1e-9 * total, "{values:?}");
            assert!(nearest.iter().all(|value| *value >= 0.0), "{nearest:?}");
            let step: f64 = values.iter().zip(&nearest).map(|(v, p)| (v - p) * p).sum();
            for (value, own) in values.iter().zip(&nearest) {
                assert!(total * (value - own) - step <= 1e-6 * total * 2_000.0, "{values:?}");
            }
            let even = vec![total / length as f64; length];
            assert!(distance(&values, &nearest) <= distance(&values, &even) + 1e-6);
        }
    }
}
