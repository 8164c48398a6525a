//! The rounds of a discovery, as its author runs them: publish, collect, take the step.
//!
//! As with trainings, every step leaves a file behind before the next one begins, and every step can
//! be repeated: the same search gives the same list and the same round.

use std::fs;
use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use sotto_learn::discovery::search::Counted;
use sotto_learn::discovery::{Rule, Search, Step};
use sotto_protocol::recipe::estimates;
use sotto_wire::{EntryId, Recipe};

use crate::output::{Output, WithHint};
use crate::train::rounds::Rounds;

/// The file, and its version.
const DISCOVERY: &str = "discovery.json";
const VERSION: u64 = 1;

/// With which probability an interval holds; the search uses standard errors alone.
const LEVEL: f64 = 0.95;

/// What a discovery has reached. It is stored after each round.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    version: u64,
    /// The header of the series.
    header: EntryId,
    rule: Rule,
    pub(super) search: Search,
}

/// The rule of a header.
pub(super) fn rule(header: &Recipe, false_words: f64) -> Result<Rule> {
    let series = header.series.as_ref().context("the recipe has no [series]")?;
    ensure!(series.discovery.is_some(), "the series looks for no words");
    let buckets = header.query.buckets().context("the query has no buckets")?;
    let rule = Rule { buckets, rounds: u32::try_from(series.rounds)?, false_words };
    rule.check()?;
    Ok(rule)
}

/// The file of the next round.
pub(super) fn list(header: &Recipe, rule: &Rule, search: &Search) -> Result<Vec<u8>> {
    let discovery = header.discovery().context("the series looks for no words")?;
    let list = search.candidates(rule)?.to_bytes(discovery.list_len as usize);
    list.hint("begin a series with a larger series.discovery.list_len, or fewer denied words")
}

/// Takes the step that these sums say.
pub(super) fn step(
    header: &Recipe,
    rule: &Rule,
    search: &mut Search,
    reports: u64,
    sums: &[i128],
) -> Result<Step> {
    let found = estimates(header, sums, reports, LEVEL)?;
    let rate = header.sampling.rate.to_f64();
    // The noise is the same in all buckets, whatever is in them.
    let noise = found.iter().map(|one| one.noise_error).fold(0.0, f64::max) * rate;
    let counted: Vec<Counted> =
        found.iter().map(|one| Counted { estimate: one.value, stderr: one.total_error }).collect();
    Ok(search.advance(rule, &counted, rate, noise)?)
}

impl State {
    /// The stored state, or that before the first round.
    pub(super) fn load(rounds: &Rounds<'_>, rule: Rule, denied: Vec<String>) -> Result<Self> {
        let begun = Search::start(&rule, denied)?;
        let (path, header) = (rounds.folder.join(DISCOVERY), rounds.header.id());
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let state = Self { version: VERSION, header, rule, search: begun };
                rounds.store(DISCOVERY, &state)?;
                return Ok(state);
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let place = path.display();
        let state: Self =
            serde_json::from_slice(&bytes).with_context(|| format!("{place} is damaged"))?;
        ensure!(state.version == VERSION, "{place} has version {}, not {VERSION}", state.version);
        if state.header != header {
            return Err(anyhow!("{place} belongs to another series, {}", state.header))
                .hint("give another folder with --state");
        }
        if state.rule != rule {
            return Err(anyhow!("{place} was begun with another --false-words"))
                .hint(format!("go on with --false-words {}", state.rule.false_words));
        }
        if state.search.denied() != begun.denied() {
            return Err(anyhow!("{place} was begun with other denied words"))
                .hint("go on with the same file for --deny");
        }
        Ok(state)
    }

    /// Whether nothing is left to ask.
    pub(super) fn is_over(&self) -> bool {
        self.search.is_over(&self.rule)
    }

    /// Publishes the list and the round that come next; the same again if they were published
    /// before.
    pub(super) fn publish(
        &self,
        rounds: &Rounds<'_>,
        deadline: Duration,
        output: &Output,
    ) -> Result<Recipe> {
        let file = list(rounds.header, &self.rule, &self.search)?;
        rounds.publish_model(self.search.rounds(), &file, deadline, output)
    }

    /// Waits for the sums of the round, takes the step and stores it. Returns it, and the number of
    /// reports.
    pub(super) fn collect(
        &mut self,
        rounds: &Rounds<'_>,
        round: &Recipe,
        deadline: Duration,
        output: &Output,
    ) -> Result<(Step, u64)> {
        rounds.sum(round, deadline, output, |reports, numbers| {
            let sums: Vec<i128> = numbers.into_iter().map(i128::from).collect();
            let step = step(rounds.header, &self.rule, &mut self.search, reports, &sums)?;
            rounds.store(DISCOVERY, self)?;
            Ok((step, reports))
        })
    }
}
