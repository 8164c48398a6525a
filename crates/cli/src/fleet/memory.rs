//! A collection in memory: who takes part, what each of them sends, and the sum.
//!
//! A device that does not take part does not exist here: how many do is drawn at once
//! ([`super::thinning`]), so a population may be far larger than this machine could hold. Each that
//! does is randomized on its own, by the code of real devices, and its values are added up. What is
//! left out are recipes, ledgers, tokens, shares and proofs: honest devices pass those, and the sum of
//! their shares is the sum of what they shared. Noise of the servers is drawn as servers draw it.
//!
//! All randomness is from [`Coins`]. A block of participants has its own stream, so the result does
//! not depend on the number of threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use rand_core::CryptoRng;
use sotto_dp::mechanism::{Mechanism, Value};
use sotto_dp::uniform::uniform_below;
use sotto_learn::coins::Coins;
use sotto_wire::recipe::Probability;

use super::thinning;

/// How many participants share a stream, and are worked on at a time.
const BLOCK: u64 = 1_024;

/// Devices with the same answer.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// What their mechanism randomizes.
    pub(super) value: Value,
    /// What each of them adds to the true numbers.
    pub(super) held: Vec<(usize, f64)>,
    /// The probability with which each of them takes part.
    pub(super) rate: Probability,
    pub(super) devices: u64,
}

/// The devices, and what they do.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) mechanism: Mechanism,
    pub(super) dummy_rate: Probability,
    pub(super) groups: Vec<Group>,
}

/// What came of one collection.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Collected {
    /// Reports, dummies included.
    pub(super) reports: u64,
    /// How many devices of each group took part.
    pub(super) taking_part: Vec<u64>,
    /// The sums, with the noise of the servers if there is any.
    pub(super) sums: Vec<i128>,
}

impl Memory {
    /// The collection of this number.
    pub(super) fn collect(&self, coins: Coins, run: u32, bar: &ProgressBar) -> Result<Collected> {
        let mut rng = coins.participants(run);
        let (mut taking_part, mut dummies) = (Vec::new(), 0);
        for group in &self.groups {
            let found = thinning::participants(group.devices, group.rate, &mut rng);
            let silent = group.devices - found;
            dummies += thinning::participants(silent, self.dummy_rate, &mut rng);
            taking_part.push(found);
        }
        let sent = taking_part.iter().copied().chain([dummies]);
        // The number of the first report of each group, and that after the last one.
        let ends: Vec<u64> = sent
            .scan(0, |end, more| {
                *end += more;
                Some(*end)
            })
            .collect();
        let reports = ends.last().copied().unwrap_or_default();
        let mut sums = self.summed(&ends, coins, run, bar)?;
        self.add_noise_of_servers(&mut sums, coins, run)?;
        Ok(Collected { reports, taking_part, sums })
    }

    /// The same for few devices, each of which tosses its own coin, as those of the pipeline do.
    pub(super) fn toss(&self, coins: Coins, run: u32) -> Result<Collected> {
        let mut found = Collected {
            reports: 0,
            taking_part: Vec::new(),
            sums: vec![0; self.mechanism.encoding().numbers() as usize],
        };
        let mut device = 0;
        for group in &self.groups {
            let mut taking_part = 0;
            for _ in 0..group.devices {
                let mut rng = coins.coin(run, device);
                device += 1;
                let mut heads =
                    |rate: Probability| uniform_below(rate.den(), &mut rng) < rate.num();
                let sent = if heads(group.rate) {
                    taking_part += 1;
                    self.mechanism.randomize(group.value.clone(), &mut rng)
                } else if heads(self.dummy_rate) {
                    self.dummy(&mut rng)?
                } else {
                    continue;
                };
                found.reports += 1;
                add(&mut found.sums, sent);
            }
            found.taking_part.push(taking_part);
        }
        Ok(found)
    }

    /// What each number would add up to without noise, if these devices take part and each counts
    /// as many as it stands for.
    pub(super) fn weighted(&self, taking_part: &[u64], numbers: usize) -> Vec<f64> {
        let mut sums = vec![0.0; numbers];
        for (group, found) in self.groups.iter().zip(taking_part) {
            let weight = *found as f64 / group.rate.to_f64();
            for (number, value) in &group.held {
                if let Some(sum) = sums.get_mut(*number) {
                    *sum += weight * value;
                }
            }
        }
        sums
    }

    /// How many devices these stand for.
    pub(super) fn answered(&self, taking_part: &[u64]) -> f64 {
        let each = self.groups.iter().zip(taking_part);
        each.map(|(group, found)| *found as f64 / group.rate.to_f64()).sum()
    }

