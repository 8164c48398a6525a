//! What `sotto discover` prints: a line for each round, and the words.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;
use sotto_learn::discovery::fast::Population;
use sotto_learn::discovery::{Found, Search, Step};
use sotto_protocol::recipe::{derive_vdaf, mechanism, show_micro};
use sotto_wire::Recipe;
use sotto_wire::recipe::{Noise, Privacy};

use crate::output::Output;
use crate::recipe::words;
use crate::task::{recipe_report_bytes, upload_bytes};

/// How many words are shown.
const SHOWN: usize = 20;

/// How long the response with a piece of a list is, and how much of a list is in it.
const PIECE_RESPONSE: usize = 64 * 1_024;

/// What is known about a discovery.
pub(super) struct Report {
    header: Recipe,
    is_fast: bool,
    started: Instant,
    last: Instant,
    /// Rounds that were over before this process began.
    resumed: u64,
    rounds: u64,
}

/// A round that is over.
#[derive(Serialize)]
struct RoundLine {
    round: u32,
    count: u64,
    candidates: u32,
    survivors: u32,
    left_out: u32,
    found_words: u32,
    threshold: f64,
    elapsed_s: f64,
}

/// A word that was found.
#[derive(Serialize)]
struct Word<'a> {
    word: &'a str,
    estimate: f64,
    stderr: f64,
    round: u32,
    /// In a story.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#true: Option<u64>,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct End<'a> {
    header_id: String,
    fast: bool,
    rounds: u64,
    elapsed_s: f64,
    discovered: Vec<Word<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truth: Option<Truth>,
    expected_false_words: f64,
    upload_bytes: u64,
    download_bytes: u64,
}

/// How what was found compares with what devices have.
#[derive(Serialize)]
pub(super) struct Truth {
    devices: u64,
    words_held: u64,
    /// The parts that were found of the most frequent words.
    recall: Vec<Recall>,
    /// Words that were found and that no device has.
    false_words: u64,
}

#[derive(Serialize)]
struct Recall {
    top: u64,
    found: u64,
}

impl Truth {
    /// Denied words are not asked for, so they are in no ranking.
    pub(super) fn new(population: &Population, search: &Search, denied: &[String]) -> Self {
        let mut ranking = population.ranking();
        ranking.retain(|(word, _)| !denied.iter().any(|denied| denied == word));
        let found: std::collections::BTreeSet<&str> =
            search.found().iter().map(|found| found.word.as_str()).collect();
        let recall = |top: usize| {
            let first = ranking.iter().take(top);
            let found = first.filter(|(word, _)| found.contains(word)).count() as u64;
            Recall { top: top.min(ranking.len()) as u64, found }
        };
        let tops = [10, 100, 1_000, 10_000].into_iter().filter(|top| *top <= ranking.len());
        Self {
            devices: population.devices(),
            words_held: ranking.len() as u64,
            recall: tops.map(recall).collect(),
            false_words: found.iter().filter(|word| population.holders(word) == 0).count() as u64,
        }
    }
}

impl Report {
    /// Prints the claim and the head of the table.
    pub(super) fn new(
        header: &Recipe,
        is_fast: bool,
        false_words: f64,
        output: &Output,
    ) -> Result<Self> {
        if let Some(Noise::ServerGaussian { sigma_micro }) = &header.noise {
            let sigma = show_micro(*sigma_micro);
            output.remark(format!("Each server adds noise of sigma {sigma} to every count"));
        }
        if let Privacy::Claim { epsilon_micro, delta, rounds, .. } = header.privacy {
            output.remark(format!(
                "All {rounds} rounds together {} epsilon {} at delta {}, as every device \
                 computes it. A candidate survives if it is counted more often than noise explains: \
                 of those that nobody holds, at most {false_words} on average in all rounds together",
                if is_fast { "would cost" } else { "cost" },
                show_micro(epsilon_micro),
                words::delta(delta)
            ));
        }
        if !output.json() {
            output.line(HEAD)?;
        }
        let now = Instant::now();
        Ok(Self { header: header.clone(), is_fast, started: now, last: now, resumed: 0, rounds: 0 })
    }

    /// Rounds that are over already.
    pub(super) fn resumed(&mut self, rounds: u32) {
        self.resumed = rounds.into();
    }

