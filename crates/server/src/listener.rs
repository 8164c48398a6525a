//! Sockets: accepts connections, speaks TLS if certificates are configured, and drains.
//!
//! Every wait for a peer has a limit (handshake, request head, unread answer), and connections are
//! bounded: a slow peer occupies a connection for a while, never memory or a thread. HTTP/1.1 only:
//! one request at a time on a connection, so that bounding connections bounds requests.

mod certificates;
mod gate;
mod stall;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

pub use self::certificates::{Certificates, Certified};
use self::gate::Entry;
pub(crate) use self::gate::SourceGate;
use self::stall::StallGuard;
use crate::config::{ConnectionLimits, HttpConfig, TlsConfig};
use crate::environment::{sleep, timeout};
use crate::error::BindError;
use crate::shutdown::Shutdown;

/// How long to wait after the operating system failed to accept a connection (out of descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The request bytes that a connection may buffer before the handler asks for them.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// A bound socket, not yet serving. It has no socket if the server only checks its configuration.
pub(crate) struct Listener {
    tcp: Option<TcpListener>,
    address: SocketAddr,
    certificates: Option<Arc<Certificates>>,
    limits: ConnectionLimits,
    gate: Option<Arc<SourceGate>>,
    shows_sources: bool,
}

/// Where a request comes from. Only the handlers of a relay that limits sources get it. It cannot
/// be printed.
#[derive(Clone, Copy)]
pub(crate) struct PeerIp(pub(crate) IpAddr);

impl Listener {
    /// Binds the socket. Plain HTTP beyond loopback needs `insecure_http`.
    pub(crate) async fn bind(
        address: SocketAddr,
        tls: Option<&TlsConfig>,
        insecure_http: bool,
        http: &HttpConfig,
    ) -> Result<Self, BindError> {
        if tls.is_none() && !insecure_http && !address.ip().is_loopback() {
            return Err(BindError::PlainHttp { address });
        }
        let certificates = tls.map(Certificates::load).transpose()?.map(Arc::new);
        let limits = http.connections.clone();
        let mut listener =
            Self { tcp: None, address, certificates, limits, gate: None, shows_sources: false };
        if !http.check_only {
            let listen = |source| BindError::Listen { address, source };
            let tcp = TcpListener::bind(address).await.map_err(listen)?;
            listener.address = tcp.local_addr().map_err(listen)?;
            listener.tcp = Some(tcp);
        }
        Ok(listener)
    }

    /// Where it listens, with the port that the operating system chose for port 0.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its certificate, if it speaks TLS.
    pub(crate) fn certificates(&self) -> Option<Arc<Certificates>> {
        self.certificates.clone()
    }

    /// Limits the connections of each source.
    pub(crate) fn limit_sources(&mut self, gate: SourceGate) {
        self.gate = Some(Arc::new(gate));
    }

    /// Lets one source have all connections, apart from those kept for peers.
    pub(crate) fn limit_no_source(&self) {
        self.gate.iter().for_each(|gate| gate.limit_no_source());
    }

    /// Gives each request a [`PeerIp`]. Without this, handlers cannot learn it.
    pub(crate) fn show_sources(&mut self) {
        self.shows_sources = true;
    }

    /// Serves until the shutdown begins, then finishes the requests in flight within `drain`.
    pub(crate) async fn serve(self, router: Router, mut shutdown: Shutdown, drain: Duration) {
        let Some(tcp) = self.tcp else { return shutdown.begun().await };
        let connection = Arc::new(ConnectionBuilder::new(&self.limits, self.certificates, router));
        let permits = Arc::new(Semaphore::new(self.limits.max_connections.max(1)));
        // If places are kept for peers, connections must be seen before it is known who may have one.
        let waits = !self.gate.as_ref().is_some_and(|gate| gate.has_peers());
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.begun() => break,
                Some(_) = connections.join_next() => continue,
                accepted = accept(&tcp, &permits, waits) => accepted,
            };
            let (stream, peer, mut permit) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(error = %error.kind(), "a connection could not be accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // Closed at once: if it were queued, it would block others.
            let entry = match &self.gate {
                None => None,
                Some(gate) => match gate.enter(peer) {
                    None => continue,
                    entered => entered,
                },
            };
            if entry.as_ref().is_some_and(Entry::is_peer) {
                permit = None;
            } else if permit.is_none() {
                permit = Arc::clone(&permits).try_acquire_owned().ok();
                if permit.is_none() {
                    self.gate.iter().for_each(|gate| gate.refuse());
                    continue;
                }
            }
            let peer = self.shows_sources.then_some(peer);
            let (connection, watcher) = (Arc::clone(&connection), graceful.watcher());
            connections.spawn(async move {
                connection.serve(stream, peer, watcher).await;
                drop((entry, permit));
            });
        }
        drop(tcp);
        if timeout(drain, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests were aborted: draining took too long");
        }
        connections.shutdown().await;
    }
}

async fn accept(
    tcp: &TcpListener,
    permits: &Arc<Semaphore>,
    waits: bool,
) -> io::Result<(TcpStream, PeerIp, Option<OwnedSemaphorePermit>)> {
    // Without a permit, connections wait in the operating system's queue.
    let permit = match waits {
        true => Some(Arc::clone(permits).acquire_owned().await.map_err(io::Error::other)?),
        false => None,
    };
    let (stream, peer) = tcp.accept().await?;
    // Answers are single small writes: waiting to fill a packet would only delay them.
    stream.set_nodelay(true)?;
    Ok((stream, PeerIp(peer.ip()), permit))
}

/// What all connections of a listener share.
struct ConnectionBuilder {
    http1: http1::Builder,
    certificates: Option<Arc<Certificates>>,
    handshake_timeout: Duration,
    write_timeout: Duration,
    service: TowerToHyperService<Router>,
}

impl ConnectionBuilder {
    fn new(
        limits: &ConnectionLimits,
        certificates: Option<Arc<Certificates>>,
        router: Router,
    ) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_timeout)
            .max_buf_size(CONNECTION_BUFFER);
        Self {
            http1,
            certificates,
            handshake_timeout: limits.header_timeout,
            write_timeout: limits.write_timeout,
            service: TowerToHyperService::new(router),
        }
    }

    async fn serve(&self, stream: TcpStream, peer: Option<PeerIp>, watcher: Watcher) {
        let Some(certificates) = &self.certificates else {
            return self.speak(stream, peer, watcher).await;
        };
        let handshake = timeout(self.handshake_timeout, certificates.acceptor().accept(stream));
        let Ok(Ok(stream)) = handshake.await else { return };
        self.speak(stream, peer, watcher).await;
    }

    async fn speak<S>(&self, stream: S, peer: Option<PeerIp>, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(StallGuard::new(stream, self.write_timeout));
        let router = self.service.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            router.call(request)
        });
        let connection = self.http1.serve_connection(io, service);
        // An error here is the peer's: it disconnected, was too slow or did not speak HTTP.
        let _ = watcher.watch(connection).await;
    }
}
