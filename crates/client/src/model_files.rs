//! Models as static files: an author writes them, devices read them. Lists of candidates are files
//! of the same kind.
//!
//! A model is a file of `f32` numbers, little-endian: the weights, and the clip if devices vote. It
//! is published as a folder named by the SHA-256 of the file, with pieces `0`, `1`, and so on. All
//! pieces have one size, the last one with zeros at its end: a relay sees how many pieces a device
//! reads, and not which model they are of. A piece with the head of its response fills one size
//! class. How long the file is follows from the recipe.
//!
//! Whoever serves the files is not trusted: a file counts if it has the digest that the log shows.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use sotto_protocol::Moment;
use sotto_wire::EntryId;
use sotto_wire::limits::MAX_DIMENSION;
use sotto_wire::ohttp::RESPONSE_OVERHEAD;

use crate::relay::MAX_RESPONSE_HEAD;
use crate::transport::{HttpRequest, Transport, TransportError};

/// How long a piece is: the response with it takes 64 KiB, sealed and padded.
pub const PIECE_LEN: usize = 64 * 1024 - MAX_RESPONSE_HEAD - RESPONSE_OVERHEAD;

/// The longest file: an update has no more numbers.
const MAX_FILE_LEN: usize = 4 * MAX_DIMENSION as usize;

