//! Vectors of devices: rounded and clipped.

use rand_chacha::ChaCha20Rng;
use sotto_dp::mechanism::exact::Exact;
use sotto_dp::mechanism::vector::{clip, is_within};
use sotto_dp::mechanism::{Encoding, Method, Value};

use super::simulated::rng;

pub(super) fn squares(vector: &[i64]) -> i128 {
    vector.iter().map(|number| i128::from(*number).pow(2)).sum()
}

#[test]
fn a_vector_within_the_bound_is_only_rounded() {
    // Ties go to the even number.
    assert_eq!(clip(&[0.5, -1.5, 2.5, 3.25, -0.0], 5, 0, 100), [0, -2, 2, 3, 0]);
    assert_eq!(clip(&[0.5, -1.5, 2.5, 3.25, -0.0], 5, 2, 100), [2, -6, 10, 13, 0]);
    // Exactly as long as the bound.
    assert_eq!(clip(&[3.0, -4.0], 2, 0, 5), [3, -4]);
    assert_eq!(clip(&[0.75, -1.0], 2, 2, 5), [3, -4]);
    assert_eq!(clip(&[7.0], 1, 0, 7), [7]);
    assert_eq!(clip(&[-7.0], 1, 0, 7), [-7]);
}

#[test]
fn a_longer_vector_is_made_as_long_as_the_bound() {
    assert_eq!(clip(&[30.0, -40.0], 2, 0, 5), [3, -4]);
    assert_eq!(clip(&[8.0], 1, 0, 7), [7]);
    // As long as the bound before it is rounded, and longer afterwards.
    let rounded_up = clip(&[6.6; 4], 4, 0, 13);
    assert!(squares(&[7; 4]) > 13 * 13 && squares(&rounded_up) <= 13 * 13, "{rounded_up:?}");
    assert_eq!(rounded_up, [6; 4]);
    // Huge numbers, of which the squares overflow, and the largest one.
    assert_eq!(clip(&[3e200, -4e200], 2, 10, 5), [3, -4]);
    assert_eq!(clip(&[f64::MAX, -f64::MAX], 2, 40, 10), [7, -7]);
    assert_eq!(clip(&[f64::MAX, 1.0], 2, 0, 10), [10, 0]);
    // Too small to be seen, and a bound below one half of the root of the length.
    assert_eq!(clip(&[f64::MIN_POSITIVE; 3], 3, 40, 10), [0; 3]);
    assert_eq!(clip(&[1.0; 400], 400, 0, 9), [0; 400]);
}

#[test]
fn what_is_no_vector_counts_as_zeros() {
    for wrong in [&[1.0; 2][..], &[1.0; 4], &[], &[1.0, f64::NAN, 1.0], &[f64::INFINITY, 0.0, 0.0]]
    {
        assert_eq!(clip(wrong, 3, 4, 100), [0; 3]);
    }
    assert_eq!(clip(&[1.0, 2.0, 3.0], 3, 4, 0), [0; 3]);
    assert!(clip(&[], 0, 4, 5).is_empty());
    // What is no vector of a mechanism either: of wrong lengths, too long, of another kind.
    let encoding = Encoding::Vector { length: 3, norm_bound: 50 };
    let exact = Exact::of(encoding);
    let zeros = Value::Vector(vec![0; 3]);
    let mut rng = rng(1);
    for wrong in [Value::Bit(true), Value::Number(7), Value::OneHot(1), Value::Labels(vec![0, 2])] {
        assert_eq!(exact.randomize(wrong, &mut rng), zeros);
    }
    for wrong in [vec![], vec![1; 2], vec![1; 4]] {
        assert_eq!(exact.randomize(Value::Vector(wrong), &mut rng), zeros);
    }
    let far = Value::Vector(vec![i64::MAX, i64::MIN, 0]);
    assert_eq!(exact.randomize(far, &mut rng), Value::Vector(vec![35, -35, 0]));
    let there = Value::Vector(vec![30, -40, 0]);
    assert_eq!(exact.randomize(there.clone(), &mut rng), there);
    assert_eq!(encoding.nothing(), Some(zeros));
}

/// Random vectors around the bound: never longer afterwards, hardly shorter, and in the same
/// direction.
#[test]
fn clipping_keeps_direction_and_norm() {
    let mut rng = rng(2);
    let mut shrunk = 0;
    for case in 0..400_u64 {
        let length = [1, 2, 7, 100, 3_000][case as usize % 5];
        let bound = [60, 4_000, 1 << 15, 1 << 31, 1 << 50][(case / 5) as usize % 5];
        let factor = [0.9, 1.0, 1.000_001, 1.5, 1e9][(case / 25) as usize % 5];
        let direction: Vec<f64> = (0..length).map(|_| normal(&mut rng)).collect();
        let size = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        let wanted = bound as f64 / 1024.0 * factor / size;
        let vector: Vec<f64> = direction.iter().map(|x| x * wanted).collect();
        let found = clip(&vector, length, 10, bound);
        let square = squares(&found);
        let most = i128::from(bound) * i128::from(bound);
        assert!(square <= most && is_within(&found, bound), "{length} {bound} {factor}");
        assert!(square == most || !is_within(&found, bound.min((square as f64).sqrt() as u64 - 1)));
        let scale = factor.min(1.0) * bound as f64 / size;
        let rounded: Vec<i64> =
            direction.iter().map(|x| (x * scale).round_ties_even() as i64).collect();
        shrunk += u32::from(squares(&rounded) > most);
        for (found, x) in found.iter().zip(&direction) {
            // Half a unit of rounding; the norm after it is aimed at to a few units.
            let room = 0.51 + 10.0 * x.abs() / size + 1e-15 * bound as f64;
            assert!((*found as f64 - x * scale).abs() <= room, "{length} {bound} {factor}");
        }
    }
    println!("{shrunk} of 400 were longer after rounding");
    assert!(shrunk > 40);
}

/// A nearly normal number.
pub(super) fn normal(rng: &mut ChaCha20Rng) -> f64 {
    let uniform = |rng: &mut ChaCha20Rng| {
        sotto_dp::uniform::uniform_below(1 << 53, rng) as f64 / (1_u64 << 53) as f64
    };
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}
