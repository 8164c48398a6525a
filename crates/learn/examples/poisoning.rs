//! What dishonest devices can do to a training: 1 % of the devices send the longest vector that is
//! accepted, in the direction in which the loss grows fastest.
//!
//! ```text
//! cargo run --release -p sotto-learn --example poisoning -- [SEEDS]
//! ```
//!
//! The setting is that of `digits.rs`: softmax regression, 1,498 devices, 300 of them expected in
//! each of 30 rounds, noise of the devices with sigma 2. A dishonest device knows all training data
//! and the weights of the round. Either it keeps to its coin, or it takes part in every round for
//! which it has tokens. In so short a series these are all: a claim needs so many tokens for honest
//! devices.

#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::num::NonZero;
use std::thread::available_parallelism;

use sotto_dp::Adjacency;
use sotto_dp::mechanism::gaussian::{self, Gaussian};
use sotto_dp::mechanism::vector;
use sotto_learn::clipping::Clipping;
use sotto_learn::coins::Coins;
use sotto_learn::data::{Preparation, Users, digits};
use sotto_learn::fast::{Fast, Noise};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{Labelled, Model as _, Softmax, evaluate};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;

const RATE: f64 = 0.2;
const ROUNDS: u32 = 30;
const CLIP: f64 = 0.5;
/// One device in so many is dishonest.
const ONE_IN: usize = 100;
/// After which rounds the accuracy is shown.
const SHOWN: [u32; 4] = [5, 10, 20, 30];

/// What dishonest devices do.
#[derive(Clone, Copy)]
struct Attack {
    /// The norm of what they send, in units of the clip. At 0 they are honest.
    rho: f64,
    /// Whether they take part in every round.
    always: bool,
}

const NONE: Attack = Attack { rho: 0.0, always: false };

struct Setting {
    users: Users<Labelled>,
    training: Vec<Labelled>,
    test: Vec<Labelled>,
    model: Softmax,
}

impl Setting {
    fn new() -> Result<Self, sotto_learn::Error> {
        let (training, test) = digits()?.split_every(6);
        let preparation = Preparation::new(&training, Some(0.3));
        let training = preparation.apply(&training)?;
        let model = Softmax::new(preparation.features(), 10)?;
        let users = Users::one_each(training.clone());
        Ok(Self { users, training, test: preparation.apply(&test)?, model })
    }

    fn expected(&self) -> f64 {
        RATE * self.users.len() as f64
    }

    fn noise(&self) -> gaussian::Noise {
        gaussian::Noise {
            sigma_micro: 2_000_000,
            contributions: self.expected().round() as u64,
            most_contributions: self.users.len() as u64,
            rounds: ROUNDS.into(),
            epsilon_micro: 10_000_000,
            delta: 1e-6,
            adjacency: Adjacency::AddRemove,
        }
    }

