//! What is audited: mechanisms, values, and how they are collected.

use rand_chacha::ChaCha20Rng;
use sotto_dp::Adjacency;
use sotto_dp::mechanism::gaussian::{Gaussian, Noise};
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::server_noise::ServerNoise;
use sotto_dp::mechanism::{Encoding, Mechanism, Rates, Value};
use sotto_dp::recipe::{Terms, judge};

use super::super::simulated::*;
use super::measured::{Audit, Claim, View};

/// The deltas of the claims. The smallest stand for those of recipes: an event that is impossible in
/// one case is seen at any delta.
pub(super) const DELTAS: [f64; 6] = [1e-6, 0.001, 0.01, 0.05, 0.15, 0.4];

/// Stands for the sums of a batch that is not released.
const WITHHELD: i64 = i64::MAX;

/// One mechanism, and what its devices may hold.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) mechanism: Mechanism,
    /// Two values of the device, as far apart as they can be, and one that is like neither.
    pub(super) values: [Value; 3],
    /// The weights of those sums on which the likelihood depends.
    pub(super) weights: Vec<Vec<f64>>,
    /// Weighted sums are seen in steps of this size: of many numbers few are alike.
    pub(super) step: i64,
}

/// Who takes part, how often, and what is released.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) others: u64,
    /// Which of the three values they hold.
    pub(super) holding: usize,
    pub(super) rates: Rates,
    pub(super) min_batch: u64,
    pub(super) rounds: u64,
    pub(super) certified: Option<u64>,
}

/// One device, which takes part in one round.
pub(super) const ALONE: Setting = Setting {
    others: 0,
    holding: 2,
    rates: Rates::all(1.0),
    min_batch: 1,
    rounds: 1,
    certified: None,
};

impl Subject {
    pub(super) fn new(name: &str, mechanism: Mechanism, values: [Value; 3]) -> Self {
        let exactly = |value: &Value| {
            let mut sums = vec![0; mechanism.encoding().numbers() as usize];
            add(&mut sums, value);
            sums.into_iter().map(|sum| sum as f64).collect::<Vec<_>>()
        };
        let [one, other] = [exactly(&values[0]), exactly(&values[1])];
        let combined = |a: &[f64], b: &[f64], how: fn(f64, f64) -> f64| {
            a.iter().zip(b).map(|(a, b)| how(*a, *b)).collect::<Vec<_>>()
        };
        let weights = match &mechanism {
            // The likelihood of normal noise depends on the difference alone.
            Mechanism::ServerNoise(_) | Mechanism::Gaussian(_) => {
                vec![combined(&one, &other, |a, b| a - b)]
            }
            // Messages that are incident to one of the two.
            Mechanism::ProjectiveGeometry(geometry) => {
                let [one, other] = [one, other].map(|symbol| geometry.incident_sums(&symbol));
                let only = |a: f64, b: f64| a * (1.0 - b);
                vec![combined(&one, &other, only), combined(&other, &one, only)]
            }
            _ => vec![one, other],
        };
        Self { name: name.to_owned(), mechanism, values, weights, step: 1 }
    }

    /// Randomized answers, and exact ones with noise.
    pub(super) fn all() -> Vec<Self> {
        let symbols = || [0, 1, 2].map(Value::OneHot);
        let local = [
            ("randomized response of 2, 0.5", RandomizedResponse::new(500_000, 2).unwrap().into()),
            (
                "randomized response of 3, 1.5",
                RandomizedResponse::new(1_500_000, 3).unwrap().into(),
            ),
            ("randomized response of 9, 4", RandomizedResponse::new(4_000_000, 9).unwrap().into()),
            ("RAPPOR of 3, 0.8", rappor(800_000, one_hot(3))),
            ("RAPPOR of 40, 3", rappor(3_000_000, one_hot(40))),
            ("projective geometry of 5, 1.2", projective(1_200_000, 5)),
            ("projective geometry of 20, 3", projective(3_000_000, 20)),
        ];
        let several = [
            ("RAPPOR of 6, up to 2, 0.5", rappor(500_000, labels(6, 2)), 2),
            ("RAPPOR of 9, up to 3, 0.7", rappor(700_000, labels(9, 3)), 3),
        ];
        let local = local.map(|(name, mechanism)| Self::new(name, mechanism, symbols()));
        let several = several.map(|(name, mechanism, most)| Self::new(name, mechanism, sets(most)));
        local.into_iter().chain(several).chain(Self::noisy(Adjacency::Replace, 1)).collect()
    }

