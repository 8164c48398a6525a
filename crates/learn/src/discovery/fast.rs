//! A population of devices with a word each, without cryptography and without servers, for research
//! with many devices.
//!
//! Every coin of every device is tossed: a round takes time for those that take part, and not for
//! the others. What is left out is what honest devices pass anyway, and the sum of their shares is
//! the sum of their answers, so it is the sum here too.

use std::collections::BTreeMap;

use sotto_dp::sampler::{DiscreteGaussian, binomial};
use sotto_dp::uniform::uniform_below;

use super::candidates::Candidates;
use super::code::{Bits, normalised};
use crate::Error;
use crate::coins::Coins;
use crate::error::in_range;
use crate::fast::coin;

/// How many devices have which word.
#[derive(Clone, Debug)]
pub struct Population {
    words: Vec<(String, Bits, u64)>,
    devices: u64,
    coins: Coins,
}

/// What an analyst gets of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// How many devices took part.
    pub reports: u64,
    /// The noisy count of each bucket.
    pub buckets: Vec<i128>,
}

impl Population {
    /// So many devices, each with a word that is drawn with a probability in proportion to its
    /// weight. Words are normalised, and those that no device can have are left out.
    pub fn draw(words: &[(String, u64)], devices: u64, coins: Coins) -> Result<Self, Error> {
        let mut weights: BTreeMap<String, u64> = BTreeMap::new();
        for (word, weight) in words {
            let Some(word) = normalised(word) else { continue };
            let sum = weights.entry(word).or_default();
            *sum = sum.saturating_add(*weight);
        }
        let mut total = 0_u64;
        let ends: Vec<u64> = weights
            .values()
            .map(|weight| {
                total = total.saturating_add(*weight);
                total
            })
            .collect();
        let holds = total > 0 && total < 1 << 53;
        in_range("the sum of all weights", total as f64, holds, "from 1 to below 2^53")?;
        let mut counts = vec![0_u64; ends.len()];
        let mut rng = coins.split();
        for _ in 0..devices {
            let drawn = uniform_below(total, &mut rng);
            let place = ends.partition_point(|end| *end <= drawn);
            counts.get_mut(place).into_iter().for_each(|count| *count += 1);
        }
        let words = weights.into_keys().zip(counts);
        let words = words.map(|(word, count)| (Bits::of(&word), word, count));
        let words = words.map(|(bits, word, count)| (word, bits, count)).collect();
        Ok(Self { words, devices, coins })
    }

    /// How many devices there are.
    pub fn devices(&self) -> u64 {
        self.devices
    }

    /// How many devices have a word.
    pub fn holders(&self, word: &str) -> u64 {
        let place = self.words.binary_search_by(|(one, ..)| one.as_str().cmp(word));
        place.ok().and_then(|place| self.words.get(place)).map_or(0, |(.., count)| *count)
    }

    /// All words that devices have, the most frequent first; of equal ones the first in order.
    pub fn ranking(&self) -> Vec<(&str, u64)> {
        let held = self.words.iter().filter(|(.., count)| *count > 0);
        let mut words: Vec<_> = held.map(|(word, _, count)| (word.as_str(), *count)).collect();
        words.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
        words
    }

    /// A round: who takes part at this rate, under which candidate they count themselves, and the
    /// noise of each of two servers.
    pub fn sums(
        &self,
        candidates: &Candidates,
        buckets: u32,
        round: u32,
        rate: f64,
        noise: Option<&DiscreteGaussian>,
    ) -> Result<Sums, Error> {
        let mut sums = Sums { reports: 0, buckets: vec![0; buckets as usize] };
        let fits = candidates.prefixes().len() < buckets as usize;
        in_range("buckets", buckets.into(), fits, "more than there are candidates")?;
        let coin = coin(rate)?;
        let mut rng = self.coins.participants(round);
        for (word, bits, devices) in &self.words {
            let reports = match coin {
                Some(coin) => binomial(*devices, coin, &mut rng),
                None => *devices,
            };
            let is_denied = candidates.denied().binary_search(word).is_ok();
            let bucket = if is_denied { 0 } else { candidates.bucket_of(bits) };
            let sum = sums.buckets.get_mut(bucket as usize);
            sum.into_iter().for_each(|sum| *sum += i128::from(reports));
            sums.reports += reports;
        }
        if let Some(noise) = noise {
            let mut rng = self.coins.central_noise(round);
            for _ in ["leader", "helper"] {
                sums.buckets.iter_mut().for_each(|sum| *sum += i128::from(noise.sample(&mut rng)));
            }
        }
        Ok(sums)
    }
}

#[cfg(test)]
mod tests {
    use sotto_dp::sampler::Rate;

