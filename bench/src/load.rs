//! The load: prepared reports, one per request, on kept-alive connections.
//!
//! A thread keeps one request in flight on each of its connections and waits for the oldest: cheap
//! enough to share the machine with what it measures.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use sotto_tests::http::{Connection, head};
use sotto_wire::MediaType;

use crate::prepare::Prepared;

const THREADS: u64 = 2;
const CONNECTIONS_PER_THREAD: usize = 64;
/// When the leader says that it has enough to do.
const PAUSE: Duration = Duration::from_millis(20);

/// What the upload took, beside time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Uploaded {
    /// Bytes of requests, heads included.
    pub(crate) sent_bytes: u64,
    /// Requests that the leader turned away for a while.
    pub(crate) turned_away: u64,
}

/// Uploads all reports; each is accepted when this returns.
pub(crate) fn upload(address: SocketAddr, path: &str, reports: &Prepared) -> Result<Uploaded> {
    let media_type = ("content-type", MediaType::UploadReq.as_str());
    let head = head("POST", path, &[media_type], reports.report_len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|number| {
                let head = &head;
                scope.spawn(move || share(address, head, reports, number))
            })
            .collect();
        let mut total = Uploaded::default();
        for worker in workers {
            let part = worker.join().map_err(|_| anyhow!("a thread panicked"))??;
            total.sent_bytes += part.sent_bytes;
            total.turned_away += part.turned_away;
        }
        Ok(total)
    })
}

/// One thread's share of the reports: every `THREADS`-th.
fn share(address: SocketAddr, head: &[u8], reports: &Prepared, number: u64) -> Result<Uploaded> {
    let mut total = Uploaded::default();
    let mut left = (number..reports.count()).step_by(THREADS as usize);
    let mut lanes = Vec::new();
    for _ in 0..CONNECTIONS_PER_THREAD {
        let Some(index) = left.next() else { break };
        let mut lane = Lane { connection: Connection::open(address)?, report: Vec::new() };
        reports.read(index, &mut lane.report)?;
        lane.send(head, &mut total)?;
        lanes.push(Some(lane));
    }
    let mut waiting = lanes.len();
    while waiting > 0 {
        for slot in &mut lanes {
            let Some(lane) = slot else { continue };
            let answer = lane.connection.receive().context("the leader went away")?;
            match (answer.status, answer.body.is_empty()) {
                (200..=299, true) => {}
                (429 | 503, _) => {
                    total.turned_away += 1;
                    thread::sleep(PAUSE);
                    lane.send(head, &mut total)?;
                    continue;
                }
                (status, _) => {
                    bail!("an upload got {status}: {}", String::from_utf8_lossy(&answer.body))
                }
            }
            match left.next() {
                Some(index) => {
                    reports.read(index, &mut lane.report)?;
                    lane.send(head, &mut total)?;
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

/// A connection and the report that is on its way there.
struct Lane {
    connection: Connection,
    report: Vec<u8>,
}

impl Lane {
    fn send(&mut self, head: &[u8], total: &mut Uploaded) -> Result<()> {
        total.sent_bytes += (head.len() + self.report.len()) as u64;
        Ok(self.connection.send(head, &self.report)?)
    }
}
