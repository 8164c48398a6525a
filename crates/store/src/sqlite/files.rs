//! The files that hold segments, behind a trait: real files, and in tests files that forget what
//! was not synced.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// One directory of segment files.
///
/// A file's bytes survive a crash once [`SegmentFile::sync`] has returned, its name once
/// [`Self::sync_names`] has. A removed name may come back after a crash.
pub trait SegmentFiles: fmt::Debug + Send + Sync + 'static {
    /// The names of all files, in any order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Creates a new, empty file; an existing name is an error.
    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>>;

    /// Opens a file for reading and writing.
    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names durable.
    fn sync_names(&self) -> io::Result<()>;
}

/// One open file.
pub trait SegmentFile: fmt::Debug + Send {
    /// The file's length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Reads at an offset; returns fewer bytes than requested only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all bytes at an offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Truncates the file.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable.
    fn sync(&self) -> io::Result<()>;
}

/// Files in a directory of the file system, readable by their owner only.
#[derive(Debug)]
pub struct DiskFiles {
    dir: PathBuf,
}

impl DiskFiles {
    /// The files of `dir`, which is created if it is missing.
    pub fn new(dir: &Path) -> io::Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }
}

impl SegmentFiles for DiskFiles {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        Ok(Box::new(DiskFile(options.open(self.dir.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn SegmentFile>> {
        let file = OpenOptions::new().read(true).write(true).open(self.dir.join(name))?;
        Ok(Box::new(DiskFile(file)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

#[derive(Debug)]
struct DiskFile(File);

impl SegmentFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.0.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // fdatasync also writes the length. Otherwise the new bytes could not be read back.
        self.0.sync_data()
    }
}
