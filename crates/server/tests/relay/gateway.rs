//! A gateway that speaks just enough HTTP, records every byte and answers as it is told.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::background::{LOOPBACK, eventually};

/// A request as it came off the wire.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) at: Instant,
}

/// What the gateway does once it has read a request.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Sends the first bytes, waits for the signal, and sends the others.
    InTwo(Vec<u8>, Arc<Notify>, Vec<u8>),
    /// Sends the first bytes, and then one byte at a time, with pauses.
    Trickle(Vec<u8>),
    /// Sends these bytes and then nothing, with the connection open.
    Stall(Vec<u8>),
    /// Closes the connection.
    Close,
}

impl Reply {
    /// An ordinary encapsulated answer.
    pub(crate) fn ok(content: &[u8]) -> Self {
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: message/ohttp-res\r\ncontent-length: {}\r\n\r\n",
            content.len()
        )
        .into_bytes();
        bytes.extend_from_slice(content);
        Self::Bytes(bytes)
    }
}

pub(crate) struct Gateway {
    pub(crate) addr: SocketAddr,
    recorded: Arc<Mutex<Vec<Recorded>>>,
    reply: Arc<Mutex<Reply>>,
    /// For each answer, in the order in which they ended: whether it was read to the last byte.
    taken: Arc<Mutex<Vec<bool>>>,
    serving: JoinHandle<()>,
}

impl Gateway {
    pub(crate) async fn start() -> Self {
        Self::listen(LOOPBACK, None).await
    }

    pub(crate) async fn listen(addr: SocketAddr, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let recorded = Arc::<Mutex<Vec<Recorded>>>::default();
        let reply = Arc::new(Mutex::new(Reply::ok(b"answer")));
        let taken = Arc::<Mutex<Vec<bool>>>::default();
        let shared = (Arc::clone(&recorded), Arc::clone(&reply), Arc::clone(&taken));
        let serving = tokio::spawn(async move {
            // They end with this task.
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (recorded, reply, taken) = shared.clone();
                let tls = tls.clone();
                connections.spawn(async move {
                    match tls {
                        None => converse(stream, &recorded, &reply, &taken).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, &recorded, &reply, &taken).await;
                            }
                        }
                    }
                });
            }
        });
        Self { addr, recorded, reply, taken, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/gateway", self.addr)
    }

    pub(crate) fn answer_with(&self, reply: Reply) {
        *self.reply.lock().unwrap() = reply;
    }

    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        self.recorded.lock().unwrap().clone()
    }

    pub(crate) fn bodies(&self) -> Vec<Vec<u8>> {
        self.recorded().into_iter().map(|recorded| recorded.body).collect()
    }

    pub(crate) async fn has(&self, count: usize) {
        eventually("the gateway got the requests", || async { self.recorded().len() >= count })
            .await;
    }

    /// Waits until it is done with all answers. Returns how many were not read to the last byte.
    pub(crate) async fn broken_answers(&self) -> usize {
        eventually("the gateway is done", || async {
            self.taken.lock().unwrap().len() == self.recorded().len()
        })
        .await;
        self.taken.lock().unwrap().iter().filter(|taken| !**taken).count()
    }

    /// Stops it: connections are closed and refused.
    pub(crate) async fn stop(self) -> SocketAddr {
        self.serving.abort();
        assert!(self.serving.await.unwrap_err().is_cancelled());
        self.addr
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    recorded: &Mutex<Vec<Recorded>>,
    reply: &Mutex<Reply>,
    taken: &Mutex<Vec<bool>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        recorded.lock().unwrap().push(request);
        let reply = reply.lock().unwrap().clone();
        let outcome = send(&mut stream, reply).await;
        taken.lock().unwrap().push(outcome.is_ok());
        if outcome.is_err() {
            return;
        }
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), reply: Reply) -> io::Result<()> {
    match reply {
        Reply::Bytes(bytes) => stream.write_all(&bytes).await?,
        Reply::InTwo(first, go_on, second) => {
            stream.write_all(&first).await?;
            stream.flush().await?;
            go_on.notified().await;
            stream.write_all(&second).await?;
        }
        Reply::Trickle(first) => {
            stream.write_all(&first).await?;
            loop {
                stream.write_all(b"x").await?;
                stream.flush().await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Reply::Stall(bytes) => {
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
        Reply::Close => return Err(io::ErrorKind::ConnectionAborted.into()),
    }
    stream.flush().await
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<Recorded> {
    let mut bytes = Vec::new();
    let head_len = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            assert!(bytes.is_empty(), "a head broke off");
            return None;
        }
    };
    let mut body = bytes.split_off(head_len);
    let head = String::from_utf8(bytes).unwrap();
    let len: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .expect("the relay announces the length")
        .parse()
        .unwrap();
    while body.len() < len {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    assert_eq!(body.len(), len);
    Some(Recorded { head, body, at: Instant::now() })
}
