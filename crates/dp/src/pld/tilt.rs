//! Where to look: the tilt that moves the composed law to the wanted epsilon, from rough sketches
//! of the parts. Any tilt gives valid bounds; a good one gives tight bounds.

use std::f64::consts::PI;

use crate::math::search::crossing;
use crate::math::{exp, ln, sqrt};

/// The largest tilt that is tried.
pub(crate) const LARGEST: f64 = 1e7;

/// A rough sketch of a part: (loss, mass) points, and how often it is released.
pub(crate) type Sketch = (Vec<(f64, f64)>, f64);

/// About the same picture with at most `most` points; the two outermost ones stay.
pub(crate) fn thinned(mut sketch: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    sketch.retain(|(l, p)| l.is_finite() && *p > 0.0);
    sketch.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(&first), Some(&last)) = (sketch.first(), sketch.last()) else { return sketch };
    if sketch.len() <= most {
        return sketch;
    }
    let inner = &sketch[1..sketch.len() - 1];
    let mean = |run: &[(f64, f64)]| {
        let mass: f64 = run.iter().map(|point| point.1).sum();
        (run.iter().map(|(l, p)| l * p).sum::<f64>() / mass, mass)
    };
    let run = inner.len().div_ceil(most);
    let runs = inner.chunks(run).map(mean);
    std::iter::once(first).chain(runs).chain([last]).collect()
}

/// The saddle point for `delta`: the tilt at which the composed law, tilted, has its mean at the
/// epsilon whose delta, by Laplace's approximation, is the wanted one.
pub(crate) fn saddle(sketches: &[Sketch], delta: f64) -> f64 {
    let target = ln(delta);
    let excess = |ln_tilt: f64| {
        let tilt = exp(ln_tilt);
        let (mut exponent, mut variance) = (0.0, 0.0);
        for (sketch, times) in sketches {
            let (cumulant, mean, spread) = moments(sketch, tilt);
            exponent += times * (cumulant - tilt * mean);
            variance += times * spread;
        }
        let width = tilt * (1.0 + tilt) * sqrt(2.0 * PI * variance);
        exponent - ln(width.max(1.0)) - target
    };
    let (low, high) = (ln(1e-3), ln(LARGEST));
    let (at_low, at_high) = (excess(low), excess(high));
    if at_low <= 0.0 {
        return exp(low);
    }
    if at_high > 0.0 {
        return LARGEST;
    }
    exp(crossing(excess, (low, at_low), (high, at_high), 0.0, 0.02).high)
}

/// The variance of the composed loss, tilted.
pub(crate) fn variance(sketches: &[Sketch], tilt: f64) -> f64 {
    sketches.iter().map(|(sketch, times)| times * moments(sketch, tilt).2).sum()
}

/// The logarithm of the moment generating function, and mean and variance of the tilted law.
fn moments(sketch: &[(f64, f64)], tilt: f64) -> (f64, f64, f64) {
    let weight = |l: f64, p: f64| {
        if p > 0.0 && l.is_finite() { ln(p) + tilt * l } else { f64::NEG_INFINITY }
    };
    let top = sketch.iter().map(|&(l, p)| weight(l, p)).fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return (0.0, 0.0, 0.0);
    }
    let (mut sum, mut first) = (0.0, 0.0);
    let mut weights = Vec::with_capacity(sketch.len());
    for &(l, p) in sketch {
        let w = exp(weight(l, p) - top);
        weights.push(w);
        if w > 0.0 {
            sum += w;
            first += w * l;
        }
    }
    let mean = first / sum;
    let mut second = 0.0;
    for (&(l, _), w) in sketch.iter().zip(&weights) {
        if *w > 0.0 {
            second += w * (l - mean) * (l - mean);
        }
    }
    (top + ln(sum), mean, second / sum)
}

/// The losses that the lattice must hold: above them lies at most `outside` of the mass, and what
/// lies below has almost no weight once tilted, even if it were moved up to the lower end.
pub(crate) fn range(sketch: &[(f64, f64)], outside: f64, tilt: f64) -> (f64, f64) {
    let mut sorted: Vec<_> = sketch.iter().filter(|(l, p)| l.is_finite() && *p > 0.0).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut high = sorted.last().map_or(0.0, |last| last.0);
    let mut sum = 0.0;
    for &&(l, p) in sorted.iter().rev() {
        sum += p;
        if sum > outside {
            break;
        }
        high = l;
    }
    let ln_total = moments(sketch, tilt).0;
    let mut low = sorted.first().map_or(0.0, |first| first.0);
    let mut sum = 0.0;
    for &&(l, p) in &sorted {
        sum += p;
        if ln(sum) + tilt * l > ln_total + ln(outside) {
            break;
        }
        low = l;
    }
    (low.min(high), high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_leaves_little_outside() {
        let sketch: Vec<_> = (0..100).map(|i| (f64::from(i), 0.01)).collect();
        let (low, high) = range(&sketch, 0.035, 1e-3);
        assert!((2.0..=3.0).contains(&low), "{low}");
        assert!((96.0..=97.0).contains(&high), "{high}");
    }
}
