//! `sotto train`: trains a model with devices that show nobody anything.

pub(crate) mod author;
mod evaluation;
pub(crate) mod fleet;
mod report;
pub(crate) mod rounds;
mod step;
mod story;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use sotto_client::{classifying, plan};
use sotto_learn::model::evaluate;
use sotto_protocol::trust::{BudgetFile, Trust};
use sotto_wire::Recipe;
use sotto_wire::recipe::{Model, Probability, Training, parse_epsilon, parse_probability};

use self::author::{AuthorArgs, needed};
use self::evaluation::Evaluations;
use self::fleet::{Fleet, Seeded};
use self::report::{Report, RoundReport, Stopwatch};
use self::rounds::{Rounds, State, weights};
use self::step::StepArgs;
use self::story::{At, Changes, ModelName, Name, Split, Story, coins_of_evaluation};
use crate::log_source::LogArgs;
use crate::output::{Outcome, Output};
use crate::stage::{Stage, Terms};
use crate::time_text::{now, parse_seconds};
use crate::{random, recipe_file};

/// How often the aggregators of a story read the log.
const POLL: Duration = Duration::from_millis(200);

/// Without --deadline, how long to wait for a round.
const DEADLINE: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  sotto train --story digits --rounds 3 --devices 300\n  \
    sotto train --story digits --fast\n\n\
    With a HEADER, this runs the rounds of a series whose header is in the log: it \
    publishes a round, waits until enough devices have answered, takes a step, and goes on. It can \
    be stopped at any time: the same command goes on where it was, and nothing is counted twice.\n\n\
    Exit codes: 0 all rounds are over; 2 error, or too few reports before the deadline.")]
pub(crate) struct TrainArgs {
    /// The header of a series: a file, or its id or name in the log.
    #[arg(value_name = "HEADER", required_unless_present = "story", conflicts_with = "story")]
    header: Option<String>,
    /// Train simulated devices instead, with all parties in this process.
    #[arg(
        long,
        value_enum,
        value_name = "STORY",
        conflicts_with_all = ["log", "ca", "insecure_http"]
    )]
    story: Option<Name>,
    /// With --story: without cryptography and servers. The weights are the same.
    #[arg(long, conflicts_with = "header")]
    fast: bool,
    /// With --story: how many devices there are [default: 1498 of digits, 60000 of mnist]
    #[arg(long, conflicts_with = "header", value_name = "N")]
    devices: Option<usize>,
    /// With --story: how many rounds [default: 10 of digits, 200 of mnist]
    #[arg(long, conflicts_with = "header", value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    rounds: Option<u64>,
    /// With --story: the probability with which a device takes part in a round [default: 1/5 of
    /// digits, 1/20 of mnist]
    #[arg(long, conflicts_with = "header", value_name = "Q", value_parser = parse_probability)]
    rate: Option<Probability>,
    /// With --story: the noise of a smallest batch, in units of the clip [default: 2 of digits, 3.197
    /// of mnist]
    #[arg(long, conflicts_with = "header", value_name = "SIGMA", value_parser = parse_epsilon)]
    sigma: Option<u64>,
    /// With --story: decides who takes part, and all noise.
    #[arg(long, conflicts_with = "header", value_name = "S", default_value_t = 1)]
    seed: u64,
    /// With --story mnist: the folder with the four files of MNIST.
    #[arg(long, conflicts_with = "header", value_name = "DIR")]
    data: Option<PathBuf>,
    /// With --story: what is trained.
    #[arg(
        long,
        value_enum,
        conflicts_with = "header",
        value_name = "MODEL",
        default_value = "softmax"
    )]
    model: ModelName,
    /// With --story: who has which images.
    #[arg(
        long,
        value_enum,
        conflicts_with = "header",
        value_name = "SPLIT",
        default_value = "one-each"
    )]
    split: Split,
    #[command(flatten)]
    step: StepArgs,
    /// After every so many rounds the devices say how good the model is, in a series of its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    evaluate_every: Option<u32>,
    /// With --story: the noise of each server in an evaluation, in units of the largest answer
    /// [default: that of --sigma]
    #[arg(long, conflicts_with = "header", requires = "evaluate_every", value_name = "SIGMA", value_parser = parse_epsilon)]
    evaluation_sigma: Option<u64>,
    /// The header of the evaluations: a file, or its id or name in the log.
    #[arg(long, conflicts_with = "story", requires = "evaluate_every", value_name = "HEADER")]
    evaluation: Option<String>,
    #[command(flatten)]
    author: AuthorArgs,
    /// The folder from which a web server serves models, one for each training. Models that were
    /// written into it are removed two rounds later.
    #[arg(long, value_name = "DIR", conflicts_with = "story")]
    models: Option<PathBuf>,
    /// The folder that remembers how far the training is. With --story: a temporary one.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// How long devices may answer a round before its batch is asked for: seconds, or like 2h
    /// [default: until there are enough reports for a batch]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, conflicts_with = "story")]
    wait: Option<u64>,
    /// How long to wait for a round: seconds, or like 2h [default: 24h]
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    deadline: Option<u64>,
    /// Say where the time goes.
    #[arg(long)]
    profile: bool,
    /// Write the accuracy over the rounds as a picture (SVG).
    #[arg(long, value_name = "FILE", conflicts_with = "header")]
    curve: Option<PathBuf>,
    /// Write the final weights: f32, little-endian.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
}

