//! Sums and products that are exact where possible and rounded up otherwise, so that a composition
//! of any length stays an upper bound and plain sums of epsilons stay exact.

/// `a + b` for numbers that are not negative.
pub(super) fn add_up(a: f64, b: f64) -> f64 {
    let sum = a + b;
    // Knuth's exact error of the sum.
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error > 0.0 { sum.next_up() } else { sum }
}

/// `a b` for numbers that are not negative.
pub(super) fn multiply_up(a: f64, b: f64) -> f64 {
    let product = a * b;
    // If the error itself may underflow, assume there is one.
    let tiny = product < 1e-290 && a > 0.0 && b > 0.0;
    if tiny || libm::fma(a, b, -product) > 0.0 { product.next_up() } else { product }
}

/// `a / b` for numbers above 0, rounded down: for a noise level.
pub(super) fn divide_down(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    if libm::fma(quotient, b, -a) > 0.0 { quotient.next_down() } else { quotient }
}

/// A count as a number.
pub(crate) fn count_up(n: u64) -> f64 {
    let near = n as f64;
    if (near as u64) < n { near.next_up() } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_results_stay_and_others_go_up() {
        assert_eq!(add_up(0.5, 0.25), 0.75);
        assert_eq!(add_up(1.0, 1e-30), 1.0f64.next_up());
        assert_eq!(add_up(1e-30, 1.0), 1.0f64.next_up());
        assert_eq!(add_up(f64::INFINITY, f64::INFINITY), f64::INFINITY);
        assert_eq!(multiply_up(3.0, 0.5), 1.5);
        let third = 1.0 / 3.0;
        assert!(multiply_up(third, third) >= third * third);
        assert!(multiply_up(f64::MIN_POSITIVE, 1e-10) > 0.0 && multiply_up(1e-300, 1e-300) > 0.0);
        assert_eq!(multiply_up(7.0, f64::INFINITY), f64::INFINITY);
        assert_eq!(divide_down(3.0, 2.0), 1.5);
        for b in [3.0, 7.0, 10.0, 49.0] {
            assert!(libm::fma(divide_down(1.0, b), b, -1.0) <= 0.0);
        }
        assert_eq!(count_up(1 << 60), (1u64 << 60) as f64);
        assert!(count_up((1 << 60) + 1) > (1u64 << 60) as f64);
        assert_eq!(count_up(u64::MAX), 18_446_744_073_709_551_616.0);
    }
}
