//! The load: requests of one kind on kept-alive connections, for instance prepared reports.
//!
//! A thread keeps one request in flight on each of its connections and waits for the oldest. This
//! is cheap enough to share the machine with the servers under test.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use sotto_tests::http::{Connection, head};
use sotto_wire::MediaType;

use crate::prepare::Prepared;

/// The number of requests in flight during an upload.
const UPLOAD_CONNECTIONS: u8 = 128;
const THREADS: u8 = 2;
/// The pause after the server reports that it is overloaded.
const PAUSE: Duration = Duration::from_millis(20);

/// Requests of one kind to one server.
pub(crate) struct Load<'a, F> {
    pub(crate) address: SocketAddr,
    /// The head of each request.
    pub(crate) head: &'a [u8],
    /// The number of requests.
    pub(crate) count: u64,
    /// Requests in flight.
    pub(crate) connections: u8,
    /// The source address of each connection, by number.
    pub(crate) source: fn(u8) -> Ipv4Addr,
    /// The length of every answer.
    pub(crate) answer_len: usize,
    /// Writes the body of a request, by number.
    pub(crate) body: F,
}

/// What the load measured besides time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uploaded {
    /// Bytes of requests, heads included.
    pub(crate) sent_bytes: u64,
    /// Requests that the server asked to retry later.
    pub(crate) turned_away: u64,
}

/// Uploads all reports. Returns when all are accepted.
pub(crate) fn upload(address: SocketAddr, path: &str, reports: &Prepared) -> Result<Uploaded> {
    let media_type = ("content-type", MediaType::UploadReq.as_str());
    let head = head("POST", path, &[media_type], reports.report_len());
    Load {
        address,
        head: &head,
        count: reports.count(),
        connections: UPLOAD_CONNECTIONS,
        source: |_| Ipv4Addr::LOCALHOST,
        answer_len: 0,
        body: |index, report: &mut Vec<u8>| reports.read(index, report),
    }
    .send()
}

impl<F: Fn(u64, &mut Vec<u8>) -> Result<()> + Sync> Load<'_, F> {
    /// Sends all requests. Returns when all are answered.
    pub(crate) fn send(&self) -> Result<Uploaded> {
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..THREADS).map(|number| scope.spawn(move || self.share(number))).collect();
            let mut total = Uploaded::default();
            for worker in workers {
                let part = worker.join().map_err(|_| anyhow!("a thread panicked"))??;
                total.sent_bytes += part.sent_bytes;
                total.turned_away += part.turned_away;
            }
            Ok(total)
        })
    }

    /// One thread's share of the requests: every `THREADS`-th.
    fn share(&self, number: u8) -> Result<Uploaded> {
        let mut total = Uploaded::default();
        let mut left = (u64::from(number)..self.count).step_by(THREADS.into());
        let mut lanes = Vec::new();
        for connection in (number..self.connections).step_by(THREADS.into()) {
            let Some(index) = left.next() else { break };
            let source = (self.source)(connection).into();
            let connection = Connection::open_from(source, self.address)?;
            let mut lane = Lane { connection, body: Vec::new() };
            (self.body)(index, &mut lane.body)?;
            lane.send(self.head, &mut total)?;
            lanes.push(Some(lane));
        }
        let mut waiting = lanes.len();
        while waiting > 0 {
            for slot in &mut lanes {
                let Some(lane) = slot else { continue };
                let answer =
                    lane.connection.receive().context("the server closed the connection")?;
                match answer.status {
                    200..=299 if answer.body.len() == self.answer_len => {}
                    429 | 503 => {
                        total.turned_away += 1;
                        thread::sleep(PAUSE);
                        lane.send(self.head, &mut total)?;
                        continue;
                    }
                    status => {
                        bail!("a request got {status}: {}", String::from_utf8_lossy(&answer.body))
                    }
                }
                match left.next() {
                    Some(index) => {
                        (self.body)(index, &mut lane.body)?;
                        lane.send(self.head, &mut total)?;
                    }
                    None => {
                        *slot = None;
                        waiting -= 1;
                    }
                }
            }
        }
        Ok(total)
    }
}

/// A connection and the body of the request in flight on it.
struct Lane {
    connection: Connection,
    body: Vec<u8>,
}

impl Lane {
    fn send(&mut self, head: &[u8], total: &mut Uploaded) -> Result<()> {
        total.sent_bytes += (head.len() + self.body.len()) as u64;
        Ok(self.connection.send(head, &self.body)?)
    }
}
