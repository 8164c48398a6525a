//! What a server takes from the world around it: the time of day, randomness, timers and tasks.
//!
//! A server gets an [`Environment`] when it is bound. Timers and tasks belong to the runtime that
//! runs the server, and are reached through the functions below: on a single-threaded runtime with
//! a paused clock, a server runs in virtual time. Lints keep the rest of the crate from bypassing
//! this file (`clippy.toml`).
//!
//! Three things bypass it: `JoinSet::spawn`, because the set belongs to the same runtime; the
//! threads of the CPU pool, because they only compute; and `IssuerKey::generate`, because AWS-LC
//! makes RSA keys from its own randomness.
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_protocol::{Fault, Moment};
use tokio::task::JoinHandle;
pub(crate) use tokio::time::Instant;
use tokio::time::{Sleep, Timeout};
use zeroize::Zeroizing;

/// The time of day and the source of randomness of a server.
#[derive(Clone)]
pub struct Environment {
    now: Arc<Now>,
    fill: Arc<Fill>,
}

type Now = dyn Fn() -> Moment + Send + Sync;
type Fill = dyn Fn(&mut [u8]) -> Result<(), Fault> + Send + Sync;

impl Environment {
    /// An environment with this clock and this source of randomness. The clock must advance with
    /// that of the runtime.
    pub fn new(
        now: impl Fn() -> Moment + Send + Sync + 'static,
        fill: impl Fn(&mut [u8]) -> Result<(), Fault> + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), fill: Arc::new(fill) }
    }

    /// The time of day.
    pub(crate) fn now(&self) -> Moment {
        (self.now)()
    }

    /// Random bytes that are not secret: the stack keeps copies of them.
    pub(crate) fn random<const N: usize>(&self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        (self.fill)(&mut bytes)?;
        Ok(bytes)
    }

    /// Random bytes that are wiped when they are dropped.
    pub(crate) fn secret<const N: usize>(&self) -> Result<Box<Zeroizing<[u8; N]>>, Fault> {
        let mut bytes = Box::new(Zeroizing::new([0; N]));
        (self.fill)(&mut bytes[..])?;
        Ok(bytes)
    }

    /// A generator with a fresh seed.
    pub(crate) fn rng(&self) -> Result<ChaCha20Rng, Fault> {
        Ok(ChaCha20Rng::from_seed(**self.secret()?))
    }
}

/// The clock and the randomness of the operating system.
impl Default for Environment {
    fn default() -> Self {
        let now = || {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            Moment(since.map_or(0, |since| since.as_secs()))
        };
        let fill = |bytes: &mut [u8]| {
            aws_lc_rs::rand::fill(bytes)
                .map_err(|_| Fault("the operating system provides no randomness".into()))
        };
        Self::new(now, fill)
    }
}

/// The time of a monotonic clock.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Waits for this long.
pub(crate) fn sleep(pause: Duration) -> Sleep {
    tokio::time::sleep(pause)
}

/// Waits until this point in time.
pub(crate) fn sleep_until(due: Instant) -> Sleep {
    tokio::time::sleep_until(due)
}

/// Waits for a future, for at most this long.
pub(crate) fn timeout<F: IntoFuture>(patience: Duration, future: F) -> Timeout<F::IntoFuture> {
    tokio::time::timeout(patience, future)
}

/// Waits for a future, at most until this point in time.
pub(crate) fn timeout_at<F: IntoFuture>(due: Instant, future: F) -> Timeout<F::IntoFuture> {
    tokio::time::timeout_at(due, future)
}

/// Runs a task that outlives the request it belongs to.
pub(crate) fn spawn<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(task)
}

/// Runs work that waits for the disk, on a separate thread.
pub(crate) fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    tokio::task::spawn_blocking(work)
}
