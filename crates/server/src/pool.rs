//! A bounded pool of threads for cryptography, off the async threads.
//!
//! A closure is one batch of work (a whole aggregation job), so one hop through the pool serves
//! hundreds of reports. The queue is bounded: when it is full, requests are rejected
//! ([`CpuPool::try_run`]), and the leader's own work waits ([`CpuPool::run`]).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Why the pool did not do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PoolError {
    /// All threads are busy and the queue is full.
    #[error("the CPU pool is full")]
    Busy,
    /// The work panicked. The thread survives.
    #[error("work in the CPU pool panicked")]
    Panicked,
}

type Work = Box<dyn FnOnce() + Send>;

/// Threads and their queue. After the pool is dropped, the threads end once the queue is empty.
pub(crate) struct CpuPool {
    queue: mpsc::Sender<Work>,
    slots: Arc<Semaphore>,
    capacity: usize,
}

impl CpuPool {
    /// Starts `threads` threads with room for `waiting` more closures.
    pub(crate) fn new(threads: usize, waiting: usize) -> io::Result<Self> {
        let (queue, waiting_work) = mpsc::channel();
        let waiting_work = Arc::new(Mutex::new(waiting_work));
        for number in 0..threads.max(1) {
            let waiting_work = Arc::clone(&waiting_work);
            let thread = thread::Builder::new().name(format!("sotto-cpu-{number}"));
            thread.spawn(move || work_off(&waiting_work))?;
        }
        let capacity = threads.max(1) + waiting;
        Ok(Self { queue, slots: Arc::new(Semaphore::new(capacity)), capacity })
    }

    /// Runs `work`, waiting for room in the queue.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let slot =
            Arc::clone(&self.slots).acquire_owned().await.map_err(|_| PoolError::Panicked)?;
        self.submit(slot, work).await.map_err(|_| PoolError::Panicked)
    }

    /// Runs `work` if there is room in the queue now.
    pub(crate) async fn try_run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().map_err(|_| PoolError::Busy)?;
        self.submit(slot, work).await.map_err(|_| PoolError::Panicked)
    }

    /// Closures that are running or waiting.
    pub(crate) fn occupied(&self) -> usize {
        self.capacity.saturating_sub(self.slots.available_permits())
    }

    fn submit<T: Send + 'static>(
        &self,
        slot: OwnedSemaphorePermit,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        // If this fails, the answer's sender is dropped, as after a panic.
        let _ = self.queue.send(Box::new(move || {
            // The slot is freed before the answer is sent: whoever has the answer finds room.
            let answer = work();
            drop(slot);
            // If nobody waits any more, the work was for nothing.
            let _ = sender.send(answer);
        }));
        receiver
    }
}

/// Runs closures until the pool is gone and the queue is empty.
fn work_off(queue: &Mutex<mpsc::Receiver<Work>>) {
    // The lock is held while a thread waits for work, and not while it works.
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(work) = next() {
        // A panic drops the answer's sender, which tells the waiting side; the thread is not lost.
        let _ = catch_unwind(AssertUnwindSafe(work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_and_a_panic_is_survived() {
        let pool = CpuPool::new(1, 0).unwrap();
        assert_eq!(pool.run(|| 6 * 7).await, Ok(42));
        assert_eq!(pool.run(|| panic!("on purpose")).await, Err::<(), _>(PoolError::Panicked));
        assert_eq!(pool.run(|| 1).await, Ok(1));
        assert_eq!(pool.occupied(), 0);
    }

    #[tokio::test]
    async fn a_full_queue_turns_requests_away_and_lets_others_wait() {
        let pool = Arc::new(CpuPool::new(1, 1).unwrap());
        let (release, gate) = mpsc::channel::<()>();
        let (started, running) = mpsc::channel();
        let blocked = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move {
                pool.run(move || {
                    started.send(()).unwrap();
                    gate.recv().unwrap();
                })
                .await
            }
        });
        tokio::task::spawn_blocking(move || running.recv().unwrap()).await.unwrap();
        let mut waiting = Box::pin(pool.run(|| "waited"));
        // The second closure takes the one slot in the queue.
        assert!(futures_pending(&mut waiting).await);
        assert_eq!(pool.occupied(), 2);
        assert_eq!(pool.try_run(|| ()).await, Err(PoolError::Busy));
        release.send(()).unwrap();
        assert_eq!(waiting.await, Ok("waited"));
        assert_eq!(blocked.await.unwrap(), Ok(()));
        assert_eq!(pool.try_run(|| 2).await, Ok(2));
    }

    async fn futures_pending<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|cx| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_pending())
        })
        .await
    }
}
