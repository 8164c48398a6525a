//! What devices answer about a model, and what the sums say.

use rand_core::{CryptoRng, Rng as _};
use sotto_dp::sampler::{DiscreteGaussian, Rate};
use sotto_learn::coins::Coins;
use sotto_learn::evaluation::{Answer, Scale, Sums};
use sotto_learn::fast::Noise;
use sotto_learn::model::{Model, evaluate};

use crate::parties::Digits;

const SCALE: Scale = Scale { largest_loss: 4.0, max: 1 << 12 };

/// Weights after a few rounds, and what each device answers about them.
fn answers(digits: &Digits) -> (Vec<f64>, Vec<Answer>) {
    let fast = digits.fast(0.2, Noise::None, 1);
    let mut progress = fast.start().unwrap();
    for _ in 0..3 {
        fast.round(&mut progress).unwrap();
    }
    let weights = progress.weights().to_vec();
    let answer = |user| SCALE.answer(&digits.model, &weights, digits.users.of(user)).unwrap();
    let answers = (0..digits.users.len()).map(answer).collect();
    (weights, answers)
}

fn sums<'a>(answers: impl IntoIterator<Item = &'a Answer>) -> Sums {
    let start = Sums { loss: 0.0, right: 0.0, noise: 0.0, answers: 0 };
    answers.into_iter().fold(start, |sums, answer| Sums {
        loss: sums.loss + answer.loss as f64,
        right: sums.right + answer.right as f64,
        answers: sums.answers + 1,
        ..sums
    })
}

/// A model that is as wrong as it says.
struct Constant {
    loss: f64,
    right: bool,
}

impl Model for Constant {
    type Example = ();

    fn dimension(&self) -> usize {
        1
    }

    fn initial(&self, _rng: &mut dyn CryptoRng) -> Vec<f64> {
        vec![0.0]
    }

    fn loss(&self, _weights: &[f64], _example: &()) -> f64 {
        self.loss
    }

    fn gradient(&self, _weights: &[f64], _example: &(), _sum: &mut [f64]) {}

    fn is_right(&self, _weights: &[f64], _example: &()) -> bool {
        self.right
    }
}

#[test]
fn exact_sums_give_the_mean_over_devices() {
    let digits = Digits::new();
    let (weights, answers) = answers(&digits);
    assert!(answers.iter().all(|answer| answer.loss < SCALE.max), "the cut does nothing here");
    let found = SCALE.found(&sums(&answers)).unwrap();
    // One example each: the mean over devices is the mean over examples.
    let all: Vec<_> =
        (0..digits.users.len()).flat_map(|user| digits.users.of(user)).cloned().collect();
    let exact = evaluate(&digits.model, &weights, &all);
    assert!((found.loss.value - exact.loss).abs() <= found.loss.rounding);
    assert!((found.accuracy.value - exact.accuracy).abs() < 1e-12);
    assert_eq!((found.loss.noise, found.accuracy.noise), (0.0, 0.0));
    assert!((0.5..0.99).contains(&exact.accuracy) && exact.loss > 0.1, "{exact:?}");
}

/// The errors of 2,000 collections, each of 200 devices drawn with replacement, with noise of 300
/// units. Their standard deviations are known to 1/sqrt(4000) = 1.6 %; six of these: 2e-9 for
/// random seeds for each comparison, if the sums are normal. The seed is fixed.
#[test]
fn standard_errors_are_those_of_repeated_collections() {
    let digits = Digits::new();
    let (_, answers) = answers(&digits);
    let truth = SCALE.found(&sums(&answers)).unwrap();
    let noise = DiscreteGaussian::new(Rate::new(300, 1).unwrap());
    let mut rng = Coins::from_number(11).split();
    let (collections, devices) = (2_000, 200);
    let (mut losses, mut accuracies) = (0.0, 0.0);
    for _ in 0..collections {
        let drawn: Vec<Answer> = (0..devices)
            .map(|_| answers[(rng.next_u64() % answers.len() as u64) as usize])
            .collect();
        let mut collected = sums(&drawn);
        collected.loss += noise.sample(&mut rng) as f64;
        collected.right += noise.sample(&mut rng) as f64;
        collected.noise = 300.0;
        let found = SCALE.found(&collected).unwrap();
        losses += (found.loss.value - truth.loss.value).powi(2);
        accuracies += (found.accuracy.value - truth.accuracy.value).powi(2);
    }
    let seen = |squares: f64| (squares / f64::from(collections)).sqrt();
    // With the mean of all, and the count of one collection.
    let scaled = |sum: f64| sum / answers.len() as f64 * f64::from(devices);
    let all = sums(&answers);
    let stated = SCALE
        .found(&Sums {
            loss: scaled(all.loss),
            right: scaled(all.right),
            noise: 300.0,
            answers: devices as u64,
        })
        .unwrap();
    let ratio = seen(accuracies) / stated.accuracy.standard_error();
    assert!((ratio - 1.0).abs() < 6.0 * 0.016, "right or wrong: exact, not a bound: {ratio}");
    let ratio = seen(losses) / stated.loss.standard_error();
    assert!(ratio < 1.0 + 6.0 * 0.016, "at most: {ratio}");
    assert!(ratio > stated.loss.noise / stated.loss.standard_error(), "noise alone is less");
    assert!(stated.accuracy.noise < 0.5 * stated.accuracy.standard_error());
}

#[test]
fn answers_stay_within_their_bounds() {
    let answer = |loss: f64| {
        let model = Constant { loss, right: loss < 1.0 };
        SCALE.answer(&model, &[0.0], &[()]).unwrap()
    };
    let (no, all) = (0, SCALE.max);
    assert_eq!(answer(0.0), Answer { loss: no, right: all });
    assert_eq!(answer(2.0), Answer { loss: all / 2, right: no });
    assert_eq!(answer(-3.0), Answer { loss: no, right: all });
    for broken in [4.0, 1e300, f64::INFINITY, f64::NAN] {
        assert_eq!(answer(broken), Answer { loss: all, right: no }, "{broken}");
    }
    assert_eq!(SCALE.answer(&Constant { loss: 1.0, right: true }, &[0.0], &[]), None);
}

#[test]
fn nonsense_is_refused() {
    let sums = Sums { loss: 1.0, right: 1.0, noise: 1.0, answers: 1 };
    SCALE.found(&sums).unwrap();
    for bad in [
        Sums { answers: 0, ..sums },
        Sums { noise: -1.0, ..sums },
        Sums { noise: f64::INFINITY, ..sums },
        Sums { loss: f64::NAN, ..sums },
        Sums { right: f64::INFINITY, ..sums },
    ] {
        assert!(SCALE.found(&bad).is_err(), "{bad:?}");
    }
    for bad in [
        Scale { largest_loss: 0.0, ..SCALE },
        Scale { max: 0, ..SCALE },
        Scale { max: u64::MAX, ..SCALE },
    ] {
        assert!(bad.found(&sums).is_err(), "{bad:?}");
    }
    // Noise may say more than is possible; the errors stay numbers.
    let wild = SCALE.found(&Sums { loss: -1e9, right: 1e9, ..sums }).unwrap();
    assert!(wild.loss.value < 0.0 && wild.accuracy.value > 1.0);
    assert_eq!((wild.loss.sampling, wild.accuracy.sampling), (0.0, 0.0));
}