    fn fast(&self, seed: u64, threads: NonZero<usize>) -> Fast<'_, Softmax> {
        Fast {
            model: &self.model,
            users: &self.users,
            plan: Plan {
                training: LocalTraining::ONE_STEP,
                clipping: Clipping::Fixed { clip: CLIP },
                fraction_bits: 15,
                expected: self.expected(),
                optimizer: Optimizer::Sgd { rate: 20.0 },
            },
            rate: RATE,
            noise: Noise::Devices(self.noise()),
            coins: Coins::from_number(seed),
            threads,
        }
    }

    /// The norm that the noise of the devices makes necessary, in units of the clip.
    fn rho(&self) -> Result<f64, Box<dyn Error>> {
        let plan = self.fast(0, NonZero::<usize>::MIN).plan;
        let length = u32::try_from(plan.length(self.model.dimension()))?;
        Ok(Gaussian::vectors(length, plan.norm_bound(), &self.noise())?.rho())
    }

    /// Accuracies on the test data, in percent, after the rounds of [`SHOWN`].
    fn run(&self, attack: Attack, seed: u64) -> Result<Vec<f64>, sotto_learn::Error> {
        let fast = self.fast(seed, available_parallelism().unwrap_or(NonZero::<usize>::MIN));
        let mut progress = fast.start()?;
        let mut accuracies = Vec::new();
        while progress.rounds() < ROUNDS {
            let drawn = fast.participants(progress.rounds())?;
            let is_dishonest = |device: &usize| attack.rho > 0.0 && device.is_multiple_of(ONE_IN);
            let (dishonest, honest): (Vec<_>, Vec<_>) = drawn.iter().partition(|d| is_dishonest(d));
            let attackers = match attack.always {
                true => self.users.len().div_ceil(ONE_IN),
                false => dishonest.len(),
            };
            let mut sum = fast.sum(&progress, &honest)?;
            let bad = self.worst(&fast.plan, progress.weights(), attack.rho);
            for (sum, number) in sum.iter_mut().zip(bad) {
                *sum += attackers as i64 * number;
            }
            fast.plan.advance(&mut progress, &sum)?;
            if SHOWN.contains(&progress.rounds()) {
                let found = evaluate(&self.model, progress.weights(), &self.test);
                accuracies.push(100.0 * found.accuracy);
            }
        }
        Ok(accuracies)
    }

    /// The longest vector that is accepted in the direction in which the loss grows fastest.
    fn worst(&self, plan: &Plan, weights: &[f64], rho: f64) -> Vec<i64> {
        let mut gradient = vec![0.0; weights.len()];
        for example in &self.training {
            self.model.gradient(weights, example, &mut gradient);
        }
        let bound = (rho * plan.norm_bound() as f64) as u64;
        let norm = gradient.iter().map(|number| number * number).sum::<f64>().sqrt();
        // Longer than the bound, so that clipping makes it exactly as long.
        let factor = 2.0 * rho * CLIP / norm.max(f64::MIN_POSITIVE);
        let long: Vec<f64> = gradient.iter().map(|number| number * factor).collect();
        // As many as the model has weights.
        vector::clip(&long, weights.len() as u32, plan.fraction_bits, bound)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: u64 = std::env::args().nth(1).as_deref().unwrap_or("10").parse()?;
    let setting = Setting::new()?;
    let rho = setting.rho()?;
    println!("{seeds} seeds: mean accuracy and its standard error, %; rho of the noise {rho:.2}");
    let heads: Vec<String> =
        SHOWN.iter().map(|round| format!("{:>12}", format!("round {round}"))).collect();
    println!("{:44} {}", "", heads.join("  "));
    let line = |name: &str, attack: Attack| -> Result<(), Box<dyn Error>> {
        let runs = (0..seeds).map(|seed| setting.run(attack, seed));
        let runs: Vec<Vec<f64>> = runs.collect::<Result<_, _>>()?;
        print!("{name:44}");
        for place in 0..SHOWN.len() {
            let values: Vec<f64> = runs.iter().filter_map(|run| run.get(place)).copied().collect();
            let (mean, error) = mean_and_error(&values);
            print!("  {mean:5.2} ± {error:4.2}");
        }
        println!();
        Ok(())
    };
    line("all honest", NONE)?;
    for always in [false, true] {
        let when = if always { "in every round" } else { "by their coins" };
        line(&format!("1 % dishonest {when}, rho 1"), Attack { rho: 1.0, always })?;
        line(&format!("1 % dishonest {when}, rho {rho:.2}"), Attack { rho, always })?;
    }
    Ok(())
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dishonest_devices_send_is_as_long_as_is_accepted() {
        let setting = Setting::new().unwrap();
        let plan = setting.fast(1, NonZero::<usize>::MIN).plan;
        for rho in [1.0, setting.rho().unwrap()] {
            let sent = setting.worst(&plan, &vec![0.0; 650], rho);
            let bound = (rho * plan.norm_bound() as f64) as u64;
            assert!(vector::is_within(&sent, bound));
            assert!(!vector::is_within(&sent, (0.99 * bound as f64) as u64));
        }
    }

    #[test]
    fn the_rho_of_the_noise_does_harm_and_more_than_1() {
        let setting = Setting::new().unwrap();
        let rho = setting.rho().unwrap();
        let last = |attack| *setting.run(attack, 1).unwrap().last().unwrap();
        let honest = last(NONE);
        let [little, much] = [1.0, rho].map(|rho| last(Attack { rho, always: true }));
        assert!(honest > 88.0 && much < honest && much < little, "{honest} {little} {much}");
    }
}
