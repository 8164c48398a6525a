//! Helpers that accept and never answer: only their own tasks wait.

use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::client::produce_report;
use sotto_tests::devices::upload_all;
use sotto_tests::pair::Pair;
use sotto_tests::task::TaskFiles;
use sotto_vdaf::Measurement;

const AGGREGATED: &str = "sotto_reports_aggregated_total";
const FORMED: &str = "sotto_aggregation_jobs_total{outcome=\"formed\"}";
const OPTIONS: [&str; 4] = ["--vdaf", "count", "--min-batch-size", "10"];
/// Each task of a silent helper has a backlog of many jobs.
const BACKLOG: usize = 60;
const SMALL_JOBS: &str = "jobs = { max_reports = 5, max_open = 4 }";
/// Honest reports are aggregated in well under a second. A silent helper is given up after 30.
const PATIENCE: Duration = Duration::from_secs(10);

/// A helper that accepts connections and says nothing.
fn black_hole() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut held = Vec::new();
        listener.incoming().for_each(|stream| held.push(stream));
    });
    url
}

fn upload(pair: &Pair, files: &TaskFiles, count: usize, rng: &mut ChaCha20Rng) {
    let (leader, helper) = (pair.leader.hpke_config().unwrap(), pair.helper.hpke_config().unwrap());
    let time = files.past_time().unwrap();
    let mut report = || {
        let measurement = Measurement::Count(true);
        produce_report(files.task(), &leader, &helper, &measurement, time, None, rng).unwrap()
    };
    let reports: Vec<_> = (0..count).map(|_| report()).collect();
    let address = pair.leader.address();
    upload_all(files.task(), address, &reports, 4, PATIENCE, &AtomicUsize::new(0)).unwrap();
}

/// Waits until a metric of the leader has this value.
fn wait_for(pair: &Pair, metric: &str, value: f64) {
    let deadline = Instant::now() + PATIENCE;
    while pair.leader.metric(metric).unwrap() < value {
        assert!(Instant::now() < deadline, "{metric} is not {value}:\n{}", pair.leader.log_text());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn six_silent_helpers_delay_no_honest_task() {
    let mut pair = Pair::new().unwrap();
    pair.leader.configure(SMALL_JOBS).unwrap();
    // Ids are random, so the honest task comes anywhere between the others.
    let dark = ["one", "two", "three", "four", "five", "six"]
        .map(|name| pair.add_task_of(name, &black_hole(), &OPTIONS).unwrap());
    let honest = pair.add_task("honest", &OPTIONS).unwrap();
    pair.start().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(14);
    for files in &dark {
        upload(&pair, files, BACKLOG, &mut rng);
    }
    // Their backlog is formed, although nobody works it off.
    wait_for(&pair, FORMED, (dark.len() * BACKLOG / 5) as f64);
    for round in 1..=5 {
        upload(&pair, &honest, 10, &mut rng);
        let start = Instant::now();
        wait_for(&pair, AGGREGATED, f64::from(round * 10));
        println!("round {round}: aggregated after {:?}", start.elapsed());
        // More of the others' reports arrive all the time.
        dark.iter().for_each(|files| upload(&pair, files, 5, &mut rng));
        thread::sleep(Duration::from_millis(500));
    }
    // Nothing of the other tasks was lost, and the leader does not wait for them to end.
    assert!(pair.leader.metric("sotto_aggregation_jobs_open").unwrap() >= 6.0 * 12.0);
    assert!(pair.leader.stop().unwrap());
}
