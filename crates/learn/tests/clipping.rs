//! The clip that follows a quantile, and what it costs.

use sotto_dp::account::Question;
use sotto_dp::{Accountant, Adjacency, Event, Shape};
use sotto_learn::clipping::Clipping;

const QUANTILE: Clipping =
    Clipping::Quantile { first_clip: 0.5, quantile: 0.7, rate: 0.2, weight: 0.1 };

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn the_clip_finds_the_quantile() {
    // Norms 0.01, 0.02, ..., 10: seven tenths are at most 7.
    let devices = 1_000;
    let mut largest = QUANTILE.first_norm();
    for round in 0..200 {
        let sum: f64 = (1..=devices)
            .map(|device| {
                let update = vec![0.0, f64::from(device) * 0.01];
                *QUANTILE.contribution(update, largest).last().unwrap()
            })
            .sum();
        // A stand-in for noise.
        let noise = if round % 2 == 0 { 0.02 } else { -0.02 } * largest;
        largest = QUANTILE.next_norm(largest, sum / f64::from(devices) + noise);
    }
    let clip = largest / QUANTILE.noise_factor();
    assert!((6.7..7.3).contains(&clip), "{clip}");
}

#[test]
fn update_and_vote_fit_into_the_stated_norm() {
    let largest = QUANTILE.first_norm();
    assert!((largest - 0.5 * 1.01_f64.sqrt()).abs() < 1e-15);
    for (size, says_yes) in [(0.0, true), (0.4, true), (0.499, true), (0.501, false), (80.0, false)]
    {
        let found = QUANTILE.contribution(vec![0.6 * size, -0.8 * size], largest);
        assert_eq!(found.len(), 2 + QUANTILE.votes());
        assert!(norm(&found) <= largest * (1.0 + 1e-12), "{size}");
        let vote = if says_yes { 0.05 } else { -0.05 };
        assert!((found[2] - vote).abs() < 1e-15, "{size}: {found:?}");
        let expected = if says_yes { size } else { 0.5 };
        assert!((norm(&found[..2]) - expected).abs() < 1e-12, "{size}");
    }
    // Without votes the mechanism clips.
    let fixed = Clipping::Fixed { clip: 0.5 };
    assert_eq!(fixed.contribution(vec![3.0], 0.5), [3.0]);
    assert_eq!((fixed.votes(), fixed.next_norm(0.5, 7.0)), (0, 0.5));
}

#[test]
fn noise_cannot_move_the_clip_by_more_than_a_unanimous_vote() {
    let up = QUANTILE.next_norm(1.0, -100.0);
    let down = QUANTILE.next_norm(1.0, 100.0);
    assert!((up - 0.14_f64.exp()).abs() < 1e-12 && (down - (-0.06_f64).exp()).abs() < 1e-12);
}

/// The cost as the module states it: one Gaussian of sigma, or two of their own that give the same.
#[test]
fn votes_cost_what_two_sums_would() {
    let (sigma, weight): (f64, f64) = (1.5, 0.1);
    let factor = QUANTILE.noise_factor();
    let epsilon = |event: Event| {
        let of = Box::new(event);
        let question = Question {
            event: &Event::Repeated { times: 10, of },
            adjacency: Adjacency::AddRemove,
            shape: Shape::Vector,
            accountant: Accountant::Best,
        };
        question.epsilon(1e-6).unwrap().epsilon
    };
    let gaussian = |sigma| Event::Gaussian { sigma, sensitivity: 1.0 };
    let one = epsilon(gaussian(sigma));
    let updates = gaussian(sigma * factor);
    let both = |votes| epsilon(Event::Composed { of: vec![updates.clone(), gaussian(votes)] });
    let two = both(sigma * factor / weight);
    assert!(one.lower <= two.upper && two.lower <= one.upper, "{one:?} {two:?}");
    assert!((one.upper / two.upper - 1.0).abs() < 1e-3, "{one:?} {two:?}");
    // Updates alone cost less, and votes with half of that noise more.
    assert!(epsilon(updates.clone()).upper < 0.998 * one.upper);
    assert!(both(0.5 * sigma * factor / weight).upper > 1.005 * one.upper);
}

#[test]
fn nonsense_is_refused() {
    QUANTILE.check().unwrap();
    for bad in [
        Clipping::Fixed { clip: 0.0 },
        Clipping::Fixed { clip: f64::NAN },
        Clipping::Quantile { first_clip: 1.0, quantile: 1.0, rate: 0.2, weight: 0.1 },
        Clipping::Quantile { first_clip: 1.0, quantile: 0.0, rate: 0.2, weight: 0.1 },
        Clipping::Quantile { first_clip: 1.0, quantile: 0.5, rate: 0.0, weight: 0.1 },
        Clipping::Quantile { first_clip: 1.0, quantile: 0.5, rate: 0.2, weight: 0.0 },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}