impl TrainArgs {
    pub(crate) fn run(self, output: &Output) -> Result<Outcome> {
        match (self.story, &self.header) {
            (Some(name), _) => self.tell(name, output),
            (None, Some(header)) => self.real(header, output),
            (None, None) => Err(anyhow!("give a HEADER, or --story")),
        }
    }

    /// A story: fast, or with all parties in this process.
    fn tell(&self, name: Name, output: &Output) -> Result<Outcome> {
        self.check_files()?;
        let changes = Changes {
            data: self.data.as_deref(),
            devices: self.devices,
            rounds: self.rounds,
            rate: self.rate,
            sigma_micro: self.sigma,
            model: self.model,
            split: self.split,
            step: &self.step,
            seed: self.seed,
        };
        let story = Story::new(name, &changes)?;
        let report =
            if self.fast { self.fast(&story, output)? } else { self.whole(&story, output)? };
        self.finish(&report, output)
    }

    fn fast(&self, story: &Story, output: &Output) -> Result<Report> {
        let models = "https://models.example".to_owned();
        let at = At { author: None, parties: None, models, now: now()? };
        let header = story.header(&at)?;
        let evaluations = self.evaluations(story, &at)?;
        let plan = plan(&header, story.expected(), story.optimizer, story.quantile)?;
        let fast = story.fast(plan, &header);
        let mut progress = fast.start()?;
        let mut report = Report::new(&header, true, self.profile, output)?;
        report.evaluated_by(evaluations.as_ref(), output)?;
        loop {
            let due = evaluations.as_ref().and_then(|it| Some((it, it.due(progress.rounds())?)));
            if let Some((evaluations, index)) = due {
                let (reports, numbers) = story.sums(
                    &evaluations.header,
                    &evaluations.scale,
                    progress.weights(),
                    index,
                )?;
                let found = evaluations.found(reports, &numbers)?;
                let truth = story.truth(&evaluations.scale, progress.weights());
                report.evaluation(index, progress.rounds(), found, Some(truth), output)?;
            }
            if u64::from(progress.rounds()) >= story.rounds {
                break;
            }
            let mut watch = Stopwatch::start();
            let index = progress.rounds();
            let participants = story.participants(index);
            watch.lap("coins");
            let sum = fast.sum(&progress, &participants)?;
            watch.lap("devices");
            plan.advance(&mut progress, &sum)?;
            watch.lap("step");
            let found = evaluate(&*story.model, progress.weights(), &story.test);
            watch.lap("evaluation");
            report.add(
                RoundReport::new(index, participants.len() as u64, Some(found), watch),
                output,
            )?;
        }
        report.weights = progress.weights().to_vec();
        Ok(report)
    }

    /// The evaluations of a story, if there are any.
    fn evaluations(&self, story: &Story, at: &At<'_>) -> Result<Option<Evaluations>> {
        let Some(every) = self.evaluate_every else { return Ok(None) };
        let sigma = self.evaluation_sigma.unwrap_or(story.sigma_micro);
        Evaluations::new(story.evaluation(at, every, sigma)?, every).map(Some)
    }

