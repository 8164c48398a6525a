//! What `sotto train` prints: a line for each round, and the curve.

use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use sotto_learn::evaluation::Mean;
use sotto_learn::model::Evaluation;
use sotto_protocol::recipe::judgement_of;
use sotto_wire::Recipe;
use sotto_wire::recipe::Privacy;

use super::evaluation::{Estimates, Evaluations};
use crate::output::Output;
use crate::recipe::words;
use crate::svg_chart::{self, Axis, Chart, Point, Series};

/// What is known about a training.
pub(super) struct Report {
    header: Recipe,
    /// The header of the evaluations.
    evaluation: Option<Recipe>,
    is_fast: bool,
    profile: bool,
    started: Instant,
    rounds: Vec<RoundReport>,
    /// Rounds that were over before this process began.
    resumed: u64,
    /// The weights after the last round.
    pub(super) weights: Vec<f64>,
}

/// A round that is over.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RoundReport {
    round: u32,
    /// How many devices took part.
    count: u64,
    /// How many devices sent cover.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) covered: Option<u64>,
    /// About the test data, if there is any.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    accuracy: Option<f64>,
    /// Of all rounds so far, by the rule of devices, and in the paper's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    computed_epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_epsilon: Option<f64>,
    elapsed_s: f64,
    /// Where the time went.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "by_name")]
    profile: Vec<Lap>,
}

/// An evaluation that is over.
#[derive(Clone, Debug, Serialize)]
struct EvaluationReport {
    /// The round of the training after which it was.
    round: u32,
    /// How many devices answered.
    count: u64,
    evaluation: Means,
    /// Of all evaluations so far, as for the rounds of the training.
    #[serde(skip_serializing_if = "Option::is_none")]
    computed_epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paper_epsilon: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Means {
    #[serde(rename = "mean_loss")]
    loss: Estimate,
    #[serde(rename = "mean_accuracy")]
    accuracy: Estimate,
}

/// A mean over devices.
#[derive(Clone, Copy, Debug, Serialize)]
struct Estimate {
    estimate: f64,
    /// By noise, and by who answered, at most.
    stderr: f64,
    /// In a story.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#true: Option<f64>,
}

impl Estimate {
    fn new(mean: &Mean, truth: Option<f64>) -> Self {
        Self { estimate: mean.value, stderr: mean.standard_error(), r#true: truth }
    }

    /// For people, in so many units and with so many decimals.
    fn show(&self, unit: f64, decimals: usize, name: &str) -> String {
        let [value, error] =
            [self.estimate, self.stderr].map(|number| format!("{:.decimals$}", unit * number));
        let truth = self.r#true.map(|truth| format!(" (true {:.decimals$}{name})", unit * truth));
        format!("{value} ± {error}{name}{}", truth.unwrap_or_default())
    }
}

/// A part of a round.
#[derive(Clone, Debug)]
struct Lap {
    step: &'static str,
    elapsed_s: f64,
}

fn by_name<S: Serializer>(laps: &[Lap], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(laps.iter().map(|lap| (lap.step, lap.elapsed_s)))
}

/// Measures the parts of a round.
pub(super) struct Stopwatch {
    last: Instant,
    laps: Vec<Lap>,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct End {
    header_id: String,
    fast: bool,
    rounds: u64,
    elapsed_s: f64,
    model_digest: String,
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { last: Instant::now(), laps: Vec::new() }
    }

    /// Ends a part.
    pub(super) fn lap(&mut self, step: &'static str) {
        let now = Instant::now();
        self.laps.push(Lap { step, elapsed_s: rounded(now - self.last) });
        self.last = now;
    }
}

/// Seconds to the millisecond.
fn rounded(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000.0).round() / 1_000.0
}

impl RoundReport {
    pub(super) fn new(
        round: u32,
        reports: u64,
        found: Option<Evaluation>,
        watch: Stopwatch,
    ) -> Self {
        let elapsed_s = watch.laps.iter().map(|lap| lap.elapsed_s).sum();
        Self {
            round,
            count: reports,
            covered: None,
            loss: found.map(|found| found.loss),
            accuracy: found.map(|found| found.accuracy),
            computed_epsilon: None,
            paper_epsilon: None,
            elapsed_s,
            profile: watch.laps,
        }
    }
}

impl Report {
    /// Prints the head of the table.
    pub(super) fn new(
        header: &Recipe,
        is_fast: bool,
        profile: bool,
        output: &Output,
    ) -> anyhow::Result<Self> {
        if !output.json() {
            let of = if is_fast { "would have" } else { "has" };
            let delta = match header.privacy {
                Privacy::Claim { delta, .. } => format!(" at delta {}", words::delta(delta)),
                Privacy::InsecureUnbounded => String::new(),
            };
            output.remark(format!(
                "epsilon{delta}: what the result of all rounds so far {of}, as every device computes it (half of \
                 the others are honest, the count is seen), and in the paper's model"
            ));
            output.line(HEAD)?;
        }
        Ok(Self {
            header: header.clone(),
            evaluation: None,
            is_fast,
            profile,
            started: Instant::now(),
            rounds: Vec::new(),
            resumed: 0,
            weights: Vec::new(),
        })
    }

    /// Rounds that are over already.
    pub(super) fn resumed(&mut self, reports: &[u64]) {
        self.resumed = reports.len() as u64;
    }

