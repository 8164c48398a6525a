//! The log of accepted reports: which segments there are, how far jobs have taken them, and who
//! still needs them. Shared by the store's threads; holds no file open and writes nothing.
//!
//! Segments are numbered from 1 without gaps. A position is a segment and an offset in it; the
//! **cursor** is the position before which every report was taken by a job or refused. A segment is
//! **dead**, and removed, when the cursor is past its end and nobody refers to a record in it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sotto_wire::TaskId;

use super::chunks::Chunks;
use super::files::SegmentFiles;
use super::frame::{ConfigSet, HEADER_LEN};
use crate::{RecordPlace, Result, StoreError};

/// A place in the log: segment number in the upper half, offset in the lower. Below 2^63, because
/// the database has signed integers and [`Stretch`] needs the top bit.
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

    pub(super) fn from_place(place: RecordPlace) -> Result<Self> {
        match (u32::try_from(place.segment), u32::try_from(place.offset)) {
            (Ok(segment), Ok(offset)) if segment <= MAX_SEGMENT => Ok(Self::new(segment, offset)),
            _ => Err(StoreError::Backend("not a place of this store".into())),
        }
    }

    pub(super) fn place(self) -> RecordPlace {
        RecordPlace { segment: self.segment().into(), offset: self.offset().into() }
    }
}

/// A stretch of the backlog, as the tokens of [`crate::Backlog`] name it: of the log, or of the
/// requeued reports, which are numbered by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stretch {
    Log { from: Position, to: Position },
    Requeued { from: i64, to: i64 },
}

const REQUEUED: u64 = 1 << 63;

impl Stretch {
    pub(super) fn from_tokens(from: u64, to: u64) -> Result<Self> {
        if from > to || (from ^ to) & REQUEUED != 0 {
            return Err(StoreError::Backend("not a stretch of this store's backlog".into()));
        }
        Ok(if from & REQUEUED == 0 {
            Self::Log { from: Position(from), to: Position(to) }
        } else {
            Self::Requeued { from: (from ^ REQUEUED) as i64, to: (to ^ REQUEUED) as i64 }
        })
    }

    pub(super) fn tokens(self) -> (u64, u64) {
        match self {
            Self::Log { from, to } => (from.0, to.0),
            Self::Requeued { from, to } => (from as u64 | REQUEUED, to as u64 | REQUEUED),
        }
    }
}

pub(super) fn segment_name(number: u32) -> String {
    format!("{number:010}.seg")
}

pub(super) fn segment_number(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".seg")?.parse().ok().filter(|number| *number <= MAX_SEGMENT)?;
    (segment_name(number) == name).then_some(number)
}

/// What is known of one segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// The end of its last durable report.
    pub(super) end: u32,
    /// Bytes on disk.
    pub(super) bytes: u64,
    /// Nothing is appended any more.
    pub(super) sealed: bool,
    /// The keys that its reports name.
    pub(super) configs: ConfigSet,
    /// Jobs and requeued reports that need it.
    pub(super) refs: u64,
}

/// The log. See the module's head.
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
    /// Records of these tasks before these positions are to be passed over.
    forgotten: HashMap<TaskId, Position>,
    /// Requeued reports below each number are due at each moment.
    requeues: VecDeque<(i64, u64)>,
}

/// What a reader of the backlog needs, as of one moment.
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

    /// Durable bytes were appended to a segment, which may be new.
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

    /// Moves the cursor, after the database has.
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

    /// Requeued reports below `number` are due at `due_ms`, and count as backlog.
    pub(super) fn requeued(&self, number: i64, due_ms: u64, bytes: u64) {
        let mut state = self.lock();
        state.requeues.push_back((number, due_ms));
        state.backlog_bytes += bytes;
    }

    /// Requeued reports below `number` are gone.
    pub(super) fn requeues_taken(&self, number: i64, bytes: u64) {
        let mut state = self.lock();
        state.backlog_bytes = state.backlog_bytes.saturating_sub(bytes);
        state.requeues.retain(|(below, _)| *below > number);
    }

    /// The number below which all requeued reports are due, if there may be any.
    pub(super) fn requeues_due(&self, now_ms: u64) -> Option<i64> {
        let state = self.lock();
        state.requeues.iter().take_while(|(_, due)| *due <= now_ms).last().map(|(below, _)| *below)
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
    /// list for the next time.
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
    fn names_and_tokens_come_back() {
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
        assert_eq!(Position::from_place(position.place()), Ok(position));
        for stretch in [
            Stretch::Log { from: Position::new(1, 2), to: position },
            Stretch::Requeued { from: 5, to: 9 },
        ] {
            let (from, to) = stretch.tokens();
            assert_eq!(Stretch::from_tokens(from, to), Ok(stretch));
        }
        assert!(Stretch::from_tokens(2, 1).is_err());
        assert!(Stretch::from_tokens(1, REQUEUED | 2).is_err());
    }
}
