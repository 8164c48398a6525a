//! Fast mode: the rounds of a training without cryptography and without servers, for research with
//! many devices.
//!
//! What a device computes, how its update becomes whole numbers, and what noise it adds is the code
//! of real devices ([`Plan`] and `sotto_dp::mechanism`). What is left out: recipes, ledgers, tokens,
//! shares and proofs. Honest devices pass those, and the sum of their shares is the sum of what they
//! shared, so it is the sum here too.
//!
//! All randomness is from [`Coins`], by round and device. The sum is one of whole numbers. So the
//! result is the same with every number of threads, and given the same participants it is that of a
//! pipeline whose devices get their noise from the same streams.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sotto_dp::mechanism::gaussian::{self, Gaussian};
use sotto_dp::mechanism::{Encoding, Method as _, Value};
use sotto_dp::sampler::{DiscreteGaussian, Rate, successes};

use crate::Error;
use crate::coins::Coins;
use crate::data::Users;
use crate::error::{in_range, length, positive};
use crate::math::log1p;
use crate::model::Model;
use crate::plan::{Plan, Progress};

/// Who adds the noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Nobody.
    None,
    /// One trusted party adds it to the sum: for comparison. In each number it is discrete Gaussian
    /// noise of sigma times the largest norm of a contribution, which at these sizes nobody can tell
    /// from continuous noise.
    Central {
        /// Sigma, in millionths.
        sigma_micro: u64,
    },
    /// Each device adds its part, as real devices do. `contributions` in it is how many devices
    /// together bring sigma: the smallest batch.
    Devices(gaussian::Noise),
}

/// A population of devices, and all that is known about their training.
#[derive(Debug)]
pub struct Fast<'a, M: Model + ?Sized> {
    /// What they train.
    pub model: &'a M,
    /// What each of them knows.
    pub users: &'a Users<M::Example>,
    /// The rounds.
    pub plan: Plan,
    /// With which probability a device takes part in a round.
    pub rate: f64,
    /// Who adds the noise.
    pub noise: Noise,
    /// All randomness.
    pub coins: Coins,
    /// On how many threads the devices are computed. The result does not depend on it.
    pub threads: NonZero<usize>,
}

/// How many devices a thread takes at a time.
const BLOCK: usize = 8;

