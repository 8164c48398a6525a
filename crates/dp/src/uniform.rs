//! Fair draws from random words, without bias.

use rand_core::CryptoRng;

/// A uniform number below `bound`, or 0 if `bound` is 0. The number of words drawn depends only on
/// chance.
///
/// The high half of `word * bound` (Lemire, "Fast Random Integer Generation in an Interval", 2019).
/// Of the low halves, the first `2^64 mod bound` are rejected: the rest is the same number of words
/// for every result.
pub fn uniform_below<R: CryptoRng + ?Sized>(bound: u64, rng: &mut R) -> u64 {
    if bound == 0 {
        return 0;
    }
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        let low = product as u64;
        // The first comparison spares the division nearly always.
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> u64::BITS) as u64;
        }
    }
}

/// Puts the items into a random order, all orders equally likely (Fisher and Yates).
pub fn shuffle<T>(items: &mut [T], rng: &mut dyn CryptoRng) {
    for last in (1..items.len()).rev() {
        // Below `last + 1`, which came from a `usize`.
        let chosen = uniform_below(last as u64 + 1, rng) as usize;
        items.swap(last, chosen);
    }
}
