//! A discovery by the processes of all parties: `sotto discover` is killed once with `kill -9`, and
//! the same command goes on.

use std::ffi::OsString;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::Value as Json;
use sotto_client::Participant;
use sotto_protocol::device::{DeviceStore, MemoryState};
use sotto_protocol::expression::Value;
use sotto_wire::EntryId;

use crate::process::{Process, run as run_to_end, run_json_lines, shown};
use crate::series::Stage;
use crate::web::MODELS;
use crate::world::PATIENCE;

/// The words of each kind of device, and how many such devices there are.
pub type Kinds<'a> = &'a [(&'a [&'a str], usize)];

/// The name of the recipe.
const NAME: &str = "words";
/// Rounds at most, and buckets of each.
const ROUNDS: u64 = 6;
const BUCKETS: &str = "256";
/// The noise of each aggregator.
const SIGMA: &str = "1";
/// How many words that nobody has are found on average.
const FALSE_WORDS: &str = "0.0001";
/// The word that is not looked for.
pub const DENIED: &str = "known";

/// Devices that are busy at the same time, and what they wait for between two passes.
const AT_ONCE: usize = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// A discovery that ended.
#[derive(Debug)]
pub struct Discovered {
    /// How many rounds were over when `sotto discover` was killed.
    pub over_before: u64,
    /// What the second `sotto discover` printed: a line for each of its rounds.
    pub rounds: Vec<Json>,
    /// The last line.
    pub end: Json,
    /// The file of `--out`.
    pub csv: String,
    /// What `sotto discover` says without its deny list.
    pub refused: String,
    /// The rounds that each device considered, and how often it paid.
    pub devices: Vec<(Vec<EntryId>, usize)>,
}

/// A whole discovery with these devices.
pub fn run(kinds: Kinds<'_>) -> Result<Discovered> {
    let stage = Stage::new("lists", false)?;
    let words = kinds.iter().flat_map(|(words, count)| vec![*words; *count]);
    let words: Vec<&[&str]> = words.collect();
    let question = [
        ["--purpose", "Which words are new?"],
        ["--attribute", "word:strings"],
        ["--mapping", "word"],
        ["--buckets", BUCKETS],
        ["--lists", MODELS],
        ["--sigma", SIGMA],
    ];
    stage.publish(NAME, words.len(), ROUNDS, question.as_flattened())?;
    fs::write(stage.world.path("deny"), format!("{DENIED}\n"))?;
    let mut devices = Vec::new();
    for (number, words) in words.into_iter().enumerate() {
        let words = words.iter().map(|&word| Value::String(word.to_owned())).collect();
        let words = Value::List(words);
        let attributes = move || Ok([("word".to_owned(), words.clone())].into());
        let device = stage.device(number, number as u64, |host| {
            host.attributes = Box::new(attributes);
        })?;
        devices.push((device, Vec::new()));
    }
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let share = devices.len().div_ceil(AT_ONCE);
        for devices in devices.chunks_mut(share) {
            let stop = &stop;
            scope.spawn(move || live(devices, stop));
        }
        let done = discover(&stage);
        stop.store(true, Ordering::SeqCst);
        done
    })
    .and_then(|(over_before, lines)| {
        let csv = fs::read_to_string(stage.world.path("words.csv"))?;
        let (end, rounds) = lines.split_last().context("it printed nothing")?;
        let memory = |(device, considered): (Participant<MemoryState>, Vec<EntryId>)| {
            let (_, store, _) = device.into_parts();
            (considered, store.state().audit().len())
        };
        Ok(Discovered {
            over_before,
            rounds: rounds.to_vec(),
            end: end.clone(),
            csv,
            refused: refused(&stage)?,
            devices: devices.into_iter().map(memory).collect(),
        })
    })
    .with_context(|| stage.log_texts("discover"))
}

/// The devices do their passes until they are stopped. Errors are parties that are not there yet.
fn live(devices: &mut [(Participant<MemoryState>, Vec<EntryId>)], stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        for (device, considered) in &mut *devices {
            considered.extend(device.pass().map(|done| done.considered).unwrap_or_default());
        }
        thread::sleep(PAUSE);
    }
}

/// Runs `sotto discover`, kills it once its first round is over, and runs it again to the end. Returns
/// how many rounds were over, and what it printed then.
fn discover(stage: &Stage) -> Result<(u64, Vec<Json>)> {
    let arguments = arguments(stage, &[("--deny", "deny"), ("--out", "words.csv")]);
    let mut process = Process::start(&arguments, &stage.world.path("discover.log"), "info")?;
    let deadline = Instant::now() + 2 * PATIENCE;
    let over_before = loop {
        match rounds_over(stage)? {
            0 => {}
            over => break over,
        }
        ensure!(process.is_running()?, "it ended before its first round was over");
        ensure!(Instant::now() < deadline, "the first round does not end");
        thread::sleep(Duration::from_millis(2));
    };
    process.kill()?;
    let over_before = over_before.max(rounds_over(stage)?);
    Ok((over_before, run_json_lines(arguments)?))
}

/// What `sotto discover` says if it is to go on without its deny list. It must not succeed.
fn refused(stage: &Stage) -> Result<String> {
    let output = run_to_end(arguments(stage, &[]))?;
    ensure!(output.status.code() == Some(2), "it went on: {}", shown(&output));
    Ok(shown(&output))
}

/// The arguments of `sotto discover`.
fn arguments(stage: &Stage, files: &[(&str, &str)]) -> Vec<OsString> {
    let files = [&[("--lists", "lists")], files].concat();
    let mut arguments = stage.author_arguments("discover", NAME, &files);
    arguments.extend(["--false-words", FALSE_WORDS, "--deadline", "2m"].map(OsString::from));
    arguments
}

/// How many rounds are over, by the file of the search.
fn rounds_over(stage: &Stage) -> Result<u64> {
    let Ok(bytes) = fs::read(stage.world.path("state").join("discovery.json")) else {
        return Ok(0);
    };
    let state: Json = serde_json::from_slice(&bytes)?;
    state["search"]["round"].as_u64().ok_or_else(|| anyhow!("the state has no round"))
}
