//! Vectors whose squared norm is small in the field, because it wrapped around.

use prio::field::Field128;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::Rng;

use super::{CTX, NONCE, Report, accepted, instance, randomness, rng};
use crate::aggregate_share::ShareField;
use crate::goldilocks::Goldilocks;
use crate::pine::PineField;
use crate::pine::encoding::{push_bits, push_checks};
use crate::pine::instance::{Instance, ShardFailure};

/// The squared norm in the field: 1000, far below the squared bound.
const NORM: u128 = 1_000;
const BOUND: u64 = 100;

/// A square root, by the algorithm of Tonelli and Shanks.
fn square_root<F: ShareField>(square: F) -> Option<F> {
    let modulus: u128 = F::modulus().into();
    let twos = (modulus - 1).trailing_zeros();
    let odd = (modulus - 1) >> twos;
    let mut root = power(square, odd.div_ceil(2));
    let mut rest = power(square, odd);
    // An element of order 2^twos.
    let mut twist = (2..).map(|at| power(F::from_number(at), odd)).find(|candidate| {
        (1..twos).fold(*candidate, |power, _| power * power) == F::zero() - F::one()
    })?;
    let mut order = twos;
    while rest != F::one() {
        let mut log = 0;
        let mut repeated = rest;
        while repeated != F::one() {
            repeated *= repeated;
            log += 1;
            if log == order {
                return None;
            }
        }
        let factor = (0..order - log - 1).fold(twist, |power, _| power * power);
        twist = factor * factor;
        order = log;
        root *= factor;
        rest *= twist;
    }
    Some(root)
}

fn power<F: ShareField>(base: F, exponent: u128) -> F {
    (0..u128::BITS).rev().fold(F::one(), |power, bit| {
        let squared = power * power;
        if exponent >> bit & 1 == 1 { squared * base } else { squared }
    })
}

/// (r, s) with r^2 + s^2 = 1000 in the field, where s is small and r is not.
fn wrapping<F: ShareField>(rng: &mut ChaCha20Rng) -> [F; 2] {
    loop {
        let small = F::from_number(u128::from(rng.next_u32() % 1_000));
        if let Some(root) = square_root(F::from_number(NORM) - small * small)
            && (1 << 40..F::modulus().into() - (1 << 40)).contains(&root.to_number())
        {
            return [root, small];
        }
    }
}

#[test]
fn square_roots_are_square_roots() {
    let (mut found, mut none) = (0, 0);
    for number in 1..100 {
        match square_root(Goldilocks::from_number(number)) {
            Some(root) => {
                assert_eq!((root * root).to_number(), number);
                found += 1;
            }
            None => none += 1,
        }
    }
    assert!(found > 30 && none > 30);
}

/// How a client lies about checks that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    /// It says that all passed, with the low bits of each result.
    LowBits,
    /// It says that all passed, with a result of zero.
    Zero,
    /// It admits that they failed.
    None,
    /// It counts one that passed as often as needed.
    Count,
}

fn forged<F: ShareField>(
    instance: &Instance<F>,
    (vector, norm): ([F; 2], u128),
    lie: Lie,
    rng: &mut ChaCha20Rng,
) -> (Report<F>, usize) {
    let parameters = instance.parameters();
    let (bound, squared) = (parameters.wr_bound(), parameters.squared_bound());
    let mut first = vector.to_vec();
    push_bits(&mut first, norm, parameters.norm_bits());
    push_bits(&mut first, squared - norm, parameters.norm_bits());
    let mut passes = 0;
    let checks = |encoded: &mut Vec<F>, results: &[F]| {
        let moved = |result: &F| (*result + F::from_number(bound - 1)).to_number();
        passes = results.iter().filter(|result| moved(result) < 2 * bound).count();
        for result in results {
            let (number, passed) = (moved(result), moved(result) < 2 * bound);
            let (number, success) = match lie {
                _ if passed && lie != Lie::Count => (number, F::one()),
                Lie::LowBits => (number & (2 * bound - 1), F::one()),
                Lie::Zero => (bound - 1, F::one()),
                Lie::None => (0, F::zero()),
                // The successes add up, but one is no bit.
                Lie::Count if passed => (number, F::one()),
                Lie::Count => (0, F::zero()),
            };
            push_bits(encoded, number, parameters.wr_bits());
            encoded.push(success);
        }
        if lie == Lie::Count {
            let step = parameters.wr_bits() + 1;
            let start = encoded.len() - step * results.len();
            let successes = (start + step - 1..encoded.len()).step_by(step);
            let chosen = successes.clone().find(|at| encoded[*at] == F::one());
            if let Some(chosen) = chosen {
                encoded[chosen] = F::from_number((1 + results.len() - passes) as u128);
            }
        }
        Ok(())
    };
    let rand = randomness(rng);
    let report = instance.shard_encoded(CTX, first, checks, &NONCE, &rand).unwrap();
    (report, passes)
}

