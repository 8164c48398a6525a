//! What dishonest clients may try: every lie here is one that an honest client's code cannot make.

use prio::field::Field128;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::encoding::{push_bits, push_checks, signed as element};
use super::instance::{InputShare, Instance, PublicShare, RAND_LEN, SeedShare, ShardFailure};
use super::{Parameters, PineField};
use crate::ConfigError;
use crate::aggregate_share::ShareField;
use crate::goldilocks::Goldilocks;

mod reference;
mod wraparound;

const CTX: &[u8] = b"some application";
const NONCE: [u8; 16] = [5; 16];
const KEY: [u8; 32] = [6; 32];

pub(super) fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

pub(super) fn randomness(rng: &mut ChaCha20Rng) -> [u8; RAND_LEN] {
    let mut rand = [0; RAND_LEN];
    rng.fill_bytes(&mut rand);
    rand
}

/// An instance as tasks have it.
pub(super) fn instance<F: ShareField>(
    field: PineField,
    dimension: usize,
    norm_bound: u64,
) -> Instance<F> {
    Instance::new(field.vdaf_type(), Parameters::new(field, dimension, norm_bound))
}

pub(super) type Report<F> = (PublicShare, InputShare<F>, SeedShare);

/// Whether both aggregators accept.
pub(super) fn accepted<F: ShareField>(instance: &Instance<F>, report: Report<F>) -> bool {
    accepted_with(instance, report, CTX, &NONCE)
}

fn accepted_with<F: ShareField>(
    instance: &Instance<F>,
    (public_share, leader, helper): Report<F>,
    ctx: &[u8],
    nonce: &[u8; 16],
) -> bool {
    let mut states = Vec::new();
    let mut shares = Vec::new();
    for (agg_id, share) in (0..).zip([leader, instance.expand(ctx, 1, &helper)]) {
        let own = instance.parts(ctx, agg_id, nonce, &share);
        let common = (&KEY, ctx, nonce);
        let (state, share) =
            instance.verify_init(common, agg_id, &public_share, share, own).unwrap();
        states.push(state);
        shares.push(share);
    }
    let Ok(shares) = <[_; 2]>::try_from(shares) else { panic!("two shares") };
    match instance.verifier_shares_to_message(ctx, shares) {
        Ok(message) => states.iter().all(|state| state.seeds == message),
        Err(_) => false,
    }
}

fn honest<F: ShareField>(instance: &Instance<F>) -> Report<F> {
    instance.shard(CTX, &[3, -4, 0, 1, 2], &NONCE, &randomness(&mut rng(1))).unwrap()
}

/// The negative cases of `vectors/pine_18` that alter an honest report.
fn altered_reports_are_rejected<F: ShareField>(field: PineField) {
    let instance = instance::<F>(field, 5, 10);
    assert!(accepted(&instance, honest(&instance)));
    assert!(!accepted_with(&instance, honest(&instance), b"another application", &NONCE));
    assert!(!accepted_with(&instance, honest(&instance), CTX, &[7; 16]));

    // One more, anywhere: in the vector, the bits of the norm, of a check, in each proof.
    for at in [0, 4, 5, 12, instance.parameters().encoded_len() - 1] {
        let mut report = honest(&instance);
        report.1.measurement[at] += F::one();
        assert!(!accepted(&instance, report), "element {at}");
    }
    let proofs_len = instance.proofs_len();
    for at in [0, proofs_len / 2, proofs_len - 1] {
        let mut report = honest(&instance);
        report.1.proofs[at] += F::one();
        assert!(!accepted(&instance, report), "proof element {at}");
    }

    let swaps: [fn(&mut PublicShare); 3] = [
        |share| std::mem::swap(&mut share.wr_parts, &mut share.vf_parts),
        |share| share.wr_parts.swap(0, 1),
        |share| share.vf_parts.swap(0, 1),
    ];
    for swap in swaps {
        let mut report = honest(&instance);
        swap(&mut report.0);
        assert!(!accepted(&instance, report));
    }
}

#[test]
fn altered_reports_are_rejected_in_both_fields() {
    altered_reports_are_rejected::<Goldilocks>(PineField::Field64);
    altered_reports_are_rejected::<Field128>(PineField::Field128);
}