    fn whole(&self, story: &Story, output: &Output) -> Result<Report> {
        let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
        let folder = self.state.clone().unwrap_or_else(|| temporary.path().join("state"));
        let models = temporary.path().join("models");
        let begun = Instant::now();
        let terms = Terms {
            dishonest_devices: story.min_batch / 2,
            min_population: story.users.len() as u64,
            targeting_attributes: Vec::new(),
            budget: budget(),
            insecure_exact: false,
            poll: POLL,
            models: Some(models.clone()),
        };
        let stage = Stage::start(&terms, now()?, output).context("cannot start the servers")?;
        let at = At {
            author: Some(&stage.keys.author),
            parties: Some(stage.named()?),
            models: stage.models_url.clone().context("a training has models")?,
            now: now()?,
        };
        let header = stage.with_token_keys(story.header(&at)?)?;
        stage.publish(&header, output)?;
        let mut evaluations = self.evaluations(story, &at)?;
        if let Some(evaluations) = &mut evaluations {
            evaluations.header = stage.with_token_keys(evaluations.header.clone())?;
            stage.publish(&evaluations.header, output)?;
        }
        let fleet = Fleet::new(&stage, story.users.len(), |number, host, seeds| {
            let examples = story.users.of(number);
            host.trainer = Some(Box::new(Seeded::new(number, story.coins, seeds, examples)));
        })?;
        let started = begun.elapsed();
        let tokens = fleet.fetch_tokens(now()?, output)?;
        output.remark(format!(
            "{} devices have {tokens} tokens; starting took {:.1} s, the tokens {:.1} s",
            story.users.len(),
            started.as_secs_f64(),
            (begun.elapsed() - started).as_secs_f64()
        ));
        let collector = |task| stage.collector(task);
        let rounds = Rounds {
            header: &header,
            signer: &stage.keys.author,
            log: &stage.log,
            policy: Some(stage.trust.policy()),
            models: &models,
            folder: &folder,
            collector: &collector,
        };
        let plan = plan(&header, story.expected(), story.optimizer, story.quantile)?;
        let initial = || Ok(story.model.initial(&mut story.coins.initial()));
        let mut state = rounds.load(plan, initial)?;
        let mut report = Report::new(&header, false, self.profile, output)?;
        report.evaluated_by(evaluations.as_ref(), output)?;
        // Lets the devices answer a round, and waits for the aggregators.
        let answer = |coins: u32, round: &Recipe, watch: &mut Stopwatch| {
            let turnout = fleet.answer(coins, round.id(), now()?, output)?;
            watch.lap("devices");
            stage.wait_until_summed(round, turnout.reports as u64)?;
            watch.lap("aggregators");
            anyhow::Ok(turnout)
        };
        loop {
            if let Some(evaluations) = &evaluations {
                let mut watch = Stopwatch::start();
                let found =
                    evaluations.run(&rounds, &state, self.patience(), output, |index, round| {
                        answer(coins_of_evaluation(index), round, &mut watch).map(drop)
                    })?;
                if let Some((index, found)) = found {
                    let truth = story.truth(&evaluations.scale, state.progress.weights());
                    let after = state.progress.rounds();
                    report.evaluation(index, after, found, Some(truth), output)?;
                }
            }
            if u64::from(state.progress.rounds()) >= story.rounds {
                break;
            }
            let mut watch = Stopwatch::start();
            let index = state.progress.rounds();
            let round = rounds.publish(&mut state, self.patience(), output)?;
            watch.lap("publish");
            let turnout = answer(index, &round, &mut watch)?;
            let reports = rounds.collect(&mut state, &round, self.patience(), output)?;
            ensure!(
                reports == turnout.reports as u64,
                "the batch has {reports} reports, but {} were taken",
                turnout.reports
            );
            watch.lap("collect");
            rounds.advance(&mut state)?;
            watch.lap("step");
            let found = evaluate(&*story.model, state.progress.weights(), &story.test);
            watch.lap("evaluation");
            let mut told = RoundReport::new(index, reports, Some(found), watch);
            told.covered = Some(turnout.cover as u64);
            report.add(told, output)?;
        }
        report.weights = state.progress.weights().to_vec();
        drop(fleet);
        stage.stop();
        Ok(report)
    }

    /// The rounds of a real series.
    fn real(&self, header: &str, output: &Output) -> Result<Outcome> {
        self.check_files()?;
        let author = self.author.open(header, &self.log)?;
        let header = &author.header;
        let training = header.series.as_ref().and_then(|series| series.training.as_ref());
        let training = training.context("the series trains no model")?;
        let models = needed(&self.models, "--models")?;
        let folder = needed(&self.state, "--state")?;
        let _lock = Rounds::lock(folder)?;
        let evaluations = self.real_evaluations(header, training, author.trust.as_ref())?;
        let expected = header.who.population as f64 * header.sampling.rate.to_f64();
        let min_batch = header.aggregation.min_batch;
        if self.wait.is_none() && (min_batch as f64) < 0.8 * expected {
            output.warning(format!(
                "{expected:.0} reports are expected in a round, and a batch is released with \
                 {min_batch}: steps may be as much smaller, and devices that answer late are left out. \
                 Say with --wait how long devices may answer"
            ));
        }
        let plan = plan(header, expected, self.step.optimizer(None)?, self.step.quantile())?;
        let collector = |task| author.collector(task);
        let rounds = Rounds {
            header,
            signer: &author.signer,
            log: &author.log,
            policy: author.trust.as_ref().map(|trust| trust.policy()),
            models,
            folder,
            collector: &collector,
        };
        let count = header.series.as_ref().map_or(0, |series| series.rounds);
        let mut state = rounds.load(plan, || initial(training))?;
        let mut report = Report::new(header, false, self.profile, output)?;
        report.resumed(&state.reports);
        report.evaluated_by(evaluations.as_ref(), output)?;
        loop {
            if let Some(evaluations) = &evaluations {
                let found =
                    evaluations.run(&rounds, &state, self.patience(), output, |_, _| Ok(()))?;
                if let Some((index, found)) = found {
                    report.evaluation(index, state.progress.rounds(), found, None, output)?;
                }
            }
            if u64::from(state.progress.rounds()) >= count {
                break;
            }
            let told = self.one(&rounds, &mut state, output)?;
            report.add(told, output)?;
        }
        report.weights = state.progress.weights().to_vec();
        self.finish(&report, output)
    }