    /// Prints the share of the evaluations in the budget of a device.
    pub(super) fn evaluated_by(
        &mut self,
        evaluations: Option<&Evaluations>,
        output: &Output,
    ) -> anyhow::Result<()> {
        let Some(evaluations) = evaluations else { return Ok(()) };
        let claims = [&self.header, &evaluations.header].map(|header| match header.privacy {
            Privacy::Claim { epsilon_micro, delta, .. } => {
                format!("epsilon {} at delta {delta}", up(epsilon_micro as f64 / 1e6))
            }
            Privacy::InsecureUnbounded => "nothing".to_owned(),
        });
        let [training, evaluation] = claims;
        output.remark(format!(
            "the training claims {training}; the evaluations claim {evaluation}, which devices spend besides"
        ));
        self.evaluation = Some(evaluations.header.clone());
        Ok(())
    }

    /// Prints an evaluation, the model after so many rounds; with the truth, if it is known.
    pub(super) fn evaluation(
        &self,
        index: u32,
        after: u32,
        Estimates { reports, found }: Estimates,
        truth: Option<Evaluation>,
        output: &Output,
    ) -> anyhow::Result<()> {
        let costs = |header| epsilons(header, u64::from(index) + 1);
        let (epsilon, paper_epsilon) = self.evaluation.as_ref().map_or((None, None), costs);
        let means = Means {
            loss: Estimate::new(&found.loss, truth.map(|truth| truth.loss)),
            accuracy: Estimate::new(&found.accuracy, truth.map(|truth| truth.accuracy)),
        };
        if output.json() {
            return output.line(output.value_line(&EvaluationReport {
                round: after.saturating_sub(1),
                count: reports,
                evaluation: means,
                computed_epsilon: epsilon,
                paper_epsilon,
            })?);
        }
        let [epsilon, paper] = [epsilon, paper_epsilon].map(|it| it.map_or("-".to_owned(), up));
        output.line(format!(
            "devices say after {after} {}: loss {}, accuracy {}; {reports} answers; epsilon {epsilon}, in the paper {paper}",
            if after == 1 { "round" } else { "rounds" },
            means.loss.show(1.0, 3, ""),
            means.accuracy.show(100.0, 2, " %"),
        ))
    }

    /// Prints a round.
    pub(super) fn add(&mut self, mut round: RoundReport, output: &Output) -> anyhow::Result<()> {
        (round.computed_epsilon, round.paper_epsilon) =
            epsilons(&self.header, u64::from(round.round) + 1);
        if !self.profile {
            round.profile.clear();
        }
        match output.json() {
            true => output.line(output.value_line(&round)?)?,
            false => output.line(line(&round))?,
        }
        if self.profile && !output.json() {
            let laps: Vec<String> = round
                .profile
                .iter()
                .map(|lap| format!("{} {:.2} s", lap.step, lap.elapsed_s))
                .collect();
            output.remark(format!("  {}", laps.join(", ")));
        }
        self.rounds.push(round);
        Ok(())
    }

    /// Prints the end.
    pub(super) fn print(&self, output: &Output) -> anyhow::Result<()> {
        let rounds = self.rounds.len() as u64 + self.resumed;
        let model = sotto_wire::EntryId::of(&sotto_learn::model::to_bytes(&self.weights));
        let elapsed_s = rounded(self.started.elapsed());
        if output.json() {
            let header_id = self.header.id().to_string();
            let model_digest = model.to_string();
            let end = End { header_id, fast: self.is_fast, rounds, elapsed_s, model_digest };
            return output.line(output.value_line(&end)?);
        }
        output.remark(format!(
            "{rounds} rounds in {elapsed_s:.1} s; the weights have the SHA-256 {model}"
        ));
        Ok(())
    }

    /// The accuracy over the rounds.
    pub(super) fn svg(&self) -> String {
        let points = self.rounds.iter().filter_map(|round| {
            Some(Point::new(f64::from(round.round) + 1.0, 100.0 * round.accuracy?))
        });
        let points = points.collect();
        let axis = |label: &str, holds: &[f64]| Axis {
            label: label.to_owned(),
            holds: holds.to_vec(),
            ..Axis::default()
        };
        svg_chart::svg(&Chart {
            title: "Accuracy over the rounds".to_owned(),
            x: axis("rounds", &[0.0]),
            y: axis("accuracy on the test data, %", &[0.0, 100.0]),
            series: vec![Series { points, ..Series::default() }],
            ..Chart::default()
        })
    }
}

const HEAD: &str = "round  reports    cover    loss  accuracy    epsilon  in the paper     time";

fn line(round: &RoundReport) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    format!(
        "{:5}  {:7}  {:>7}  {:>6}  {:>8}  {:>9}  {:>12}  {:5.2} s",
        round.round,
        round.count,
        or_dash(round.covered.map(|cover| cover.to_string())),
        or_dash(round.loss.map(|loss| format!("{loss:.3}"))),
        or_dash(round.accuracy.map(|accuracy| format!("{:.2} %", 100.0 * accuracy))),
        or_dash(round.computed_epsilon.map(up)),
        or_dash(round.paper_epsilon.map(up)),
        round.elapsed_s
    )
}

/// To three decimals, rounded up.
fn up(epsilon: f64) -> String {
    format!("{:.3}", (epsilon * 1_000.0).ceil() / 1_000.0)
}

/// What so many rounds of a series cost: by the rule of devices, and in the paper's model.
fn epsilons(header: &Recipe, count: u64) -> (Option<f64>, Option<f64>) {
    let mut some = header.clone();
    let (Some(series), Privacy::Claim { rounds, .. }) = (&mut some.series, &mut some.privacy)
    else {
        return (None, None);
    };
    // Fewer rounds of the same reports: how long these may be still follows from all of them.
    (series.rounds, *rounds) = (count, count);
    match judgement_of(&some, None) {
        Ok(Some(judged)) => {
            let finite = |epsilon: f64| epsilon.is_finite().then_some(epsilon);
            (finite(judged.epsilon), finite(judged.paper_epsilon))
        }
        _ => (None, None),
    }
}
