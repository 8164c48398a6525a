//! What the benchmarks print.

use serde_json::{Value, json};
use sotto_crypto::hpke::Suite;

use crate::floor::Floor;
use crate::run::{Measured, Role};
use crate::workload::{Workload, suite_name};

/// The goal for leader and helper together: twice the floor plus a little for everything else.
const GOAL_FACTOR: f64 = 2.0;
const GOAL_EXTRA_US: f64 = 60.0;
/// The goal for each process, whatever the number of reports.
const GOAL_MEMORY_BYTES: u64 = 300 * 1000 * 1000;
/// The goal relative to the peer.
const GOAL_PEER_FRACTION: f64 = 0.2;

/// A run of `aggregate`, as JSON.
pub(crate) fn aggregate_json(workload: Workload, measured: &Measured, floor: Floor) -> Value {
    let total = measured.leader.cpu_us + measured.helper.cpu_us;
    json!({
        "measured": measured,
        "floor_us": {
            "leader": floor.leader_us,
            "helper": floor.helper_us,
            "total": floor.total_us(),
        },
        "cpu_us": total,
        "ratio": total / floor.total_us(),
        "goal_us": goal_us(floor),
        "goal_met": total <= goal_us(floor),
        "peer_cpu_us": peer_cpu_us(workload, measured),
    })
}

/// The peer was measured with DAP's suite.
fn peer_cpu_us(workload: Workload, measured: &Measured) -> Option<f64> {
    workload.peer_cpu_us().filter(|_| measured.suite == suite_name(Suite::X25519))
}

/// A run of `aggregate`, for people.
pub(crate) fn print_aggregate(workload: Workload, measured: &Measured, floor: Floor) {
    let (leader, helper) = (&measured.leader, &measured.helper);
    let total = leader.cpu_us + helper.cpu_us;
    let Measured { workload: name, reports, batch_mode, suite, .. } = measured;
    println!("{name}, {reports} reports, {batch_mode}, {suite}");
    println!("  uploads/s              {:>10.0}", measured.uploads_per_s);
    println!("  aggregated reports/s   {:>10.0}", measured.aggregated_per_s);
    println!("  to the result          {:>10.2} s", measured.total_s);
    println!("  of which collecting    {:>10.2} s", measured.collect_s);
    println!("  uploads turned away    {:>10}", measured.turned_away);
    println!("  per report                 leader     helper   together");
    let row = |name: &str, leader: f64, helper: f64, digits: usize| {
        let sum = leader + helper;
        println!("    {name:<18} {leader:>10.digits$} {helper:>10.digits$} {sum:>10.digits$}");
    };
    row("CPU us", leader.cpu_us, helper.cpu_us, 1);
    row("floor us", floor.leader_us, floor.helper_us, 1);
    println!(
        "    {:<18} {:>10.2} {:>10.2} {:>10.2}",
        "ratio",
        leader.cpu_us / floor.leader_us,
        helper.cpu_us / floor.helper_us,
        total / floor.total_us()
    );
    row("bytes written", leader.written_bytes, helper.written_bytes, 0);
    row("peak disk bytes", leader.peak_disk_bytes, helper.peak_disk_bytes, 0);
    row("database bytes", leader.database_bytes, helper.database_bytes, 0);
    println!(
        "  wire bytes per report: upload {:.0}, leader to helper {:.0}, back {:.0}",
        measured.wire.upload, measured.wire.leader_to_helper, measured.wire.helper_to_leader
    );
    println!(
        "  peak memory MB             {:>10.0} {:>10.0}",
        megabytes(leader.peak_memory_bytes),
        megabytes(helper.peak_memory_bytes)
    );
    println!(
        "  after the collection: segments {} and {} bytes, report ids {} and {}",
        leader.segment_bytes_after,
        helper.segment_bytes_after,
        leader.report_ids_after,
        helper.report_ids_after
    );
    println!(
        "  at most {GOAL_FACTOR} x floor + {GOAL_EXTRA_US} us = {:.0} us: {}",
        goal_us(floor),
        yes_no(total <= goal_us(floor))
    );
    println!(
        "  memory below {:.0} MB per role: {}",
        megabytes(GOAL_MEMORY_BYTES),
        memory(measured)
    );
    if let Some(peer) = peer_cpu_us(workload, measured) {
        println!(
            "  the peer: {peer:.0} us; below a fifth of it: {} ({:.1} times less)",
            yes_no(total < peer * GOAL_PEER_FRACTION),
            peer / total
        );
    }
    println!();
}

/// The runs of `scale`, as a table in Markdown.
pub(crate) fn print_scale(runs: &[Measured]) {
    println!(
        "| reports | seconds | us per report | uploads/s | leader CPU us | helper CPU us | leader MB | \
         helper MB |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for run in runs {
        println!(
            "| {} | {:.1} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.0} |",
            run.reports,
            run.total_s,
            run.total_s * 1e6 / run.reports as f64,
            run.uploads_per_s,
            run.leader.cpu_us,
            run.helper.cpu_us,
            megabytes(run.leader.peak_memory_bytes),
            megabytes(run.helper.peak_memory_bytes)
        );
    }
}

fn goal_us(floor: Floor) -> f64 {
    GOAL_FACTOR * floor.total_us() + GOAL_EXTRA_US
}

fn memory(measured: &Measured) -> &'static str {
    let small = |role: &Role| role.peak_memory_bytes < GOAL_MEMORY_BYTES;
    yes_no(small(&measured.leader) && small(&measured.helper))
}

/// Shows whether a goal was met.
pub(crate) fn yes_no(met: bool) -> &'static str {
    if met { "yes" } else { "NO" }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
