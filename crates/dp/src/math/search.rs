//! Searches that report on which side of the root they ended.

/// The two ends of an interval that still holds the root: `f(low) > 0 >= f(high)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crossing {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Narrows `low..high`, where the decreasing `f` has `f(low) > 0 >= f(high)` (not checked), until
/// the ends are within `relative * |high| + absolute` of each other. Uses the Illinois method, with
/// a bisection whenever that is slow. The ends keep their signs, so each is certainly on its own
/// side of the root.
pub(crate) fn crossing(
    mut f: impl FnMut(f64) -> f64,
    low: (f64, f64),
    high: (f64, f64),
    relative: f64,
    absolute: f64,
) -> Crossing {
    let ((mut a, mut fa), (mut b, mut fb)) = (low, high);
    let mut last_side = 0i8;
    let mut widths = [f64::INFINITY; 3];
    for round in 0..200 {
        let width = b - a;
        // Three steps that did not halve the interval: halve it.
        let slow = round >= 3 && width > 0.5 * widths[round % 3];
        widths[round % 3] = width;
        if width <= relative * b.abs() + absolute {
            break;
        }
        let mut x = if fa.is_finite() && fb.is_finite() && fa > fb {
            a + width * (fa / (fa - fb))
        } else {
            a + 0.5 * width
        };
        // A step aims slightly past the root so that both ends move.
        let margin = 0.25 * (relative * b.abs() + absolute);
        if slow || !(x > a && x < b) {
            x = a + 0.5 * width;
        } else if x - a < margin {
            x = a + margin;
        } else if b - x < margin {
            x = b - margin;
        }
        if !(x > a && x < b) {
            break;
        }
        let fx = f(x);
        // NaN is not known to be safe.
        if fx > 0.0 || fx.is_nan() {
            if last_side == 1 {
                fb *= 0.5;
            }
            (a, fa, last_side) = (x, fx, 1);
        } else {
            if last_side == -1 {
                fa *= 0.5;
            }
            (b, fb, last_side) = (x, fx, -1);
        }
    }
    Crossing { low: a, high: b }
}

/// The last number for which `holds`, given that it holds up to there, at `low` and not at `high`.
pub(crate) fn last_where(mut low: u64, mut high: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_stay_on_their_sides() {
        for root in [1e-6, 0.3, 1.0, 17.0] {
            let mut calls = 0;
            let f = |x: f64| {
                calls += 1;
                libm::expm1(root - x)
            };
            let found = crossing(f, (0.0, 1.0), (100.0, -1.0), 1e-12, 1e-15);
            assert!(found.low < root && root <= found.high * (1.0 + 1e-15), "{root} {found:?}");
            assert!(found.high - found.low <= 1e-12 * found.high + 1e-15);
            assert!(calls < 70, "{calls} calls");
        }
    }
}