    /// Prints a round.
    pub(super) fn add(&mut self, step: &Step, count: u64, output: &Output) -> Result<()> {
        let elapsed_s = rounded(self.last.elapsed());
        self.last = Instant::now();
        self.rounds += 1;
        let line = RoundLine {
            round: step.round,
            count,
            candidates: step.candidates,
            survivors: step.survivors,
            left_out: step.left_out,
            found_words: step.words,
            threshold: step.threshold,
            elapsed_s,
        };
        if output.json() {
            return output.line(output.value_line(&line)?);
        }
        output.line(format!(
            "{:5}  {:9}  {:10}  {:9.1}  {:9}  {:5}  {elapsed_s:6.2} s",
            step.round, count, step.candidates, step.threshold, step.survivors, step.words
        ))?;
        if step.left_out > 0 {
            output.remark(format!(
                "  {} of the survivors are left out: there are buckets for the larger half only",
                step.left_out
            ));
        }
        Ok(())
    }

    /// Prints the words.
    pub(super) fn print(
        &self,
        search: &Search,
        false_words: f64,
        truth: Option<(&Population, Truth)>,
        output: &Output,
    ) -> Result<()> {
        let rounds = self.rounds + self.resumed;
        let (upload_bytes, download_bytes) = self.bytes(rounds)?;
        let elapsed_s = rounded(self.started.elapsed());
        let population = truth.as_ref().map(|(population, _)| *population);
        let discovered = largest_first(search.found());
        let word = |found: &&'_ Found| population.map(|it| it.holders(&found.word));
        if output.json() {
            let words = discovered.iter().map(|found| Word {
                word: &found.word,
                estimate: found.estimate,
                stderr: found.stderr,
                round: found.round,
                r#true: word(found),
            });
            let end = End {
                header_id: self.header.id().to_string(),
                fast: self.is_fast,
                rounds,
                elapsed_s,
                discovered: words.collect(),
                truth: truth.map(|(_, truth)| truth),
                expected_false_words: false_words,
                upload_bytes,
                download_bytes,
            };
            return output.line(output.value_line(&end)?);
        }
        output.line("")?;
        for found in discovered.iter().take(SHOWN) {
            let truth = word(found).map(|truth| format!("  (true {truth})")).unwrap_or_default();
            output.line(format!(
                "{:>12.0} ± {:<8.0} {}{truth}",
                found.estimate, found.stderr, found.word
            ))?;
        }
        if let Some(more @ 1..) = discovered.len().checked_sub(SHOWN) {
            output.remark(format!(
                "and {more} more: --out writes all of them, and --json prints them"
            ));
        }
        let kib = |bytes: u64| bytes as f64 / 1_024.0;
        output.line(format!(
            "\n{} words in {rounds} rounds; a device sends {:.0} KiB and reads {:.0} KiB in lists",
            discovered.len(),
            kib(upload_bytes),
            kib(download_bytes)
        ))?;
        if let Some((_, truth)) = truth {
            for Recall { top, found } in &truth.recall {
                output.line(format!("of the {top} most frequent words {found} were found"))?;
            }
            output.line(format!(
                "{} words were found that no device has; at most {false_words} are expected",
                truth.false_words
            ))?;
        }
        Ok(())
    }

    /// What a device sends and reads in so many rounds, on average: reports, and cover of the same
    /// length where it sends some.
    fn bytes(&self, rounds: u64) -> Result<(u64, u64)> {
        let vdaf = derive_vdaf(&mechanism(&self.header)?).build()?;
        let report = recipe_report_bytes(&self.header, &vdaf.sizes());
        let each = upload_bytes(report).context("the reports are too long")?;
        let (rate, cover) =
            (self.header.sampling.rate.to_f64(), self.header.sampling.cover.to_f64());
        let sends = rate + (1.0 - rate) * cover;
        let upload = rounds as f64 * sends * each as f64;
        let list = self.header.discovery().map_or(0, |discovery| discovery.list_len as usize);
        let pieces = list.div_ceil(sotto_client::PIECE_LEN);
        Ok((upload.ceil() as u64, rounds * (pieces * PIECE_RESPONSE) as u64))
    }
}

/// Writes the words as CSV.
pub(super) fn write(path: &Path, search: &Search) -> Result<()> {
    let mut text = "word,estimate,stderr,round\n".to_owned();
    for Found { word, estimate, stderr, round } in largest_first(search.found()) {
        // A word may be anything.
        let quoted = word.replace('"', "\"\"");
        let _ = writeln!(text, "\"{quoted}\",{estimate:.1},{stderr:.1},{round}");
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn largest_first(found: &[Found]) -> Vec<&Found> {
    let mut found: Vec<&Found> = found.iter().collect();
    found.sort_by(|a, b| b.estimate.total_cmp(&a.estimate).then_with(|| a.word.cmp(&b.word)));
    found
}

/// Seconds to the millisecond.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}

const HEAD: &str = "round    reports  candidates  threshold  survivors  words      time";
