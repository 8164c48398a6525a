//! Randomness from a file.

use std::convert::Infallible;

use rand_core::{TryCryptoRng, TryRng};

/// Returns these bytes in order, then zeros.
pub(super) struct Script(Vec<u8>);

impl Script {
    pub(super) fn new(parts: &[&[u8]]) -> Self {
        Self(parts.concat())
    }
}

impl TryRng for Script {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.try_fill_bytes(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        let taken = dst.len().min(self.0.len());
        dst.fill(0);
        dst.iter_mut().zip(self.0.drain(..taken)).for_each(|(to, from)| *to = from);
        Ok(())
    }
}

impl TryCryptoRng for Script {}