impl<M: Model + ?Sized> Fast<'_, M> {
    /// Before the first round.
    pub fn start(&self) -> Result<Progress, Error> {
        let weights = self.model.initial(&mut self.coins.initial());
        length("weights", weights.len(), self.model.dimension())?;
        self.plan.start(weights)
    }

    /// One round: who takes part, their sum, and the step of the server. Says how many took part.
    pub fn round(&self, progress: &mut Progress) -> Result<usize, Error> {
        let participants = self.participants(progress.rounds())?;
        let sum = self.sum(progress, &participants)?;
        self.plan.advance(progress, &sum)?;
        Ok(participants.len())
    }

    /// Who takes part in a round: each device with probability [`rate`](Self::rate), independently.
    /// The time grows with the participants and not with the devices.
    pub fn participants(&self, round: u32) -> Result<Vec<usize>, Error> {
        let count = self.users.len();
        let Some(coin) = coin(self.rate)? else { return Ok((0..count).collect()) };
        let mut rng = self.coins.participants(round);
        let found = successes(count as u64, coin, &mut rng);
        // Below the number of users.
        Ok(found.map(|device| device as usize).collect())
    }

    /// The noisy sum of the contributions of these devices to the next round, in units.
    pub fn sum(&self, progress: &Progress, participants: &[usize]) -> Result<Vec<i64>, Error> {
        let numbers = self.plan.length(progress.weights().len());
        let mechanism = self.mechanism(numbers)?;
        let largest = match mechanism.as_ref().map(|mechanism| mechanism.encoding()) {
            Some(Encoding::Vector { norm_bound, .. }) => norm_bound,
            _ => self.plan.norm_bound(),
        };
        let total = u128::from(largest) * participants.len() as u128;
        let range = "below 2^62 units: use fewer fraction bits";
        in_range("the largest sum", total as f64, total < 1 << 62, range)?;

        let next = AtomicUsize::new(0);
        let work = || {
            let mut sum = vec![0_i64; numbers];
            loop {
                let start = next.fetch_add(BLOCK, Ordering::Relaxed);
                let block = participants.get(start..).unwrap_or_default();
                if block.is_empty() {
                    return sum;
                }
                for device in block.iter().take(BLOCK) {
                    add(&mut sum, &self.sent(progress, mechanism.as_ref(), *device));
                }
            }
        };
        let mut sum = thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads.get()).map(|_| scope.spawn(work)).collect();
            let mut sum = work();
            for other in others {
                add(&mut sum, &other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            sum
        });
        if let Noise::Central { sigma_micro } = self.noise {
            let noise = central(sigma_micro, self.plan.norm_bound())?;
            let mut rng = self.coins.central_noise(progress.rounds());
            sum.iter_mut().for_each(|number| *number += noise.sample(&mut rng));
        }
        Ok(sum)
    }

    /// What one device sends.
    fn sent(&self, progress: &Progress, noise: Option<&Gaussian>, device: usize) -> Vec<i64> {
        let (round, stream) = (progress.rounds(), device as u64);
        let contribution = self.plan.contribution(
            self.model,
            progress.weights(),
            self.plan.clip(progress),
            self.users.of(device),
            &mut self.coins.training(round, stream),
        );
        let Some(noise) = noise else {
            return contribution;
        };
        let mut rng = self.coins.noise(round, stream);
        match noise.randomize(Value::Vector(contribution), &mut rng) {
            Value::Vector(sent) => sent,
            // A vector stays one.
            _ => Vec::new(),
        }
    }

    /// The mechanism of the devices, if they add noise.
    fn mechanism(&self, numbers: usize) -> Result<Option<Gaussian>, Error> {
        let Noise::Devices(noise) = &self.noise else {
            return Ok(None);
        };
        let range = "below 2^32";
        let holds = u32::try_from(numbers).is_ok();
        in_range("numbers of a contribution", numbers as f64, holds, range)?;
        Ok(Some(Gaussian::vectors(numbers as u32, self.plan.norm_bound(), noise)?))
    }
}

/// The `x` of a coin of probability `1 - e^-x` that falls on heads at this rate, to within 2^-51, or
/// 2^-45 above 1. `None` if it always does.
pub(crate) fn coin(rate: f64) -> Result<Option<Rate>, Error> {
    let rate = positive("rate", rate)?;
    in_range("rate", rate, rate <= 1.0, "above 0, at most 1")?;
    if rate >= 1.0 {
        return Ok(None);
    }
    let x = -log1p(-rate);
    let den = if x <= 1.0 { Rate::LARGEST } else { Rate::LARGEST >> 6 };
    let num = (x * den as f64).round_ties_even().max(1.0) as u64;
    Ok(Some(Rate::new(num, den)?))
}

/// Noise of sigma times the bound. Where it is above 2^30 units, it is rounded up to a whole one.
fn central(sigma_micro: u64, norm_bound: u64) -> Result<DiscreteGaussian, Error> {
    let micro = u128::from(sigma_micro) * u128::from(norm_bound);
    let (num, den) = if micro <= u128::from(Rate::LARGEST) {
        (micro, 1_000_000)
    } else {
        (micro.div_ceil(1_000_000), 1)
    };
    let num = u64::try_from(num).unwrap_or(u64::MAX);
    Ok(DiscreteGaussian::new(Rate::new(num, den)?))
}

/// Adds a vector. The caller has bounded the sums.
fn add(sum: &mut [i64], vector: &[i64]) {
    for (sum, number) in sum.iter_mut().zip(vector) {
        *sum += number;
    }
}
