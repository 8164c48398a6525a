//! Reopens the log after a clean shutdown or a crash.
//!
//! Only the last segment can have a torn tail: a new segment is started only after the seal of the
//! one before was synced. The tail is cut; it was never acknowledged. Every other fault is damage:
//! an error names the file, and nothing is changed. Sealed segments are not read through, so
//! opening takes no longer with a large backlog. A damaged record in one is noticed when it is
//! read.
//!
//! The contents of the last segment, and the names, are synced before they are used: the process
//! may have died between a write and its sync while the machine kept running.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use sotto_wire::TaskId;

use super::files::{SegmentFile, SegmentFiles};
use super::frame::{self, ConfigSet, Frame, HEADER_LEN, HeaderFault, Parsed, SEAL_LEN, StoreId};
use super::log::{Log, Position, Segment, segment_name, segment_number};
use super::reader::damaged;
use super::writer::Active;
use crate::{Result, StoreError};

/// What the database knows about the log.
pub(super) struct Known {
    pub(super) store_id: StoreId,
    pub(super) cursor: Position,
    /// The segments that jobs or requeued reports need, and how many need each.
    pub(super) refs: BTreeMap<u32, u64>,
    pub(super) forgotten: HashMap<TaskId, Position>,
}

/// A log that is ready for use.
pub(super) struct Recovered {
    pub(super) log: Arc<Log>,
    pub(super) active: Option<Active>,
    pub(super) next_number: u32,
}

pub(super) fn recover(files: Arc<dyn SegmentFiles>, known: Known) -> Result<Recovered> {
    let mut numbers = segment_numbers(&*files)?;
    if !numbers.is_empty() {
        files.sync_names().map_err(|error| StoreError::Backend(error.to_string()))?;
    }
    remove_long_dead(&*files, &known, &mut numbers)?;
    let mut segments = BTreeMap::new();
    let mut active = None;
    while let Some(number) = numbers.last().copied() {
        match scan_last(&*files, &known, number)? {
            Some((segment, file)) => {
                segments.insert(number, segment);
                let (end, configs) = (segment.end, segment.configs);
                active = (!segment.sealed).then_some(Active { number, file, end, configs });
                numbers.pop();
                break;
            }
            // Torn before anything in it was acknowledged. The segment before it is complete.
            None => {
                remove(&*files, number)?;
                numbers.pop();
            }
        }
    }
    for number in numbers {
        if let Some(segment) = inspect_sealed(&*files, &known, number)? {
            segments.insert(number, segment);
        } else {
            remove(&*files, number)?;
        }
    }
    let last = segments.last_key_value().map_or(0, |(number, _)| *number);
    check_complete(&segments, &known, last)?;
    let log = Log::new(files, segments, known.cursor, known.forgotten);
    for (number, _) in log.dead() {
        if log.remove_dead(number) && active.as_ref().is_some_and(|a| a.number == number) {
            active = None;
        }
    }
    let next_number = last.max(known.cursor.segment()) + 1;
    Ok(Recovered { log: Arc::new(log), active, next_number })
}

