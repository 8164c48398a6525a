//! The high-water mark: how many commits the database had. It is kept outside the database, in the
//! secret's file.
//!
//! The mark follows the database, never the other way round. A database may be ahead of it by what
//! was committed in the last seconds before a crash. It is behind only if it is an old copy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::secret::{HashSecret, SecretFile};

/// How long the file may be behind.
const MAX_LAG: Duration = Duration::from_secs(2);

/// The mark of an open database.
pub(super) struct HighWaterMark {
    file: SecretFile,
    path: PathBuf,
    /// The number of commits in the database.
    commits: u64,
    /// When the file fell behind.
    behind_since: Option<Instant>,
}

impl HighWaterMark {
    /// The mark of a file that has just been written.
    pub(super) fn new(file: SecretFile, path: PathBuf) -> Self {
        let commits = file.commits;
        Self { file, path, commits, behind_since: None }
    }

    pub(super) fn secret(&self) -> Arc<HashSecret> {
        Arc::clone(&self.file.secret)
    }

    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// Records a commit.
    pub(super) fn advance(&mut self, commits: u64) {
        self.commits = commits;
        self.behind_since.get_or_insert_with(Instant::now);
    }

    /// How long the file may still stay unwritten; `None` if it is not behind.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.behind_since.map(|since| MAX_LAG.saturating_sub(since.elapsed()))
    }

    /// Writes the file if it is behind. Grants do not depend on it: a failed write is retried.
    pub(super) fn write(&mut self) {
        if self.behind_since.is_none() {
            return;
        }
        let written = self.file.commits;
        self.file.commits = self.commits;
        match self.file.write(&self.path) {
            Ok(()) => self.behind_since = None,
            Err(error) => {
                self.file.commits = written;
                self.behind_since = Some(Instant::now());
                tracing::warn!(
                    %error,
                    "attester.secret could not be written; an old copy of the database might not be detected"
                );
            }
        }
    }
}
