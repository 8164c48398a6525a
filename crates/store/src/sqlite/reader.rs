//! Reads records back from segments.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use sotto_wire::TaskId;

use super::chunks::CHUNK_LEN;
use super::files::SegmentFile;
use super::frame::{self, FRAME_HEAD_LEN, Frame, HEADER_LEN, Parsed};
use super::log::{Log, Part, Position, Waiting, segment_name};
use crate::{Backlog, Record, Result, StoreError, Stretch, TaskFilter};

/// How much is read beyond the start of the last wanted frame. Usually this covers the whole frame.
const LAST_FRAME_GUESS: usize = 16 << 10;

/// The beginning of the log's backlog.
pub(super) fn read_backlog(
    log: &Arc<Log>,
    max_reports: usize,
    max_bytes: usize,
    is_served: &TaskFilter,
) -> Result<Backlog> {
    loop {
        let cursor = log.cursor();
        match try_read_backlog(log, max_reports.max(1), max_bytes, is_served) {
            // Another caller has taken the stretch meanwhile, and its segment is gone.
            Err(_) if log.cursor() != cursor => {}
            result => return result,
        }
    }
}

/// The records at these positions, in this order.
pub(super) fn read_records(log: &Arc<Log>, positions: &[Position]) -> Result<Vec<Record>> {
    let mut window = Window::new(log);
    let mut records = Vec::with_capacity(positions.len());
    for (index, &position) in positions.iter().enumerate() {
        if !window.holds(position) || position.offset() >= window.wanted_end {
            window.wanted_end = wanted_end(&positions[index..]);
        }
        match window.record(position)? {
            (Some(record), _) => records.push(record),
            (None, _) => return Err(damaged(position)),
        }
    }
    Ok(records)
}

/// The bytes that a record takes in its segment.
pub(super) fn record_len(log: &Arc<Log>, position: Position) -> Result<u64> {
    let mut window = Window::new(log);
    window.wanted_end = position.offset();
    window.frame_len(position).map(|len| len as u64)
}

/// The error for a segment whose contents are not what was written.
pub(super) fn damaged(position: Position) -> StoreError {
    StoreError::Backend(format!(
        "segment {} is damaged at offset {}: restore it from a copy; nothing was skipped",
        segment_name(position.segment()),
        position.offset()
    ))
}

fn try_read_backlog(
    log: &Arc<Log>,
    max_reports: usize,
    max_bytes: usize,
    is_served: &TaskFilter,
) -> Result<Backlog> {
    let view = log.view();
    let mut window = Window::new(log);
    let mut served: HashMap<TaskId, bool> = HashMap::new();
    let (mut records, mut positions, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    let mut to = view.cursor;
    'segments: for (number, end) in view.segments {
        window.wanted_end = end;
        if number != to.segment() {
            to = Position::new(number, HEADER_LEN as u32);
        }
        while to.offset() < end {
            if records.len() >= max_reports || bytes >= max_bytes {
                break 'segments;
            }
            let (record, len) = window.record(to)?;
            let is_forgotten = |record: &Record| {
                view.forgotten.get(&record.task_id).is_some_and(|until| to < *until)
            };
            if let Some(record) = record.filter(|record| !is_forgotten(record)) {
                let task_id = record.task_id;
                if *served.entry(task_id).or_insert_with(|| is_served(&task_id)) {
                    records.push(record);
                    positions.push(to);
                } else {
                    left.push(Waiting { task_id, position: to, bytes: len as u64 });
                }
            }
            bytes += len;
            let next = u32::try_from(len).ok().and_then(|len| to.offset().checked_add(len));
            to = Position::new(number, next.ok_or_else(|| damaged(to))?);
        }
    }
    let unserved = served.into_iter().filter(|(_, is_served)| !is_served).map(|(id, _)| id);
    let from = view.cursor;
    let part = Part::Log { from, to, records: positions, left };
    let stretch = (from != to).then(|| Stretch::new(part));
    Ok(Backlog { stretch, records, unserved: unserved.collect() })
}

/// The last offset wanted in the segment of the first position, as far as one chunk reaches.
fn wanted_end(positions: &[Position]) -> u32 {
    let Some(first) = positions.first() else { return 0 };
    let reach = first.offset().saturating_add(CHUNK_LEN as u32);
    let here = positions.iter().take_while(|at| {
        at.segment() == first.segment() && at.offset() >= first.offset() && at.offset() < reach
    });
    here.map(|at| at.offset()).max().unwrap_or(0)
}

/// Part of one segment in memory.
struct Window<'a> {
    log: &'a Arc<Log>,
    file: Option<(u32, Box<dyn SegmentFile>)>,
    chunk: Bytes,
    /// The offset of the chunk's first byte.
    start: u32,
    /// No wanted frame begins beyond it.
    wanted_end: u32,
}

impl<'a> Window<'a> {
    fn new(log: &'a Arc<Log>) -> Self {
        Self { log, file: None, chunk: Bytes::new(), start: 0, wanted_end: 0 }
    }

    fn holds(&self, at: Position) -> bool {
        self.bytes(at).len() >= FRAME_HEAD_LEN
    }

    /// The frame at a position, as a record or `None` for a mark, and its length.
    fn record(&mut self, at: Position) -> Result<(Option<Record>, usize)> {
        let len = self.frame_len(at)?;
        self.fill(at, len)?;
        match frame::parse(self.bytes(at)) {
            Parsed::Frame(Frame::Report { task_id, report, .. }, len) => {
                let report = self.chunk.slice_ref(report);
                Ok((Some(Record { task_id, report }), len))
            }
            Parsed::Frame(Frame::Mark { .. }, len) => Ok((None, len)),
            _ => Err(damaged(at)),
        }
    }

    fn frame_len(&mut self, at: Position) -> Result<usize> {
        self.fill(at, FRAME_HEAD_LEN)?;
        frame::frame_len(self.bytes(at)).ok_or_else(|| damaged(at))
    }

    /// What the chunk holds from a position on.
    fn bytes(&self, at: Position) -> &[u8] {
        match &self.file {
            Some((number, _)) if *number == at.segment() && at.offset() >= self.start => {
                let skip = (at.offset() - self.start) as usize;
                self.chunk.get(skip..).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Makes sure that the chunk holds this many bytes from a position on.
    fn fill(&mut self, at: Position, wanted: usize) -> Result<()> {
        if self.bytes(at).len() >= wanted {
            return Ok(());
        }
        let name = segment_name(at.segment());
        let failed = |error| StoreError::Backend(format!("segment {name}: {error}"));
        let file = match self.file.take() {
            Some((number, file)) if number == at.segment() => file,
            _ => self.log.files.open(&name).map_err(failed)?,
        };
        let span = self.wanted_end.saturating_sub(at.offset()) as usize;
        let len = span.saturating_add(LAST_FRAME_GUESS).min(CHUNK_LEN).max(wanted);
        self.chunk = Bytes::new();
        self.chunk = self.log.chunks.read(&*file, at.offset().into(), len).map_err(failed)?;
        self.start = at.offset();
        self.file = Some((at.segment(), file));
        if self.chunk.len() < wanted { Err(damaged(at)) } else { Ok(()) }
    }
}
