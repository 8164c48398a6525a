//! Trains on the digits that ship with this crate, with every kind of noise at the same sigma, and
//! prints mean accuracies over seeds with their standard errors.
//!
//! ```text
//! cargo run --release -p sotto-learn --example digits -- [SIGMA] [SEEDS]
//! ```
//!
//! 1,498 devices with one digit each, 300 of them expected in each of 30 rounds, 299 digits for
//! tests.

#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::num::NonZero;
use std::thread::available_parallelism;

use sotto_dp::Adjacency;
use sotto_dp::mechanism::gaussian;
use sotto_learn::clipping::Clipping;
use sotto_learn::coins::Coins;
use sotto_learn::data::{Preparation, Users, digits};
use sotto_learn::fast::{Fast, Noise};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{Labelled, Mlp, Model, Softmax, evaluate};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;

const RATE: f64 = 0.2;
const ROUNDS: u32 = 30;

/// What is trained, and how.
struct Setup<'a, M> {
    name: &'static str,
    model: &'a M,
    training: LocalTraining,
    clipping: Clipping,
    optimizer: Optimizer,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let sigma: f64 = arguments.next().as_deref().unwrap_or("2").parse()?;
    let seeds: u64 = arguments.next().as_deref().unwrap_or("10").parse()?;
    let (training, test) = digits()?.split_every(6);
    let preparation = Preparation::new(&training, Some(0.3));
    let test = preparation.apply(&test)?;
    let examples = preparation.apply(&training)?;
    let users = Users::one_each(examples.clone());
    let softmax = Softmax::new(preparation.features(), 10)?;
    let mlp = Mlp::new(preparation.features(), 16, 10)?;
    let fixed = Clipping::Fixed { clip: 0.5 };
    let quantile = Clipping::Quantile { norm: 0.1, quantile: 0.5, rate: 0.3, weight: 0.1 };
    let (training, optimizer) = (LocalTraining::ONE_STEP, Optimizer::Sgd { rate: 20.0 });

    println!("sigma {sigma}, {seeds} seeds: mean accuracy and its standard error, %");
    println!("{:34} {:>14} {:>14} {:>14}", "", "no noise", "central", "devices");
    let setup = Setup { name: "softmax", model: &softmax, training, clipping: fixed, optimizer };
    line(&setup, &users, &test, sigma, seeds)?;
    let optimizer = Optimizer::Sgd { rate: 10.0 };
    let setup = Setup { name: "softmax, median clip", clipping: quantile, optimizer, ..setup };
    line(&setup, &users, &test, sigma, seeds)?;
    let clipping = Clipping::Fixed { clip: 1.0 };
    let optimizer = Optimizer::Momentum { rate: 1.5, decay: 0.8 };
    let setup = Setup { name: "network, momentum", model: &mlp, training, clipping, optimizer };
    line(&setup, &users, &test, sigma, seeds)?;
    let optimizer =
        Optimizer::Adam { rate: 0.15, first_decay: 0.9, second_decay: 0.99, epsilon: 1e-3 };
    let setup = Setup { name: "network, Adam", optimizer, ..setup };
    line(&setup, &users, &test, sigma, seeds)?;
    // A fifth of the devices, each with six digits of two labels, and as many in a round.
    let users = Users::two_labels(examples, 6, &mut Coins::from_number(0).split())?;
    let training = LocalTraining { steps: 6, learning_rate: 0.5, batch: Some(2) };
    let optimizer = Optimizer::Sgd { rate: 3.0 };
    let clipping = Clipping::Fixed { clip: 1.0 };
    let name = "softmax, two labels, 6 local steps";
    let setup = Setup { name, model: &softmax, training, clipping, optimizer };
    line(&setup, &users, &test, sigma, seeds)
}

/// One line of the table.
fn line<M: Model<Example = Labelled>>(
    setup: &Setup<'_, M>,
    users: &Users<Labelled>,
    test: &[Labelled],
    sigma: f64,
    seeds: u64,
) -> Result<(), Box<dyn Error>> {
    let sigma_micro = (sigma * 1e6).round() as u64;
    let expected = RATE * users.len() as f64;
    // What the claim is hardly matters here: only how rarely a report is drawn again.
    let devices = gaussian::Noise {
        sigma_micro,
        contributions: expected.round() as u64,
        most_contributions: users.len() as u64,
        rounds: ROUNDS.into(),
        epsilon_micro: 10_000_000,
        delta: 1e-6,
        adjacency: Adjacency::AddRemove,
    };
    print!("{:34}", setup.name);
    for noise in [Noise::None, Noise::Central { sigma_micro }, Noise::Devices(devices)] {
        let mut accuracies = Vec::new();
        for seed in 0..seeds {
            let fast = Fast {
                model: setup.model,
                users,
                plan: Plan {
                    training: setup.training,
                    clipping: setup.clipping,
                    fraction_bits: 15,
                    expected,
                    optimizer: setup.optimizer,
                },
                rate: RATE,
                noise,
                coins: Coins::from_number(seed),
                threads: available_parallelism().unwrap_or(NonZero::<usize>::MIN),
            };
            let mut progress = fast.start()?;
            while progress.rounds() < ROUNDS {
                fast.round(&mut progress)?;
            }
            let found = evaluate(setup.model, progress.weights(), test);
            accuracies.push(100.0 * found.accuracy);
        }
        let (mean, error) = mean_and_error(&accuracies);
        print!("  {mean:6.2} ± {error:4.2}");
    }
    println!();
    Ok(())
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
