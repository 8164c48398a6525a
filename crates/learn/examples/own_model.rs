//! A model of your own: a straight line through points, which no device shows to anybody.
//!
//! ```text
//! cargo run --release -p sotto-learn --example own_model
//! ```
//!
//! Each device has one point, and trains with a clip that follows the median of the updates' norms.

#![allow(clippy::print_stdout, reason = "a program")]

use std::num::NonZero;

use rand_core::{CryptoRng, Rng as _};
use sotto_learn::Error;
use sotto_learn::clipping::Clipping;
use sotto_learn::coins::Coins;
use sotto_learn::data::Users;
use sotto_learn::fast::{Fast, Noise};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{Model, evaluate};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;

/// `y = slope x + constant`.
struct Line;

/// What a device knows.
struct Point {
    x: f64,
    y: f64,
}

impl Line {
    fn error(weights: &[f64], point: &Point) -> f64 {
        let [slope, constant] = *weights else {
            return f64::NAN;
        };
        slope * point.x + constant - point.y
    }
}

impl Model for Line {
    type Example = Point;

    fn dimension(&self) -> usize {
        2
    }

    fn initial(&self, _rng: &mut dyn CryptoRng) -> Vec<f64> {
        vec![0.0, 0.0]
    }

    fn loss(&self, weights: &[f64], point: &Point) -> f64 {
        let error = Self::error(weights, point);
        0.5 * error * error
    }

    fn gradient(&self, weights: &[f64], point: &Point, sum: &mut [f64]) {
        let error = Self::error(weights, point);
        for (sum, input) in sum.iter_mut().zip([point.x, 1.0]) {
            *sum += error * input;
        }
    }

    fn is_right(&self, weights: &[f64], point: &Point) -> bool {
        Self::error(weights, point).abs() < 0.5
    }
}

/// Points near `y = 2 x - 1`.
fn points(count: usize) -> Users<Point> {
    let mut rng = Coins::from_number(1).split();
    let mut uniform = || f64::from(rng.next_u32()) / f64::from(u32::MAX) - 0.5;
    let mut point = || {
        let x = 4.0 * uniform();
        Point { x, y: 2.0 * x - 1.0 + 0.4 * uniform() }
    };
    Users::one_each((0..count).map(|_| point()).collect())
}

/// Slope and constant after some rounds.
fn train(users: &Users<Point>, rounds: u32) -> Result<Vec<f64>, Error> {
    let rate = 0.1;
    let fast = Fast {
        model: &Line,
        users,
        plan: Plan {
            training: LocalTraining { steps: 5, learning_rate: 0.1, batch: None },
            clipping: Clipping::Quantile { norm: 0.1, quantile: 0.5, rate: 0.2, weight: 0.1 },
            fraction_bits: 20,
            expected: rate * users.len() as f64,
            optimizer: Optimizer::Momentum { rate: 1.0, decay: 0.5 },
        },
        rate,
        noise: Noise::Central { sigma_micro: 1_000_000 },
        coins: Coins::from_number(2),
        threads: NonZero::<usize>::MIN,
    };
    let mut progress = fast.start()?;
    while progress.rounds() < rounds {
        fast.round(&mut progress)?;
    }
    Ok(progress.weights().to_vec())
}

fn main() -> Result<(), Error> {
    let users = points(20_000);
    for rounds in [1, 10, 20, 40] {
        let weights = train(&users, rounds)?;
        let all: Vec<Point> = (0..users.len())
            .flat_map(|user| users.of(user))
            .map(|point| Point { x: point.x, y: point.y })
            .collect();
        let found = evaluate(&Line, &weights, &all);
        println!("{rounds:3} rounds: {weights:.3?}, {:.1} % right", 100.0 * found.accuracy);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found() {
        let weights = train(&points(20_000), 40).unwrap();
        assert!((weights[0] - 2.0).abs() < 0.1 && (weights[1] + 1.0).abs() < 0.1, "{weights:?}");
    }
}
