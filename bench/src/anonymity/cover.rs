//! What a report and cover cost relay and leader, from the relay's socket to the leader's disk: the
//! same load of each, in alternation, through a relay to the gateway of a real leader.
//!
//! The leader aggregates nothing here. That is extra for reports, and cover has no part in it.

use std::net::Ipv4Addr;
use std::num::NonZero;
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde::Serialize;
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Task;
use sotto_protocol::client::{produce_cover, produce_report};
use sotto_protocol::oblivious::{InnerRequest, produce_request};
use sotto_protocol::token::ReportTokens;
use sotto_tests::http::head;
use sotto_tests::pair::{Pair, shown};
use sotto_tests::phone::now;
use sotto_tests::process::run_json;
use sotto_tests::task::read_key;
use sotto_vdaf::Measurement;
use sotto_wire::ohttp::REQUEST_MEDIA_TYPE;
use sotto_wire::{HpkeConfig, HpkeConfigId, MediaType, ReportId};

use super::parties::{ANSWER_LEN, OPERATOR, Part, Party};
use super::suites::TOKEN_LEN;
use crate::load::Load;

const CONNECTIONS: u8 = 32;
/// No job is formed during a run.
const NO_JOBS: &str = "[jobs]\ndelay_ms = 3600000\nmax_reports = 1000000\n";

/// CPU microseconds per request, the least of all rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    pub(super) relay_us: f64,
    pub(super) leader_us: f64,
}

/// Both, and the medians of the rounds' ratios of cover to a report.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Covered {
    /// The length of each request.
    pub(super) bytes: usize,
    pub(super) report: Cost,
    pub(super) cover: Cost,
    pub(super) relay_ratio: f64,
    pub(super) leader_ratio: f64,
}

/// Runs this many rounds of `count` requests of each kind.
pub(super) fn measure(rounds: usize, count: u64) -> Result<Covered> {
    let mut pair = Pair::new()?;
    let files = pair.add_task("cover", &["--vdaf", "histogram", "--length", "4"])?;
    let key = |name: &str, id: &str| -> Result<_> {
        let path = pair.folder().join(format!("{name}.toml"));
        run_json(["--json", "keys", "new", "--id", id, "--out", &path.to_string_lossy()])?;
        Ok(path)
    };
    let (share_key, gateway_key) = (key("leader-hpke", "1")?, key("gateway", "2")?);
    pair.leader.configure(&format!(
        "hpke_keys = [{}]\n{NO_JOBS}[gateway]\nkeys = [{}]\n",
        shown(&share_key),
        shown(&gateway_key)
    ))?;
    pair.leader.start()?;
    let relay = Party::start(Part::Relay, Some(pair.leader.address()))?;
    let mut sender = Sender {
        task: files.task().clone(),
        url: format!("{}tasks/{}/reports", pair.leader.url, files.task().id()),
        leader: read_key(&share_key)?.config().clone(),
        helper: hybrid_config(),
        gateway: read_key(&gateway_key)?.config().clone(),
        made: 0,
    };
    let mut run = |is_cover: bool, count: u64| -> Result<(Cost, usize)> {
        let bodies = sender.seal(is_cover, count)?;
        let clocks = || -> Result<_> { Ok([relay.process.cpu()?, pair.leader.process()?.cpu()?]) };
        let begin = clocks()?;
        send(&relay, &bodies)?;
        let end = clocks()?;
        let us = |party: usize| (end[party] - begin[party]).as_secs_f64() * 1e6 / count as f64;
        Ok((Cost { relay_us: us(0), leader_us: us(1) }, bodies[0].len()))
    };
    // Connections and buffers exist before the clock starts.
    let (_, bytes) = run(false, count / 10)?;
    let (mut reports, mut covers) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        reports.push(run(false, count)?.0);
        covers.push(run(true, count)?.0);
    }
    let dropped = pair.leader.metric("sotto_cover_dropped_total")?;
    let all = rounds as u64 * count;
    ensure!(dropped == all as f64, "{dropped} of {all} requests were cover to the leader");
    let accepted = pair.leader.metric("sotto_reports_accepted_total")?;
    ensure!(accepted == (all + count / 10) as f64, "{accepted} reports were accepted");
    let ratio = |of: fn(&Cost) -> f64| {
        let rounds = reports.iter().zip(&covers);
        let mut ratios: Vec<f64> = rounds.map(|(report, cover)| of(cover) / of(report)).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied().context("no rounds")
    };
    Ok(Covered {
        bytes,
        report: least(&reports),
        cover: least(&covers),
        relay_ratio: ratio(|cost| cost.relay_us)?,
        leader_ratio: ratio(|cost| cost.leader_us)?,
    })
}

