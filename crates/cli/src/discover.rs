//! `sotto discover`: finds words that nobody lists beforehand.

mod report;
mod series;
mod story;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use sotto_dp::mechanism::Mechanism;
use sotto_learn::discovery::{Rule, Search, normalised};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::recipe::mechanism;
use sotto_wire::recipe::{Probability, parse_epsilon, parse_probability, parse_whole};

use self::report::{Report, Truth};
use self::series::State;
pub(crate) use self::story::list_len;
use self::story::{At, Protection, Story, WORD};
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output};
use crate::stage::{Stage, Terms};
use crate::time_text::{now, parse_seconds};
use crate::train::author::{AuthorArgs, needed};
use crate::train::budget;
use crate::train::fleet::Fleet;
use crate::train::rounds::Rounds;

/// How often the aggregators of a story read the log.
const POLL: Duration = Duration::from_millis(200);

/// Without --deadline, how long to wait for a round.
const DEADLINE: Duration = Duration::from_secs(24 * 3_600);

/// What a story does if nobody says otherwise: in memory, and with all parties.
const FAST: Usual = Usual { devices: 1_000_000, buckets: 15_000, rounds: 12, rate: (1, 10) };
const WHOLE: Usual = Usual { devices: 300, buckets: 64, rounds: 6, rate: (1, 2) };
const FAST_EPSILON_MICRO: u64 = 1_000_000;
const WHOLE_SIGMA_MICRO: u64 = 2_000_000;

struct Usual {
    devices: u64,
    buckets: u32,
    rounds: u32,
    rate: (u64, u64),
}

/// What simulated devices have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// A word each, drawn by its frequency.
    Words,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sotto discover --story words\n  \
    sotto discover --story words --fast --population 1000000 --epsilon 1\n\n\
    With a HEADER, this runs the rounds of a series whose header is in the log: it publishes a list \
    of candidates and a round, waits until enough devices have answered, and makes the next list \
    from what was counted. It can be stopped at any time: the same command goes on where it was.\n\n\
    Exit codes: 0 all rounds are over; 2 error, or too few reports before the deadline.")]
pub(crate) struct DiscoverArgs {
    /// The header of a series: a file, or its id or name in the log.
    #[arg(value_name = "HEADER", required_unless_present = "story", conflicts_with = "story")]
    header: Option<String>,
    /// Ask simulated devices instead, with all parties in this process.
    #[arg(long, value_enum, value_name = "STORY")]
    story: Option<Name>,
    /// With --story: without cryptography and servers.
    #[arg(long, requires = "story")]
    fast: bool,
    /// With --story: the words and their frequencies [default: a few hundred that are built in]
    #[arg(long, requires = "story", value_name = "FILE")]
    data: Option<PathBuf>,
    /// With --story: how many devices there are [default: 300, or 1000000 with --fast]
    #[arg(long, requires = "story", value_name = "N", value_parser = parse_whole)]
    population: Option<u64>,
    /// With --story: the probability with which a device takes part in a round [default: 1/2, or
    /// 1/10 with --fast]
    #[arg(long, requires = "story", value_name = "Q", value_parser = parse_probability)]
    rate: Option<Probability>,
    /// With --story: how many rounds at most [default: 6, or 12 with --fast]
    #[arg(long, requires = "story", value_name = "T", value_parser = clap::value_parser!(u32).range(1..=256))]
    rounds: Option<u32>,
    /// With --story: how many buckets a round has [default: 64, or 15000 with --fast]
    #[arg(long, requires = "story", value_name = "K", value_parser = clap::value_parser!(u32).range(3..=100_000))]
    buckets: Option<u32>,
    /// With --story: what all rounds together may cost, as devices compute it [default: 1 with
    /// --fast]
    #[arg(long, requires = "story", value_name = "EPSILON", value_parser = parse_epsilon, conflicts_with = "sigma")]
    epsilon: Option<u64>,
    /// With --story: the noise of each server [default: 2 without --fast]
    #[arg(long, requires = "story", value_name = "SIGMA", value_parser = parse_epsilon)]
    sigma: Option<u64>,
    /// With --story: decides who has which word, and with --fast who takes part, and the noise.
    #[arg(long, requires = "story", value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How many candidates that nobody holds may survive, on average and in all rounds together.
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    false_words: f64,
    /// A file with words that are not looked for, one per line.
    #[arg(long, value_name = "FILE")]
    deny: Option<PathBuf>,
    /// Write the words that were found as CSV.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    author: AuthorArgs,
    /// The folder from which a web server serves the lists of candidates.
    #[arg(long, value_name = "DIR", conflicts_with = "story")]
    lists: Option<PathBuf>,
    /// The folder that remembers how far the search is. With --story: a temporary one.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// How long devices may answer a round before its batch is asked for: seconds, or like 2h
    /// [default: until there are enough reports for a batch]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "story")]
    wait: Option<u64>,
    /// How long to wait for a round: seconds, or like 2h [default: 24h]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    deadline: Option<u64>,
    #[command(flatten)]
    log: LogArgs,
}

