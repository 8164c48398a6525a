//! Softmax regression: a score per class, linear in the features.

use rand_core::CryptoRng;

use super::classes::cross_entropy;
use super::{Labelled, Model};
use crate::Error;
use crate::error::in_range;
use crate::math::{add_scaled, argmax, dot};

/// Softmax regression. There is no separate constant: give each example a constant feature.
///
/// The weights of a class are side by side, one per feature. All are zero at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Softmax {
    features: usize,
    classes: usize,
}

impl Softmax {
    /// For examples with so many features, of so many classes.
    pub fn new(features: usize, classes: usize) -> Result<Self, Error> {
        in_range("features", features as f64, features >= 1, "at least 1")?;
        in_range("classes", classes as f64, classes >= 2, "at least 2")?;
        Ok(Self { features, classes })
    }

    /// The class that the model takes these features for.
    pub fn predict(&self, weights: &[f64], features: &[f32]) -> usize {
        argmax(&self.scores(weights, features))
    }

    fn scores(&self, weights: &[f64], features: &[f32]) -> Vec<f64> {
        weights.chunks_exact(self.features).map(|class| dot(class, features)).collect()
    }
}

impl Model for Softmax {
    type Example = Labelled;

    fn dimension(&self) -> usize {
        self.features * self.classes
    }

    fn initial(&self, _rng: &mut dyn CryptoRng) -> Vec<f64> {
        vec![0.0; self.dimension()]
    }

    fn loss(&self, weights: &[f64], example: &Labelled) -> f64 {
        cross_entropy(&mut self.scores(weights, &example.features), example.label)
    }

    fn gradient(&self, weights: &[f64], example: &Labelled, sum: &mut [f64]) {
        let mut scores = self.scores(weights, &example.features);
        cross_entropy(&mut scores, example.label);
        for (class, derivative) in sum.chunks_exact_mut(self.features).zip(scores) {
            add_scaled(class, derivative, &example.features);
        }
    }

    fn is_right(&self, weights: &[f64], example: &Labelled) -> bool {
        self.predict(weights, &example.features) == example.label
    }
}
