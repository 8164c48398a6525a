//! A relay on loopback, and devices that talk to it byte by byte, each from its own address.

use std::net::{Ipv4Addr, SocketAddr};

use sotto_protocol::relay::PoolRule;
use sotto_server::{Relay, RelayConfig, RelayGateway};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::background::{self, LOOPBACK, PATIENCE, eventually};
use crate::relay::gateway::Gateway;

/// The operator of the gateway.
pub(crate) const OPERATOR: &str = "leader.example";
/// No request waits for another.
pub(crate) const AT_ONCE: PoolRule = PoolRule { min: 1, wait_ms: 0 };

/// Requests wait until there are this many.
pub(crate) fn pool_of(min: usize) -> PoolRule {
    PoolRule { min, wait_ms: PoolRule::MAX_WAIT_MS }
}

/// A relay in front of one gateway, to be changed before it starts.
pub(crate) fn config(gateway: &Gateway, pool: PoolRule) -> RelayConfig {
    let gateway =
        RelayGateway { operator: OPERATOR.parse().unwrap(), url: gateway.url(), pool: None };
    let mut config = RelayConfig::new(LOOPBACK, vec![gateway]);
    config.pool = pool;
    config.http.admin_listen = Some(LOOPBACK);
    // Most tests use one address, and their requests should mix with each other.
    config.source_limit = None;
    config
}

/// A relay that runs in the background.
pub(crate) type Server = background::Server<Relay>;

impl Server {
    pub(crate) async fn start(config: RelayConfig) -> Self {
        Self::run(Relay::bind(config).await.unwrap())
    }

    /// A metric of the relay; 0 if it has not been counted yet.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        self.counted(name).await.unwrap_or_default() as u64
    }

    /// Waits until this many requests are held.
    pub(crate) async fn holds(&self, count: u64) {
        eventually("requests are held", || async {
            self.metric("sotto_relay_held_requests").await == count
        })
        .await;
    }

    /// A connection from the usual address.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// A connection from an address of loopback.
    pub(crate) async fn connect_from(&self, source: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(source.into(), 0)).unwrap();
        socket.connect(self.addr).await.unwrap()
    }

    /// Posts a body and waits for the answer.
    pub(crate) async fn post(&self, body: &[u8]) -> Answer {
        answer(&mut self.begin(body).await).await
    }

    /// Posts a body from an address.
    pub(crate) async fn post_from(&self, source: Ipv4Addr, body: &[u8]) -> Answer {
        answer(&mut self.begin_from(source, body).await).await
    }

    /// Posts a body, without waiting for the answer.
    pub(crate) async fn begin(&self, body: &[u8]) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(&request(body)).await.unwrap();
        stream
    }

    /// The same from this address.
    pub(crate) async fn begin_from(&self, source: Ipv4Addr, body: &[u8]) -> TcpStream {
        let mut stream = self.connect_from(source).await;
        stream.write_all(&request(body)).await.unwrap();
        stream
    }
}

/// The head of an ordinary request.
pub(crate) fn head(len: usize) -> String {
    format!(
        "POST /{OPERATOR} HTTP/1.1\r\nhost: relay.example\r\ncontent-type: message/ohttp-req\r\n\
         connection: close\r\ncontent-length: {len}\r\n\r\n"
    )
}

pub(crate) fn request(body: &[u8]) -> Vec<u8> {
    let mut bytes = head(body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// An answer as it came off the wire.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let at = at.unwrap_or_else(|| panic!("no head: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[at + 4..].to_vec() }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    /// The names of all fields, in order.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> =
            self.head.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        names.sort_unstable();
        names
    }

    /// Checks that it is a problem document of this status.
    pub(crate) fn is_problem(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(document["status"], status);
        assert_eq!(document["type"], "about:blank");
        assert!(!document["detail"].as_str().unwrap().is_empty());
    }
}

pub(crate) async fn answer(stream: &mut TcpStream) -> Answer {
    Answer::parse(&rest(stream).await)
}

/// Reads until the peer closes.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A reset also ends the stream.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

/// Random bytes, the same in every run.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    use rand_core::{Rng, SeedableRng};
    let mut bytes = vec![0; len];
    rand_chacha::ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}