/// How long reading a model may take, in seconds. Afterwards no other piece is requested. (How long
/// one may take is up to the transport.)
const MAX_READ_S: u64 = 600;

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelFileError {
    /// More bytes than any file has, or none.
    #[error("a file of {0} bytes: from 1 to {MAX_FILE_LEN} are possible")]
    Size(u64),
    /// No answer.
    #[error("piece {piece}: {error}")]
    Transport {
        /// Which piece.
        piece: usize,
        /// What went wrong.
        error: TransportError,
    },
    /// An answer without the piece.
    #[error(
        "piece {piece}: HTTP status {status}{}",
        if *status == 421 { ": the log's gateway does not serve this origin" } else { "" }
    )]
    Status {
        /// Which piece.
        piece: usize,
        /// What was answered.
        status: u16,
    },
    /// A piece of another length.
    #[error("piece {piece} has {found} bytes instead of {PIECE_LEN}")]
    Length {
        /// Which piece.
        piece: usize,
        /// How many bytes it has.
        found: usize,
    },
    /// Something other than zeros after the end of the file.
    #[error("the last piece is not padded with zeros")]
    Padding,
    /// It is not the file that the log names.
    #[error("the file does not have the SHA-256 that the log shows")]
    Digest,
    /// The digest is right, but the bytes are no model or no list.
    #[error("the file is not what the round says: {0}")]
    Numbers(#[from] sotto_learn::Error),
    /// It took too long.
    #[error("reading took more than {MAX_READ_S} seconds")]
    Late,
    /// The device holds as many models as it can.
    #[error("the models of all open rounds are too large to be held together")]
    Full,
    /// The device does not know how to reach the files without showing its address.
    #[error(transparent)]
    Route(#[from] crate::RouteError),
}

/// Writes a model into this folder, which any web server may serve, and returns its digest. Readers
/// see all pieces or none. A model that is there already stays as it is.
pub fn write_model(folder: &Path, file: &[u8]) -> io::Result<EntryId> {
    if file.is_empty() || file.len() > MAX_FILE_LEN {
        let reason = format!("a model of {} bytes: from 1 to {MAX_FILE_LEN} fit", file.len());
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    let digest = EntryId::of(file);
    let target = folder.join(digest.to_string());
    if target.exists() {
        return check_written(&target, file).map(|()| digest);
    }
    let temporary = temporary(folder, &digest);
    // A crash may have left a part of it.
    if_there(fs::remove_dir_all(&temporary))?;
    fs::create_dir_all(&temporary)?;
    for (index, piece) in pieces(file).enumerate() {
        let mut written = File::create_new(temporary.join(index.to_string()))?;
        written.write_all(&piece)?;
        written.sync_all()?;
    }
    sync_folder(&temporary)?;
    fs::rename(&temporary, &target)?;
    sync_folder(folder)?;
    Ok(digest)
}

/// Removes a model from this folder, if it is there. Readers see all pieces or none.
pub fn remove_model(folder: &Path, digest: &EntryId) -> io::Result<()> {
    let temporary = temporary(folder, digest);
    if_there(fs::remove_dir_all(&temporary))?;
    if_there(fs::rename(folder.join(digest.to_string()), &temporary))?;
    if_there(fs::remove_dir_all(&temporary))
}

/// The folder of a model that is not complete.
fn temporary(folder: &Path, digest: &EntryId) -> PathBuf {
    folder.join(format!(".{digest}.new"))
}

fn if_there(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Reads a model of so many numbers from below the URL `models`.
pub fn fetch_model(
    transport: &dyn Transport,
    models: &str,
    digest: &EntryId,
    numbers: u64,
    clock: &dyn Fn() -> Moment,
) -> Result<Vec<u8>, ModelFileError> {
    fetch_file(transport, models, digest, model_len(numbers)?, clock)
}

/// Reads a file of so many bytes from below the URL `models`. Nothing of a wrong one is kept.
pub(crate) fn fetch_file(
    transport: &dyn Transport,
    models: &str,
    digest: &EntryId,
    len: usize,
    clock: &dyn Fn() -> Moment,
) -> Result<Vec<u8>, ModelFileError> {
    let start = clock();
    let mut file = Vec::with_capacity(len);
    for piece in 0..len.div_ceil(PIECE_LEN) {
        if is_late(start, clock()) {
            return Err(ModelFileError::Late);
        }
        let content = fetch_piece(transport, models, digest, piece)?;
        let (part, padding) = content.split_at(PIECE_LEN.min(len - file.len()));
        if padding.iter().any(|byte| *byte != 0) {
            return Err(ModelFileError::Padding);
        }
        file.extend_from_slice(part);
    }
    match EntryId::of(&file) == *digest {
        true => Ok(file),
        false => Err(ModelFileError::Digest),
    }
}

/// Whether reading that began at `start` has taken too long.
pub(crate) fn is_late(start: Moment, now: Moment) -> bool {
    now.0.saturating_sub(start.0) > MAX_READ_S
}

/// How many bytes a model of so many numbers has.
pub(crate) fn model_len(numbers: u64) -> Result<usize, ModelFileError> {
    file_len(numbers.saturating_mul(4))
}

/// The length of a file, if one may have it.
pub(crate) fn file_len(len: u64) -> Result<usize, ModelFileError> {
    let found = usize::try_from(len).ok().filter(|len| (1..=MAX_FILE_LEN).contains(len));
    found.ok_or(ModelFileError::Size(len))
}

/// Exactly [`PIECE_LEN`] bytes.
fn fetch_piece(
    transport: &dyn Transport,
    models: &str,
    digest: &EntryId,
    piece: usize,
) -> Result<Vec<u8>, ModelFileError> {
    let url = format!("{}/{digest}/{piece}", models.trim_end_matches('/'));
    let response = transport.send(&HttpRequest::get(url, PIECE_LEN));
    let response = response.map_err(|error| ModelFileError::Transport { piece, error })?;
    match (response.status, response.body.len()) {
        (200, PIECE_LEN) => Ok(response.body),
        (200, found) => Err(ModelFileError::Length { piece, found }),
        (status, _) => Err(ModelFileError::Status { piece, status }),
    }
}

fn pieces(file: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    file.chunks(PIECE_LEN).map(|part| {
        let mut piece = part.to_vec();
        piece.resize(PIECE_LEN, 0);
        piece
    })
}

/// Whether the folder holds exactly the pieces of this file.
fn check_written(target: &Path, file: &[u8]) -> io::Result<()> {
    let mut count = 0;
    for (index, piece) in pieces(file).enumerate() {
        let path = target.join(index.to_string());
        if fs::read(&path)? != piece {
            let reason = format!("{} is damaged: remove its folder", path.display());
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        count += 1;
    }
    match fs::read_dir(target)?.count() == count {
        true => Ok(()),
        false => {
            let reason = format!("{} has too many files: remove it", target.display());
            Err(io::Error::new(ErrorKind::InvalidData, reason))
        }
    }
}

/// Folders can be synced on Unix only.
fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
