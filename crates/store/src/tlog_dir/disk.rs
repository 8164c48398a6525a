//! Files that are replaced as a whole: written elsewhere, synced, renamed into place, and then the
//! folder is synced.
//!
//! Every operation that changes the disk goes through [`Disk`], so that a test can watch it and
//! simulate a crash before any of them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The steps of a log, in the order in which an append takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Creating folders, and dropping what a crash left behind.
    Open,
    /// Recording how far the tiles may reach, so that they can be cleaned up after a crash.
    Intent,
    /// Entries and tiles.
    Tiles,
    /// The signed checkpoint: from here on no other tree of this size is signed.
    Pending,
    /// The cosigned checkpoint, stored beside the entries that it is the first to cover.
    First,
    /// The cosigned checkpoint, published: from here on the entries are acknowledged.
    Checkpoint,
    /// Derived rows by which entries are found.
    Index,
    /// Dropping incomplete tiles that have become complete.
    Prune,
    /// Stopping permanently.
    Halt,
}

/// One change to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp<'a> {
    /// A new folder, whose parent exists.
    CreateDir(&'a Path),
    /// A new file with these bytes, not yet durable.
    Write(&'a Path, &'a [u8]),
    /// The bytes of a file become durable.
    SyncFile(&'a Path),
    /// A file gets another name, which may have belonged to another file.
    Rename(&'a Path, &'a Path),
    /// The names in a folder become durable.
    SyncDir(&'a Path),
    /// A file is removed, or a folder with all files in it.
    Remove(&'a Path),
}

/// Sees every change before it happens. An error prevents the change, as a crash would.
pub trait DiskWatch: Send {
    /// Called before the operation.
    fn before(&mut self, step: Step, op: &DiskOp<'_>) -> io::Result<()>;
}

/// The number of folders that [`Disk`] remembers as durable.
const MAX_REMEMBERED: usize = 4096;

/// The only code that changes files.
pub(super) struct Disk {
    /// The folder of the log.
    root: PathBuf,
    /// For files that are not in place yet: on the same file system as the others, and not public.
    temporary: PathBuf,
    /// Folders whose names are known to be durable. A folder that an earlier process created just
    /// before it died may exist without being durable.
    durable: BTreeSet<PathBuf>,
    counter: u64,
    step: Step,
    watch: Option<Box<dyn DiskWatch>>,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk").field("step", &self.step).finish_non_exhaustive()
    }
}

impl Disk {
    pub(super) fn new(root: &Path, temporary: PathBuf, watch: Option<Box<dyn DiskWatch>>) -> Self {
        let root = root.to_owned();
        Self { root, temporary, durable: BTreeSet::new(), counter: 0, step: Step::Open, watch }
    }

    /// Sets the step that the following changes belong to.
    pub(super) fn enter(&mut self, step: Step) {
        self.step = step;
    }

    /// Puts files into place. When this returns they are durable. Before that, any of them may or
    /// may not be there, but never in part.
    pub(super) fn replace_all(&mut self, files: &[(PathBuf, Vec<u8>)]) -> io::Result<()> {
        let mut dirty = BTreeSet::new();
        let mut written = Vec::with_capacity(files.len());
        for (path, bytes) in files {
            let temporary = self.write_aside(bytes)?;
            written.push((temporary, path));
        }
        for (temporary, path) in &written {
            self.before(&DiskOp::SyncFile(temporary))?;
            File::open(temporary)?.sync_all()?;
            if let Some(folder) = path.parent() {
                self.create(folder, &mut dirty)?;
                dirty.insert(folder.to_owned());
            }
        }
        for (temporary, path) in &written {
            self.rename(temporary, path)?;
        }
        self.sync_dirs(&dirty)?;
        if self.durable.len() > MAX_REMEMBERED {
            self.durable.clear();
        }
        let folders = files.iter().filter_map(|(path, _)| path.parent());
        self.durable.extend(folders.map(Path::to_owned));
        Ok(())
    }

    /// Puts a derived file into place without waiting for the disk.
    pub(super) fn replace_lazily(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.write_aside(bytes)?;
        self.rename(&temporary, path)
    }

    /// Removes those files and folders that exist.
    pub(super) fn remove_all(&mut self, paths: &[PathBuf], durably: bool) -> io::Result<()> {
        let mut dirty = BTreeSet::new();
        for path in paths {
            let Ok(metadata) = fs::symlink_metadata(path) else { continue };
            self.before(&DiskOp::Remove(path))?;
            match metadata.is_dir() {
                true => fs::remove_dir_all(path)?,
                false => fs::remove_file(path)?,
            }
            dirty.extend(path.parent().map(Path::to_owned));
        }
        if durably { self.sync_dirs(&dirty) } else { Ok(()) }
    }

    /// Creates a folder and its parents, durably.
    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let mut dirty = BTreeSet::new();
        self.create(path, &mut dirty)?;
        self.sync_dirs(&dirty)
    }

    /// Makes the names in a folder durable.
    pub(super) fn sync_dir(&mut self, folder: &Path) -> io::Result<()> {
        self.sync_dirs(&BTreeSet::from([folder.to_owned()]))
    }

    fn write_aside(&mut self, bytes: &[u8]) -> io::Result<PathBuf> {
        self.counter += 1;
        let path = self.temporary.join(self.counter.to_string());
        self.before(&DiskOp::Write(&path, bytes))?;
        fs::write(&path, bytes)?;
        Ok(path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.before(&DiskOp::Rename(from, to))?;
        fs::rename(from, to)
    }

    /// Creates a folder and its parents, and collects all folders that then need a sync.
    fn create(&mut self, folder: &Path, dirty: &mut BTreeSet<PathBuf>) -> io::Result<()> {
        if self.durable.contains(folder) {
            return Ok(());
        }
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|folder| !folder.is_dir()).collect();
        for folder in missing.iter().rev() {
            self.before(&DiskOp::CreateDir(folder))?;
            fs::create_dir(folder)?;
            dirty.extend(folder.parent().map(Path::to_owned));
        }
        let inside = folder.ancestors().take_while(|folder| *folder != self.root);
        dirty.extend(inside.filter_map(Path::parent).map(Path::to_owned));
        Ok(())
    }

    fn sync_dirs(&mut self, folders: &BTreeSet<PathBuf>) -> io::Result<()> {
        for folder in folders {
            self.before(&DiskOp::SyncDir(folder))?;
            // The parent of a relative path's first folder is the empty path.
            let name = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            File::open(name)?.sync_all()?;
        }
        Ok(())
    }

    fn before(&mut self, op: &DiskOp<'_>) -> io::Result<()> {
        match &mut self.watch {
            Some(watch) => watch.before(self.step, op),
            None => Ok(()),
        }
    }
}
