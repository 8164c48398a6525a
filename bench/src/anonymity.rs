//! What the path through relay and gateway costs: `cargo xtask bench anonymity`.
//!
//! [`gateway`] measures the gateway's cryptography on one thread, compared with its floor and with
//! the crates `ohttp` and `bhttp`, [`suites`] what the two suites cost device and server in time and
//! bytes. [`relay`] measures the CPU time of a relay, compared with a bare
//! reverse proxy; both are [`parties`], processes of this program. [`cover`] compares cover with
//! reports, at a relay and a real leader.

mod cover;
mod gateway;
mod parties;
mod relay;
mod suites;

use anyhow::Result;
use serde_json::json;

use self::cover::Covered;
use self::gateway::Opening;
pub(crate) use self::parties::{Part, play};
use self::relay::Relayed;
use self::suites::{Sealing, Size};
use crate::table::yes_no;
use crate::workload::suite_name;

/// The goal for the gateway, relative to opening one HPKE message.
const GOAL_GATEWAY: f64 = 1.3;
/// The goal for the relay, relative to the bare proxy.
const GOAL_RELAY: f64 = 1.5;

/// Options of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Fewer repetitions: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let times = if options.quick { 20 } else { 500 };
    let openings = gateway::measure(times)?;
    let sealings = suites::measure(times)?;
    let sizes = suites::sizes()?;
    let relayed = match options.quick {
        true => relay::measure(1, 2_000)?,
        false => relay::measure(7, 20_000)?,
    };
    let covered = match options.quick {
        true => cover::measure(1, 2_000)?,
        false => cover::measure(7, 5_000)?,
    };
    if options.json {
        let goals = json!({ "gateway": GOAL_GATEWAY, "relay": GOAL_RELAY });
        let gateway: Vec<_> = openings.iter().map(opening_json).collect();
        let relay: Vec<_> = relayed.iter().map(relayed_json).collect();
        let name = "anonymity";
        let all = json!({
            "benchmark": name, "goals": goals, "gateway": gateway, "suites": sealings,
            "sizes": sizes, "relay": relay, "cover": covered,
        });
        println!("{all:#}");
        return Ok(());
    }
    print_openings(&openings);
    println!();
    print_sealings(&sealings);
    println!();
    print_sizes(&sizes);
    println!();
    print_relayed(&relayed);
    println!();
    print_covered(&covered);
    Ok(())
}

impl Opening {
    fn ratio(&self) -> f64 {
        self.ours_us / self.floor_us
    }
}

impl Relayed {
    fn ratio(&self) -> f64 {
        self.relay_us / self.proxy_us
    }
}

fn opening_json(opening: &Opening) -> serde_json::Value {
    json!({
        "request": opening.name,
        "suite": suite_name(opening.suite),
        "encapsulated_bytes": opening.bytes,
        "floor_us": opening.floor_us,
        "with_export_us": opening.export_us,
        "ours_us": opening.ours_us,
        "peer_us": opening.peer_us,
        "ratio": opening.ratio(),
        "goal_met": opening.ratio() <= GOAL_GATEWAY,
    })
}

fn relayed_json(relayed: &Relayed) -> serde_json::Value {
    json!({
        "body_bytes": relayed.bytes,
        "relay_us": relayed.relay_us,
        "proxy_us": relayed.proxy_us,
        "ratio": relayed.ratio(),
        "median_ratio": relayed.median_ratio,
        "goal_met": relayed.ratio() <= GOAL_RELAY,
    })
}

fn print_openings(openings: &[Opening]) {
    println!("gateway, us per request, one thread, without HTTP");
    println!(
        "{:<20} {:>9} {:>8} {:>13} {:>8} {:>7} {:>14}",
        "request", "bytes", "floor", "with export", "ours", "ratio", "ohttp + bhttp"
    );
    for opening in openings {
        println!(
            "{:<20} {:>9} {:>8.1} {:>13.1} {:>8.1} {:>7.2} {:>14.1}",
            format!("{} {}", suite_name(opening.suite), opening.name),
            opening.bytes,
            opening.floor_us,
            opening.export_us,
            opening.ours_us,
            opening.ratio(),
            opening.peer_us
        );
    }
    let met = openings.iter().all(|opening| opening.ratio() <= GOAL_GATEWAY);
    println!("at most {GOAL_GATEWAY} x floor: {}", yes_no(met));
}

fn print_sealings(sealings: &[Sealing]) {
    println!("one message of 1 KB, us, one thread; a request padded to its class");
    println!(
        "{:<8} {:>12} {:>12} {:>18} {:>18} {:>14}",
        "suite",
        "device seals",
        "server opens",
        "hpke crate opens",
        "device's request",
        "token request"
    );
    for sealing in sealings {
        println!(
            "{:<8} {:>12.1} {:>12.1} {:>18.1} {:>18.1} {:>14.1}",
            sealing.suite,
            sealing.seal_us,
            sealing.open_us,
            sealing.crate_open_us,
            sealing.request_us,
            sealing.token_us
        );
    }
}

fn print_sizes(sizes: &[Size]) {
    println!("bytes per report with both tokens, and of the size class of its request");
    println!(
        "{:<22} {:>8} {:>8} {:>8} {:>8} {:>22}",
        "query", "x25519", "class", "hybrid", "class", "with 4 KiB x 4^i"
    );
    for size in sizes {
        println!(
            "{:<22} {:>8} {:>8} {:>8} {:>8} {:>22}",
            size.query,
            size.x25519.report,
            size.x25519.class,
            size.hybrid.report,
            size.hybrid.class,
            size.hybrid.class_before
        );
    }
}

fn print_relayed(relayed: &[Relayed]) {
    println!("relay, CPU us per request");
    println!(
        "{:<20} {:>9} {:>8} {:>7} {:>13}",
        "bytes of the body", "relay", "proxy", "ratio", "median ratio"
    );
    for relayed in relayed {
        println!(
            "{:<20} {:>9.1} {:>8.1} {:>7.2} {:>13.2}",
            relayed.bytes,
            relayed.relay_us,
            relayed.proxy_us,
            relayed.ratio(),
            relayed.median_ratio
        );
    }
    let met = relayed.iter().all(|relayed| relayed.ratio() <= GOAL_RELAY);
    println!("at most {GOAL_RELAY} x the proxy: {}", yes_no(met));
}

fn print_covered(covered: &Covered) {
    println!("cover and reports, {} bytes each, CPU us per request", covered.bytes);
    println!("{:<20} {:>9} {:>8} {:>7} {:>13}", "", "report", "cover", "ratio", "median ratio");
    let Covered { report, cover, .. } = covered;
    for (party, report_us, cover_us, median_ratio) in [
        ("relay", report.relay_us, cover.relay_us, covered.relay_ratio),
        ("gateway and leader", report.leader_us, cover.leader_us, covered.leader_ratio),
    ] {
        let ratio = cover_us / report_us;
        println!("{party:<20} {report_us:>9.1} {cover_us:>8.1} {ratio:>7.2} {median_ratio:>13.2}");
    }
}
