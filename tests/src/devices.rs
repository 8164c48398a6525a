//! Devices in this process: reports are made with the client's code, uploaded one per request, and
//! resent with the same bytes until they are acknowledged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use sotto_protocol::Task;
use sotto_protocol::client::consume_upload_errors;
use sotto_wire::{MediaType, ReportError};

use crate::http::{Connection, head};

/// The pause between two attempts to reach a leader that is down.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// Uploads every report on `connections` connections, and returns once all are acknowledged.
///
/// `acknowledged` counts the acknowledged reports. A report that the leader refuses is an error.
pub fn upload_all(
    task: &Task,
    leader: SocketAddr,
    reports: &[Vec<u8>],
    connections: usize,
    patience: Duration,
    acknowledged: &AtomicUsize,
) -> Result<()> {
    let path = format!("/tasks/{}/reports", task.id());
    let deadline = Instant::now() + patience;
    let next = AtomicUsize::new(0);
    let worker = || -> Result<()> {
        let mut connection = None;
        while let Some(report) = reports.get(next.fetch_add(1, Ordering::Relaxed)) {
            let media_type = ("content-type", MediaType::UploadReq.as_str());
            let head = head("POST", &path, &[media_type], report.len());
            let mut repeated = false;
            while !attempt(&mut connection, leader, &head, report, repeated)? {
                repeated = true;
                connection = None;
                if Instant::now() > deadline {
                    bail!("the leader did not accept a report in {patience:?}");
                }
                thread::sleep(RETRY_PAUSE);
            }
            acknowledged.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => Err(anyhow!("a device panicked")),
        })
    })
}

/// Whether the leader acknowledged the report. `false`: it is down, or asked to retry later.
fn attempt(
    connection: &mut Option<Connection>,
    leader: SocketAddr,
    head: &[u8],
    report: &[u8],
    repeated: bool,
) -> Result<bool> {
    let connection = match connection {
        Some(connection) => connection,
        None => match Connection::open(leader) {
            Ok(opened) => connection.insert(opened),
            Err(_) => return Ok(false),
        },
    };
    let Ok(response) = connection.exchange(head, report) else { return Ok(false) };
    match response.status {
        200..=299 => match consume_upload_errors(&response.body)?.first() {
            None => Ok(true),
            // It got the report in an earlier attempt whose answer was lost.
            Some((_, ReportError::ReportReplayed)) if repeated => Ok(true),
            Some((_, error)) => bail!("the leader refused a report: {error:?}"),
        },
        429 | 500..=599 => Ok(false),
        status => bail!("the leader answered an upload with {status}"),
    }
}
