//! Large reports pass relay, gateway, leader and helper. If there is no memory for one, it is
//! refused, and comes through later. A slice of `cargo xtask campaign large`, which measures.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sotto_client::{ExchangeError, UploadError, UploadOutcome};
use sotto_tests::http::head;
use sotto_tests::large::{Kind, LargeReports};
use sotto_tests::pair::get;
use sotto_wire::ohttp::REQUEST_MEDIA_TYPE;

const MIB: usize = 1024 * 1024;
/// Elements of 16 bits: the longest measurement of Prio3, a report of 4.3 MB.
const LENGTH: u32 = 16_384;
/// Requests do not wait for each other here.
const AT_ONCE: &str = "[pool]\nmin = 1\n";
/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn three_large_reports_pass_all_roles() {
    let mut large = LargeReports::new(Kind::SumVec, LENGTH, 3).unwrap();
    large.start(AT_ONCE).unwrap();
    let reports = large.prepare(3).unwrap();
    assert!(reports.report_len() > 4 * MIB);
    let sent = large.send(&reports, 3).unwrap();
    assert_eq!(sent.turned_away, 0);
    large.finish(3).unwrap();
}

/// What `/readyz` of the leader says.
fn readyz(large: &LargeReports) -> Value {
    let response = get(large.pair.leader.admin_address(), "/readyz").unwrap();
    serde_json::from_slice(&response.body).unwrap()
}

fn is_refused(outcome: &Result<UploadOutcome, UploadError>) -> bool {
    match outcome {
        Err(UploadError::Upload(error @ ExchangeError::Transport(why))) => {
            error.is_transient() && why.retry_after().is_some()
        }
        _ => false,
    }
}

/// Uploads have half of the memory: room for one large report while it is opened. Jobs have the
/// other half, which is less than verifying one of them takes.
#[test]
fn without_memory_a_large_report_is_refused_and_comes_later() {
    let mut large = LargeReports::new(Kind::SumVec, LENGTH, 2).unwrap();
    let limits = format!("[limits]\nmax_memory_bytes = {}\n", 48 * MIB);
    large.pair.leader.configure(&limits).unwrap();
    let limits = format!("[limits]\nmax_memory_bytes = {}\n", 16 * MIB);
    large.pair.helper.configure(&limits).unwrap();
    large.start(AT_ONCE).unwrap();
    let reports = large.prepare(2).unwrap();
    assert_eq!(large.try_send(&reports, 0).unwrap(), UploadOutcome::Accepted);

    // Somebody sends the longest request there is, and not its end.
    let mut slow = TcpStream::connect(large.pair.leader.address()).unwrap();
    let begin = head("POST", "/gateway", &[("content-type", REQUEST_MEDIA_TYPE)], 16 * MIB);
    slow.write_all(&begin).unwrap();
    slow.write_all(&vec![7; 12 * MIB]).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while readyz(&large)["memory_held_bytes"].as_u64().unwrap() < 12 * MIB as u64 {
        assert!(Instant::now() < deadline, "{}", readyz(&large));
        thread::sleep(Duration::from_millis(10));
    }
    let refused = large.try_send(&reports, 1);
    assert!(is_refused(&refused), "{refused:?}");
    let told = readyz(&large);
    assert_eq!(told["memory_limit_bytes"], 48 * MIB);
    assert_eq!(told["reasons"][0]["name"], "memory_full", "{told}");
    assert_eq!(told["status"], "degraded");
    assert_eq!(large.pair.leader.metric("sotto_memory_refused_total").unwrap(), 1.0);

    drop(slow);
    while is_refused(&large.try_send(&reports, 1)) {
        assert!(Instant::now() < deadline, "the memory was not given back");
        thread::sleep(Duration::from_millis(50));
    }
    large.finish(2).unwrap();
}
