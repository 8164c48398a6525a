//! The append-only file of accepted reports, in segments: which segments exist, how far jobs have
//! taken them, and what still needs them. Shared by the store's threads. Holds no open files and
//! writes nothing.
//!
//! Segments are numbered from 1 without gaps. A position is a segment and an offset in it. The
//! **cursor** is the position before which every report was taken by a job, rejected, or set aside
//! in the table `requeued`. A segment is **dead**, and removed, when the cursor is past its end and
//! nothing refers to a record in it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sotto_wire::TaskId;

use super::chunks::Chunks;
use super::files::SegmentFiles;
use super::frame::{ConfigSet, HEADER_LEN};

/// A position in the log: segment number in the upper half, offset in the lower. Below 2^63,
/// because the database's integers are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Position(u64);

/// The highest segment number.
pub(super) const MAX_SEGMENT: u32 = i32::MAX as u32;

impl Position {
    pub(super) fn new(segment: u32, offset: u32) -> Self {
        Self(u64::from(segment & MAX_SEGMENT) << 32 | u64::from(offset))
    }

    pub(super) fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(super) fn offset(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn to_sql(self) -> i64 {
        self.0 as i64
    }

    pub(super) fn from_sql(value: i64) -> Self {
        Self(value as u64)
    }
}

/// A part of the backlog: what [`crate::Stretch`] holds.
#[derive(Debug)]
pub(super) enum Part {
    /// From the log, with the positions of its records.
    Log {
        from: Position,
        to: Position,
        records: Vec<Position>,
        /// Records of tasks that are not served. They go to the table `requeued`.
        left: Vec<Waiting>,
    },
    /// From the table `requeued`, with the row numbers.
    Requeued(Vec<(i64, Waiting)>),
}

/// A record that waits for a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) task_id: TaskId,
    pub(super) position: Position,
    /// The number of bytes that it takes in its segment.
    pub(super) bytes: u64,
}

/// Rows of one task in the table `requeued`, and when they are due. Their numbers are within this
/// range, which may also contain rows of other tasks.
#[derive(Clone, Debug)]
struct Requeued {
    numbers: Range<i64>,
    due_ms: u64,
}

pub(super) fn segment_name(number: u32) -> String {
    format!("{number:010}.seg")
}

pub(super) fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".seg")?.parse().ok().filter(|number| *number <= MAX_SEGMENT)?;
    (segment_name(number) == name).then_some(number)
}

/// What is known about one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The end of its last durable report.
    pub(super) end: u32,
    /// Bytes on disk.
    pub(super) bytes: u64,
    /// Nothing more is appended.
    pub(super) sealed: bool,
    /// The keys that its reports name.
    pub(super) configs: ConfigSet,
    /// How many jobs and requeued reports need it.
    pub(super) refs: u64,
}

/// All segments. See the module documentation.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) files: Arc<dyn SegmentFiles>,
    pub(super) chunks: Arc<Chunks>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    segments: BTreeMap<u32, Segment>,
    cursor: Position,
    backlog_bytes: u64,
    /// Records of these tasks before these positions are to be skipped.
    forgotten: HashMap<TaskId, Position>,
    /// The rows of the table `requeued` by task, oldest first.
    requeued: HashMap<TaskId, VecDeque<Requeued>>,
}

/// A snapshot of what a reader of the backlog needs.
pub(super) struct View {
    pub(super) cursor: Position,
    /// Numbers and ends of the segments from the cursor on.
    pub(super) segments: Vec<(u32, u32)>,
    pub(super) forgotten: HashMap<TaskId, Position>,
}

impl Log {
    pub(super) fn new(
        files: Arc<dyn SegmentFiles>,
        segments: BTreeMap<u32, Segment>,
        cursor: Position,
        forgotten: HashMap<TaskId, Position>,
    ) -> Self {
        let mut state = State { segments, cursor, forgotten, ..State::default() };
        state.backlog_bytes = state.distance(cursor, state.end());
        Self { files, chunks: Arc::default(), state: Mutex::new(state) }
    }

    /// Records that durable bytes were appended to a segment, which may be new.
    pub(super) fn appended(&self, number: u32, start: u32, end: u32, configs: &ConfigSet) {
        let mut state = self.lock();
        let segment = state.segments.entry(number).or_insert(Segment {
            end: start,
            bytes: 0,
            sealed: false,
            configs: ConfigSet::default(),
            refs: 0,
        });
        segment.end = end;
        segment.bytes = end.into();
        segment.configs.merge(configs);
        state.backlog_bytes += u64::from(end.saturating_sub(start));
    }

    pub(super) fn sealed(&self, number: u32, bytes: u64) {
        if let Some(segment) = self.lock().segments.get_mut(&number) {
            segment.sealed = true;
            segment.bytes = bytes;
        }
    }

    pub(super) fn cursor(&self) -> Position {
        self.lock().cursor
    }

    pub(super) fn end(&self) -> Position {
        self.lock().end()
    }

    /// Moves the cursor. The database has moved it before.
    pub(super) fn advance(&self, to: Position) {
        let mut state = self.lock();
        let taken = state.distance(state.cursor, to);
        state.backlog_bytes = state.backlog_bytes.saturating_sub(taken);
        state.cursor = to;
        state.forgotten.retain(|_, position| *position > to);
    }

    pub(super) fn forget(&self, task_id: TaskId, position: Position) {
        self.lock().forgotten.insert(task_id, position);
    }

    /// Whether a record belongs to a task that was forgotten after the record was accepted.
    pub(super) fn is_forgotten(&self, task_id: &TaskId, position: Position) -> bool {
        self.lock().forgotten.get(task_id).is_some_and(|until| position < *until)
    }

