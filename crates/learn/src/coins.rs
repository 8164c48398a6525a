//! The randomness of a run, from one seed.
//!
//! Every use has a stream of its own, named by what it is for, the round and the device. So it does
//! not matter who computes what in which order, on how many threads. And if a device of the real
//! pipeline takes the randomness of its randomizer from [`Coins::noise`] and that of its training
//! from [`Coins::training`], it contributes what [`fast`](crate::fast) computes for it.
//!
//! This is for experiments: a real device has secret randomness. The generator is ChaCha with 8
//! rounds, because noise takes nearly all of the time.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The seed of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coins([u8; 32]);

/// What a stream is for.
#[derive(Clone, Copy)]
enum Use {
    Initial,
    Participants,
    Training,
    Noise,
    CentralNoise,
    Split,
    Coin,
}

impl Coins {
    /// From a seed.
    pub fn new(seed: [u8; 32]) -> Self {
        Self(seed)
    }

    /// From a small number.
    pub fn from_number(seed: u64) -> Self {
        let mut bytes = [0; 32];
        for (byte, value) in bytes.iter_mut().zip(seed.to_le_bytes()) {
            *byte = value;
        }
        Self(bytes)
    }

    /// For the weights before the first round.
    pub fn initial(&self) -> ChaCha8Rng {
        self.stream(Use::Initial, 0, 0)
    }

    /// For splitting a data set by users.
    pub fn split(&self) -> ChaCha8Rng {
        self.stream(Use::Split, 0, 0)
    }

    /// For who takes part in a round.
    pub fn participants(&self, round: u32) -> ChaCha8Rng {
        self.stream(Use::Participants, round, 0)
    }

    /// For the coin of a device in a round, where every device tosses one.
    pub fn coin(&self, round: u32, device: u64) -> ChaCha8Rng {
        self.stream(Use::Coin, round, device)
    }

    /// For the order of a device's examples in a round.
    pub fn training(&self, round: u32, device: u64) -> ChaCha8Rng {
        self.stream(Use::Training, round, device)
    }

    /// For the noise of a device in a round.
    pub fn noise(&self, round: u32, device: u64) -> ChaCha8Rng {
        self.stream(Use::Noise, round, device)
    }

    /// For the noise of a round, where it is added to the sum.
    pub fn central_noise(&self, round: u32) -> ChaCha8Rng {
        self.stream(Use::CentralNoise, round, 0)
    }

    /// A stream of the seed gives the key of the use and the round; a stream of that key belongs to
    /// the device.
    fn stream(&self, purpose: Use, round: u32, device: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::from_seed(self.0);
        rng.set_stream(((purpose as u64) << 32) | u64::from(round));
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(device);
        rng
    }
}
