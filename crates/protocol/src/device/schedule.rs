//! When a device is active, and what it does then.
//!
//! Whoever sees two requests of one device must not be able to link them by their times. So passes
//! come at random, like the clicks of a Geiger counter, and each one either reads or sends, by a
//! coin. Then the times at which a device reads, and those at which it sends, are two independent
//! Poisson processes (up to the bound on a pause).

use std::time::Duration;

use rand_core::CryptoRng;

use crate::trust::Trust;
use crate::uniform_below;

/// The mean time between two passes.
const MEAN_PAUSE_S: f64 = 3_600.0;

/// No pause is longer.
const MAX_PAUSE_S: f64 = 6.0 * 3_600.0;

/// How long after the beginning of a pass that read a round of a series the next one begins at the
/// earliest.
const ROUND_TIME: Duration = Duration::from_secs(600);

/// What a device does in a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Reads the log, requests tokens and decides.
    Read,
    /// Sends what is due.
    Send,
    /// Everything at once. For tests: the times can be linked.
    Both,
}

impl Errand {
    /// Draws one.
    pub fn draw(trust: &Trust, rng: &mut dyn CryptoRng) -> Self {
        match () {
            () if trust.tokens().is_none_or(|tokens| tokens.spread_s == 0) => Self::Both,
            () if uniform_below(2, rng) == 0 => Self::Read,
            () => Self::Send,
        }
    }
}

/// Draws the time until the next pass: exponential, and bounded.
pub fn next_pass(rng: &mut dyn CryptoRng) -> Duration {
    const STEPS: u64 = 1 << 53;
    let uniform = (uniform_below(STEPS, rng) + 1) as f64 / STEPS as f64;
    Duration::from_secs_f64((-uniform.ln() * MEAN_PAUSE_S).min(MAX_PAUSE_S))
}

/// The same after a pass that read a round of a series and took so long. A round is answered at once,
/// and a device that trains a model for it takes longer than one that makes cover. So that nobody
/// sees by the next pass which one it was, that comes as if every such pass took ten minutes.
pub fn next_pass_after_round(took: Duration, rng: &mut dyn CryptoRng) -> Duration {
    ROUND_TIME.saturating_sub(took) + next_pass(rng)
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn the_pass_after_a_round_does_not_tell_how_long_training_took() {
        let next_begins = |took: u64| {
            let (took, mut rng) = (Duration::from_secs(took), ChaCha20Rng::seed_from_u64(1));
            took + next_pass_after_round(took, &mut rng)
        };
        assert_eq!(next_begins(0), next_begins(1));
        assert_eq!(next_begins(0), next_begins(600));
        assert!(next_begins(0) > ROUND_TIME);
    }
}
