//! A network with one hidden layer of tanh.

use rand_core::CryptoRng;

use super::classes::cross_entropy;
use super::{Labelled, Model};
use crate::Error;
use crate::error::in_range;
use crate::math::{add_scaled, argmax, dot, sqrt, tanh, unit};

/// A network with one hidden layer of tanh, and a score per class.
///
/// The weights are: for each hidden unit one per feature, a constant for each hidden unit, for each
/// class one per hidden unit, a constant for each class. At first the constants are zero, and the
/// others uniform with the variance `2/(inputs + outputs)` of their layer (Glorot and Bengio, 2010).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mlp {
    features: usize,
    hidden: usize,
    classes: usize,
}

/// The weights by layer; `T` is a slice.
struct Layers<T> {
    hidden: T,
    hidden_constants: T,
    classes: T,
    class_constants: T,
}

impl Mlp {
    /// For examples with so many features, of so many classes, with so many hidden units.
    pub fn new(features: usize, hidden: usize, classes: usize) -> Result<Self, Error> {
        in_range("features", features as f64, features >= 1, "at least 1")?;
        in_range("hidden units", hidden as f64, hidden >= 1, "at least 1")?;
        in_range("classes", classes as f64, classes >= 2, "at least 2")?;
        Ok(Self { features, hidden, classes })
    }

    /// The class that the model takes these features for.
    pub fn predict(&self, weights: &[f64], features: &[f32]) -> usize {
        let layers = self.layers(weights);
        argmax(&self.scores(&layers, &self.activations(&layers, features)))
    }

    fn layers<'a>(&self, weights: &'a [f64]) -> Layers<&'a [f64]> {
        let (hidden, rest) = weights.split_at(self.features * self.hidden);
        let (hidden_constants, rest) = rest.split_at(self.hidden);
        let (classes, class_constants) = rest.split_at(self.hidden * self.classes);
        Layers { hidden, hidden_constants, classes, class_constants }
    }

    fn layers_mut<'a>(&self, weights: &'a mut [f64]) -> Layers<&'a mut [f64]> {
        let (hidden, rest) = weights.split_at_mut(self.features * self.hidden);
        let (hidden_constants, rest) = rest.split_at_mut(self.hidden);
        let (classes, class_constants) = rest.split_at_mut(self.hidden * self.classes);
        Layers { hidden, hidden_constants, classes, class_constants }
    }

    fn activations(&self, layers: &Layers<&[f64]>, features: &[f32]) -> Vec<f64> {
        let units = layers.hidden.chunks_exact(self.features).zip(layers.hidden_constants);
        units.map(|(unit, constant)| tanh(dot(unit, features) + constant)).collect()
    }

    fn scores(&self, layers: &Layers<&[f64]>, activations: &[f64]) -> Vec<f64> {
        let classes = layers.classes.chunks_exact(self.hidden).zip(layers.class_constants);
        classes.map(|(class, constant)| dot(class, activations) + constant).collect()
    }
}

impl Model for Mlp {
    type Example = Labelled;

    fn dimension(&self) -> usize {
        (self.features + 1) * self.hidden + (self.hidden + 1) * self.classes
    }

    fn initial(&self, rng: &mut dyn CryptoRng) -> Vec<f64> {
        let mut weights = vec![0.0; self.dimension()];
        let layers = self.layers_mut(&mut weights);
        let mut fill = |weights: &mut [f64], inputs: usize, outputs: usize| {
            let largest = sqrt(6.0 / (inputs + outputs) as f64);
            weights
                .iter_mut()
                .for_each(|weight| *weight = largest * (2.0 * unit(rng.next_u64()) - 1.0));
        };
        fill(layers.hidden, self.features, self.hidden);
        fill(layers.classes, self.hidden, self.classes);
        weights
    }

    fn loss(&self, weights: &[f64], example: &Labelled) -> f64 {
        let layers = self.layers(weights);
        let activations = self.activations(&layers, &example.features);
        cross_entropy(&mut self.scores(&layers, &activations), example.label)
    }

    fn gradient(&self, weights: &[f64], example: &Labelled, sum: &mut [f64]) {
        let layers = self.layers(weights);
        let activations = self.activations(&layers, &example.features);
        let mut scores = self.scores(&layers, &activations);
        cross_entropy(&mut scores, example.label);
        let sums = self.layers_mut(sum);
        // From the scores back to the hidden units.
        let mut by_unit = vec![0.0; self.hidden];
        let classes = layers.classes.chunks_exact(self.hidden);
        let class_sums = sums.classes.chunks_exact_mut(self.hidden).zip(sums.class_constants);
        for ((class, derivative), (class_sum, constant_sum)) in classes.zip(&scores).zip(class_sums)
        {
            add_scaled(&mut by_unit, *derivative, class);
            add_scaled(class_sum, *derivative, &activations);
            *constant_sum += derivative;
        }
        let units = sums.hidden.chunks_exact_mut(self.features).zip(sums.hidden_constants);
        for ((by_unit, activation), (unit_sum, constant_sum)) in
            by_unit.iter().zip(&activations).zip(units)
        {
            let derivative = by_unit * (1.0 - activation * activation);
            add_scaled(unit_sum, derivative, &example.features);
            *constant_sum += derivative;
        }
    }

    fn is_right(&self, weights: &[f64], example: &Labelled) -> bool {
        self.predict(weights, &example.features) == example.label
    }
}