    /// Records that rows were added to the table `requeued`. They count as backlog.
    pub(super) fn requeued(&self, task_id: TaskId, numbers: Range<i64>, due_ms: u64, bytes: u64) {
        let mut state = self.lock();
        state.requeued.entry(task_id).or_default().push_back(Requeued { numbers, due_ms });
        state.backlog_bytes += bytes;
    }

    /// Records that rows up to this number were taken: always the oldest of their task.
    pub(super) fn requeues_taken(&self, task_id: &TaskId, last: i64, bytes: u64) {
        let mut state = self.lock();
        state.backlog_bytes = state.backlog_bytes.saturating_sub(bytes);
        if let Some(rows) = state.requeued.get_mut(task_id) {
            rows.retain(|rows| rows.numbers.end > last + 1);
            if let Some(oldest) = rows.front_mut() {
                oldest.numbers.start = oldest.numbers.start.max(last + 1);
            } else {
                state.requeued.remove(task_id);
            }
        }
    }

    /// Records that all rows of a task are gone.
    pub(super) fn requeues_forgotten(&self, task_id: &TaskId, bytes: u64) {
        let mut state = self.lock();
        state.backlog_bytes = state.backlog_bytes.saturating_sub(bytes);
        state.requeued.remove(task_id);
    }

    /// Each task that has rows in the table `requeued`, with the range of those that are due.
    pub(super) fn requeues_due(&self, now_ms: u64) -> Vec<(TaskId, Range<i64>)> {
        let state = self.lock();
        let due = |(task_id, rows): (&TaskId, &VecDeque<Requeued>)| {
            let start = rows.front().map_or(0, |oldest| oldest.numbers.start);
            let due = rows.iter().take_while(|rows| rows.due_ms <= now_ms).last();
            (*task_id, start..due.map_or(start, |rows| rows.numbers.end))
        };
        let mut due: Vec<_> = state.requeued.iter().map(due).collect();
        due.sort_unstable_by_key(|(task_id, numbers)| (numbers.start, *task_id));
        due
    }

    pub(super) fn add_ref(&self, number: u32) {
        if let Some(segment) = self.lock().segments.get_mut(&number) {
            segment.refs += 1;
        }
    }

    pub(super) fn drop_ref(&self, number: u32) {
        if let Some(segment) = self.lock().segments.get_mut(&number) {
            segment.refs = segment.refs.saturating_sub(1);
        }
    }

    /// Dead segments, and whether each is sealed.
    pub(super) fn dead(&self) -> Vec<(u32, bool)> {
        let state = self.lock();
        let dead =
            state.segments.iter().filter(|(number, segment)| state.is_dead(**number, segment));
        dead.map(|(number, segment)| (*number, segment.sealed)).collect()
    }

    /// Removes a segment's file if it is (still) dead. A file that cannot be removed stays on the
    /// list for the next attempt.
    pub(super) fn remove_dead(&self, number: u32) -> bool {
        let is_dead = {
            let state = self.lock();
            state.segments.get(&number).is_some_and(|segment| state.is_dead(number, segment))
        };
        if !is_dead {
            return false;
        }
        if let Err(error) = self.files.remove(&segment_name(number)) {
            tracing::error!(segment = number, %error, "a dead segment could not be removed");
            return false;
        }
        self.lock().segments.remove(&number);
        true
    }

    pub(super) fn view(&self) -> View {
        let state = self.lock();
        let segments = state.segments.range(state.cursor.segment()..);
        View {
            cursor: state.cursor,
            segments: segments.map(|(number, segment)| (*number, segment.end)).collect(),
            forgotten: state.forgotten.clone(),
        }
    }

    pub(super) fn backlog_bytes(&self) -> u64 {
        self.lock().backlog_bytes
    }

    /// Bytes of all segments on disk.
    pub(super) fn segment_bytes(&self) -> u64 {
        self.lock().segments.values().map(|segment| segment.bytes).sum()
    }

    pub(super) fn configs(&self) -> ConfigSet {
        let mut configs = ConfigSet::default();
        for segment in self.lock().segments.values() {
            configs.merge(&segment.configs);
        }
        configs
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn end(&self) -> Position {
        let last = self.segments.last_key_value();
        last.map_or(self.cursor, |(number, segment)| Position::new(*number, segment.end))
            .max(self.cursor)
    }

    fn is_dead(&self, number: u32, segment: &Segment) -> bool {
        segment.refs == 0 && Position::new(number, segment.end) <= self.cursor
    }

    /// Bytes between two positions.
    fn distance(&self, from: Position, to: Position) -> u64 {
        let mut bytes = 0;
        for (number, segment) in self.segments.range(from.segment()..=to.segment()) {
            let start = if *number == from.segment() { from.offset() } else { HEADER_LEN as u32 };
            let end = if *number == to.segment() { to.offset() } else { segment.end };
            bytes += u64::from(end.saturating_sub(start));
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_positions_come_back() {
        for number in [1, 77, MAX_SEGMENT] {
            assert_eq!(segment_number(&segment_name(number)), Some(number));
        }
        for name in ["1.seg", "0000000001.seg.tmp", "4294967295.seg", "+000000001.seg"] {
            assert_eq!(segment_number(name), None, "{name}");
        }
        let position = Position::new(MAX_SEGMENT, u32::MAX);
        assert_eq!((position.segment(), position.offset()), (MAX_SEGMENT, u32::MAX));
        assert_eq!(Position::from_sql(position.to_sql()), position);
        assert!(position.to_sql() > 0);
    }
}
