//! Public projections: the same everywhere, and as precise as the formula says.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_dp::projection::Projection;
use sotto_dp::sampler::{DiscreteGaussian, Rate};

fn stream(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// Numbers from -1 to 1.
fn vector(length: u32, rng: &mut ChaCha20Rng) -> Vec<f64> {
    let number = |word: u64| (word >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
    (0..length).map(|_| number(rng.next_u64())).collect()
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn square(a: &[f64]) -> f64 {
    product(a, a)
}

/// Devices and analysts on all platforms have to agree: the words of the stream, the signs, the rows,
/// and the bits of the result.
#[test]
fn a_seed_stands_for_one_projection() {
    let mut words = ChaCha20Rng::from_seed([3; 32]);
    let projection = Projection::new(6, 3, &mut words.clone()).unwrap();
    // By hand: signs are the lowest bits of the first word, rows come of the next three.
    let signs = words.next_u64();
    let mut list: Vec<u64> = (0..8).collect();
    for i in 0..3 {
        // 2^64 mod 8, 7 and 6 are 0, 2 and 4: no word is that small.
        let below = 8 - i;
        let u = (u128::from(words.next_u64()) * u128::from(below)) >> 64;
        list.swap(i as usize, (i + u as u64) as usize);
    }
    let mut rows = list[..3].to_vec();
    rows.sort_unstable();
    let numbers = [0.5, -3.0, 1.25, 0.1, 7.0, -2.5];
    let expected: Vec<f64> = rows
        .iter()
        .map(|row| {
            let entry = |column: u64| {
                let turned = u64::from((row & column).count_ones()) + (signs >> column & 1);
                if turned.is_multiple_of(2) { 1.0 } else { -1.0 }
            };
            (0..).zip(numbers).map(|(column, number)| entry(column) * number).sum::<f64>()
                * (1.0 / 3f64.sqrt())
        })
        .collect();
    let found = projection.project(&numbers);
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
    let bits: Vec<u64> = found.iter().map(|number| number.to_bits()).collect();
    let back: Vec<u64> = projection.back(&found).iter().map(|number| number.to_bits()).collect();
    assert_eq!(bits, BITS, "{bits:x?}");
    assert_eq!(back[..2], BACK, "{back:x?}");
}

const BITS: [u64; 3] = [0xc005_7a38_da77_a1d2, 0xc010_f95e_7b1c_7bc2, 0x401a_e78e_ca19_fda2];
const BACK: [u64; 2] = [0xbfbd_dddd_dddd_ddd6, 0x3fbd_dddd_dddd_ddd6];

#[test]
fn the_way_back_is_the_transpose() {
    for (length, kept) in [(2, 1), (2, 2), (5, 3), (64, 64), (65, 7), (100, 100), (1_000, 128)] {
        let mut rng = stream(1);
        let projection = Projection::new(length, kept, &mut rng).unwrap();
        assert_eq!((projection.length(), projection.kept()), (length, kept));
        let (x, y) = (vector(length, &mut rng), vector(kept, &mut rng));
        let (forth, back) = (projection.project(&x), projection.back(&y));
        assert_eq!((forth.len(), back.len()), (kept as usize, length as usize));
        assert!((product(&forth, &y) - product(&x, &back)).abs() < 1e-9, "{length} {kept}");
    }
    // A power of two, all of it: nothing is lost.
    let mut rng = stream(2);
    let projection = Projection::new(256, 256, &mut rng).unwrap();
    let x = vector(256, &mut rng);
    for (x, found) in x.iter().zip(projection.back(&projection.project(&x))) {
        assert!((x - found).abs() < 1e-12);
    }
    assert_eq!(Projection::squared_error(256, 256), Ok(0.0));
}

#[test]
fn what_is_no_vector_counts_as_zeros() {
    let projection = Projection::new(5, 2, &mut stream(1)).unwrap();
    for wrong in
        [&[1.0; 4][..], &[1.0; 6], &[], &[1.0, 2.0, f64::NAN, 0.0, 0.0], &[f64::INFINITY; 5]]
    {
        assert_eq!(projection.project(wrong), [0.0; 2]);
    }
    for (length, kept) in [(0, 0), (1, 1), (5, 0), (5, 6), (1 << 27, 5)] {
        assert!(Projection::new(length, kept, &mut stream(1)).is_err(), "{length} {kept}");
        assert!(Projection::squared_error(length, kept).is_err());
    }
}

/// The sum of projections is the projection of the sum.
#[test]
fn projections_add_up() {
    let mut rng = stream(3);
    let projection = Projection::new(300, 40, &mut rng).unwrap();
    let (mut sum, mut projected) = (vec![0.0; 300], vec![0.0; 40]);
    for _ in 0..20 {
        let x = vector(300, &mut rng);
        sum.iter_mut().zip(&x).for_each(|(sum, x)| *sum += x);
        projected.iter_mut().zip(projection.project(&x)).for_each(|(sum, x)| *sum += x);
    }
    for (found, expected) in projected.iter().zip(projection.project(&sum)) {
        assert!((found - expected).abs() < 1e-10);
    }
}

/// The mean squared error of a number, of a sum with and without noise, over projections.
fn measured(
    length: u32,
    kept: u32,
    x: &[f64],
    sigma: u64,
    runs: u64,
    rng: &mut ChaCha20Rng,
) -> f64 {
    let noise = DiscreteGaussian::new(Rate::new(sigma.max(1), 1).unwrap());
    let mut squares = 0.0;
    for run in 0..runs {
        let projection = Projection::new(length, kept, &mut stream(run)).unwrap();
        let mut sum = projection.project(x);
        if sigma > 0 {
            sum.iter_mut().for_each(|number| *number += noise.sample(rng) as f64);
        }
        let errors = projection.back(&sum).into_iter().zip(x).map(|(found, x)| found - x);
        squares += errors.map(|error| error * error).sum::<f64>();
    }
    squares / (runs as f64 * f64::from(length))
}

/// Small vectors of several kinds, over many projections. A right formula is within 5 %: the spread
/// of the mean is 1 % or less, so a false alarm in one of a million seeds.
#[test]
fn errors_are_as_the_formula_says() {
    let mut rng = stream(4);
    for (length, kept) in [(100_u32, 10_u32), (128, 100), (1_000, 50), (130, 130)] {
        let mut sparse = vec![0.0; length as usize];
        sparse[7] = 90.0;
        sparse[length as usize - 1] = -30.0;
        let dense = vector(length, &mut rng).into_iter().map(|x| 50.0 * x).collect::<Vec<_>>();
        for x in [sparse, dense, vec![3.0; length as usize]] {
            for sigma in [0, 20] {
                let found = measured(length, kept, &x, sigma, 2_000, &mut rng);
                let noise = (sigma * sigma) as f64;
                let formula = noise + Projection::squared_error(length, kept).unwrap() * square(&x);
                assert!((found / formula - 1.0).abs() < 0.05, "{length} {kept}: {found} {formula}");
            }
        }
    }
}

/// One number: what its own square takes away is in the formula. (100 devices hold 1 in one place: the
/// error of that place is 0, and that of the others `100^2 c`.)
#[test]
fn the_diagonal_is_exact() {
    let mut x = vec![0.0; 1_000];
    x[5] = 100.0;
    let mut others = 0.0;
    for seed in 0..200 {
        let projection = Projection::new(1_000, 30, &mut stream(seed)).unwrap();
        let found = projection.back(&projection.project(&x));
        assert!((found[5] - 100.0).abs() < 1e-9);
        others += found[6] * found[6] / 200.0;
    }
    let projection = Projection::new(1_000, 30, &mut stream(0)).unwrap();
    // The square of a number that is nearly normal: 10 % is one standard deviation.
    assert!((others / (1e4 * projection.hidden()) - 1.0).abs() < 0.5, "{others}");
}

/// A tenth of the numbers: four projections of 100,000 numbers to 10,000, without noise and with
/// noise as large as the error of the projection. The spread of the mean is 0.8 %.
#[test]
fn a_tenth_of_a_hundred_thousand() {
    let (length, kept) = (100_000, 10_000);
    let mut rng = stream(5);
    let x: Vec<f64> = vector(length, &mut rng).into_iter().map(|x| 1_000.0 * x).collect();
    let of_projection = Projection::squared_error(length, kept).unwrap() * square(&x);
    let sigma = of_projection.sqrt() as u64;
    for (sigma, formula) in [(0, of_projection), (sigma, of_projection + (sigma * sigma) as f64)] {
        let found = measured(length, kept, &x, sigma, 4, &mut rng);
        println!("noise {sigma}: mean squared error {found:.1}, formula {formula:.1}");
        assert!((found / formula - 1.0).abs() < 0.05, "{sigma}: {found} {formula}");
    }
}
