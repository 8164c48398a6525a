//! Fair draws from random words.

use rand_core::CryptoRng;

/// A uniform number below `bound`, or 0 if that is 0. How many words are drawn depends on chance alone.
pub fn uniform_below(bound: u64, rng: &mut dyn CryptoRng) -> u64 {
    if bound == 0 {
        return 0;
    }
    // The last word before the remainders stop being equally frequent.
    let last = u64::MAX - (u64::MAX % bound + 1) % bound;
    loop {
        let word = rng.next_u64();
        if word <= last {
            return word % bound;
        }
    }
}

/// Puts things into an order, all orders equally likely (Fisher and Yates): each place from the last takes one of
/// those that are left.
pub fn shuffle<T>(items: &mut [T], rng: &mut dyn CryptoRng) {
    for last in (1..items.len()).rev() {
        // Below `last + 1`, which came from a `usize`.
        let chosen = uniform_below(last as u64 + 1, rng) as usize;
        items.swap(last, chosen);
    }
}
