//! What a witness remembers: the last checkpoint that it cosigned for each log, one file each.
//!
//! ```text
//! DIR/<hex SHA-256 of the origin>/checkpoint   may be served to monitors
//! DIR/witness.lock                             held while the witness runs
//! ```
//! A cosignature is sent only after its checkpoint is durable. These files are what prevents a log
//! from showing two histories: a witness that lost one would cosign a second history.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::lock::try_lock;
use sha2::{Digest, Sha256};
use sotto_crypto::note::{self, NoteKey};
use sotto_protocol::Moment;
use sotto_protocol::witness::{WitnessRefusal, consume_add_checkpoint, read_add_checkpoint};
use sotto_wire::{Checkpoint, Note, TlogPolicy};

/// Why a witness could not decide.
#[derive(Debug, thiserror::Error)]
pub enum WitnessDirError {
    /// The disk failed. Nothing was cosigned.
    #[error("the witness's files: {0}")]
    Io(#[from] io::Error),
    /// Another process has the folder open.
    #[error("another process has this witness open")]
    Locked,
    /// A stored checkpoint cannot be read. This must not be treated as having none.
    #[error("the stored checkpoint of {0} is damaged")]
    Damaged(String),
}

/// A response to `add-checkpoint`, as HTTP carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// The status.
    pub status: u16,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// The stored checkpoints of a witness.
#[derive(Debug)]
pub struct WitnessDir {
    folder: PathBuf,
    key: NoteKey,
    /// Held from load to commit; its file holds the lock on the folder.
    lock: Mutex<File>,
}

impl WitnessDir {
    /// Opens the folder, and creates it if it is missing.
    pub fn open(folder: &Path, key: NoteKey) -> Result<Self, WitnessDirError> {
        fs::create_dir_all(folder)?;
        if let Some(parent) = folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        let lock = File::create(folder.join("witness.lock"))?;
        match try_lock(&lock) {
            Ok(()) => Ok(Self { folder: folder.to_owned(), key, lock: Mutex::new(lock) }),
            Err(TryLockError::WouldBlock) => Err(WitnessDirError::Locked),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Answers `add-checkpoint`: loads, decides, and makes the decision durable. `logs` lists the
    /// logs that this witness serves.
    pub fn add_checkpoint(
        &self,
        body: &[u8],
        logs: &TlogPolicy,
        now: Moment,
    ) -> Result<WitnessAnswer, WitnessDirError> {
        let known = match read_add_checkpoint(body, logs) {
            Ok(known) => known,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        // One at a time: of two concurrent requests, the older could roll back the newer. The mutex
        // guards no data that a panic could leave half-changed.
        let _one = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let stored = self.stored(known.origin())?;
        let stored = stored.map(|note| Checkpoint::parse(note.text())).transpose();
        let stored = stored.map_err(|_| WitnessDirError::Damaged(known.origin().to_owned()))?;
        match consume_add_checkpoint(&known, stored.as_ref(), &self.key, now) {
            Err(refusal) => Ok(refused(&refusal)),
            Ok(cosignature) => {
                self.store(known.origin(), &cosignature.stored)?;
                let media_type = "text/plain; charset=utf-8";
                Ok(WitnessAnswer { status: 200, media_type, body: cosignature.body })
            }
        }
    }

    /// The last checkpoint that was cosigned for a log, with our cosignature.
    pub fn stored(&self, origin: &str) -> Result<Option<Note>, WitnessDirError> {
        let bytes = match fs::read(self.path(origin)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // Our own cosignature tells a damaged file from a good one.
        let damaged = || WitnessDirError::Damaged(origin.to_owned());
        let note = Note::parse(&bytes).map_err(|_| damaged())?;
        let is_origin = note.text().lines().next() == Some(origin);
        match note::cosignature_time(&note, &self.key.cosigner()) {
            Ok(_) if is_origin => Ok(Some(note)),
            _ => Err(damaged()),
        }
    }

    fn path(&self, origin: &str) -> PathBuf {
        let name: String =
            Sha256::digest(origin).iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(name).join("checkpoint")
    }

    fn store(&self, origin: &str, checkpoint: &Note) -> Result<(), WitnessDirError> {
        let path = self.path(origin);
        let folder = path.parent().unwrap_or(&self.folder);
        if !folder.is_dir() {
            fs::create_dir(folder)?;
        }
        // Even if it existed: an earlier process may have died before this sync.
        File::open(&self.folder)?.sync_all()?;
        let temporary = self.folder.join("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&checkpoint.to_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        File::open(folder)?.sync_all()?;
        Ok(())
    }
}

fn refused(refusal: &WitnessRefusal) -> WitnessAnswer {
    WitnessAnswer {
        status: refusal.status(),
        media_type: refusal.media_type(),
        body: refusal.body().into_bytes(),
    }
}
