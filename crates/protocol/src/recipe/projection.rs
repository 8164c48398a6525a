//! The random projection of a recipe: the same for all devices and for the analyst.

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};
use sha2::{Digest, Sha256};
use sotto_dp::Error;
use sotto_dp::projection::Projection;
use sotto_wire::recipe::{Compression, Query};

/// Begins what is hashed.
const DOMAIN: &[u8] = b"sotto projection v1";

/// The projection of a query; `None` if it sends vectors as they are.
pub fn projection(query: &Query) -> Result<Option<Projection>, Error> {
    let Some(vectors) = query.vectors() else { return Ok(None) };
    let Some(Compression { dimension, seed }) = vectors.compression else { return Ok(None) };
    Projection::new(vectors.dimension, dimension, &mut Stream::of(seed)).map(Some)
}

/// The words that a seed stands for: four, big-endian, from each SHA-256 of [`DOMAIN`], the seed and
/// the number of the block from 0, both as 64-bit big-endian integers.
struct Stream {
    seed: u64,
    block: u64,
    words: std::vec::IntoIter<u64>,
}

impl Stream {
    fn of(seed: u64) -> Self {
        Self { seed, block: 0, words: Vec::new().into_iter() }
    }

    fn word(&mut self) -> u64 {
        loop {
            if let Some(word) = self.words.next() {
                return word;
            }
            let hash = Sha256::new()
                .chain_update(DOMAIN)
                .chain_update(self.seed.to_be_bytes())
                .chain_update(self.block.to_be_bytes())
                .finalize();
            let word =
                |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.words = hash.chunks_exact(8).map(word).collect::<Vec<_>>().into_iter();
            self.block += 1;
        }
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.word() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.word())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.word().to_be_bytes()[..part.len()]);
        }
        Ok(())
    }
}

/// What a hash of public input gives is as good as random here: nothing about it is secret.
impl TryCryptoRng for Stream {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two words, as `printf` and `sha256sum` give them.
    #[test]
    fn words_are_those_of_the_hash() {
        let mut stream = Stream::of(7);
        let first = stream.word();
        let hash = Sha256::digest([DOMAIN, &[0, 0, 0, 0, 0, 0, 0, 7], &[0; 8]].concat());
        assert_eq!(first.to_be_bytes(), hash[..8]);
        let fifth = (0..4).map(|_| stream.word()).last();
        let hash = Sha256::digest([DOMAIN, &7_u64.to_be_bytes(), &1_u64.to_be_bytes()].concat());
        assert_eq!(fifth.map(u64::to_be_bytes).unwrap(), hash[..8]);
        assert_ne!(Stream::of(8).word(), first);
    }
}
