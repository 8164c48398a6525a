//! Every version of every function against its definition with `prio`'s `Field64`.

use prio::field::{Field64, FieldElement};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Instructions, add_multiple, add_signed_sums, mix_and_scale, scale, scale_and_mix};
use crate::goldilocks::Goldilocks;

const P: u64 = Goldilocks::MODULUS;

/// Elements with many at the edges of the field.
fn elements(rng: &mut ChaCha20Rng, length: usize) -> Vec<u64> {
    let edges = [0, 1, P - 1, P - 2, 0xffff_ffff, 1 << 32, 0xff, P >> 1];
    let mut element = || match rng.next_u32() % 16 {
        edge @ 0..8 => edges[edge as usize],
        _ => rng.next_u64() % P,
    };
    (0..length).map(|_| element()).collect()
}

/// Lengths around every width that a version could work in.
fn lengths() -> impl Iterator<Item = usize> {
    (0..=70).chain([127, 255, 256, 257, 1021, 1023, 1024, 1025, 1027, 2048, 2500])
}

fn ours(elements: &[u64]) -> Vec<Goldilocks> {
    elements.iter().map(|element| Goldilocks::from(*element)).collect()
}

fn signed_sum(x: &[u64], row: &[u8]) -> u64 {
    let sign = |index: usize| match row[index / 4] >> (2 * (index % 4)) & 3 {
        0 => -Field64::one(),
        3 => Field64::one(),
        _ => Field64::zero(),
    };
    let sum = x.iter().enumerate().map(|(index, x)| Field64::from(*x) * sign(index));
    u64::from(sum.fold(Field64::zero(), |sum, product| sum + product))
}

fn check_signed_sums(x: &[u64], signs: &[u8], rows: usize, start: u64) {
    let row_length = x.len().div_ceil(4);
    let expected: Vec<Goldilocks> = (0..rows)
        .map(|row| signed_sum(x, &signs[row * row_length..(row + 1) * row_length]))
        .map(|sum| Goldilocks::from(sum) + Goldilocks::from(start))
        .collect();
    for instructions in Instructions::available() {
        let mut sums = vec![Goldilocks::from(start); rows];
        add_signed_sums(instructions, &ours(x), signs, &mut sums);
        assert_eq!(sums, expected, "{}, {} elements, {rows} rows", instructions.name(), x.len());
    }
}

#[test]
fn signed_sums_of_all_lengths() {
    let mut rng = ChaCha20Rng::seed_from_u64(19);
    for length in lengths() {
        let rows = [1, 3, 8, 21][length % 4];
        let x = elements(&mut rng, length);
        let mut signs = vec![0; rows * length.div_ceil(4)];
        rng.fill_bytes(&mut signs);
        check_signed_sums(&x, &signs, rows, P - 1);
    }
}

#[test]
fn signed_sums_of_every_number_of_rows() {
    let mut rng = ChaCha20Rng::seed_from_u64(20);
    for rows in 0..=45 {
        let x = elements(&mut rng, 37);
        let mut signs = vec![0; rows * 10];
        rng.fill_bytes(&mut signs);
        check_signed_sums(&x, &signs, rows, 0);
    }
}

/// All signs equal and all bytes of the elements as large as possible: the largest sums there are.
#[test]
fn signed_sums_do_not_overflow() {
    for element in [P - 1, 0xfffe_ffff_ffff_ffff, 0xffff_fffe_ffff_ffff, 0] {
        for signs in [0x00, 0x55, 0xaa, 0xff] {
            let x = vec![element; 5000];
            check_signed_sums(&x, &vec![signs; 2 * 1250], 2, 1);
        }
    }
}

/// All operations on rows, with many pairs of edge elements.
#[test]
fn rows_of_all_lengths() {
    let mut rng = ChaCha20Rng::seed_from_u64(21);
    for length in (0..=40).chain([1000, 4001]) {
        for factor in [0, 1, 2, 0xffff_ffff, 1 << 32, P - 1, rng.next_u64() % P] {
            let (a, b) = (elements(&mut rng, length), elements(&mut rng, length));
            check_rows(&a, &b, factor);
        }
    }
}

fn check_rows(a: &[u64], b: &[u64], factor: u64) {
    let expect = |result: fn(Field64, Field64, Field64) -> Field64| -> Vec<Goldilocks> {
        let elements = a.iter().zip(b).map(|(a, b)| {
            u64::from(result(Field64::from(*a), Field64::from(*b), Field64::from(factor)))
        });
        elements.map(Goldilocks::from).collect()
    };
    for instructions in Instructions::available() {
        let what = format!("{}, {} elements, factor {factor}", instructions.name(), a.len());
        let (mut x, mut y, factor) = (ours(a), ours(b), Goldilocks::from(factor));
        add_multiple(instructions, &mut x, &y, factor);
        assert_eq!(x, expect(|a, b, factor| a + b * factor), "{what}");

        scale(instructions, &mut y, factor);
        assert_eq!(y, expect(|_, b, factor| b * factor), "{what}");

        (x, y) = (ours(a), ours(b));
        mix_and_scale(instructions, &mut x, &mut y, factor);
        assert_eq!(x, expect(|a, b, _| a + b), "{what}");
        assert_eq!(y, expect(|a, b, factor| factor * (a - b)), "{what}");

        (x, y) = (ours(a), ours(b));
        scale_and_mix(instructions, &mut x, &mut y, factor);
        assert_eq!(x, expect(|a, b, factor| a + factor * b), "{what}");
        assert_eq!(y, expect(|a, b, factor| a - factor * b), "{what}");
    }
}
