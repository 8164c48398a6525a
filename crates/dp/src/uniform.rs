//! Fair draws from random words: rejection sampling, without bias.

use rand_core::CryptoRng;

/// A uniform number below `bound`, or 0 if `bound` is 0. The number of words drawn depends only on
/// chance.
pub fn uniform_below(bound: u64, rng: &mut dyn CryptoRng) -> u64 {
    if bound == 0 {
        return 0;
    }
    // Beyond the largest multiple of the bound, remainders are not equally likely.
    let last = u64::MAX - (u64::MAX % bound + 1) % bound;
    loop {
        let word = rng.next_u64();
        if word <= last {
            return word % bound;
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
