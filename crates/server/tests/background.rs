//! A server of any role that runs in the background, and what tests of all roles need.

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Certificate, Client, StatusCode};
use serde_json::Value;
use sotto_server::RunError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long anything may take before a test fails. Only a limit: nothing is measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs in the background. `R` tells the roles apart.
pub(crate) struct Server<R> {
    pub(crate) url: String,
    pub(crate) addr: SocketAddr,
    admin: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) running: JoinHandle<Result<(), RunError>>,
    role: PhantomData<R>,
}

impl<R> Server<R> {
    pub(crate) fn run(server: sotto_server::Server) -> Self {
        Self::at(format!("http://{}", server.addr()), server)
    }

    /// A server that is known under this URL.
    pub(crate) fn at(url: String, server: sotto_server::Server) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (addr, admin) = (server.addr(), server.admin_addr());
        let running = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Self { url, addr, admin, stop: Some(stop), running, role: PhantomData }
    }

    /// No server, in the place of one that is stopped.
    pub(crate) fn none() -> Self {
        let running = tokio::spawn(async { Ok(()) });
        let (url, addr, role) = (String::new(), LOOPBACK, PhantomData);
        Self { url, addr, admin: None, stop: None, running, role }
    }

    /// Starts an orderly shutdown.
    pub(crate) fn begin_stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) async fn stopped(mut self) {
        self.begin_stop();
        tokio::time::timeout(PATIENCE, self.running).await.unwrap().unwrap().unwrap();
    }

    /// Stops immediately, as in a crash.
    pub(crate) async fn crashed(self) {
        self.running.abort();
        assert!(self.running.await.unwrap_err().is_cancelled());
    }

    pub(crate) async fn admin_get(&self, path: &str) -> (StatusCode, String) {
        let url = format!("http://{}/{path}", self.admin.unwrap());
        let response = client(None).get(url).send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    pub(crate) async fn readyz(&self) -> (StatusCode, Value) {
        let (status, text) = self.admin_get("readyz").await;
        (status, serde_json::from_str(&text).unwrap())
    }

    /// A counter or gauge of `/metrics`, by its whole name with labels, if it was counted.
    pub(crate) async fn counted(&self, name: &str) -> Option<f64> {
        let (_, text) = self.admin_get("metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }
}

/// Waits until a condition holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "never happened: {what}");
}

/// A client that trusts this certificate (PEM) and no other.
pub(crate) fn client(certificate: Option<&str>) -> Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let certificate = certificate.map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap());
    Client::builder().no_proxy().tls_certs_only(certificate).build().unwrap()
}
