//! The devices of a story: kinds of devices, and how many of each there are among all.

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_dp::uniform::uniform_below;

/// Kinds of devices with their frequencies.
#[derive(Debug)]
pub(super) struct Population {
    /// What a device of each kind knows, as in a file for `--data`.
    kinds: Vec<&'static str>,
    /// Running sums of the counts.
    cumulative: Vec<u64>,
}

impl Population {
    /// From lines with a kind, a tab and a count.
    pub(super) fn parse(list: &'static str) -> Result<Self> {
        let (mut kinds, mut cumulative, mut sum) = (Vec::new(), Vec::new(), 0);
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let (kind, count) = line.split_once('\t').context("a line without a tab")?;
            let count: u64 = count.parse().context("a count that is not a number")?;
            ensure!(!kind.is_empty() && count > 0, "a kind without a count");
            sum += count;
            kinds.push(kind);
            cumulative.push(sum);
        }
        ensure!(!kinds.is_empty(), "no devices");
        Ok(Self { kinds, cumulative })
    }

    /// What a device of each kind knows.
    pub(super) fn kinds(&self) -> &[&'static str] {
        &self.kinds
    }

    /// Of which kind each device is: drawn by frequency, the same for the same seed.
    pub(super) fn draw(&self, devices: u32, seed: u64) -> Vec<u32> {
        let total = self.cumulative.last().copied().unwrap_or(1);
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut one = || {
            let at = uniform_below(total, &mut rng);
            self.cumulative.partition_point(|sum| *sum <= at) as u32
        };
        (0..devices).map(|_| one()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# comment\na\t3\nb\t1\n";

    #[test]
    fn a_seed_gives_the_same_devices_for_ever() {
        let two = Population::parse(TWO).unwrap();
        assert_eq!(two.draw(500, 7), two.draw(500, 7));
        assert_ne!(two.draw(500, 7), two.draw(500, 8));
        assert_eq!(two.draw(500, 7)[..100], two.draw(100, 7));
    }

    #[test]
    fn draws_follow_the_frequencies() {
        let two = Population::parse(TWO).unwrap();
        assert_eq!(two.kinds(), ["a", "b"]);
        let drawn = two.draw(40_000, 1);
        let second = drawn.iter().filter(|kind| **kind == 1).count();
        assert_eq!(drawn.iter().filter(|kind| **kind > 1).count(), 0);
        // Four standard deviations around 10,000.
        assert!((9_650..=10_350).contains(&second), "{second}");
    }

    #[test]
    fn damaged_lists_are_refused() {
        for bad in ["", "# nothing\n", "a 3\n", "a\tx\n", "a\t0\n", "\t3\n"] {
            assert!(Population::parse(bad).is_err(), "{bad:?}");
        }
    }
}