    use super::super::search::{Counted, Rule, Search};
    use super::*;

    const RULE: Rule = Rule { buckets: 400, rounds: 12, false_words: 1.0 };

    fn gaussian(sigma: u64) -> DiscreteGaussian {
        DiscreteGaussian::new(Rate::new(sigma, 1).expect("a rate"))
    }

    /// A whole series, with noise of this sigma of each of two servers.
    fn search(population: &Population, rule: &Rule, rate: f64, sigma: u64) -> (Search, u64) {
        let mut search = Search::start(rule, []).expect("a start");
        let spread = (2.0 * (sigma * sigma) as f64).sqrt();
        let (noise, mut survivors) = (gaussian(sigma), 0);
        while !search.is_over(rule) {
            let list = search.candidates(rule).expect("a list");
            let sums = population.sums(&list, rule.buckets, search.rounds(), rate, Some(&noise));
            let counted: Vec<Counted> = sums
                .expect("sums")
                .buckets
                .iter()
                .map(|sum| Counted { estimate: *sum as f64 / rate, stderr: spread / rate })
                .collect();
            let step = search.advance(rule, &counted, rate, spread).expect("a step");
            survivors += u64::from(step.survivors + step.words);
        }
        (search, survivors)
    }

    #[test]
    fn frequent_words_are_found_and_rare_ones_are_not() {
        let frequent = ["lit", "rizz", "cap", "don't", "straße", "no", "nope", "congratulations"];
        let mut words: Vec<_> = frequent.iter().map(|word| ((*word).to_owned(), 1_000)).collect();
        words.extend((0..2_000).map(|number| (format!("rare{number}"), 1)));
        let population = Population::draw(&words, 100_000, Coins::from_number(1)).expect("devices");
        let (search, _) = search(&population, &RULE, 0.5, 20);
        let mut found: Vec<_> = search.found().iter().map(|found| found.word.as_str()).collect();
        found.sort_unstable();
        let mut expected = frequent;
        expected.sort_unstable();
        assert_eq!(found, expected);
        for found in search.found() {
            // Who took part has a standard deviation of 100 devices, noise one of 57. Eight words
            // within five deviations of both: a false alarm once in 200,000 seeds.
            let truth = population.holders(&found.word) as f64;
            assert!((found.estimate - truth).abs() < 5.0 * 115.0, "{found:?} {truth}");
        }
    }

    #[test]
    fn nobody_is_found_in_noise_more_often_than_stated() {
        let rule = Rule { buckets: 300, rounds: 4, false_words: 2.0 };
        let nobody = [("nobody".to_owned(), 1)];
        let total: u64 = (0..100)
            .map(|seed| {
                let population = Population::draw(&nobody, 0, Coins::from_number(seed));
                search(&population.expect("nobody"), &rule, 1.0, 5).1
            })
            .sum();
        // At most 200 on average; the first rounds alone give about 50. Six deviations of a Poisson
        // number of 200: a false alarm once in 1e9.
        assert!((20..285).contains(&total), "{total}");
    }

    #[test]
    fn denied_words_are_not_found() {
        let words = [("secret".to_owned(), 3), ("sector".to_owned(), 1)];
        let population = Population::draw(&words, 20_000, Coins::from_number(3)).expect("devices");
        let mut search = Search::start(&RULE, ["Secret".to_owned()]).expect("a start");
        while !search.is_over(&RULE) {
            let list = search.candidates(&RULE).expect("a list");
            let sums = population.sums(&list, RULE.buckets, search.rounds(), 1.0, None);
            let sums = sums.expect("sums").buckets;
            assert!(sums[0] >= 10_000, "holders of a denied word are under no candidate");
            let counted: Vec<Counted> =
                sums.iter().map(|sum| Counted { estimate: *sum as f64, stderr: 1.0 }).collect();
            search.advance(&RULE, &counted, 1.0, 1.0).expect("a step");
        }
        let found: Vec<_> = search.found().iter().map(|found| found.word.as_str()).collect();
        assert_eq!(found, ["sector"]);
    }

    #[test]
    fn the_threshold_keeps_what_it_says() {
        let rule = Rule { buckets: 15_001, rounds: 12, false_words: 1.0 };
        // P(Z > 4.3943) = 1/180,000.
        assert!((rule.deviations() - 4.394_33).abs() < 1e-4);
        assert!(Rule { false_words: 0.0, ..rule }.check().is_err());
        assert!(Rule { false_words: 1e6, ..rule }.check().is_err());
        assert!(Rule { buckets: 2, ..rule }.check().is_err());
        let search = Search::start(&rule, []).expect("a start");
        assert_eq!(search.candidates(&rule).expect("a list").prefixes().len(), 15_000);
    }
}
