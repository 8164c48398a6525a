//! The signal by which loops and listeners learn that the server shuts down.

use std::time::Duration;

use tokio::sync::watch;

use crate::environment::timeout;

/// Starts the shutdown. Dropping it does the same.
#[derive(Debug)]
pub(crate) struct ShutdownTrigger(watch::Sender<bool>);

/// Learns of the shutdown.
#[derive(Clone, Debug)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

pub(crate) fn channel() -> (ShutdownTrigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (ShutdownTrigger(sender), Shutdown(receiver))
}

impl ShutdownTrigger {
    /// Starts the shutdown.
    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Whether the shutdown has begun.
    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits for this long, or until the shutdown begins. Returns whether it has begun.
    pub(crate) async fn begins_within(&mut self, pause: Duration) -> bool {
        timeout(pause, self.begun()).await.is_ok()
    }

    /// The outcome of some work, unless the shutdown begins first.
    pub(crate) async fn or<F: Future>(&mut self, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            () = self.begun() => None,
            outcome = work => Some(outcome),
        }
    }

    /// Resolves once the shutdown has begun.
    pub(crate) async fn begun(&mut self) {
        // An error means that the trigger is gone.
        let _ = self.0.wait_for(|begun| *begun).await;
    }
}
