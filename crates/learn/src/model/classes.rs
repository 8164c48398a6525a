//! The loss of models that classify: the cross entropy of the softmax.

use crate::math::{exp, ln};

/// The loss, and the derivatives by the scores in their place.
pub(super) fn cross_entropy(scores: &mut [f64], label: usize) -> f64 {
    let largest = scores.iter().fold(f64::NEG_INFINITY, |most, score| most.max(*score));
    let of_label = scores.get(label).map_or(f64::NEG_INFINITY, |score| score - largest);
    let mut total = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - largest);
        total += *score;
    }
    for (class, score) in scores.iter_mut().enumerate() {
        let probability = *score / total;
        *score = if class == label { probability - 1.0 } else { probability };
    }
    ln(total) - of_label
}