    fn summed(&self, ends: &[u64], coins: Coins, run: u32, bar: &ProgressBar) -> Result<Vec<i128>> {
        let reports = ends.last().copied().unwrap_or_default();
        let numbers = self.mechanism.encoding().numbers() as usize;
        let next = AtomicUsize::new(0);
        let work = || {
            let mut sums = vec![0; numbers];
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed) as u64;
                let first = block * BLOCK;
                if first >= reports {
                    return anyhow::Ok(sums);
                }
                let mut rng = coins.noise(run, block);
                let last = (first + BLOCK).min(reports);
                for report in first..last {
                    add(
                        &mut sums,
                        self.sent(ends.partition_point(|end| *end <= report), &mut rng)?,
                    );
                }
                bar.inc(last - first);
            }
        };
        let threads = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut sums = work()?;
            for other in others {
                let more = other.join().unwrap_or_else(|panic| resume_unwind(panic))?;
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
            Ok(sums)
        })
    }

    /// What a device of this group sends; after the last group, a dummy.
    fn sent(&self, group: usize, rng: &mut dyn CryptoRng) -> Result<Value> {
        match self.groups.get(group) {
            Some(group) => Ok(self.mechanism.randomize(group.value.clone(), rng)),
            None => self.dummy(rng),
        }
    }

    fn dummy(&self, rng: &mut dyn CryptoRng) -> Result<Value> {
        self.mechanism.dummy(rng).context("the recipe has dummies, but there is no such report")
    }

    /// Each of the two servers adds its noise.
    fn add_noise_of_servers(&self, sums: &mut [i128], coins: Coins, run: u32) -> Result<()> {
        let Mechanism::ServerNoise(servers) = &self.mechanism else { return Ok(()) };
        let (noise, mut rng) = (servers.noise()?, coins.central_noise(run));
        for _ in ["leader", "helper"] {
            sums.iter_mut().for_each(|sum| *sum += i128::from(noise.sample(&mut rng)));
        }
        Ok(())
    }
}

/// Adds what a device sent.
fn add(sums: &mut [i128], sent: Value) {
    let mut one = |number: u32, value: i128| {
        sums.get_mut(number as usize).into_iter().for_each(|sum| *sum += value);
    };
    match sent {
        Value::Bit(bit) => one(0, bit.into()),
        Value::Number(number) => one(0, number.into()),
        Value::OneHot(symbol) => one(symbol, 1),
        Value::Labels(labels) => labels.into_iter().for_each(|label| one(label, 1)),
        Value::Vector(numbers) => {
            sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += i128::from(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use sotto_dp::mechanism::rappor::Rappor;

    use super::*;

    fn part(num: u64, den: u64) -> Probability {
        Probability::new(num, den).unwrap()
    }

    /// Two kinds of devices with different rates, and dummies.
    fn memory() -> Memory {
        let group = |label: u32, rate, devices| Group {
            value: Value::Labels(vec![label]),
            held: vec![(label as usize, 1.0)],
            rate,
            devices,
        };
        Memory {
            mechanism: Rappor::new(2_000_000, 4, 1).unwrap().into(),
            dummy_rate: part(1, 10),
            groups: vec![group(0, part(1, 2), 60), group(2, part(1, 3), 90)],
        }
    }

    /// The same seed gives the same sums, and what is summed is what tossing each coin gives: the
    /// means of all numbers over 2,000 collections differ by less than five standard errors. For
    /// the six of them that is a false alarm for fewer than one of 10^5 seeds, and the seed is fixed.
    #[test]
    fn collections_are_those_of_devices_that_toss() {
        let (memory, bar) = (memory(), ProgressBar::hidden());
        let coins = Coins::from_number(7);
        let once = memory.collect(coins, 3, &bar).unwrap();
        assert_eq!(once, memory.collect(coins, 3, &bar).unwrap());
        let numbers = |found: Collected| {
            let sums = found.sums.into_iter().map(|sum| sum as f64);
            sums.chain([found.reports as f64, found.taking_part[0] as f64]).collect::<Vec<_>>()
        };
        let runs = 2_000;
        let moments = |collect: &dyn Fn(u32) -> Collected| {
            let mut found = vec![(0.0, 0.0); 6];
            for run in 0..runs {
                for (sum, number) in found.iter_mut().zip(numbers(collect(run))) {
                    *sum = (sum.0 + number, sum.1 + number * number);
                }
            }
            found
        };
        let drawn = moments(&|run| memory.collect(coins, run, &bar).unwrap());
        let tossed = moments(&|run| memory.toss(coins, run).unwrap());
        let count = f64::from(runs);
        for (one, other) in drawn.into_iter().zip(tossed) {
            let variance = |(sum, squares): (f64, f64)| squares / count - (sum / count).powi(2);
            let error = ((variance(one) + variance(other)) / count).sqrt();
            let far = (one.0 - other.0) / count / error;
            assert!(far.abs() < 5.0, "{far}");
        }
    }

    #[test]
    fn exact_answers_are_weighted_by_their_rates() {
        let memory = memory();
        assert_eq!(memory.weighted(&[30, 10], 4), [60.0, 0.0, 30.0, 0.0]);
        assert_eq!(memory.answered(&[30, 10]), 90.0);
    }
}
