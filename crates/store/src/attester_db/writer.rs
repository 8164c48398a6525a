//! The thread that commits.
//!
//! It takes all waiting calls, counts their grants in one transaction, commits once and then
//! answers them all. While one commit runs, the next group gathers by itself. A group that fails
//! changes nothing, and all its callers get the error.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_channel::oneshot;
use rusqlite::{Connection, TransactionBehavior, params};
use sotto_protocol::Moment;

use super::mark::HighWaterMark;
use super::tidy::Tidying;
use super::{Recorded, Row, Windows, counting};
use crate::{Result, StoreError};

/// The number of grants in one transaction, not counting those of the last call.
const MAX_GROUP: usize = 2048;
/// Under load, tidying still happens once in this many groups.
const GROUPS_PER_TIDYING: u32 = 4;

struct Call {
    rows: Vec<Row>,
    now: Moment,
    answer: oneshot::Sender<Result<Vec<Recorded>>>,
}

/// Sends calls to the thread.
pub(super) struct Writer {
    calls: Option<Sender<Call>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread owns.
pub(super) struct WriterState {
    pub(super) conn: Connection,
    pub(super) windows: Arc<Windows>,
    pub(super) max_aliases: u64,
    pub(super) mark: HighWaterMark,
}

impl Writer {
    pub(super) fn start(state: WriterState) -> io::Result<Self> {
        let (calls, queue) = channel();
        let thread = std::thread::Builder::new().name("sotto-attester".into());
        let thread = thread.spawn(move || run(state, &queue))?;
        Ok(Self { calls: Some(calls), thread: Some(thread) })
    }

    /// Counts grants; resolves when they are durable. They are counted even if the future is
    /// dropped.
    pub(super) async fn record(&self, rows: Vec<Row>, now: Moment) -> Result<Vec<Recorded>> {
        let stopped = || StoreError::Backend("the store has stopped".into());
        let (answer, receiver) = oneshot::channel();
        let call = Call { rows, now, answer };
        self.calls.as_ref().ok_or_else(stopped)?.send(call).map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }

    /// Stops the thread after the calls already made.
    pub(super) fn stop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

fn run(mut state: WriterState, queue: &Receiver<Call>) {
    let mut tidying = Tidying::default();
    let (mut is_tidy, mut groups) = (false, 0_u32);
    loop {
        let pause = state.mark.time_left();
        if pause == Some(Duration::ZERO) {
            state.mark.write();
            continue;
        }
        let pause = if is_tidy { pause } else { Some(Duration::ZERO) };
        let first = match wait(queue, pause) {
            Ok(call) => call,
            Err(RecvTimeoutError::Timeout) => {
                is_tidy = is_tidy || !tidy(&mut state, &mut tidying);
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        let mut group = vec![first];
        while group.iter().map(|call| call.rows.len()).sum::<usize>() < MAX_GROUP
            && let Ok(call) = queue.try_recv()
        {
            group.push(call);
        }
        state.answer(group);
        groups = groups.wrapping_add(1);
        is_tidy = groups.is_multiple_of(GROUPS_PER_TIDYING) && !tidy(&mut state, &mut tidying);
    }
    state.mark.write();
}

/// Waits for the next call, up to this long.
fn wait(
    queue: &Receiver<Call>,
    pause: Option<Duration>,
) -> std::result::Result<Call, RecvTimeoutError> {
    match pause {
        None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(pause) => queue.recv_timeout(pause),
    }
}

/// Does a little of the background work. Returns whether there is more.
fn tidy(state: &mut WriterState, tidying: &mut Tidying) -> bool {
    // The window of the last commit: this thread has no clock.
    let window = state.windows.newest.load(Ordering::Acquire);
    tidying.step(&mut state.conn, window).unwrap_or_else(|error| {
        tracing::warn!(%error, "old grants could not be deleted; will retry");
        false
    })
}

impl WriterState {
    fn answer(&mut self, group: Vec<Call>) {
        match self.commit(&group) {
            Ok(outcomes) => {
                for (call, outcome) in group.into_iter().zip(outcomes) {
                    // A caller that is gone needs no answer: its grants count anyway.
                    let _ = call.answer.send(Ok(outcome));
                }
            }
            Err(error) => {
                for call in group {
                    let _ = call.answer.send(Err(error.clone()));
                }
            }
        }
    }

    fn commit(&mut self, group: &[Call]) -> Result<Vec<Vec<Recorded>>> {
        let newest = self.windows.newest.load(Ordering::Acquire);
        let window = group
            .iter()
            .map(|call| self.windows.at(call.now))
            .fold(newest, |one, other| one.max(other));
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let commits = self.mark.commits() + 1;
        tx.prepare_cached("UPDATE attester SET newest_window = ?1, commits = ?2")?
            .execute(params![window as i64, commits as i64])?;
        let mut outcomes = Vec::with_capacity(group.len());
        for call in group {
            let rows = call.rows.iter();
            let recorded =
                rows.map(|row| counting::record(&tx, window, self.max_aliases, row)).collect();
            outcomes.push(Result::<Vec<_>>::from(recorded)?);
        }
        tx.commit()?;
        self.mark.advance(commits);
        self.windows.newest.store(window, Ordering::Release);
        Ok(outcomes)
    }
}
