//! The thread that appends to the log.
//!
//! It takes all waiting calls, writes their reports at once, syncs once and then answers them all.
//! While one sync runs, the next group gathers by itself, so no call is ever delayed to make a
//! group larger. Closing a batch goes through the same queue, so the position from which its
//! reports are rejected is exact: everything acknowledged lies before it.
//!
//! A write or sync that fails is undone (the file is truncated to its last durable length) and its
//! callers get an error. If even that fails, the file's state is unknown, and nothing is accepted
//! until the store is reopened.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use futures_channel::oneshot;
use sotto_protocol::Rejection;
use sotto_wire::{Interval, TaskId};

use super::files::SegmentFile;
use super::frame::{
    self, ConfigSet, HEADER_LEN, MARK_LEN, MAX_REPORT_LEN, SEAL_LEN, StoreId, report_frame_len,
};
use super::log::{Log, MAX_SEGMENT, Position, segment_name};
use crate::intervals::IntervalSet;
use crate::{NewReport, Result, StoreError};

/// The most bytes written at once, not counting the reports of the last call.
const MAX_GROUP_BYTES: usize = 8 << 20;

/// The answer to a call of `accept_reports`.
type Verdicts = Vec<std::result::Result<(), Rejection>>;

enum Command {
    Append { reports: Vec<NewReport>, answer: oneshot::Sender<Result<Verdicts>> },
    Close { task_id: TaskId, interval: Interval, answer: SyncSender<Result<Position>> },
    SetClosed { task_id: TaskId, closed: IntervalSet },
    Flush { answer: SyncSender<Result<Position>> },
    RemoveDead { number: u32, answer: SyncSender<Result<Position>> },
}

/// Sends commands to the thread.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    commands: Sender<Command>,
}

/// The initial state of the writer, and its limits.
pub(super) struct WriterState {
    pub(super) log: Arc<Log>,
    pub(super) store_id: StoreId,
    /// The segment to append to, if there is one.
    pub(super) active: Option<Active>,
    /// The number of the next new segment.
    pub(super) next_number: u32,
    pub(super) closed: HashMap<TaskId, IntervalSet>,
    pub(super) segment_bytes: u64,
    pub(super) max_backlog_bytes: u64,
}

/// The segment that is being appended to.
pub(super) struct Active {
    pub(super) number: u32,
    pub(super) file: Box<dyn SegmentFile>,
    pub(super) end: u32,
    pub(super) configs: ConfigSet,
}

impl Writer {
    pub(super) fn start(state: WriterState) -> io::Result<(Self, JoinHandle<()>)> {
        let (commands, queue) = channel();
        let thread = std::thread::Builder::new().name("sotto-segments".into());
        let thread = thread.spawn(move || Appender { state, broken: None }.run(&queue))?;
        Ok((Self { commands }, thread))
    }

    /// Appends reports; resolves when they are durable.
    pub(super) async fn append(&self, reports: Vec<NewReport>) -> Result<Verdicts> {
        let (answer, receiver) = oneshot::channel();
        self.send(Command::Append { reports, answer })?;
        receiver.await.map_err(|_| stopped())?
    }

    /// Rejects reports of an interval from now on. What was accepted lies before the returned
    /// position.
    pub(super) fn close(&self, task_id: TaskId, interval: Interval) -> Result<Position> {
        self.ask(|answer| Command::Close { task_id, interval, answer })
    }

    /// Replaces the closed intervals of a task.
    pub(super) fn set_closed(&self, task_id: TaskId, closed: IntervalSet) -> Result<()> {
        self.send(Command::SetClosed { task_id, closed })
    }

    /// The end of the log after all calls made so far.
    pub(super) fn flush(&self) -> Result<Position> {
        self.ask(|answer| Command::Flush { answer })
    }

    /// Removes a dead segment, which may be the active one.
    pub(super) fn remove_dead(&self, number: u32) -> Result<()> {
        self.ask(|answer| Command::RemoveDead { number, answer }).map(drop)
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<Result<T>>) -> Command) -> Result<T> {
        let (answer, receiver) = sync_channel(1);
        self.send(command(answer))?;
        receiver.recv().map_err(|_| stopped())?
    }

    fn send(&self, command: Command) -> Result<()> {
        self.commands.send(command).map_err(|_| stopped())
    }
}

struct Appender {
    state: WriterState,
    /// Why nothing more can be appended.
    broken: Option<String>,
}