fn forgeries_are_rejected<F: ShareField>(field: PineField, tries: usize, seed: u64) {
    let instance = instance::<F>(field, 2, BOUND);
    let mut rng = rng(seed);
    let mut all = 0;
    for at in 0..tries {
        let lie = [Lie::LowBits, Lie::Zero, Lie::None, Lie::Count][at % 4];
        let vector = wrapping::<F>(&mut rng);
        let (report, passes) = forged(&instance, (vector, NORM), lie, &mut rng);
        assert!(!accepted(&instance, report), "{lie:?} with {passes} of 100");
        all += passes;
    }
    // Each check passes with probability 1/2. Six standard deviations: falsely red with 2e-9.
    let (mean, deviation) = (50.0 * tries as f64, 5.0 * (tries as f64).sqrt());
    assert!((all as f64 - mean).abs() < 6.0 * deviation, "{all} of {tries} x 100");
}

/// The squares of 2^32 - 1 and 2^16 add up to the modulus, so the norm is 0 in the field, and the
/// numbers are as small as they can be then. With the largest bound that a task may have, a check
/// passes if the first number is left out: with probability 1/2. (With eight times that bound every
/// check would pass, for the first number alone.)
#[test]
fn the_smallest_wraparound_is_rejected_at_the_largest_bound() {
    let field = PineField::Field64;
    let instance = instance::<Goldilocks>(field, 2, field.max_norm_bound());
    assert!(4 * instance.parameters().wr_bound() <= 1 << 32);
    let vector = [(1 << 32) - 1, 1 << 16].map(Goldilocks::from_number);
    let mut rng = rng(5);
    let mut all = 0;
    for lie in [Lie::LowBits, Lie::Zero, Lie::None, Lie::Count] {
        for _ in 0..4 {
            let (report, passes) = forged(&instance, (vector, 0), lie, &mut rng);
            assert!(!accepted(&instance, report), "{lie:?} with {passes} of 100");
            all += passes;
        }
    }
    // 800 of 1,600 on average. Six standard deviations of 20: falsely red with 2e-9.
    assert!((all as f64 - 800.0).abs() < 120.0, "{all} of 1,600");
}

#[test]
fn a_few_wraparounds_are_rejected() {
    forgeries_are_rejected::<Goldilocks>(PineField::Field64, 16, 1);
    forgeries_are_rejected::<Field128>(PineField::Field128, 4, 2);
}

#[test]
#[ignore = "a campaign of a minute"]
fn ten_thousand_wraparounds_are_rejected() {
    forgeries_are_rejected::<Goldilocks>(PineField::Field64, 10_000, 3);
}

/// An honest encoder does not even finish with such a vector: it asks for another attempt.
#[test]
fn the_honest_encoder_gives_up() {
    let instance = instance::<Goldilocks>(PineField::Field64, 2, BOUND);
    let parameters = instance.parameters();
    let mut rng = rng(4);
    for _ in 0..5 {
        let mut first = wrapping::<Goldilocks>(&mut rng).to_vec();
        push_bits(&mut first, NORM, 2 * parameters.norm_bits());
        let checks = |encoded: &mut Vec<_>, results: &[_]| {
            push_checks(parameters, encoded, results).ok_or(ShardFailure::Checks)
        };
        let failed = instance.shard_encoded(CTX, first, checks, &NONCE, &randomness(&mut rng));
        assert!(matches!(failed, Err(ShardFailure::Checks)));
    }
}