/// A report with these numbers as the squared norm and what is left up to the bound.
fn with_claimed_norm<F: ShareField>(
    instance: &Instance<F>,
    values: &[i64],
    [norm, rest]: [u128; 2],
) -> Report<F> {
    let parameters = instance.parameters();
    let mut first: Vec<F> = values.iter().map(|value| element(*value)).collect();
    push_bits(&mut first, norm, parameters.norm_bits());
    push_bits(&mut first, rest, parameters.norm_bits());
    let checks = |encoded: &mut Vec<F>, results: &[F]| {
        push_checks(parameters, encoded, results).ok_or(ShardFailure::Checks)
    };
    instance.shard_encoded(CTX, first, checks, &NONCE, &randomness(&mut rng(2))).unwrap()
}

/// `bound` is even.
fn long_vectors_are_rejected<F: ShareField>(field: PineField, bound: u64) {
    let instance = instance::<F>(field, 4, bound);
    let squared = u128::from(bound) * u128::from(bound);
    let claimed =
        |value: &[i64], claim| accepted(&instance, with_claimed_norm(&instance, value, claim));
    // Vectors of the norm `2 half`: all of it in one number, or as much in each, of either sign.
    let vectors = |half: u64| {
        let half = half as i64;
        [[0, -2 * half, 0, 0], [half, -half, -half, half]]
    };
    for vector in vectors(bound / 2) {
        // The control: this is how an honest client does it.
        assert!(claimed(&vector, [squared, 0]), "{vector:?}");
        assert!(!claimed(&vector, [squared - 1, 1]), "{vector:?}: the norm is 1 more than it says");
    }
    // 1.0001 and 1.5 times the bound.
    for longer in [bound.div_ceil(10_000), bound / 2] {
        let half = (bound + longer).div_ceil(2);
        let norm = 4 * u128::from(half).pow(2);
        for vector in vectors(half) {
            assert!(instance.shard(CTX, &vector, &NONCE, &[0; RAND_LEN]).is_err());
            let low = |number: u128| number & ((1 << instance.parameters().norm_bits()) - 1);
            for claim in [
                // A lie about the norm; the truth, with the negative rest cut off, or with none.
                [squared, 0],
                [low(norm), low(squared.wrapping_sub(norm))],
                [low(norm), 0],
                [0, squared],
            ] {
                assert!(!claimed(&vector, claim), "{bound}: {vector:?} as {claim:?}");
            }
        }
    }
}

#[test]
fn a_norm_above_the_bound_is_rejected() {
    for bound in [2, 10_000, 1 << 15, 1 << 24, 1 << 26] {
        long_vectors_are_rejected::<Goldilocks>(PineField::Field64, bound);
        long_vectors_are_rejected::<Field128>(PineField::Field128, bound);
    }
    long_vectors_are_rejected::<Field128>(PineField::Field128, 1 << 48);
}

/// Bits that are no bits, with a norm that would fit.
#[test]
fn bits_must_be_bits() {
    let instance = instance::<Goldilocks>(PineField::Field64, 2, 10);
    let parameters = instance.parameters();
    // 11^2 = 121, as 100 + 21: the lowest bit of the rest is -21.
    let mut first: Vec<Goldilocks> = [0, 11].map(element).into();
    push_bits(&mut first, 121, parameters.norm_bits());
    first.push(element(-21));
    push_bits(&mut first, 0, parameters.norm_bits() - 1);
    let checks = |encoded: &mut Vec<_>, results: &[_]| {
        push_checks(parameters, encoded, results).ok_or(ShardFailure::Checks)
    };
    let rand = randomness(&mut rng(3));
    let report = instance.shard_encoded(CTX, first, checks, &NONCE, &rand).unwrap();
    assert!(!accepted(&instance, report));
}

#[test]
fn weak_parameters_are_refused() {
    let field = PineField::Field64;
    let task = Parameters::new(field, 1 << 20, 1 << 15);
    assert_eq!(task.check_soundness(field), Ok(()));
    assert_eq!(task.check_soundness(PineField::Field128), Ok(()));
    let bits = |parameters: Parameters| match parameters.check_soundness(field) {
        Err(ConfigError::Soundness { bits, .. }) => Some(bits),
        _ => None,
    };
    assert_eq!(bits(Parameters { wr_checks: 75, wr_successes: 75, ..task }), None);
    // Of the test vectors: 2^-8.6.
    assert_eq!(bits(Parameters { wr_checks: 75, wr_successes: 50, ..task }), Some(8));
    assert_eq!(bits(Parameters { wr_checks: 59, wr_successes: 59, ..task }), Some(59));
    assert_eq!(bits(Parameters { wr_checks: 60, wr_successes: 60, ..task }), None);
    assert_eq!(bits(Parameters { proofs: 1, ..task }), Some(52));
    // 2 x 2^20 over a field of a little less than 2^64.
    assert_eq!(bits(Parameters { chunk_length_norm_equality: 1, ..task }), Some(42));
}
