//! What a model is: numbers ("weights"), a loss, and its gradient.
//!
//! [`Softmax`] and [`Mlp`] classify. A model of your own implements [`Model`]; see
//! `crates/learn/examples/own_model.rs`.

mod classes;
mod mlp;
mod softmax;

use rand_core::CryptoRng;

use crate::Error;
use crate::error::{in_range, length};

pub use mlp::Mlp;
pub use softmax::Softmax;

/// A model that can be trained.
///
/// What a model computes must depend on its arguments alone, to the last bit: devices, servers and
/// [`fast`](crate::fast) must agree. So: no global state, sums in a fixed order, and transcendental
/// functions from the crate `libm`, not from the standard library, whose results depend on the
/// platform.
///
/// The weights that a method is given are as many as [`dimension`](Self::dimension) says.
pub trait Model: Sync {
    /// What it learns from.
    type Example: Sync;

    /// How many weights there are.
    fn dimension(&self) -> usize;

    /// The weights before the first round.
    fn initial(&self, rng: &mut dyn CryptoRng) -> Vec<f64>;

    /// How wrong the model is about one example.
    fn loss(&self, weights: &[f64], example: &Self::Example) -> f64;

    /// Adds the gradient of the loss about one example to `sum`.
    fn gradient(&self, weights: &[f64], example: &Self::Example, sum: &mut [f64]);

    /// Whether the prediction for this example counts as right, for the accuracy.
    fn is_right(&self, weights: &[f64], example: &Self::Example) -> bool;
}

/// An example for models that classify.
#[derive(Clone, Debug, PartialEq)]
pub struct Labelled {
    /// What is known about it.
    pub features: Vec<f32>,
    /// Its class.
    pub label: usize,
}

/// How good a model is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// The mean loss.
    pub loss: f64,
    /// The part of the examples that it gets right.
    pub accuracy: f64,
}

/// How good a model is about these examples. Both numbers are NaN if there are none.
pub fn evaluate<M: Model + ?Sized>(
    model: &M,
    weights: &[f64],
    examples: &[M::Example],
) -> Evaluation {
    let loss: f64 = examples.iter().map(|example| model.loss(weights, example)).sum();
    let right = examples.iter().filter(|example| model.is_right(weights, example)).count();
    let count = examples.len() as f64;
    Evaluation { loss: loss / count, accuracy: right as f64 / count }
}

/// The weights as they are published: `f32`, little-endian.
pub fn to_bytes(weights: &[f64]) -> Vec<u8> {
    weights.iter().flat_map(|weight| (*weight as f32).to_le_bytes()).collect()
}

/// Published weights, for a model of so many.
pub fn from_bytes(bytes: &[u8], dimension: usize) -> Result<Vec<f64>, Error> {
    let (numbers, rest) = bytes.as_chunks::<4>();
    length("bytes after the last weight", rest.len(), 0)?;
    length("weights", numbers.len(), dimension)?;
    let weight = |bytes: &[u8; 4]| {
        let value = f64::from(f32::from_le_bytes(*bytes));
        in_range("a weight", value, value.is_finite(), "a finite number")
    };
    numbers.iter().map(weight).collect()
}

/// The weights with the precision in which they are published. A server rounds after each round, so
/// that it goes on from the same weights as the devices.
pub fn round_to_published(weights: &mut [f64]) {
    for weight in weights {
        *weight = f64::from(*weight as f32);
    }
}
