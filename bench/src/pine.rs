//! What a report of PINE costs device, leader and helper: `cargo xtask bench pine`.
//!
//! One thread, every set of instructions that the machine has, in alternation within one run. The
//! time is CPU time of the thread, the least of many rounds: other load can only add to it.
//! [`memory`] measures the peak in a process of its own.

mod memory;

use std::time::Duration;

use anyhow::{Context, Result};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::json;
use sotto_vdaf::{
    HelperReport, Instructions, LeaderReport, Measurement, Shares, Vdaf, VdafConfig, VerifyParams,
};

use self::memory::Step;
use crate::table::yes_no;

const DIMENSIONS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
/// One, with 15 fraction bits.
const NORM_BOUND: u64 = 1 << 15;
const CTX: &[u8] = b"benchmark";
const NONCE: [u8; 16] = [19; 16];
const PARAMS: VerifyParams<'_> = VerifyParams { verify_key: &[7; 32], ctx: CTX, agg_param: b"" };

/// Below this, what a step needs drowns in the granularity of the kernel's counters.
const LEAST_FOR_MEMORY: u32 = 100_000;

/// The goals, for this dimension, in milliseconds.
const GOAL_DIMENSION: u32 = 100_000;
const GOAL_SHARD_MS: f64 = 60.0;
const GOAL_VERIFY_MS: f64 = 25.0;
const GOAL_VERIFY_SCALAR_MS: f64 = 40.0;

/// Options of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Fewer repetitions, and at most 10,000 elements: to see that it works, not to quote.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Print the peak memory of one step (internal).
    #[arg(long, hide = true, requires = "dimension")]
    memory: Option<Step>,
    #[arg(long, hide = true)]
    dimension: Option<u32>,
}

/// The least times of one set of instructions, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    instructions: &'static str,
    shard_ms: f64,
    leader_ms: f64,
    helper_ms: f64,
}

/// All figures for one dimension.
#[derive(Debug, Serialize)]
struct Figures {
    dimension: u32,
    times: Vec<Times>,
    leader_share_bytes: usize,
    helper_share_bytes: usize,
    leader_message_bytes: usize,
    /// The leader's share beyond 8 bytes per element.
    overhead: f64,
    peak_bytes: Option<Peaks>,
}

/// Beyond what the process has before: the inputs, and the code.
#[derive(Clone, Copy, Debug, Serialize)]
struct Peaks {
    shard: u64,
    leader: u64,
    helper: u64,
}

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    if let (Some(step), Some(dimension)) = (options.memory, options.dimension) {
        println!("{}", memory::peak_of(step, &Case::new(dimension, Instructions::best())?)?);
        return Ok(());
    }
    let mut all = Vec::new();
    for dimension in DIMENSIONS.into_iter().filter(|d| !options.quick || *d <= 10_000) {
        all.push(measure(dimension, options.quick)?);
    }
    if options.json {
        println!("{:#}", json!({ "benchmark": "pine", "norm_bound": NORM_BOUND, "runs": all }));
    } else {
        print(&all);
    }
    Ok(())
}

/// One report, and what is needed to make and to verify it.
struct Case {
    vdaf: std::sync::Arc<dyn Vdaf>,
    measurement: Measurement,
    shares: Shares,
}

impl Case {
    /// A vector without zeros, of both signs, just below the bound.
    fn new(dimension: u32, instructions: Instructions) -> Result<Self> {
        let element = (0.97 * NORM_BOUND as f64 / f64::from(dimension).sqrt()) as i64;
        let sign = |at: u32| if at % 7 < 4 { 1 } else { -1 };
        let measurement =
            Measurement::Vector((0..dimension).map(|at| sign(at) * element).collect());
        let vdaf = VdafConfig::pine64(dimension, NORM_BOUND).build_with(instructions)?;
        let shares = shard(&*vdaf, &measurement)?;
        Ok(Self { vdaf, measurement, shares })
    }

    fn shard(&self) -> Result<Shares> {
        shard(&*self.vdaf, &self.measurement)
    }

    /// The leader's message.
    fn lead(&self) -> Result<Vec<u8>> {
        let report = LeaderReport {
            nonce: &NONCE,
            public_share: &self.shares.public_share,
            input_share: &self.shares.leader,
            bucket: 0,
        };
        let pending = self.vdaf.leader_init(&PARAMS, &[report]);
        Ok(pending.outbound(0)?.to_vec())
    }

    fn help(&self, inbound: &[u8], sum: &mut [sotto_vdaf::AggregateShare]) -> Result<()> {
        let report = HelperReport {
            nonce: &NONCE,
            public_share: &self.shares.public_share,
            input_share: &self.shares.helper,
            inbound,
            bucket: 0,
        };
        let mut answers = self.vdaf.helper_verify(&PARAMS, &[report], sum);
        answers.pop().context("no answer")??;
        Ok(())
    }
}

