//! The words that the demo's devices hold: a small frequency list that ships with the program.
//!
//! `data/README.md` names its source and licence.

use anyhow::{Context, Result, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_dp::uniform::uniform_below;

const LIST: &str = include_str!("../../data/words.tsv");

/// Words with their frequencies.
#[derive(Debug)]
pub(crate) struct Words {
    words: Vec<&'static str>,
    /// Running sums of the counts.
    cumulative: Vec<u64>,
}

impl Words {
    /// The list that ships with the program.
    pub(crate) fn load() -> Result<Self> {
        Self::parse(LIST).context("the word list is damaged")
    }

    fn parse(list: &'static str) -> Result<Self> {
        let (mut words, mut cumulative, mut sum) = (Vec::new(), Vec::new(), 0);
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let (word, count) = line.split_once('\t').context("a line without a tab")?;
            let count: u64 = count.parse().context("a count that is not a number")?;
            ensure!(!word.is_empty() && count > 0, "a word without a count");
            sum += count;
            words.push(word);
            cumulative.push(sum);
        }
        ensure!(!words.is_empty(), "no words");
        Ok(Self { words, cumulative })
    }

    /// The words; a word's index is its bucket.
    pub(crate) fn labels(&self) -> &[&'static str] {
        &self.words
    }

    /// Which word each device holds: drawn by frequency, the same for the same seed.
    pub(crate) fn draw(&self, devices: usize, seed: u64) -> Vec<u32> {
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

    #[test]
    fn the_list_is_sound() {
        let words = Words::load().unwrap();
        assert_eq!(words.labels().len(), 24);
        assert_eq!(words.labels()[0], "queen");
        let distinct: std::collections::BTreeSet<_> = words.labels().iter().collect();
        assert_eq!(distinct.len(), words.labels().len());
    }

    #[test]
    fn a_seed_gives_the_same_words_for_ever() {
        let words = Words::load().unwrap();
        assert_eq!(words.draw(500, 7), words.draw(500, 7));
        assert_ne!(words.draw(500, 7), words.draw(500, 8));
        assert_eq!(words.draw(500, 7)[..100], words.draw(100, 7));
    }

    #[test]
    fn draws_follow_the_frequencies() {
        let words = Words::parse("# comment\na\t3\nb\t1\n").unwrap();
        let drawn = words.draw(40_000, 1);
        let second = drawn.iter().filter(|bucket| **bucket == 1).count();
        assert_eq!(drawn.iter().filter(|bucket| **bucket > 1).count(), 0);
        // Four standard deviations around 10,000.
        assert!((9_650..=10_350).contains(&second), "{second}");
    }

    #[test]
    fn damaged_lists_are_refused() {
        for bad in ["", "# nothing\n", "a 3\n", "a\tx\n", "a\t0\n", "\t3\n"] {
            assert!(Words::parse(bad).is_err(), "{bad:?}");
        }
    }
}
