//! The clip that follows a quantile, and what it costs.

use sotto_dp::account::Question;
use sotto_dp::{Accountant, Adjacency, Event, Shape};
use sotto_learn::clipping::Clipping;

const QUANTILE: Clipping = Clipping::Quantile { norm: 0.5, quantile: 0.7, rate: 0.2, weight: 0.1 };

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn the_clip_finds_the_quantile() {
    // Norms 0.01, 0.02, ..., 10: seven tenths are at most 7.
    let devices = 1_000;
    let stated = QUANTILE.stated();
    let mut clip = stated.first_clip();
    for round in 0..200 {
        let sum: f64 = (1..=devices)
            .map(|device| {
                let update = vec![0.0, f64::from(device) * 0.01];
                *stated.contribution(update, clip).last().unwrap()
            })
            .sum();
        // A stand-in for noise, which is as large in every round.
        let noise = if round % 2 == 0 { 0.02 } else { -0.02 } * stated.norm;
        clip = QUANTILE.next_clip(clip, sum / f64::from(devices) + noise);
    }
    assert!((6.7..7.3).contains(&clip), "{clip}");
}

#[test]
fn update_and_vote_fit_into_the_stated_norm_in_every_round() {
    let stated = QUANTILE.stated();
    let first = stated.first_clip();
    assert!((first * 1.01_f64.sqrt() - 0.5).abs() < 1e-15);
    for clip in [first, 0.001, 40.0] {
        for (part, says_yes) in
            [(0.0, true), (0.8, true), (0.999, true), (1.001, false), (1e9, false)]
        {
            let size: f64 = part * clip;
            let found = stated.contribution(vec![0.6 * size, -0.8 * size], clip);
            assert_eq!(found.len(), 2 + stated.votes());
            assert!(norm(&found) <= stated.norm * (1.0 + 1e-12), "{size}");
            let vote = if says_yes { 0.1 * first } else { -0.1 * first };
            assert_eq!(found[2], vote, "{size}: {found:?}");
            // What the server makes of it is the clipped update.
            let back = norm(&found[..2]) * stated.scale(clip);
            assert!((back / clip - part.min(1.0)).abs() < 1e-12, "{size} {back}");
        }
    }
    // Without votes the mechanism clips, and the clip stays.
    let fixed = Clipping::Fixed { clip: 0.5 };
    assert_eq!(fixed.stated().contribution(vec![3.0], 0.5), [3.0]);
    assert_eq!((fixed.stated().votes(), fixed.next_clip(0.5, 7.0)), (0, 0.5));
    assert_eq!(fixed.stated().scale(fixed.stated().first_clip()), 1.0);
}

#[test]
fn numbers_that_are_none_say_no() {
    let stated = QUANTILE.stated();
    for bad in [f64::NAN, f64::INFINITY, 1e200] {
        let found = stated.contribution(vec![bad, 1.0], 0.5);
        assert!(found[2] < 0.0, "{bad}: {found:?}");
        // Whatever is left is within the norm, or is taken for zero as a whole.
        assert!(found.iter().any(|x| x.is_nan()) || norm(&found) <= stated.norm, "{found:?}");
    }
}

#[test]
fn noise_cannot_move_the_clip_by_more_than_a_unanimous_vote() {
    let up = QUANTILE.next_clip(1.0, -100.0);
    let down = QUANTILE.next_clip(1.0, 100.0);
    // Published clips have 24 bits.
    assert!((up / 0.14_f64.exp() - 1.0).abs() < 1e-7, "{up}");
    assert!((down / (-0.06_f64).exp() - 1.0).abs() < 1e-7, "{down}");
    // It stays a number that devices can use, however long everybody says the same.
    for vote in [-100.0, 100.0, f64::INFINITY, f64::NEG_INFINITY] {
        let clip = (0..2_000).fold(1.0, |clip, _| QUANTILE.next_clip(clip, vote));
        let numbers = QUANTILE.stated().to_numbers(&[0.0], clip);
        assert_eq!(QUANTILE.stated().from_numbers(numbers, 1).unwrap(), (vec![0.0], clip));
    }
}

#[test]
fn a_model_is_the_weights_and_the_clip_if_there_are_votes() {
    let stated = QUANTILE.stated();
    assert_eq!(stated.to_numbers(&[1.0, 2.0], 0.25), [1.0, 2.0, 0.25]);
    assert_eq!(stated.from_numbers(vec![1.0, 2.0, 0.25], 2).unwrap(), (vec![1.0, 2.0], 0.25));
    for bad in [vec![], vec![1.0, 0.25], vec![1.0, 2.0, 0.25, 1.0]] {
        assert!(stated.from_numbers(bad, 2).is_err());
    }
    for clip in [0.0, -1.0, 1e-30, 1e30, f64::NAN, f64::INFINITY] {
        assert!(stated.from_numbers(vec![1.0, 2.0, clip], 2).is_err(), "{clip}");
    }
    assert!(stated.from_numbers(vec![1.0], usize::MAX).is_err());
    let fixed = Clipping::Fixed { clip: 0.5 }.stated();
    assert_eq!(fixed.to_numbers(&[1.0, 2.0], 0.5), [1.0, 2.0]);
    assert_eq!(fixed.from_numbers(vec![1.0, 2.0], 2).unwrap(), (vec![1.0, 2.0], 0.5));
}

/// The cost as the module states it: one Gaussian of sigma, or two of their own that give the same.
#[test]
fn votes_cost_what_two_sums_would() {
    let (sigma, weight): (f64, f64) = (1.5, 0.1);
    let factor = QUANTILE.stated().noise_factor();
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
        Clipping::Quantile { norm: 1.0, quantile: 1.0, rate: 0.2, weight: 0.1 },
        Clipping::Quantile { norm: 1.0, quantile: 0.0, rate: 0.2, weight: 0.1 },
        Clipping::Quantile { norm: 1.0, quantile: 0.5, rate: 0.0, weight: 0.1 },
        Clipping::Quantile { norm: 1.0, quantile: 0.5, rate: 0.2, weight: 0.0 },
        Clipping::Quantile { norm: f64::INFINITY, quantile: 0.5, rate: 0.2, weight: 0.1 },
        Clipping::Quantile { norm: 1e-30, quantile: 0.5, rate: 0.2, weight: 0.1 },
    ] {
        assert!(bad.check().is_err(), "{bad:?}");
    }
}
