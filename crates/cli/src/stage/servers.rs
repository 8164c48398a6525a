//! Servers that run inside the demo's process.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Result;
use sotto_server::RunError;
use sotto_store::{SqliteOptions, SqliteStore};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server and how to stop it.
pub(crate) struct Server {
    stop: oneshot::Sender<()>,
    running: JoinHandle<Result<(), RunError>>,
}

impl Server {
    /// Runs a server until it is stopped. Must be called within a runtime.
    pub(crate) fn spawn<F>(run: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) -> F) -> Self
    where
        F: Future<Output = Result<(), RunError>> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel();
        let stopped = Box::pin(async move {
            let _ = stopped.await;
        });
        Self { stop, running: tokio::spawn(run(stopped)) }
    }

    /// Shuts it down cleanly.
    pub(crate) fn stop(self, runtime: &Runtime) {
        // A server that has already ended needs no signal.
        let _ = self.stop.send(());
        let _ = runtime.block_on(self.running);
    }
}

/// An aggregator's store in its own folder.
pub(crate) fn open_store(folder: &Path) -> Result<Arc<SqliteStore>> {
    std::fs::create_dir_all(folder)?;
    Ok(Arc::new(SqliteStore::open(folder, SqliteOptions::default())?))
}

/// A loopback address with a port that the system chooses.
pub(crate) fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}
