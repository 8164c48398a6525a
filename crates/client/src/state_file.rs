//! The state of a real device: one file, replaced as a whole with every change.
//!
//! The new state is written beside the old one, synced, and renamed over it; then the folder is synced. So after a
//! crash at any point the file holds the state before or after a change, complete. A lock beside it keeps a second process out:
//! two of them would charge one budget twice and toss two coins.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};

/// The version of the file's form.
const VERSION: u32 = 1;

/// The largest state that is read: far more than any budget lets a device consider.
const MAX_LEN: u64 = 64 * 1024 * 1024;

/// A device's state in a file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    state: DeviceState,
    /// Set once a write failed: what is on disk is then either of two states, so nothing more is decided.
    broken: bool,
    _lock: File,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    /// SHA-256 of the state's text, in hex: a bit that flipped must not become a budget.
    checksum: String,
    state: Box<serde_json::value::RawValue>,
}

impl StateFile {
    /// Opens the state at `path`; a new one if there is no file.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let lock = lock(path)?;
        let state = match Self::read(path) {
            Err(StateError::Io(error)) if error.kind() == ErrorKind::NotFound => {
                DeviceState::default()
            }
            read => read?,
        };
        Ok(Self { path: path.to_owned(), state, broken: false, _lock: lock })
    }

    /// Looks at the state at `path`, which may be in use.
    pub fn read(path: &Path) -> Result<DeviceState, StateError> {
        if fs::metadata(path)?.len() > MAX_LEN {
            return Err(damaged("the file is too long"));
        }
        read(&fs::read_to_string(path)?)
    }
}

impl DeviceStore for StateFile {
    fn state(&self) -> &DeviceState {
        &self.state
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        if self.broken {
            return Err(StateError::Damaged("an earlier write failed; open it again".to_owned()));
        }
        let mut next = self.state.clone();
        next.apply(change);
        let text = write(&next)?;
        self.broken = true;
        replace(&self.path, text.as_bytes())?;
        self.broken = false;
        self.state = next;
        Ok(())
    }
}

fn damaged(error: impl ToString) -> StateError {
    StateError::Damaged(error.to_string())
}

fn read(text: &str) -> Result<DeviceState, StateError> {
    let stored: Stored = serde_json::from_str(text).map_err(damaged)?;
    if stored.version != VERSION {
        return Err(damaged(format!("version {} is not known", stored.version)));
    }
    if stored.checksum != checksum(stored.state.get()) {
        return Err(damaged("its checksum does not match"));
    }
    serde_json::from_str(stored.state.get()).map_err(damaged)
}

fn write(state: &DeviceState) -> Result<String, StateError> {
    let state = serde_json::value::to_raw_value(state).map_err(damaged)?;
    let checksum = checksum(state.get());
    serde_json::to_string(&Stored { version: VERSION, checksum, state }).map_err(damaged)
}

fn checksum(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn lock(path: &Path) -> Result<File, StateError> {
    let file = private().create(true).truncate(false).open(beside(path, ".lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StateError::Locked),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Replaces the file as a whole, durably.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let temporary = beside(path, ".new");
    let mut file = private().create(true).truncate(true).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_folder(path)
}

/// Readable by the owner alone.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Folders can be synced on Unix only.
#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