fn shard(vdaf: &dyn Vdaf, measurement: &Measurement) -> Result<Shares> {
    Ok(vdaf.shard(CTX, measurement, &NONCE, &mut ChaCha20Rng::seed_from_u64(19))?)
}

fn measure(dimension: u32, quick: bool) -> Result<Figures> {
    let cases: Vec<(&str, Case)> = Instructions::available()
        .into_iter()
        .map(|set| Ok((set.name(), Case::new(dimension, set)?)))
        .collect::<Result<_>>()?;
    let inbound: Vec<Vec<u8>> = cases.iter().map(|(_, case)| case.lead()).collect::<Result<_>>()?;
    let mut sums: Vec<_> = cases.iter().map(|(_, case)| [case.vdaf.zero_share()]).collect();
    let mut least = vec![[f64::INFINITY; 3]; cases.len()];
    let rounds = if quick { 3 } else { (20_000_000 / dimension).clamp(15, 400) };
    for _ in 0..rounds {
        for (index, (_, case)) in cases.iter().enumerate() {
            let times = [
                time(|| case.shard().map(drop))?,
                time(|| case.lead().map(drop))?,
                time(|| case.help(&inbound[index], &mut sums[index]))?,
            ];
            for (least, time) in least[index].iter_mut().zip(times) {
                *least = least.min(time);
            }
        }
    }
    let (_, case) = cases.first().context("no instructions")?;
    let sizes = case.vdaf.sizes();
    let times = cases.iter().zip(least).map(|((name, _), [shard_ms, leader_ms, helper_ms])| {
        Times { instructions: name, shard_ms, leader_ms, helper_ms }
    });
    let peak = |step| memory::in_own_process(step, dimension);
    let peaks = || -> Result<Peaks> {
        Ok(Peaks {
            shard: peak(Step::Shard)?,
            leader: peak(Step::Leader)?,
            helper: peak(Step::Helper)?,
        })
    };
    Ok(Figures {
        dimension,
        times: times.collect(),
        leader_share_bytes: sizes.leader_share,
        helper_share_bytes: sizes.helper_share,
        leader_message_bytes: sizes.leader_message,
        overhead: sizes.leader_share as f64 / (8.0 * f64::from(dimension)) - 1.0,
        peak_bytes: (dimension >= LEAST_FOR_MEMORY).then(peaks).transpose()?,
    })
}

/// CPU time of this thread, in milliseconds.
fn time(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    };
    let start = now();
    work()?;
    Ok((now() - start).as_secs_f64() * 1e3)
}

fn print(all: &[Figures]) {
    println!("| elements | instructions | shard, ms | leader, ms | helper, ms | times faster |");
    println!("|---:|---|---:|---:|---:|---|");
    for figures in all {
        let scalar = figures.times[0];
        for times in &figures.times {
            println!(
                "| {} | {} | {:.2} | {:.2} | {:.2} | {:.1}, {:.1}, {:.1} |",
                figures.dimension,
                times.instructions,
                times.shard_ms,
                times.leader_ms,
                times.helper_ms,
                scalar.shard_ms / times.shard_ms,
                scalar.leader_ms / times.leader_ms,
                scalar.helper_ms / times.helper_ms,
            );
        }
    }
    println!();
    println!(
        "| elements | leader's share | over 8 bytes | helper's share | leader's message | peak, shard | peak, leader | peak, helper |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|");
    for figures in all {
        let peak = |of: fn(Peaks) -> u64| {
            let Some(bytes) = figures.peak_bytes.map(of) else { return String::new() };
            let per_element = bytes as f64 / f64::from(figures.dimension);
            format!("{:.1} MB, {per_element:.0} bytes each", bytes as f64 / 1e6)
        };
        println!(
            "| {} | {} | {:.2} % | {} | {} | {} | {} | {} |",
            figures.dimension,
            figures.leader_share_bytes,
            figures.overhead * 100.0,
            figures.helper_share_bytes,
            figures.leader_message_bytes,
            peak(|peaks| peaks.shard),
            peak(|peaks| peaks.leader),
            peak(|peaks| peaks.helper),
        );
    }
    for figures in all.iter().filter(|figures| figures.dimension == GOAL_DIMENSION) {
        print_goals(figures);
    }
}

fn print_goals(figures: &Figures) {
    let (Some(scalar), Some(best)) = (figures.times.first(), figures.times.last()) else { return };
    println!();
    for (what, ms, goal) in [
        ("verification, best", best.leader_ms.max(best.helper_ms), GOAL_VERIFY_MS),
        ("verification, scalar", scalar.leader_ms.max(scalar.helper_ms), GOAL_VERIFY_SCALAR_MS),
        ("shard, scalar", scalar.shard_ms, GOAL_SHARD_MS),
    ] {
        println!("{what}: {ms:.1} ms, at most {goal} ms: {}", yes_no(ms <= goal));
    }
}
