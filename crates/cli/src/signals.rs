//! The signals that stop a command, and the one that makes a server read its files again.

use std::future::Future;

use anyhow::Result;
use tokio::sync::oneshot;

/// Resolve at the first and at the second SIGTERM or SIGINT.
pub(crate) fn pair()
-> Result<(impl Future<Output = ()> + Send + 'static, impl Future<Output = ()> + Send + 'static)> {
    let mut signals = Signals::new()?;
    let (first_sender, first) = oneshot::channel();
    let (second_sender, second) = oneshot::channel();
    tokio::spawn(async move {
        for sender in [first_sender, second_sender] {
            signals.next().await;
            // The receiver is gone: the server has already stopped.
            let _ = sender.send(());
        }
    });
    let resolved = |receiver: oneshot::Receiver<()>| async move {
        if receiver.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    Ok((resolved(first), resolved(second)))
}

/// Calls `stop` at the first SIGTERM or SIGINT, for commands that block. The second one ends the
/// process at once.
pub(crate) fn on_stop(stop: impl FnOnce() + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = runtime.block_on(async { Signals::new() })?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            signals.next().await;
            stop();
            signals.next().await;
            std::process::exit(130);
        });
    });
    Ok(())
}

/// SIGHUP. Once this exists, that signal no longer ends the process.
pub(crate) struct Hangups(#[cfg(unix)] tokio::signal::unix::Signal);

impl Hangups {
    #[cfg(unix)]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())?))
    }

    /// Resolves at the next one. Every `Hangups` sees each signal.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> Result<Self> {
        Ok(Self())
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        std::future::pending().await
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // An error means that the console is gone.
        let _ = tokio::signal::ctrl_c().await;
    }
}