/// Calls that are written and answered together.
struct Group {
    /// Room for a header and a mark, then frames.
    buffer: Vec<u8>,
    configs: ConfigSet,
    appends: Vec<(oneshot::Sender<Result<Verdicts>>, Verdicts)>,
    positions: Vec<SyncSender<Result<Position>>>,
}

const HEAD_LEN: usize = HEADER_LEN + MARK_LEN;

impl Group {
    /// An empty group, in reused memory.
    fn new(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(HEAD_LEN, 0);
        Self { buffer, configs: ConfigSet::default(), appends: Vec::new(), positions: Vec::new() }
    }

    fn frame_bytes(&self) -> usize {
        self.buffer.len() - HEAD_LEN
    }
}

impl Appender {
    fn run(mut self, queue: &Receiver<Command>) {
        let mut spare = Vec::new();
        while let Ok(first) = queue.recv() {
            let mut group = Group::new(spare);
            let mut removals = Vec::new();
            let mut next = Some(first);
            while let Some(command) = next {
                self.gather(command, &mut group, &mut removals);
                let is_full = group.frame_bytes() >= MAX_GROUP_BYTES;
                next = if is_full { None } else { queue.try_recv().ok() };
            }
            let outcome = self.write(&mut group);
            let end = self.state.log.end();
            for (answer, verdicts) in group.appends {
                // A caller that is gone needs no answer: its reports are stored anyway.
                let _ = answer.send(outcome.clone().map(|()| verdicts));
            }
            for answer in group.positions {
                let _ = answer.send(outcome.clone().map(|()| end));
            }
            for (number, answer) in removals {
                self.remove_dead(number);
                let _ = answer.send(Ok(end));
            }
            spare = group.buffer;
            // One large group must not keep its memory forever.
            spare.shrink_to(MAX_GROUP_BYTES);
        }
    }

    fn gather(
        &mut self,
        command: Command,
        group: &mut Group,
        removals: &mut Vec<(u32, SyncSender<Result<Position>>)>,
    ) {
        match command {
            Command::Append { reports, answer } => match self.encode(&reports, group) {
                Ok(verdicts) => group.appends.push((answer, verdicts)),
                Err(error) => {
                    let _ = answer.send(Err(error));
                }
            },
            Command::Close { task_id, interval, answer } => {
                self.state.closed.entry(task_id).or_default().insert(interval);
                group.positions.push(answer);
            }
            Command::SetClosed { task_id, closed } => {
                self.state.closed.insert(task_id, closed);
            }
            Command::Flush { answer } => group.positions.push(answer),
            Command::RemoveDead { number, answer } => removals.push((number, answer)),
        }
    }

    /// Checks the reports of one call and adds the accepted ones to the group.
    fn encode(&self, reports: &[NewReport], group: &mut Group) -> Result<Verdicts> {
        if let Some(why) = &self.broken {
            return Err(StoreError::Backend(why.clone()));
        }
        if reports.iter().any(|report| report.report.len() > MAX_REPORT_LEN) {
            return Err(StoreError::Backend("a report is too long to store".into()));
        }
        let verdicts: Verdicts = reports.iter().map(|report| self.judge(report)).collect();
        let accepted =
            || reports.iter().zip(&verdicts).filter(|(_, verdict)| verdict.is_ok()).map(|(r, _)| r);
        let bytes: usize = accepted().map(|report| report_frame_len(&report.report)).sum();
        let here = (group.frame_bytes() + bytes) as u64;
        let waiting = self.state.log.backlog_bytes().saturating_add(here);
        if bytes > 0 && waiting > self.state.max_backlog_bytes {
            return Err(StoreError::Full);
        }
        group.buffer.reserve(bytes);
        for report in accepted() {
            let NewReport { task_id, hpke_config_id, report, .. } = report;
            frame::put_report(&mut group.buffer, *hpke_config_id, task_id, report);
            group.configs.insert(*hpke_config_id);
        }
        Ok(verdicts)
    }

    fn judge(&self, report: &NewReport) -> std::result::Result<(), Rejection> {
        let closed = self.state.closed.get(&report.task_id);
        match (closed, report.bucket) {
            (Some(closed), Some(time)) if closed.contains(time) => Err(Rejection::BatchCollected),
            _ => Ok(()),
        }
    }

