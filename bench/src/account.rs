//! Our accountant compared with the one in common use: `cargo xtask bench account`.
//!
//! [`cases`] says what is measured, [`samples`] measures ours and the peer in alternation, and
//! [`peer`] installs and runs the peer. For the peer CPU time counts, for ours wall-clock time,
//! which can only be longer: on a busy machine the ratios come out too low. Everything runs on one
//! thread; imports and start-up are not counted.
#![allow(clippy::print_stderr)] // progress, so that standard output is results alone

mod cases;
mod peer;
mod samples;

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::account::cases::{Goal, Line};
use crate::account::peer::Peer;
use crate::account::samples::Measured;

/// The shuffling script of the paper's authors is in no registry. This is its time in an earlier
/// run on the same kind of machine, with the settings of its own example (10 iterations, step 100),
/// for the same n, epsilon0 and delta.
const QUOTED_SHUFFLE_S: f64 = 7.7;
/// And its result: it implements an older, weaker theorem.
const QUOTED_SHUFFLE_EPSILON: f64 = 0.077_421;

/// Options of the benchmark.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Fewer repetitions: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Run without the peer, which needs Python and the network.
    #[arg(long)]
    alone: bool,
    /// Only lines whose name contains this, for instance `PLD epsilon`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut peer = if options.alone { None } else { Some(Peer::start(&folder()?, say)?) };
    let mut all = Vec::new();
    for mut case in cases::all() {
        let wanted =
            |line: &Line| options.only.as_deref().is_none_or(|text| line.name.contains(text));
        case.lines.retain(wanted);
        if let Some(first) = case.lines.first() {
            say(first.name);
            all.extend(samples::measure(case, peer.as_mut(), options.quick)?);
        }
    }
    let versions = peer.as_ref().map(|peer| &peer.versions);
    if options.json {
        println!("{:#}", as_json(&all, versions));
    } else {
        print(&all, versions);
    }
    Ok(())
}

fn say(what: &str) {
    eprintln!("account: {what}");
}

/// `target/bench`, beside the folder of this program.
fn folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("this program has no parent folder")?;
    Ok(target.join("bench"))
}

impl Measured {
    /// How many times faster ours is, comparing the best times.
    fn ratio(&self) -> Option<f64> {
        self.peer.map(|peer| peer.cpu.min_s / self.ours.min_s)
    }

    /// The relative difference of our value from the peer's: above 0 is looser. (A smaller sigma is
    /// better, too.)
    fn looser(&self) -> Option<f64> {
        self.peer.map(|peer| self.found.value / peer.value - 1.0)
    }

    /// `None`: there is no goal, or no peer to compare with.
    fn met(&self) -> Option<bool> {
        match self.line.goal {
            Goal::Shown => None,
            Goal::Below(seconds) => Some(self.ours.median_s < seconds),
            Goal::Faster(times) => self.ratio().map(|ratio| ratio >= times),
            Goal::FasterNoLooser(times) => self
                .ratio()
                .zip(self.looser())
                .map(|(ratio, looser)| ratio >= times && looser <= 0.0),
        }
    }

    fn as_json(&self) -> Value {
        json!({
            "name": self.line.name,
            "ours": { "wall": self.ours, "first_s": self.first_s, "value": self.found.value, "lower": self.found.lower },
            "peer": self.peer.map(|peer| json!({ "cpu": peer.cpu, "wall": peer.wall, "value": peer.value })),
            "ratio": self.ratio(),
            "looser": self.looser(),
            "goal": self.line.goal.words(),
            "goal_met": self.met(),
        })
    }
}

impl Goal {
    fn words(self) -> Option<String> {
        match self {
            Self::Shown => None,
            Self::Below(seconds) => Some(format!("below {}", shown(seconds))),
            Self::Faster(times) => Some(format!("{times} x")),
            Self::FasterNoLooser(times) => Some(format!("{times} x, no looser")),
        }
    }
}

fn as_json(all: &[Measured], versions: Option<&Value>) -> Value {
    let lines: Vec<Value> = all.iter().map(Measured::as_json).collect();
    json!({
        "benchmark": "account",
        "peer": versions,
        "lines": lines,
        "quoted": { "shuffle_s": QUOTED_SHUFFLE_S, "shuffle_epsilon": QUOTED_SHUFFLE_EPSILON },
    })
}

fn print(all: &[Measured], versions: Option<&Value>) {
    println!(
        "| | ours, least | median | peer, least | median | ratio | ours gives | peer gives | goal | |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---|---|");
    for measured in all {
        let (least, median) = (shown(measured.ours.min_s), shown(measured.ours.median_s));
        let (peer_least, peer_median, peer_value) = match measured.peer {
            Some(peer) => {
                (shown(peer.cpu.min_s), shown(peer.cpu.median_s), format!("{:.8}", peer.value))
            }
            None => Default::default(),
        };
        let ratio = measured.ratio().map(|ratio| format!("{ratio:.1}")).unwrap_or_default();
        let met = match measured.met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        println!(
            "| {} | {least} | {median} | {peer_least} | {peer_median} | {ratio} | {} | {peer_value} | {} | {met} |",
            measured.line.name,
            given(measured),
            measured.line.goal.words().unwrap_or_default(),
        );
    }
    println!();
    println!(
        "Peer: CPU time; ours: time passed. Ratio: least by least; goals in time: by the median."
    );
    println!("Smaller values are tighter, for epsilon and for sigma.");
    if let Some(versions) = versions {
        println!(
            "Peer versions: {versions}. It has no shuffling: there, a sum of ours for numpy and scipy."
        );
    }
    if let Some(shuffle) = all.iter().find(|measured| measured.line.name.starts_with("shuffle")) {
        println!(
            "Quoted, not measured in this run: the shuffling script of the paper's authors, {QUOTED_SHUFFLE_S} s for an epsilon of \
             {QUOTED_SHUFFLE_EPSILON}; that would be {:.0} times ours.",
            QUOTED_SHUFFLE_S / shuffle.ours.min_s
        );
    }
}

fn given(measured: &Measured) -> String {
    match measured.found.lower {
        Some(lower) => format!("[{lower:.8}, {:.8}]", measured.found.value),
        None => format!("{:.8}", measured.found.value),
    }
}

/// A time with a suitable unit.
fn shown(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s if s >= 1e-6 => format!("{:.1} us", s * 1e6),
        s => format!("{:.0} ns", s * 1e9),
    }
}
