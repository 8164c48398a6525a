//! The list of a task's collection jobs. DAP has none; a collector that died needs it to find the
//! jobs that it left behind.

use serde::{Deserialize, Serialize};

/// The collection jobs of a task, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectionJobList {
    /// The jobs.
    pub jobs: Vec<ListedJob>,
}

/// A collection job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedJob {
    /// Its id, as in its URL.
    pub id: String,
    /// What it collects; `None` in leader-selected tasks.
    pub interval: Option<ListedInterval>,
    /// How far it is.
    pub state: JobState,
}

/// An interval in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedInterval {
    /// POSIX seconds.
    pub start: u64,
    /// Its length.
    pub duration: u64,
}

/// How far a collection job is. Nothing here depends on the number of reports of an unfinished job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Not finished.
    Pending,
    /// There is a result.
    Finished,
    /// There will be no result.
    Failed,
}

impl ListedInterval {
    /// The first second after it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// Whether the two have a second in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end() && other.start < self.end()
    }
}