fn least(costs: &[Cost]) -> Cost {
    let least = |of: fn(&Cost) -> f64| costs.iter().map(of).fold(f64::INFINITY, f64::min);
    Cost { relay_us: least(|cost| cost.relay_us), leader_us: least(|cost| cost.leader_us) }
}

fn hybrid_config() -> HpkeConfig {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    HpkeKeypair::generate_hybrid(HpkeConfigId::new(1), &mut rng).config().clone()
}

/// Devices.
struct Sender {
    task: Task,
    url: String,
    leader: HpkeConfig,
    helper: HpkeConfig,
    gateway: HpkeConfig,
    /// The number of requests so far: each has its own randomness, as gateways accept nothing twice.
    made: u64,
}

impl Sender {
    /// Sealed requests, made on all cores.
    fn seal(&mut self, is_cover: bool, count: u64) -> Result<Vec<Vec<u8>>> {
        let numbers: Vec<u64> = (self.made..self.made + count).collect();
        self.made += count;
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        let this = &*self;
        thread::scope(|scope| {
            let parts = numbers.chunks(numbers.len().div_ceil(threads).max(1));
            let make = |part: &[u64]| -> Result<Vec<_>> {
                part.iter().map(|number| this.seal_one(is_cover, *number)).collect()
            };
            let workers: Vec<_> = parts.map(|part| scope.spawn(move || make(part))).collect();
            let mut all = Vec::new();
            for worker in workers {
                all.extend(worker.join().map_err(|_| anyhow!("a thread panicked"))??);
            }
            Ok(all)
        })
    }

    fn seal_one(&self, is_cover: bool, number: u64) -> Result<Vec<u8>> {
        let mut rng = ChaCha20Rng::seed_from_u64(number);
        let Self { task, url, leader, helper, gateway, .. } = self;
        let (now, measurement) = (now(), Measurement::Histogram(1));
        // As long as real ones: nobody looks at them before aggregation.
        let mut report_id = [0; 16];
        rng.fill_bytes(&mut report_id);
        let tokens = ReportTokens {
            report_id: ReportId::new(report_id),
            leader: vec![5; TOKEN_LEN],
            helper: Some(vec![5; TOKEN_LEN]),
        };
        let content = match is_cover {
            true => produce_cover(task, leader, helper, Some(&tokens))?,
            false => {
                let time = task.time(now);
                produce_report(task, leader, helper, &measurement, time, Some(&tokens), &mut rng)?
            }
        };
        let fields = &[("content-type", MediaType::UploadReq.as_str())];
        let request = InnerRequest { method: "POST", url, fields, content: &content };
        Ok(produce_request(&request, gateway, now, &mut rng)?.0)
    }
}

/// Sends all through the relay.
fn send(relay: &Party, bodies: &[Vec<u8>]) -> Result<()> {
    let length = bodies.first().context("no requests")?.len();
    let media_type = ("content-type", REQUEST_MEDIA_TYPE);
    let head = head("POST", &format!("/{OPERATOR}"), &[media_type], length);
    Load {
        address: relay.address,
        head: &head,
        count: bodies.len() as u64,
        connections: CONNECTIONS,
        // Pools count source addresses.
        source: |connection| Ipv4Addr::new(127, 0, 1, connection),
        answer_len: ANSWER_LEN,
        body: |index, bytes: &mut Vec<u8>| {
            bytes.clone_from(&bodies[index as usize]);
            Ok(())
        },
    }
    .send()?;
    Ok(())
}
