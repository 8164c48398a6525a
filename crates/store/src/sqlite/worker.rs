//! A thread that owns a state and runs closures on it, one after another.

use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use futures_channel::oneshot;

use crate::{Result, StoreError};

type Work<S> = Box<dyn FnOnce(&mut S) + Send>;

/// What a worker owns.
pub(crate) trait State: Send + 'static {
    /// Does a little of the background work. Returns whether there is more.
    fn tidy(&mut self) -> bool {
        false
    }
}

/// Under load, tidying still happens once in this many calls.
const CALLS_PER_TIDYING: u32 = 4;

/// The handle of the thread.
pub(crate) struct Worker<S> {
    work: Option<Sender<Work<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: State> Worker<S> {
    pub(crate) fn start(name: &str, state: S) -> io::Result<Self> {
        let (work, queue) = channel();
        let thread = std::thread::Builder::new().name(name.into());
        let thread = thread.spawn(move || run(state, &queue))?;
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    /// Runs a closure on the thread. The closure runs to its end even if the future is dropped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut S) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopped = || StoreError::Backend("the store has stopped".into());
        let (answer, receiver) = oneshot::channel();
        let work: Work<S> = Box::new(move |state| {
            // A caller that is gone needs no answer.
            let _ = answer.send(call(state));
        });
        self.work.as_ref().ok_or_else(stopped)?.send(work).map_err(|_| stopped())?;
        receiver.await.map_err(|_| stopped())?
    }
}

impl<S> Worker<S> {
    /// Stops the thread after the work already given to it.
    pub(crate) fn stop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already reported it.
            let _ = thread.join();
        }
    }
}

fn run<S: State>(mut state: S, queue: &Receiver<Work<S>>) {
    let mut is_tidy = false;
    let mut calls = 0;
    loop {
        let work = if is_tidy {
            queue.recv().ok()
        } else {
            match queue.try_recv() {
                Ok(work) => Some(work),
                Err(TryRecvError::Empty) => {
                    is_tidy = !state.tidy();
                    continue;
                }
                Err(TryRecvError::Disconnected) => None,
            }
        };
        let Some(work) = work else { return };
        work(&mut state);
        calls += 1;
        is_tidy = if calls % CALLS_PER_TIDYING == 0 { !state.tidy() } else { false };
    }
}
