//! A few threads that work through a list, for clients that block.

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use rand_core::CryptoRng;

use crate::random;

/// Runs `step` over the items on this many threads, until all items are done or one has failed.
pub(crate) fn work<T: Send>(
    source: impl Iterator<Item = Result<T>> + Send,
    threads: usize,
    bar: &ProgressBar,
    step: impl Fn(T, &mut dyn CryptoRng) -> Result<()> + Sync,
) -> Result<()> {
    // `None` once there is nothing more to do.
    let source = Mutex::new(Some(source));
    let worker = || -> Result<()> {
        let mut rng = random::system();
        loop {
            let item = lock(&source).as_mut().and_then(Iterator::next);
            let Some(item) = item else { return Ok(()) };
            if let Err(error) = item.and_then(|item| step(item, &mut rng)) {
                *lock(&source) = None;
                return Err(error);
            }
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        let mut result = Ok(());
        for joined in workers.into_iter().map(|worker| worker.join()) {
            match joined {
                Ok(Ok(())) => {}
                Ok(Err(error)) => result = result.and(Err(error)),
                Err(_) => bail!("a worker panicked"),
            }
        }
        result
    })
}

/// Locks a mutex, even after another thread has panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        let (sum, bar) = (AtomicU64::new(0), ProgressBar::hidden());
        let step = |item: u64, _: &mut dyn CryptoRng| {
            sum.fetch_add(item, Ordering::Relaxed);
            Ok(())
        };
        work((1..=100).map(Ok), 7, &bar, step).unwrap();
        assert_eq!(sum.into_inner(), 5050);
        assert_eq!(bar.position(), 100);
    }

    #[test]
    fn the_first_failure_ends_it() {
        let worked = AtomicU64::new(0);
        let step = |item: u64, _: &mut dyn CryptoRng| {
            worked.fetch_add(1, Ordering::Relaxed);
            if item == 3 { bail!("item three") } else { Ok(()) }
        };
        let error = work((0..).map(Ok), 2, &ProgressBar::hidden(), step).unwrap_err();
        assert_eq!(error.to_string(), "item three");
    }
}
