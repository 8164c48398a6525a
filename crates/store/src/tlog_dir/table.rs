//! Rows on disk that find an entry by 32 bytes: `by-id`, and `names`, which is not public.
//!
//! Both are derived from the entries and written without waiting for the disk. Instead, their
//! fingerprint is part of the durable state: at startup every row is read once, and if the rows do
//! not match the fingerprint they are rebuilt. Nothing is kept in memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use sotto_protocol::log::rows::{self, Row};

use super::disk::Disk;

/// A fingerprint of a set of rows: the XOR of their hashes. It detects lost or damaged rows. It
/// does not withstand an attacker who can write to the log's own disk, and need not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(pub(super) [u8; 32]);

impl Fingerprint {
    /// Adds a row, or removes it again.
    pub(super) fn toggle(&mut self, row: &Row) {
        let hash = Sha256::new().chain_update(row.key).chain_update(row.index.to_be_bytes());
        for (byte, other) in self.0.iter_mut().zip(hash.finalize()) {
            *byte ^= other;
        }
    }
}

/// A folder of rows.
#[derive(Debug)]
pub(super) struct Table {
    folder: PathBuf,
}

impl Table {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The index for a key.
    pub(super) fn find(&self, key: &[u8; 32]) -> io::Result<Option<u64>> {
        Ok(rows::find(&self.bucket(rows::bucket(key))?, key))
    }

    /// Adds rows; a row with a known key replaces the old one.
    pub(super) fn put(
        &self,
        disk: &mut Disk,
        new: impl IntoIterator<Item = Row>,
    ) -> io::Result<()> {
        let mut buckets: BTreeMap<u16, Vec<Row>> = BTreeMap::new();
        for row in new {
            buckets.entry(rows::bucket(&row.key)).or_default().push(row);
        }
        for (number, new) in buckets {
            let mut all = self.bucket(number)?;
            rows::merge(&mut all, new);
            disk.replace_lazily(&self.path(number), &rows::encode(&all))?;
        }
        Ok(())
    }

    /// Visits every row. An unreadable file is an error of kind `InvalidData`.
    pub(super) fn scan(&self, mut visit: impl FnMut(&Row)) -> io::Result<()> {
        for file in fs::read_dir(&self.folder)? {
            let name = file?.file_name();
            let number = name.to_str().filter(|name| name.len() == 4);
            let number = number.and_then(|name| u16::from_str_radix(name, 16).ok());
            let number = number.ok_or(io::ErrorKind::InvalidData)?;
            self.bucket(number)?.iter().for_each(&mut visit);
        }
        Ok(())
    }

    fn path(&self, number: u16) -> PathBuf {
        self.folder.join(format!("{number:04x}"))
    }

    fn bucket(&self, number: u16) -> io::Result<Vec<Row>> {
        match fs::read(self.path(number)) {
            Ok(bytes) => rows::parse(number, &bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
