//! When to retry, and how long to wait before that.

use std::sync::Arc;
use std::time::Duration;

use rand_core::CryptoRng;

/// How often an exchange that failed for a transient reason is retried, and after which pauses.
///
/// The bound on the pauses doubles up to a maximum, and each pause is random below its bound, so
/// that devices that failed together do not return together. A `Retry-After` of the aggregator is
/// respected; one beyond [`Self::max_delay`] ends the attempts.
#[derive(Clone)]
pub struct RetryPolicy {
    /// The total number of attempts. At least one is made.
    pub attempts: u32,
    /// The bound on the first pause.
    pub first_delay: Duration,
    /// The bound on every pause.
    pub max_delay: Duration,
    pub(crate) sleep: Arc<dyn Fn(Duration) + Send + Sync>,
}

impl RetryPolicy {
    /// One attempt, no retries.
    pub fn never() -> Self {
        Self { attempts: 1, ..Self::default() }
    }

    /// Waits with `sleep` instead of [`std::thread::sleep`].
    #[must_use]
    pub fn with_sleep(mut self, sleep: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.sleep = Arc::new(sleep);
        self
    }

    /// The pause after attempt number `attempt`, counted from 1; `None` to give up.
    pub(crate) fn pause(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        rng: &mut dyn CryptoRng,
    ) -> Option<Duration> {
        let asked = retry_after.unwrap_or_default();
        if attempt >= self.attempts || asked > self.max_delay {
            return None;
        }
        let doubled = 2u32.checked_pow(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let bound = self.first_delay.saturating_mul(doubled).min(self.max_delay);
        // Uniform between zero and the bound, in steps of 2^-32 of it.
        Some(asked + bound.mul_f64(f64::from(rng.next_u32()) / f64::from(u32::MAX)))
    }
}

impl Default for RetryPolicy {
    /// Five attempts, the first pause below half a second, none above a minute.
    fn default() -> Self {
        Self {
            attempts: 5,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
            sleep: Arc::new(std::thread::sleep),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn pauses_are_jittered_and_bounded() {
        let policy = RetryPolicy { attempts: 40, ..RetryPolicy::default() };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut seen = Vec::new();
        for attempt in 1..40 {
            let bound = policy.first_delay.as_secs_f64() * 2f64.powi(attempt as i32 - 1);
            let pause = policy.pause(attempt, None, &mut rng).unwrap();
            assert!(pause.as_secs_f64() <= bound.min(60.0) + 1e-9, "attempt {attempt}: {pause:?}");
            seen.push(pause);
        }
        // Late pauses have the same bound: they differ, and use most of it.
        let late = &seen[10..];
        assert!(late.iter().any(|pause| *pause < Duration::from_secs(20)));
        assert!(late.iter().any(|pause| *pause > Duration::from_secs(40)));
        assert_eq!(policy.pause(40, None, &mut rng), None);
    }

    #[test]
    fn retry_after_is_obeyed_or_ends_it() {
        let policy = RetryPolicy::default();
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let asked = Duration::from_secs(30);
        let pause = policy.pause(1, Some(asked), &mut rng).unwrap();
        assert!(pause >= asked && pause <= asked + policy.first_delay);
        assert_eq!(policy.pause(1, Some(Duration::from_secs(61)), &mut rng), None);
        assert_eq!(RetryPolicy::never().pause(1, None, &mut rng), None);
    }
}
