//! Every operation against `prio`'s `Field64`, whose code has nothing in common with ours.

use prio::codec::{Decode, Encode};
use prio::field::{Field64, FieldElement, FieldElementWithInteger, NttFriendlyFieldElement};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Goldilocks;

const P: u64 = Goldilocks::MODULUS;

/// The integers at which carries, borrows and reductions happen, and random ones.
fn values() -> Vec<u64> {
    let edges = [
        0,
        1,
        2,
        0xffff_fffe,
        0xffff_ffff,
        1 << 32,
        (1 << 32) + 1,
        P >> 1,
        (P >> 1) + 1,
        1 << 63,
        P - (1 << 32),
        P - 0xffff_ffff,
        P - 3,
        P - 2,
        P - 1,
    ];
    let mut rng = ChaCha20Rng::seed_from_u64(64);
    let random = std::iter::repeat_with(|| rng.next_u64() % P);
    edges.into_iter().chain(random.take(85)).collect()
}

fn equal(ours: Goldilocks, theirs: Field64) -> bool {
    ours.value() == u64::from(theirs) && ours.get_encoded().ok() == theirs.get_encoded().ok()
}

#[test]
fn arithmetic_is_that_of_prio() {
    let values = values();
    for &a in &values {
        let (a, their_a) = (Goldilocks::from(a), Field64::from(a));
        assert!(equal(a, their_a) && equal(-a, -their_a), "{a}");
        assert!(a == Goldilocks::ZERO || equal(a.inv(), their_a.inv()), "{a}");
        assert!(equal(a.pow(12_345), their_a.pow(12_345)), "{a}");
        for &b in &values {
            let (b, their_b) = (Goldilocks::from(b), Field64::from(b));
            assert!(equal(a + b, their_a + their_b), "{a} + {b}");
            assert!(equal(a - b, their_a - their_b), "{a} - {b}");
            assert!(equal(a * b, their_a * their_b), "{a} * {b}");
        }
    }
}

#[test]
fn constants_are_those_of_prio() {
    assert_eq!(P, Field64::modulus());
    assert!(equal(Goldilocks::half(), Field64::half()));
    assert!(equal(Goldilocks::generator(), Field64::generator()));
    assert_eq!(Goldilocks::generator_order(), Field64::generator_order());
    for l in 0..=20 {
        let (Some(ours), Some(theirs)) = (Goldilocks::root(l), Field64::root(l)) else {
            panic!("no root {l}");
        };
        assert!(equal(ours, theirs), "root {l}");
    }
    assert!(Goldilocks::root(21).is_none() && Field64::root(21).is_none());
}

#[test]
fn wide_integers_are_reduced() {
    let values = values();
    for &high in &values {
        for &low in &values {
            let wide = u128::from(high) << 64 | u128::from(low);
            assert_eq!(u128::from(Goldilocks::from_u128(wide).value()), wide % u128::from(P));
            let signed = (wide as i128) >> 1;
            let expected = signed.rem_euclid(i128::from(P));
            assert_eq!(i128::from(Goldilocks::from_i128(signed).value()), expected, "{signed}");
        }
    }
    for wide in [u128::MAX, u128::MAX - 1, u128::from(u64::MAX), u128::from(P)] {
        assert_eq!(u128::from(Goldilocks::from_u128(wide).value()), wide % u128::from(P));
    }
    assert_eq!(Goldilocks::new(u64::MAX).value(), u64::MAX - P);
    assert_eq!(Goldilocks::new(P), Goldilocks::ZERO);
}

#[test]
fn only_integers_below_the_modulus_decode() {
    for value in [0, 1, P - 1] {
        assert_eq!(
            Goldilocks::get_decoded(&value.to_le_bytes()).ok(),
            Some(Goldilocks::from(value))
        );
    }
    for value in [P, P + 1, u64::MAX] {
        assert!(Goldilocks::get_decoded(&value.to_le_bytes()).is_err());
        assert!(Field64::get_decoded(&value.to_le_bytes()).is_err());
    }
    assert!(Goldilocks::try_from([0; 7].as_slice()).is_err());
    let json = serde_json::to_string(&Goldilocks::from(P - 1)).unwrap();
    assert_eq!(serde_json::from_str::<Goldilocks>(&json).unwrap(), Goldilocks::from(P - 1));
}
