//! The high-water mark: how many commits the database had, kept outside of it, in the file of the
//! secret.
//!
//! The mark follows the database, never the other way round: a database may be ahead of it, by what
//! was committed in the last seconds before a crash, and is never behind it unless it is an old
//! copy.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::secret::{HashSecret, SecretFile};

/// How far the file may be behind, in time.
const MAX_LAG: Duration = Duration::from_secs(2);

/// The mark of a database that is open.
pub(super) struct HighWaterMark {
    file: SecretFile,
    path: PathBuf,
    /// Of the database.
    commits: u64,
    /// When the file fell behind.
    behind_since: Option<Instant>,
}

impl HighWaterMark {
    /// A file that was written a moment ago.
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

    /// After a commit.
    pub(super) fn advance(&mut self, commits: u64) {
        self.commits = commits;
        self.behind_since.get_or_insert_with(Instant::now);
    }

    /// How long the file may stay as it is; `None` if it is not behind.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.behind_since.map(|since| MAX_LAG.saturating_sub(since.elapsed()))
    }

    /// Writes the file, if it is behind. Grants do not depend on it: what cannot be written is
    /// tried again.
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
                    "attester.secret could not be written; an old copy of the database might not be known as such"
                );
            }
        }
    }
}