impl DiscoverArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        if let Some(path) = &self.out {
            // Now, and not after long rounds.
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))?;
        }
        match (self.story, &self.header) {
            (Some(Name::Words), _) => self.tell(output),
            (None, Some(header)) => self.real(header, output),
            (None, None) => Err(anyhow!("give a HEADER, or --story")),
        }
    }

    /// A story: in memory, or with all parties in this process.
    fn tell(&self, output: &Output) -> Result<Outcome> {
        let usual = if self.fast { FAST } else { WHOLE };
        let rate = match self.rate {
            Some(rate) => rate,
            None => Probability::new(usual.rate.0, usual.rate.1)?,
        };
        let rule = Rule {
            buckets: self.buckets.unwrap_or(usual.buckets),
            rounds: self.rounds.unwrap_or(usual.rounds),
            false_words: self.false_words,
        };
        let protection = match (self.epsilon, self.sigma) {
            (Some(epsilon), _) => Protection::Epsilon(epsilon),
            (None, Some(sigma)) => Protection::Sigma(sigma),
            (None, None) if self.fast => Protection::Epsilon(FAST_EPSILON_MICRO),
            (None, None) => Protection::Sigma(WHOLE_SIGMA_MICRO),
        };
        let words = words::load(self.data.as_deref())?;
        let denied = words::denied(self.deny.as_deref())?;
        let devices = self.population.unwrap_or(usual.devices);
        let spinner = output.spinner("devices get their words");
        let story = Story::new(&words, devices, rate, rule, denied, self.seed);
        spinner.finish_and_clear();
        let story = story?;
        match self.fast {
            true => self.fast(&story, protection, output),
            false => self.whole(&story, protection, output),
        }
    }

    fn fast(&self, story: &Story, protection: Protection, output: &Output) -> Result<Outcome> {
        let lists = "https://lists.example".to_owned();
        let at = At { author: None, parties: None, lists, now: now()? };
        let spinner = output.spinner("finding the noise");
        let header = story.header(&at, protection);
        spinner.finish_and_clear();
        let header = header?;
        let Mechanism::ServerNoise(servers) = mechanism(&header)? else {
            return Err(anyhow!("a story has noise of the servers"));
        };
        let noise = servers.noise()?;
        let mut report = Report::new(&header, true, self.false_words, output)?;
        let mut search = Search::start(&story.rule, story.denied.iter().cloned())?;
        while !search.is_over(&story.rule) {
            let (round, rate) = (search.rounds(), story.rate.to_f64());
            // What a device would read, so that a list that is too long fails here as well.
            series::list(&header, &story.rule, &search)?;
            let list = search.candidates(&story.rule)?;
            let buckets = story.rule.buckets;
            let sums = story.population.sums(&list, buckets, round, rate, Some(&noise))?;
            let step =
                series::step(&header, &story.rule, &mut search, sums.reports, &sums.buckets)?;
            report.add(&step, sums.reports, output)?;
        }
        self.finish(&report, &search, Some(story), output)
    }

    fn whole(&self, story: &Story, protection: Protection, output: &Output) -> Result<Outcome> {
        let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
        let folder = self.state.clone().unwrap_or_else(|| temporary.path().join("state"));
        let lists = temporary.path().join("lists");
        let terms = Terms {
            dishonest_devices: story.min_batch / 2,
            min_population: story.population.devices(),
            targeting_attributes: Vec::new(),
            budget: budget(),
            insecure_exact: false,
            poll: POLL,
            models: Some(lists.clone()),
        };
        let stage = Stage::start(&terms, now()?, output).context("cannot start the servers")?;
        let at = At {
            author: Some(&stage.keys.author),
            parties: Some(stage.named()?),
            lists: stage.models_url.clone().context("a discovery has lists")?,
            now: now()?,
        };
        let header = stage.with_token_keys(story.header(&at, protection)?)?;
        stage.publish(&header, output)?;
        let fleet = fleet(&stage, story)?;
        fleet.fetch_tokens(now()?, output)?;
        let collector = |task| stage.collector(task);
        let rounds = Rounds {
            header: &header,
            signer: &stage.keys.author,
            log: &stage.log,
            policy: Some(stage.trust.policy()),
            models: &lists,
            folder: &folder,
            collector: &collector,
        };
        let mut state = State::load(&rounds, story.rule, story.denied.clone())?;
        let mut report = Report::new(&header, false, self.false_words, output)?;
        while !state.is_over() {
            let round = state.publish(&rounds, self.patience(), output)?;
            let turnout = fleet.answer(state.search.rounds(), round.id(), now()?, output)?;
            stage.wait_until_summed(&round, turnout.reports as u64)?;
            let (step, reports) = state.collect(&rounds, &round, self.patience(), output)?;
            ensure!(
                reports == turnout.reports as u64,
                "the batch has {reports} reports, but {} were taken",
                turnout.reports
            );
            report.add(&step, reports, output)?;
        }
        let done = self.finish(&report, &state.search, Some(story), output);
        drop(fleet);
        stage.stop();
        done
    }

    /// The rounds of a real series.
    fn real(&self, header: &str, output: &Output) -> Result<Outcome> {
        let author = self.author.open(header, &self.log)?;
        let header = &author.header;
        let rule = series::rule(header, self.false_words)?;
        let lists = needed(&self.lists, "--lists")?;
        let folder = needed(&self.state, "--state")?;
        let _lock = Rounds::lock(folder)?;
        let collector = |task| author.collector(task);
        let rounds = Rounds {
            header,
            signer: &author.signer,
            log: &author.log,
            policy: author.trust.as_ref().map(|trust| trust.policy()),
            models: lists,
            folder,
            collector: &collector,
        };
        let mut state = State::load(&rounds, rule, words::denied(self.deny.as_deref())?)?;
        let mut report = Report::new(header, false, self.false_words, output)?;
        report.resumed(state.search.rounds());
        while !state.is_over() {
            let round = state.publish(&rounds, self.patience(), output)?;
            let index = state.search.rounds();
            let spinner = output.spinner(format!("round {index}: waiting for devices"));
            if let Some(wait) = self.wait {
                std::thread::sleep(Duration::from_secs(wait));
            }
            let collected = state.collect(&rounds, &round, self.patience(), output);
            spinner.finish_and_clear();
            let (step, reports) = collected?;
            report.add(&step, reports, output)?;
        }
        self.finish(&report, &state.search, None, output)
    }

    fn patience(&self) -> Duration {
        self.deadline.map_or(DEADLINE, Duration::from_secs)
    }

    fn finish(
        &self,
        report: &Report,
        search: &Search,
        story: Option<&Story>,
        output: &Output,
    ) -> Result<Outcome> {
        if let Some(path) = &self.out {
            report::write(path, search)?;
        }
        let truth = story.map(|story| {
            let population = &story.population;
            let denied: Vec<String> = story.denied.iter().filter_map(|it| normalised(it)).collect();
            (population, Truth::new(population, search, &denied))
        });
        report.print(search, self.false_words, truth, output)?;
        Ok(Outcome::Yes)
    }
}

/// The devices of a story, each with its word.
fn fleet<'a>(stage: &'a Stage, story: &Story) -> Result<Fleet<'a>> {
    let each = story.population.ranking().into_iter();
    let words: Vec<String> =
        each.flat_map(|(word, count)| (0..count).map(move |_| word.to_owned())).collect();
    Fleet::new(stage, words.len(), |number, host, _| {
        let word = words.get(number).cloned().unwrap_or_default();
        host.attributes = Box::new(move || {
            let mut attributes = Attributes::new();
            attributes.insert(WORD.parse()?, Value::String(word.clone()));
            Ok(attributes)
        });
    })
}
