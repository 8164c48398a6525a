//! A population, a collection of its reports in memory, and what came of many.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_dp::Adjacency;
use sotto_dp::mechanism::projective_geometry::ProjectiveGeometry;
use sotto_dp::mechanism::rappor::Rappor;
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::{Collected, Encoding, Estimate, Mechanism, Rates, Value};
use sotto_dp::uniform::uniform_below;

pub(super) const LEVEL: f64 = 0.95;

/// Devices that hold the same value, and whether that is the default.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) value: Value,
    pub(super) devices: u64,
    pub(super) is_default: bool,
}

pub(super) fn group(value: Value, devices: u64) -> Group {
    Group { value, devices, is_default: false }
}

pub(super) fn by_default(value: Value, devices: u64) -> Group {
    Group { value, devices, is_default: true }
}

pub(super) fn symbols(counts: &[u64]) -> Vec<Group> {
    (0..).zip(counts).map(|(symbol, devices)| group(Value::OneHot(symbol), *devices)).collect()
}

/// What arrived.
pub(super) struct Batch {
    pub(super) sums: Vec<i128>,
    pub(super) reports: u64,
    /// How many devices of each group took part.
    pub(super) taking_part: Vec<u64>,
}

/// A coin, of the same draws as those of devices.
pub(super) fn coin(probability: f64, rng: &mut ChaCha20Rng) -> bool {
    let one = 1_u64 << 53;
    uniform_below(one, rng) < (probability * one as f64) as u64
}

/// Adds what a device sent.
pub(super) fn add(sums: &mut [i128], value: &Value) {
    match value {
        Value::Bit(bit) => sums[0] += i128::from(*bit),
        Value::Number(number) => sums[0] += i128::from(*number),
        Value::OneHot(symbol) => sums[*symbol as usize] += 1,
        Value::Labels(labels) => labels.iter().for_each(|label| sums[*label as usize] += 1),
        Value::Vector(numbers) => {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += i128::from(*number));
        }
    }
}

/// One collection: every device tosses its coin, those that take part randomize, others may send a
/// dummy; two servers add their noise.
pub(super) fn collect(
    mechanism: &Mechanism,
    population: &[Group],
    rates: &Rates,
    rng: &mut ChaCha20Rng,
) -> Batch {
    collect_with(mechanism, population, rates, 2, rng)
}

/// The same with the noise of so many servers.
pub(super) fn collect_with(
    mechanism: &Mechanism,
    population: &[Group],
    rates: &Rates,
    noises: u32,
    rng: &mut ChaCha20Rng,
) -> Batch {
    let mut sums = vec![0; mechanism.encoding().numbers() as usize];
    let (mut reports, mut taking_part) = (0, Vec::new());
    for Group { value, devices, is_default } in population {
        let rate = if *is_default { rates.default_rate } else { rates.rate };
        let mut took_part = 0;
        for _ in 0..*devices {
            let sent = if coin(rate, rng) {
                took_part += 1;
                Some(mechanism.randomize(value.clone(), rng))
            } else if coin(rates.dummy_rate, rng) {
                Some(mechanism.dummy(rng).unwrap())
            } else {
                None
            };
            if let Some(sent) = sent {
                add(&mut sums, &sent);
                reports += 1;
            }
        }
        taking_part.push(took_part);
    }
    if let Mechanism::ServerNoise(servers) = mechanism {
        let noise = servers.noise().unwrap();
        for sum in &mut sums {
            *sum += (0..noises).map(|_| i128::from(noise.sample(rng))).sum::<i128>();
        }
    }
    Batch { sums, reports, taking_part }
}

impl Batch {
    pub(super) fn collected(&self, rates: &Rates) -> Collected<'_> {
        let Self { sums, reports, .. } = self;
        Collected { sums, reports: *reports, sampling: *rates, level: LEVEL }
    }
}

/// How often intervals held the truth, and what the errors were.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Record {
    pub(super) runs: f64,
    pub(super) sum: f64,
    pub(super) squares: f64,
    pub(super) claimed: f64,
    pub(super) noise_held: f64,
    pub(super) total_held: f64,
}

impl Record {
    /// One estimate, the truth about those who took part, and the truth.
    pub(super) fn add(&mut self, found: &Estimate, taking_part: f64, truth: f64) {
        assert!(found.noise_low <= found.value && found.value <= found.noise_high, "{found:?}");
        assert!(found.total_low <= found.value && found.value <= found.total_high, "{found:?}");
        self.runs += 1.0;
        self.sum += found.value - truth;
        self.squares += (found.value - truth).powi(2);
        self.claimed += found.total_error.powi(2);
        let holds = |low: f64, high: f64, truth: f64| {
            let slack = 1e-9 * truth.abs();
            f64::from(u8::from(low <= truth + slack && truth - slack <= high))
        };
        self.noise_held += holds(found.noise_low, found.noise_high, taking_part);
        self.total_held += holds(found.total_low, found.total_high, truth);
    }

    /// Unbiased: at most 4.5 standard deviations off, which a right estimate is in one of 150,000.
    pub(super) fn check_bias(&self, at: &str) {
        let error = (self.squares / self.runs).sqrt();
        let bias = self.sum / self.runs;
        assert!(bias.abs() <= 4.5 * error / self.runs.sqrt(), "{at}: bias {bias}, error {error}");
    }
}

pub(super) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub(super) fn one_hot(length: u32) -> Encoding {
    Encoding::OneHot { length }
}

pub(super) fn labels(length: u32, most: u32) -> Encoding {
    Encoding::Labels { length, most }
}

pub(super) fn rappor(micro: u64, encoding: Encoding) -> Mechanism {
    Rappor::of(micro, encoding).unwrap().into()
}

pub(super) fn projective(micro: u64, length: u32) -> Mechanism {
    ProjectiveGeometry::of(micro, one_hot(length)).unwrap().into()
}

pub(super) fn servers(encoding: Encoding, sigma_micro: u64) -> Mechanism {
    ServerNoise::new(encoding, sigma_micro, Adjacency::Replace).unwrap().into()
}