    /// The evaluations of a real training, if there are any.
    fn real_evaluations(
        &self,
        header: &Recipe,
        training: &Training,
        trust: Option<&Trust>,
    ) -> Result<Option<Evaluations>> {
        let (name, every) = match (&self.evaluation, self.evaluate_every) {
            (None, None) => return Ok(None),
            (Some(name), Some(every)) => (name, every),
            _ => return Err(anyhow!("an evaluation needs --evaluation and --evaluate-every")),
        };
        let found = recipe_file::find(name, &self.log, trust)?.recipe;
        ensure!(found.is_header(), "the evaluation is not the header of a series");
        let of = found.series.as_ref().and_then(|series| series.training.as_ref());
        let same = of.is_some_and(|of| {
            of.is_evaluation()
                && (&of.model, &of.models, of.vote_weight_micro)
                    == (&training.model, &training.models, training.vote_weight_micro)
        });
        ensure!(same, "the evaluation is not one of the model that is trained");
        ensure!(
            found.author == header.author
                && found.parties.collector_hpke_config == header.parties.collector_hpke_config,
            "the evaluation has another author or collector than the training"
        );
        Evaluations::new(found, every).map(Some)
    }

    fn one(&self, rounds: &Rounds<'_>, state: &mut State, output: &Output) -> Result<RoundReport> {
        let mut watch = Stopwatch::start();
        let index = state.progress.rounds();
        let round = rounds.publish(state, self.patience(), output)?;
        watch.lap("publish");
        let spinner = output.spinner(format!("round {index}: waiting for devices"));
        if let Some(wait) = self.wait.filter(|_| !rounds.is_collected(state)) {
            std::thread::sleep(Duration::from_secs(wait));
        }
        let reports = rounds.collect(state, &round, self.patience(), output);
        spinner.finish_and_clear();
        let reports = reports?;
        watch.lap("collect");
        rounds.advance(state)?;
        watch.lap("step");
        Ok(RoundReport::new(index, reports, None, watch))
    }

    fn patience(&self) -> Duration {
        self.deadline.map_or(DEADLINE, Duration::from_secs)
    }

    /// Fails before a long training, and not after it.
    fn check_files(&self) -> Result<()> {
        for path in [&self.weights, &self.curve].into_iter().flatten() {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("cannot write {}", path.display()))?;
        }
        ensure!(
            self.weights.is_none() || self.weights != self.curve,
            "--weights and --curve name the same file"
        );
        Ok(())
    }

    fn finish(&self, report: &Report, output: &Output) -> Result<Outcome> {
        if let Some(path) = &self.weights {
            let bytes = sotto_learn::model::to_bytes(&report.weights);
            std::fs::write(path, bytes)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if let Some(path) = &self.curve {
            std::fs::write(path, report.svg())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        report.print(output)?;
        Ok(Outcome::Yes)
    }
}

/// The weights before the first round: all zero, but for a network, which would never move.
fn initial(training: &Training) -> Result<Vec<f64>> {
    match training.model {
        Model::Mlp { .. } => Ok(classifying(&training.model)?.initial(&mut random::system())),
        Model::Softmax { .. } | Model::Custom { .. } => Ok(vec![0.0; weights(&training.model)]),
    }
}

/// Enough for the series of a story, however small it is.
pub(crate) fn budget() -> BudgetFile {
    let epsilon = 1_000.0;
    let delta = 1e-3;
    BudgetFile {
        epsilon,
        delta,
        lifetime_epsilon: epsilon,
        lifetime_delta: delta,
        ..BudgetFile::default()
    }
}
