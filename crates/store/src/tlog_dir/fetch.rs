//! Reads the files of a log from a folder.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};

use sotto_protocol::log::{Fetch, FetchError};

/// Reads a log from a folder: the public one of a [`LogDir`](super::LogDir), or a mirror.
#[derive(Clone, Debug)]
pub struct FolderFetch {
    folder: PathBuf,
}

impl FolderFetch {
    /// The log in `folder`, which has `checkpoint` and `tile/` in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }
}

impl Fetch for FolderFetch {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let relative = Path::new(path);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if path.is_empty() || !plain {
            return Err(FetchError::new(format_args!("{path:?} is not a path in a log")));
        }
        let broken = |error| FetchError::new(format_args!("{path}: {error}"));
        let file = match File::open(self.folder.join(relative)) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(broken(error)),
        };
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(broken)?;
        match bytes.len() > limit {
            true => Err(FetchError::too_long(path, limit)),
            false => Ok(Some(bytes)),
        }
    }
}