    /// Writes and syncs a group.
    fn write(&mut self, group: &mut Group) -> Result<()> {
        if group.frame_bytes() == 0 {
            return Ok(());
        }
        let bytes = MARK_LEN + group.frame_bytes();
        if let Some(active) = &self.state.active
            && u64::from(active.end) + (bytes + SEAL_LEN) as u64 > self.state.segment_bytes
        {
            self.seal()?;
        }
        match self.state.active.take() {
            Some(active) => self.extend(active, group),
            None => self.begin(group),
        }
    }

    /// Writes a group to the end of a segment.
    fn extend(&mut self, mut active: Active, group: &mut Group) -> Result<()> {
        let mark = frame::mark(&self.state.store_id, active.end.into());
        let bytes = &mut group.buffer[HEADER_LEN..];
        bytes[..MARK_LEN].copy_from_slice(&mark);
        let start = active.end;
        let written = end_offset(start, bytes.len()).and_then(|end| {
            active.file.write_at(bytes, start.into())?;
            active.file.sync()?;
            Ok(end)
        });
        let number = active.number;
        match written {
            Ok(end) => {
                active.end = end;
                active.configs.merge(&group.configs);
                self.state.log.appended(number, start, end, &group.configs);
                self.state.active = Some(active);
                Ok(())
            }
            Err(error) => Err(self.undo(active, &error)),
        }
    }

    /// Writes a group to a new segment. Its name is durable, too, before any caller is answered.
    fn begin(&mut self, group: &mut Group) -> Result<()> {
        let number = self.state.next_number;
        if number > MAX_SEGMENT {
            return Err(StoreError::Backend("segment numbers are exhausted".into()));
        }
        let name = segment_name(number);
        let failed = |error: &io::Error| StoreError::Backend(format!("segment {name}: {error}"));
        let start = HEADER_LEN as u32;
        group.buffer[..HEADER_LEN].copy_from_slice(&frame::header(&self.state.store_id, number));
        group.buffer[HEADER_LEN..HEAD_LEN]
            .copy_from_slice(&frame::mark(&self.state.store_id, start.into()));
        let files = &self.state.log.files;
        let file = files.create(&name).map_err(|error| failed(&error))?;
        let written = end_offset(0, group.buffer.len()).and_then(|end| {
            file.write_at(&group.buffer, 0)?;
            file.sync()?;
            files.sync_names()?;
            Ok(end)
        });
        match written {
            Ok(end) => {
                self.state.next_number = number + 1;
                self.state.log.appended(number, start, end, &group.configs);
                self.state.active = Some(Active { number, file, end, configs: group.configs });
                Ok(())
            }
            Err(error) => {
                if let Err(second) = files.remove(&name) {
                    self.broken = Some(format!("segment {name}: {error}, then {second}"));
                }
                Err(failed(&error))
            }
        }
    }

    /// Seals the active segment.
    fn seal(&mut self) -> Result<()> {
        let Some(active) = self.state.active.take() else { return Ok(()) };
        let seal = frame::seal(&active.configs);
        let sealed = end_offset(active.end, seal.len()).and_then(|end| {
            active.file.write_at(&seal, active.end.into())?;
            active.file.sync()?;
            Ok(end)
        });
        match sealed {
            Ok(end) => {
                self.state.log.sealed(active.number, end.into());
                Ok(())
            }
            Err(error) => Err(self.undo(active, &error)),
        }
    }

    /// Truncates a segment to its last durable length.
    fn undo(&mut self, active: Active, error: &io::Error) -> StoreError {
        let name = segment_name(active.number);
        match active.file.truncate(active.end.into()).and_then(|()| active.file.sync()) {
            Ok(()) => self.state.active = Some(active),
            Err(second) => self.broken = Some(format!("segment {name}: {error}, then {second}")),
        }
        StoreError::Backend(format!("segment {name}: {error}"))
    }

    fn remove_dead(&mut self, number: u32) {
        let is_active = self.state.active.as_ref().is_some_and(|active| active.number == number);
        if self.state.log.remove_dead(number) && is_active {
            self.state.active = None;
        }
    }
}

fn end_offset(start: u32, len: usize) -> io::Result<u32> {
    u32::try_from(len)
        .ok()
        .and_then(|len| start.checked_add(len))
        .ok_or_else(|| io::Error::other("too much was written at once"))
}

fn stopped() -> StoreError {
    StoreError::Backend("the store has stopped".into())
}

#[cfg(test)]
mod tests;
