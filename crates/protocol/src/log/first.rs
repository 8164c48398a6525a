//! `first` files: the cosigned checkpoints that first covered the entries of a bundle.
//!
//! There is one file for each bundle of 256 entries: notes, oldest first, each preceded by its
//! length as a big-endian u32. The first checkpoint of entry i is the one with the smallest size
//! above i. The times in its quorum of cosignatures prove how long the entry has been public.

use sotto_wire::tlog::tile::index_path;
use sotto_wire::{Checkpoint, Note};

/// The longest note in a `first` file: room for a checkpoint with 64 cosignatures.
pub const MAX_NOTE: usize = 32 * 1024;
/// The largest `first` file that a reader accepts: 256 entries that were each published alone.
pub const MAX_FILE: usize = 256 * (MAX_NOTE + 4);

/// Why a `first` file was rejected.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FirstError {
    /// A length points beyond the end, or is far too large.
    #[error("the file ends inside a checkpoint")]
    Length,
    /// One of the notes is not a checkpoint.
    #[error("it contains something that is not a checkpoint")]
    Checkpoint,
    /// The sizes do not increase.
    #[error("its checkpoints are not in increasing order")]
    Order,
}

/// The path of the file for a bundle of entries.
pub fn path(bundle: u64) -> String {
    format!("first/{}", index_path(bundle))
}

/// Reads the checkpoints of one file, oldest first.
pub fn parse(mut bytes: &[u8]) -> Result<Vec<(Checkpoint, Note)>, FirstError> {
    let mut found: Vec<(Checkpoint, Note)> = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_NOTE {
            return Err(FirstError::Length);
        }
        let (note, rest) = rest.split_at_checked(length).ok_or(FirstError::Length)?;
        let note = Note::parse(note).map_err(|_| FirstError::Checkpoint)?;
        let checkpoint = Checkpoint::parse(note.text()).map_err(|_| FirstError::Checkpoint)?;
        if found.last().is_some_and(|(last, _)| last.size >= checkpoint.size) {
            return Err(FirstError::Order);
        }
        found.push((checkpoint, note));
        bytes = rest;
    }
    if bytes.is_empty() { Ok(found) } else { Err(FirstError::Length) }
}

/// The bytes that a checkpoint adds to a file.
pub fn encode(note: &Note) -> Vec<u8> {
    let note = note.to_bytes();
    let mut bytes = (note.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(&note);
    bytes
}
