//! Measures times in alternation: the peer once, ours a few times, and so on.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::cases::{Case, Found, Line};
use super::peer::Peer;

/// The number of turns, normally and with `--quick`.
const TURNS: usize = 15;
const QUICK_TURNS: usize = 3;
/// How long ours runs in one turn, and the minimum length of a sample: short enough to be rarely
/// interrupted, long enough for the clock.
const TURN: Duration = Duration::from_millis(40);
const SAMPLE: Duration = Duration::from_micros(100);

/// Seconds for one call.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Times {
    pub(super) min_s: f64,
    pub(super) median_s: f64,
    pub(super) samples: usize,
}

/// The measurements of one line.
pub(super) struct Measured {
    pub(super) line: Line,
    pub(super) found: Found,
    /// The very first call in this process, with empty caches.
    pub(super) first_s: f64,
    pub(super) ours: Times,
    pub(super) peer: Option<PeerMeasured>,
}

/// The peer's part of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerMeasured {
    pub(super) value: f64,
    pub(super) cpu: Times,
    pub(super) wall: Times,
}

/// Measures the lines of a case.
pub(super) fn measure(case: Case, peer: Option<&mut Peer>, quick: bool) -> Result<Vec<Measured>> {
    let turns = if quick { QUICK_TURNS } else { TURNS };
    let mut ours: Vec<Vec<f64>> = vec![Vec::new(); case.lines.len()];
    let mut starts = Vec::new();
    for line in &case.lines {
        starts.push(Start::new(line)?);
    }
    let mut replies = Replies::default();
    let mut asked = peer.zip(case.peer.as_ref());
    for _ in 0..turns {
        if let Some((peer, question)) = &mut asked {
            replies.ask(peer, question)?;
        }
        for ((line, start), samples) in case.lines.iter().zip(&starts).zip(&mut ours) {
            turn(line, start.calls, samples)?;
        }
    }
    let peer = if asked.is_some() { Some(replies.measured()?) } else { None };
    let mut measured = Vec::new();
    for ((line, start), samples) in case.lines.into_iter().zip(starts).zip(ours) {
        let ours = times(samples)?;
        measured.push(Measured { line, found: start.found, first_s: start.first_s, ours, peer });
    }
    Ok(measured)
}

/// What the first calls show.
struct Start {
    found: Found,
    first_s: f64,
    /// The number of calls in one sample.
    calls: u32,
}

impl Start {
    fn new(line: &Line) -> Result<Self> {
        let begin = Instant::now();
        let found = (line.ours)()?;
        let first_s = begin.elapsed().as_secs_f64();
        let mut calls = 1;
        while calls < 1 << 16 && sample(line, calls)? < SAMPLE {
            calls *= 2;
        }
        Ok(Self { found, first_s, calls })
    }
}

#[derive(Default)]
struct Replies {
    value: f64,
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

impl Replies {
    fn ask(&mut self, peer: &mut Peer, question: &Value) -> Result<()> {
        let reply = peer.ask(question)?;
        self.value = reply.value;
        self.cpu.push(reply.cpu_s);
        self.wall.push(reply.wall_s);
        Ok(())
    }

    fn measured(self) -> Result<PeerMeasured> {
        Ok(PeerMeasured { value: self.value, cpu: times(self.cpu)?, wall: times(self.wall)? })
    }
}

/// One turn of ours.
fn turn(line: &Line, calls: u32, samples: &mut Vec<f64>) -> Result<()> {
    let begin = Instant::now();
    loop {
        samples.push(sample(line, calls)?.as_secs_f64() / f64::from(calls));
        if begin.elapsed() >= TURN {
            return Ok(());
        }
    }
}

fn sample(line: &Line, calls: u32) -> Result<Duration> {
    let begin = Instant::now();
    for _ in 0..calls {
        black_box((line.ours)()?);
    }
    Ok(begin.elapsed())
}

fn times(mut seconds: Vec<f64>) -> Result<Times> {
    seconds.sort_by(f64::total_cmp);
    let (min_s, median_s) = seconds
        .first()
        .copied()
        .zip(seconds.get(seconds.len() / 2).copied())
        .context("nothing was measured")?;
    Ok(Times { min_s, median_s, samples: seconds.len() })
}
