//! Segment files on an in-memory disk that loses everything that was not synced.
//!
//! When the power fails, unsynced bytes are torn at any byte, with holes where a block was not
//! written yet. Unsynced names mostly vanish, and removed names mostly come back. The power may
//! also fail in the middle of any operation ([`ForgetfulFiles::cut_power_after`]). A seed decides
//! everything.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sotto_store::{SegmentFile, SegmentFiles};

/// The unit that is written completely or not at all.
const BLOCK_LEN: usize = 16;

/// One power cycle of the disk. Files opened in it are unusable afterwards.
#[derive(Clone, Debug)]
pub(crate) struct ForgetfulFiles {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Debug)]
struct Disk {
    rng: ChaCha20Rng,
    /// Contents by number; a name refers to one.
    files: Vec<Contents>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    /// The number of operations until the power fails.
    operations_left: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    written: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Debug)]
struct ForgetfulFile {
    disk: Arc<Mutex<Disk>>,
    number: usize,
}

impl ForgetfulFiles {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = Disk {
            rng: ChaCha20Rng::seed_from_u64(seed),
            files: Vec::new(),
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            operations_left: None,
        };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// Allows this many more changes; all later ones fail, until the restart.
    pub(crate) fn cut_power_after(&self, operations: u64) {
        lock(&self.disk).operations_left = Some(operations);
    }

    /// The disk after only the process was killed: nothing is lost, and nothing more is synced.
    pub(crate) fn restart_process(&self) -> Self {
        let mut disk = lock(&self.disk);
        disk.operations_left = Some(0);
        let rng = ChaCha20Rng::seed_from_u64(disk.rng.next_u64());
        let (files, names) = (disk.files.clone(), disk.names.clone());
        let synced_names = disk.synced_names.clone();
        let disk = Disk { rng, files, names, synced_names, operations_left: None };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The disk after a power failure.
    pub(crate) fn restart(&self) -> Self {
        let mut disk = lock(&self.disk);
        disk.operations_left = Some(0);
        let mut names = disk.synced_names.clone();
        for (name, number) in disk.names.clone() {
            if !names.contains_key(&name) && disk.is_lucky() {
                names.insert(name, number);
            }
        }
        for name in disk.synced_names.clone().into_keys() {
            if !disk.names.contains_key(&name) && disk.is_lucky() {
                names.remove(&name);
            }
        }
        let mut files = Vec::new();
        for number in names.values_mut() {
            let bytes = disk.torn(*number);
            *number = files.len();
            files.push(Contents { written: bytes.clone(), synced: bytes });
        }
        let rng = ChaCha20Rng::seed_from_u64(disk.rng.next_u64());
        let synced_names = names.clone();
        let disk = Disk { rng, files, names, synced_names, operations_left: None };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }
}

impl Disk {
    /// What remains of a file.
    fn torn(&mut self, number: usize) -> Vec<u8> {
        let Contents { written, synced } = self.files[number].clone();
        let (shorter, longer) = (written.len().min(synced.len()), written.len().max(synced.len()));
        let len = shorter + self.below(longer - shorter + 1);
        let mut bytes: Vec<u8> = synced[..synced.len().min(len)].to_vec();
        bytes.resize(len, 0);
        let has_holes = self.is_lucky();
        for (block, new) in bytes.chunks_mut(BLOCK_LEN).zip(written.chunks(BLOCK_LEN)) {
            if !(has_holes && self.is_lucky()) {
                let common = block.len().min(new.len());
                block[..common].copy_from_slice(&new[..common]);
            }
        }
        // A block that was synced and not written since cannot change.
        let same = written.iter().zip(&synced).take_while(|(new, old)| new == old).count();
        assert_eq!(bytes[..same.min(len)], synced[..same.min(len)]);
        bytes
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.rng.next_u64() % bound as u64).unwrap()
    }

    fn is_lucky(&mut self) -> bool {
        self.below(4) == 0
    }

    /// Fails if the power is off.
    fn operate(&mut self) -> io::Result<()> {
        match &mut self.operations_left {
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl SegmentFiles for ForgetfulFiles {
    fn names(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.disk).names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let disk = &mut *lock(&self.disk);
        disk.operate()?;
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let number = disk.files.len();
        disk.files.push(Contents::default());
        disk.names.insert(name.into(), number);
        Ok(Box::new(ForgetfulFile { disk: Arc::clone(&self.disk), number }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let number = *lock(&self.disk).names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(ForgetfulFile { disk: Arc::clone(&self.disk), number }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let disk = &mut *lock(&self.disk);
        disk.operate()?;
        disk.names.remove(name).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        let disk = &mut *lock(&self.disk);
        disk.operate()?;
        disk.synced_names = disk.names.clone();
        Ok(())
    }
}

impl SegmentFile for ForgetfulFile {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.disk).files[self.number].written.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let disk = lock(&self.disk);
        let bytes = &disk.files[self.number].written;
        let bytes = bytes.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let read = bytes.len().min(buffer.len());
        buffer[..read].copy_from_slice(&bytes[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let disk = &mut *lock(&self.disk);
        let was_on = disk.operations_left != Some(0);
        let outcome = disk.operate();
        // The write during which the power fails is partly done.
        let done = match &outcome {
            Ok(()) => bytes.len(),
            Err(_) if was_on => disk.below(bytes.len() + 1),
            Err(_) => 0,
        };
        let start = usize::try_from(offset).unwrap();
        let written = &mut disk.files[self.number].written;
        if done > 0 {
            written.resize(written.len().max(start + done), 0);
            written[start..start + done].copy_from_slice(&bytes[..done]);
        }
        outcome
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let disk = &mut *lock(&self.disk);
        disk.operate()?;
        disk.files[self.number].written.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let disk = &mut *lock(&self.disk);
        disk.operate()?;
        let contents = &mut disk.files[self.number];
        contents.synced.clone_from(&contents.written);
        Ok(())
    }
}

fn lock(disk: &Mutex<Disk>) -> MutexGuard<'_, Disk> {
    disk.lock().unwrap()
}
