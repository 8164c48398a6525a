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
