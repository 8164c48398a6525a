//! The state of a real device: one sealed file, replaced as a whole with every change.
//!
//! The new state is written next to the old one, synced, and renamed over it; then the folder is
//! synced. So after a crash at any point the file holds the complete state from before or after a
//! change. A lock file next to it keeps a second process out: two processes would charge one budget
//! twice and toss two coins. Sealing also authenticates: a flipped bit must not become a budget.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use sotto_protocol::device::{Change, DeviceState, DeviceStore, StateError};
use zeroize::Zeroizing;

use crate::sealing::SealingKey;

/// The file begins with its version.
const HEADER: &[u8] = b"sotto device state v3\n";

/// The version before had no odometer. It is read, and the next write is of this version.
const BEFORE: &[u8] = b"sotto device state v2\n";

/// The largest state that is read: far more than any budget lets a device consider.
const MAX_LEN: u64 = 64 * 1024 * 1024;

/// A device's state in a file.
#[derive(Debug)]
pub struct StateFile {
    path: PathBuf,
    key: SealingKey,
    state: DeviceState,
    /// Set after a failed write: the disk then holds one of two states, so no further decisions are
    /// made.
    broken: bool,
    _lock: File,
}

impl StateFile {
    /// Opens the state at `path`, sealed under `key`; starts a new state if there is no file.
    pub fn open(path: &Path, key: &SealingKey) -> Result<Self, StateError> {
        let lock = lock(path)?;
        let state = match Self::read(path, key) {
            Err(StateError::Io(error)) if error.kind() == ErrorKind::NotFound => {
                DeviceState::default()
            }
            read => read?,
        };
        let (path, key) = (path.to_owned(), key.duplicate());
        Ok(Self { path, key, state, broken: false, _lock: lock })
    }

    /// Reads the state at `path`, which may be in use.
    pub fn read(path: &Path, key: &SealingKey) -> Result<DeviceState, StateError> {
        if fs::metadata(path)?.len() > MAX_LEN {
            return Err(damaged("the file is too long"));
        }
        let bytes = fs::read(path)?;
        let versions = [HEADER, BEFORE].into_iter();
        let found =
            versions.filter_map(|header| Some((header, bytes.strip_prefix(header)?))).next();
        let Some((header, rest)) = found else {
            return Err(damaged(match bytes.first() {
                Some(b'{') => {
                    "it is not sealed: an older version wrote it. Move it away; the device then \
                     starts over, and is silent until its next period"
                }
                _ => "it does not start with the header of a known version",
            }));
        };
        let state: DeviceState =
            serde_json::from_slice(&key.open(header, rest)?).map_err(damaged)?;
        match state.has_lifetime() {
            true => Ok(state),
            false if header == BEFORE => state.with_lifetime().map_err(damaged),
            false => Err(damaged("it lost what the device has spent in its life")),
        }
    }
}

impl DeviceStore for StateFile {
    fn state(&self) -> &DeviceState {
        &self.state
    }

    fn commit(&mut self, change: Change) -> Result<(), StateError> {
        if self.broken {
            return Err(damaged("an earlier write failed; open it again"));
        }
        let mut next = self.state.clone();
        next.apply(change);
        let text = serialize(&next).map_err(damaged)?;
        let sealed = self.key.seal(HEADER, &text)?;
        self.broken = true;
        replace(&self.path, &sealed)?;
        self.broken = false;
        self.state = next;
        Ok(())
    }
}

fn damaged(error: impl ToString) -> StateError {
    StateError::Damaged(error.to_string())
}

/// The state as text. The buffer has its full length from the start: a growing buffer would leave
/// copies of the client's seed and of tokens behind.
fn serialize(state: &DeviceState) -> serde_json::Result<Zeroizing<Vec<u8>>> {
    let mut measured = Measured(0);
    serde_json::to_writer(&mut measured, state)?;
    let mut text = Zeroizing::new(Vec::with_capacity(measured.0));
    serde_json::to_writer(&mut *text, state)?;
    Ok(text)
}

/// Counts the bytes written.
struct Measured(usize);

impl Write for Measured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
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
    // Folders can be synced on Unix only.
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use sotto_testing::crash::world;
    use sotto_testing::recipe::{DAY, NOW};
    use sotto_testing::world::seen;
    use sotto_wire::{Checkpoint, TreeHash};

    use super::*;

    /// A state that has paid for a recipe, as the version before wrote it: without an odometer.
    #[test]
    fn a_state_of_the_version_before_opens_with_its_odometer_rebuilt() {
        let (world, folder) = (world(), tempfile::tempdir().unwrap());
        let (path, key) = (folder.path().join("state"), SealingKey::new([7; 32]));
        let mut store = StateFile::open(&path, &key).unwrap();
        let checkpoint = Checkpoint::parse(world.log.checkpoints[0].text()).unwrap();
        store.commit(seen(checkpoint.clone(), NOW - 41 * DAY)).unwrap();
        world.walk(&mut store, 1).unwrap();
        let now = store.state().clone();
        drop(store);
        let mut old = serde_json::to_value(&now).unwrap();
        old["ledger"].as_object_mut().unwrap().remove("lifetime").unwrap();
        let text = serde_json::to_vec(&old).unwrap();
        fs::write(&path, key.seal(BEFORE, &text).unwrap()).unwrap();
        let mut store = StateFile::open(&path, &key).unwrap();
        let reading =
            |state: &DeviceState| state.lifetime().unwrap().unwrap().epsilon_spent(1e-5).unwrap();
        assert!(reading(store.state()) >= reading(&now) && reading(&now) > 0.0);
        assert!(reading(store.state()) < 1.001 * reading(&now));
        assert_eq!(store.state().ledger(), now.ledger());
        assert_eq!(store.state().audit(), now.audit());
        // The next write is of this version, and says the same.
        let upgraded = reading(store.state());
        store.commit(seen(checkpoint, NOW)).unwrap();
        drop(store);
        assert!(fs::read(&path).unwrap().starts_with(HEADER));
        assert_eq!(reading(&StateFile::read(&path, &key).unwrap()), upgraded);
        // A state of this version that lost its odometer is damaged.
        fs::write(&path, key.seal(HEADER, &text).unwrap()).unwrap();
        let error = StateFile::read(&path, &key).unwrap_err().to_string();
        assert!(error.contains("lost what the device has spent in its life"), "{error}");
    }

    #[test]
    fn the_buffer_of_a_state_never_grows() {
        let mut state = DeviceState::default();
        for number in 0..300u64 {
            let text = serialize(&state).unwrap();
            assert_eq!(*text, serde_json::to_vec(&state).unwrap());
            assert_eq!(text.capacity(), text.len());
            let origin = format!("log-{number}.example");
            let checkpoint = Checkpoint::new(origin, number, TreeHash([7; 32]));
            state.apply(Change::Seen { checkpoint, time: number, silent_until: 0 });
        }
    }
}