    /// Noise of the servers on everything that can be asked. (A mean is a sum, and the count, which
    /// is always seen.) The noise is so many `times` that of the name.
    pub(super) fn noisy(adjacency: Adjacency, times: u64) -> Vec<Self> {
        let max = 10;
        let bits = [true, false, false].map(Value::Bit);
        let numbers = [max, 0, 3].map(Value::Number);
        let symbols = [0, 1, 2].map(Value::OneHot);
        [
            ("a count, noise 0.7", Encoding::Bit, 700_000, bits.clone()),
            ("a count, noise 2", Encoding::Bit, 2_000_000, bits),
            ("a sum up to 10, noise 8", Encoding::Number { max }, 8_000_000, numbers),
            ("a histogram, noise 1.5", one_hot(3), 1_500_000, symbols),
            ("a histogram or nothing, noise 2", labels(3, 1), 2_000_000, sets(1)),
            ("several labels, noise 4", labels(6, 2), 4_000_000, sets(2)),
        ]
        .map(|(name, encoding, sigma, values)| {
            Self::new(name, noise(encoding, times * sigma, adjacency), values)
        })
        .into()
    }

    /// Vectors of eight numbers with noise of the devices, so many `times` three: a vector of the
    /// largest norm in a direction in which every number counts, its opposite, and none.
    pub(super) fn vectors(adjacency: Adjacency, times: f64, setting: &Setting) -> Self {
        let direction = [1, 1, -1, 1, -1, 1, 1, 3];
        let values = [4, -4, 0].map(|size| Value::Vector(direction.map(|x| size * x).to_vec()));
        let noise = Noise {
            sigma_micro: (3e6 * times) as u64,
            contributions: setting.min_batch,
            most_contributions: 64,
            rounds: setting.rounds,
            epsilon_micro: 1_000_000,
            delta: 1e-6,
            adjacency,
        };
        let mechanism = Gaussian::vectors(8, 16, &noise).unwrap().into();
        // A quarter of the standard deviation of the noise that is counted.
        Self { step: 270, ..Self::new("vectors", mechanism, values) }
    }

    /// What is released of a batch, and its size, which is always seen.
    pub(super) fn see(&self, batch: &Batch, min_batch: u64, view: &mut View) {
        view.push(batch.reports as i64);
        if batch.reports < min_batch.div_ceil(2) {
            return view.push(WITHHELD);
        }
        for weights in &self.weights {
            let terms = weights.iter().zip(&batch.sums);
            let seen: i64 = terms.map(|(weight, sum)| *weight as i64 * *sum as i64).sum();
            view.push(seen.div_euclid(self.step));
        }
    }

    /// The device, if it is there, and the others.
    pub(super) fn population(&self, device: Option<usize>, setting: &Setting) -> Vec<Group> {
        let default = self.mechanism.encoding().nothing();
        let of = |index: usize, devices| {
            let value = self.values[index].clone();
            Group { is_default: default.as_ref() == Some(&value), value, devices }
        };
        device
            .map(|index| of(index, 1))
            .into_iter()
            .chain([of(setting.holding, setting.others)])
            .collect()
    }

    /// All that is seen of all rounds.
    pub(super) fn view(
        &self,
        population: &[Group],
        setting: &Setting,
        rng: &mut ChaCha20Rng,
    ) -> View {
        let mut view = View::new();
        for _ in 0..setting.rounds {
            let batch = collect_with(&self.mechanism, population, &setting.rates, 1, rng);
            self.see(&batch, setting.min_batch, &mut view);
        }
        view
    }

    /// What the rule for recipes claims.
    pub(super) fn claims(&self, setting: &Setting) -> Vec<Claim> {
        let Setting { rates, min_batch, rounds, certified, .. } = *setting;
        let Rates { rate, default_rate, dummy_rate, .. } = rates;
        let plain = Terms::new(self.mechanism.law(), rate, min_batch, rounds);
        let terms = Terms { default_rate: Some(default_rate), dummy_rate, ..plain };
        DELTAS.map(|delta| (judge(&terms, certified, delta).unwrap().epsilon, delta)).to_vec()
    }

    /// Compares a device that holds the first value with one of the second, or with none. Says
    /// nothing if this needs dummies and there are none.
    pub(super) fn compare(
        &self,
        audit: &mut Audit,
        what: &str,
        second: Option<usize>,
        setting: &Setting,
    ) {
        let has_dummies = self.mechanism.encoding().nothing().is_some();
        if setting.rates.dummy_rate > 0.0 && !has_dummies {
            return;
        }
        let [one, other] = self.laws(second, setting);
        audit.below(&format!("{}: {what}", self.name), &self.claims(setting), [&one, &other]);
    }

    /// What is seen of a device that holds the first value, and of one with the second, or of none.
    pub(super) fn laws<'a>(
        &'a self,
        second: Option<usize>,
        setting: &'a Setting,
    ) -> [impl Fn(&mut ChaCha20Rng) -> View + 'a; 2] {
        [Some(0), second].map(|device| {
            let population = self.population(device, setting);
            move |rng: &mut ChaCha20Rng| self.view(&population, setting, rng)
        })
    }
}

/// Two sets of labels that have nothing in common, and one of which neither has any.
pub(super) fn sets(size: u32) -> [Value; 3] {
    [0, 1, 2].map(|index| Value::Labels((index * size..(index + 1) * size).collect()))
}

pub(super) fn noise(encoding: Encoding, sigma_micro: u64, adjacency: Adjacency) -> Mechanism {
    ServerNoise::new(encoding, sigma_micro, adjacency).unwrap().into()
}
