//! The order at the gateway is uniform, given the order at the relay: chi-square tests over 10,000
//! pools.
//!
//! Five statistics are compared with the value that each exceeds with probability 2e-7 if the order
//! is uniform. So a correct relay fails with probability at most 1e-6, over the choice of the seed.
//! The seed is fixed, and so is the outcome.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::relay::{Pool, PoolRule};
use sotto_protocol::uniform_below;

const POOLS: usize = 10_000;
const SMALL: usize = 4;
const LARGE: usize = 16;

/// What chi-square with 23, 225 and 239 degrees of freedom exceeds with probability 2e-7.
const LIMIT_23: f64 = 75.011;
const LIMIT_225: f64 = 349.444;
const LIMIT_239: f64 = 366.726;

/// Puts a pool in order: `out[position]` is the number that the request had in the order of
/// arrival.
type Mix = dyn FnMut(usize) -> Vec<usize>;

/// The pools of the relay.
fn relay(seed: u64) -> impl FnMut(usize) -> Vec<usize> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    move |len| {
        let mut pool = Pool::new(PoolRule { min: len, wait_ms: 10_000 });
        (0..len).for_each(|item| pool.push(item, None, item as u64));
        pool.take(len as u64, &mut rng)
    }
}

/// All orders of a small pool are equally frequent. 23 degrees of freedom.
fn orders(mix: &mut Mix) -> f64 {
    let mut counts = [0_u64; SMALL.pow(SMALL as u32)];
    for _ in 0..POOLS {
        counts[mix(SMALL).iter().fold(0, |code, item| code * SMALL + item)] += 1;
    }
    // Codes with a repeated digit are not orders, and have no count.
    chi_square(counts.into_iter().filter(|count| *count > 0), 24)
}

/// Each request of a large pool is equally often at each position. The counts of a row and those of
/// a column sum to the number of pools, so with the factor (n - 1) / n the statistic has (n - 1)^2
/// = 225 degrees of freedom.
fn places(mix: &mut Mix) -> f64 {
    let mut counts = vec![0_u64; LARGE * LARGE];
    for _ in 0..POOLS {
        for (place, item) in mix(LARGE).into_iter().enumerate() {
            counts[item * LARGE + place] += 1;
        }
    }
    let expected = POOLS as f64 / LARGE as f64;
    let sum: f64 = counts.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    sum * (LARGE - 1) as f64 / LARGE as f64
}

/// Two requests of a large pool are equally often at each pair of positions. 239 degrees of
/// freedom.
fn pair(first: usize, second: usize, mix: &mut Mix) -> f64 {
    let mut counts = vec![0_u64; LARGE * LARGE];
    for _ in 0..POOLS {
        let order = mix(LARGE);
        let place = |item| order.iter().position(|other| *other == item).unwrap();
        counts[place(first) * LARGE + place(second)] += 1;
    }
    chi_square(counts.into_iter().filter(|count| *count > 0), LARGE * (LARGE - 1))
}

/// The statistic for `cells` equally likely cells. Cells that are not listed are empty.
fn chi_square(counts: impl Iterator<Item = u64>, cells: usize) -> f64 {
    let expected = POOLS as f64 / cells as f64;
    let squares: f64 = counts.map(|count| (count as f64).powi(2)).sum();
    squares / expected - POOLS as f64
}

fn statistics(mix: &mut Mix) -> [(f64, f64); 5] {
    [
        (orders(mix), LIMIT_23),
        (places(mix), LIMIT_225),
        (pair(0, 1, mix), LIMIT_239),
        (pair(0, LARGE - 1, mix), LIMIT_239),
        (pair(7, 8, mix), LIMIT_239),
    ]
}

#[test]
fn the_relay_emits_in_uniform_order() {
    let statistics = statistics(&mut relay(61));
    assert!(statistics.iter().all(|(value, limit)| value < limit), "{statistics:?}");
}

/// The tests detect orders that are only slightly non-uniform.
#[test]
fn orders_that_are_not_uniform_are_found() {
    let mut rng = ChaCha20Rng::seed_from_u64(62);
    // Every position swapped with any other: the most common mistake.
    let mut careless = move |len: usize| {
        let mut items: Vec<_> = (0..len).collect();
        for place in 0..len {
            items.swap(place, uniform_below(len as u64, &mut rng) as usize);
        }
        items
    };
    assert!(orders(&mut careless) > LIMIT_23);
    assert!(places(&mut careless) > LIMIT_225);

    let mut rng = ChaCha20Rng::seed_from_u64(63);
    // Every position is equally likely, but neighbours stay neighbours.
    let mut rotated = move |len: usize| {
        let mut items: Vec<_> = (0..len).collect();
        items.rotate_left(uniform_below(len as u64, &mut rng) as usize);
        items
    };
    assert!(places(&mut rotated) < LIMIT_225);
    assert!(orders(&mut rotated) > LIMIT_23);
    assert!(pair(0, 1, &mut rotated) > LIMIT_239);

    // The order of arrival.
    assert!(orders(&mut |len| (0..len).collect()) > LIMIT_23);
}

/// The underlying draws are uniform for bounds that do not divide the range of a word.
#[test]
fn draws_are_below_their_bound() {
    let mut rng = ChaCha20Rng::seed_from_u64(64);
    assert_eq!(uniform_below(0, &mut rng), 0);
    assert_eq!(uniform_below(1, &mut rng), 0);
    for bound in [2, 3, 7, 1 << 40, (1 << 63) + 1, u64::MAX] {
        assert!((0..100).all(|_| uniform_below(bound, &mut rng) < bound));
    }
    // Three quarters of the range of a word: a plain remainder would be in the lowest third half of
    // the time.
    let bound = 3 << 62;
    let low = (0..POOLS).filter(|_| uniform_below(bound, &mut rng) < bound / 3).count() as f64;
    let deviation = (low - POOLS as f64 / 3.0) / (POOLS as f64 * 2.0 / 9.0).sqrt();
    assert!(deviation.abs() < 5.0, "{deviation}");
}
