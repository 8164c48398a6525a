//! How long a collection waits until its batch has enough reports.

use std::collections::HashMap;
use std::time::Duration;

/// The pause while a closed batch drains.
pub const DRAIN_PAUSE: Duration = Duration::from_millis(50);
/// The first and the longest pause while a batch has too few reports.
const FILL_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How many collections have their pauses remembered. Some are deleted without our being told.
const MAX_WAITS: usize = 4096;

/// The last pause of each collection that has found too few reports.
#[derive(Clone, Debug, Default)]
pub struct Waits(HashMap<u64, Duration>);

impl Waits {
    /// A collection found too few reports. Returns how long to wait before it is retried. Pauses
    /// double.
    pub fn next(&mut self, job: u64) -> Duration {
        let (first, longest) = FILL_PAUSES;
        let pause = self.0.get(&job).map_or(first, |last| (*last * 2).min(longest));
        if self.0.len() >= MAX_WAITS {
            self.0.clear();
        }
        self.0.insert(job, pause);
        pause
    }

    /// A collection has ended.
    pub fn end(&mut self, job: u64) {
        self.0.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_for_each_collection() {
        let mut waits = Waits::default();
        let pauses: Vec<_> = (0..7).map(|_| waits.next(1).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(waits.next(2), FILL_PAUSES.0);
        waits.end(1);
        assert_eq!(waits.next(1), FILL_PAUSES.0);
        for job in 0..2 * MAX_WAITS as u64 {
            waits.next(job);
        }
        assert!(waits.0.len() <= MAX_WAITS);
    }
}