fn segment_numbers(files: &dyn SegmentFiles) -> Result<Vec<u32>> {
    let names = files.names().map_err(|error| StoreError::Backend(error.to_string()))?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| segment_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes segments before the cursor that nothing needs: their removal was interrupted or lost.
fn remove_long_dead(files: &dyn SegmentFiles, known: &Known, numbers: &mut Vec<u32>) -> Result<()> {
    let is_dead =
        |number: &u32| *number < known.cursor.segment() && !known.refs.contains_key(number);
    for number in numbers.iter().copied().filter(is_dead) {
        remove(files, number)?;
    }
    numbers.retain(|number| !is_dead(number));
    Ok(())
}

/// Reads through the last segment and cuts a torn tail. `None` if nothing in it is durable.
fn scan_last(
    files: &dyn SegmentFiles,
    known: &Known,
    number: u32,
) -> Result<Option<(Segment, Box<dyn SegmentFile>)>> {
    let failed = |error: io::Error| failed(number, &error);
    let file = files.open(&segment_name(number)).map_err(failed)?;
    let bytes = read_all(&*file).map_err(failed)?;
    match frame::check_header(&bytes, &known.store_id, number) {
        Ok(()) => {}
        Err(HeaderFault::Foreign(why)) => return Err(refused(number, why)),
        Err(HeaderFault::Torn) => {
            // The first group is written and synced together with the header. A mark of a later
            // group would prove that the header was there.
            let later = bytes.get(HEADER_LEN + 1..).unwrap_or_default();
            let is_needed = number <= known.cursor.segment();
            if is_needed || frame::holds_mark(later, HEADER_LEN as u64 + 1, &known.store_id) {
                return Err(damaged(Position::new(number, 0)));
            }
            return Ok(None);
        }
    }
    let mut segment = scan(&bytes, known, number)?;
    let end = usize::try_from(segment.bytes).map_err(|_| refused(number, "is too large"))?;
    if end < bytes.len() {
        let torn = bytes.get(end..).unwrap_or_default();
        let position = Position::new(number, segment.end);
        if segment.sealed
            || position < known.cursor
            || frame::holds_mark(torn, end as u64, &known.store_id)
        {
            return Err(damaged(position));
        }
        tracing::warn!(segment = number, bytes = torn.len(), "cut an unacknowledged torn tail");
        file.truncate(segment.bytes).map_err(failed)?;
    }
    let is_past = segment.sealed && number < known.cursor.segment();
    if Position::new(number, segment.end) < known.cursor && !is_past {
        return Err(damaged(Position::new(number, segment.end)));
    }
    file.sync().map_err(failed)?;
    segment.refs = known.refs.get(&number).copied().unwrap_or(0);
    Ok(Some((segment, file)))
}

/// The valid frames of a segment.
fn scan(bytes: &[u8], known: &Known, number: u32) -> Result<Segment> {
    let mut configs = ConfigSet::default();
    let mut end = HEADER_LEN;
    let mut sealed = false;
    while let Parsed::Frame(frame, len) = frame::parse(bytes.get(end..).unwrap_or_default()) {
        match frame {
            Frame::Report { hpke_config_id, .. } => configs.insert(hpke_config_id),
            Frame::Mark { store_id, offset } => {
                if store_id != known.store_id || offset != end as u64 {
                    break;
                }
            }
            Frame::Seal { .. } => sealed = true,
        }
        if sealed {
            break;
        }
        end += len;
    }
    let bytes = (end + if sealed { SEAL_LEN } else { 0 }) as u64;
    let end = u32::try_from(end).map_err(|_| refused(number, "is too large"))?;
    Ok(Segment { end, bytes, sealed, configs, refs: 0 })
}

/// Inspects both ends of a segment that is not the last. `None` if it is dead.
fn inspect_sealed(files: &dyn SegmentFiles, known: &Known, number: u32) -> Result<Option<Segment>> {
    let failed = |error: io::Error| failed(number, &error);
    let file = files.open(&segment_name(number)).map_err(failed)?;
    let len = file.len().map_err(failed)?;
    let refs = known.refs.get(&number).copied().unwrap_or(0);
    // A segment whose reports were all taken is removed without a seal. If the removal was lost in
    // a crash, the file is back, with the cursor at its end.
    let at_cursor = number == known.cursor.segment();
    if at_cursor && refs == 0 && len == u64::from(known.cursor.offset()) {
        return Ok(None);
    }
    let mut header = [0; HEADER_LEN];
    file.read_at(&mut header, 0).map_err(failed)?;
    match frame::check_header(&header, &known.store_id, number) {
        Ok(()) => {}
        Err(HeaderFault::Torn) => return Err(damaged(Position::new(number, 0))),
        Err(HeaderFault::Foreign(why)) => return Err(refused(number, why)),
    }
    let end = len.saturating_sub(SEAL_LEN as u64).max(HEADER_LEN as u64);
    let mut seal = [0; SEAL_LEN];
    file.read_at(&mut seal, end).map_err(failed)?;
    let Ok(end) = u32::try_from(end) else { return Err(refused(number, "is too large")) };
    match frame::parse(&seal) {
        Parsed::Frame(Frame::Seal { configs }, SEAL_LEN) => {
            Ok(Some(Segment { end, bytes: len, sealed: true, configs, refs }))
        }
        _ => Err(damaged(Position::new(number, end))),
    }
}

/// Checks that nothing acknowledged is missing.
fn check_complete(segments: &BTreeMap<u32, Segment>, known: &Known, last: u32) -> Result<()> {
    let untaken = known.cursor.segment() + 1..=last;
    let needed = known.refs.keys().copied();
    match untaken.chain(needed).find(|number| !segments.contains_key(number)) {
        Some(number) => Err(refused(number, "is missing: restore it from a copy")),
        None => Ok(()),
    }
}

fn read_all(file: &dyn SegmentFile) -> io::Result<Vec<u8>> {
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn remove(files: &dyn SegmentFiles, number: u32) -> Result<()> {
    files.remove(&segment_name(number)).map_err(|error| failed(number, &error))
}

fn failed(number: u32, error: &io::Error) -> StoreError {
    StoreError::Backend(format!("segment {}: {error}", segment_name(number)))
}

fn refused(number: u32, why: &str) -> StoreError {
    StoreError::Backend(format!("segment {} {why}", segment_name(number)))
}
