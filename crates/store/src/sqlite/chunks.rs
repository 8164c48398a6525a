//! Reusable memory for reading segments.
//!
//! Records are handed out as slices of the chunk that they were read into, so reading one costs
//! neither an allocation nor a copy. When the last record of a chunk is dropped, its memory returns
//! here instead of going back to the system and being faulted in again.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::files::SegmentFile;

/// The number of bytes read at once: enough to make the cost of system calls negligible.
pub(super) const CHUNK_LEN: usize = 1 << 20;

/// The most chunks kept for reuse; the rest go back to the system.
const MAX_SPARE_CHUNKS: usize = 16;

/// Spare chunks.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    spare: Mutex<Vec<Vec<u8>>>,
}

/// Bytes of a file. Their memory returns to the pool.
struct Chunk {
    memory: Vec<u8>,
    filled: usize,
    home: Arc<Chunks>,
}

impl Chunks {
    /// Reads up to `len` bytes at an offset; fewer only at the end of the file.
    pub(super) fn read(
        self: &Arc<Self>,
        file: &dyn SegmentFile,
        offset: u64,
        len: usize,
    ) -> io::Result<Bytes> {
        let is_usual = (CHUNK_LEN / 4..=CHUNK_LEN).contains(&len);
        let spare = if is_usual { self.lock().pop() } else { None };
        // A few records must not hold the memory of many.
        let memory = spare.unwrap_or_else(|| vec![0; if is_usual { CHUNK_LEN } else { len }]);
        let mut chunk = Chunk { memory, filled: 0, home: Arc::clone(self) };
        let room = chunk.memory.get_mut(..len).unwrap_or_default();
        chunk.filled = file.read_at(room, offset)?;
        Ok(Bytes::from_owner(chunk))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self.memory.get(..self.filled).unwrap_or_default()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut spare = self.home.lock();
        if self.memory.len() == CHUNK_LEN && spare.len() < MAX_SPARE_CHUNKS {
            spare.push(std::mem::take(&mut self.memory));
        }
    }
}
