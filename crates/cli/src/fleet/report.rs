//! What `sotto fleet` says: for each experiment the errors, and the largest numbers.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use sotto_dp::number::up_short;

use super::devices::Devices;
use super::experiment::{Experiment, Run};
use super::story::named;
use super::{FleetArgs, page};
use crate::output::Output;
use crate::recipe::words::grouped;

/// How many of the largest numbers are shown.
const LARGEST: usize = 20;

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The recipe, or the story.
    pub(super) name: String,
    pub(super) population: u64,
    pub(super) seed: u64,
    pub(super) pipeline: bool,
    pub(super) experiments: Vec<Found>,
    pub(super) elapsed_s: f64,
}

/// One experiment.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) label: String,
    pub(super) mechanism: &'static str,
    /// What it does to a value, in words.
    #[serde(skip)]
    effect: String,
    pub(super) rate: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default_rate: Option<f64>,
    pub(super) min_batch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) epsilon: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<f64>,
    /// Reports.
    pub(super) expected: f64,
    pub(super) squared_error: Measured,
    pub(super) non_private: Measured,
    #[serde(rename = "central_noise", skip_serializing_if = "Option::is_none")]
    pub(super) central: Option<Measured>,
    pub(super) runs: Vec<RunReport>,
    /// The largest numbers, in the first collection.
    #[serde(rename = "largest")]
    pub(super) buckets: Vec<Bucket>,
}

/// A mean over all collections.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    pub(super) measured: f64,
    /// Of the mean; `None` for a single collection.
    #[serde(rename = "measured_stderr", skip_serializing_if = "Option::is_none")]
    pub(super) stderr: Option<f64>,
    pub(super) predicted: f64,
}

/// One collection.
#[derive(Debug, Serialize)]
pub(super) struct RunReport {
    pub(super) count: u64,
    pub(super) sigmas: f64,
    pub(super) measured: f64,
    /// What the estimates of this collection say about themselves.
    pub(super) stated: f64,
    pub(super) elapsed_s: f64,
}

/// One number.
#[derive(Debug, Serialize)]
pub(super) struct Bucket {
    pub(super) label: String,
    pub(super) r#true: f64,
    pub(super) estimate: f64,
    /// From noise and sampling.
    pub(super) stderr: f64,
    /// From the exact answers of those who took part.
    #[serde(rename = "exact_estimate")]
    pub(super) exact: f64,
    /// From these with the noise of one trusted party.
    #[serde(rename = "central_estimate", skip_serializing_if = "Option::is_none")]
    pub(super) central: Option<f64>,
}

impl Measured {
    fn new(values: impl Iterator<Item = f64> + Clone, predicted: f64) -> Self {
        let count = values.clone().count() as f64;
        let measured = values.clone().sum::<f64>() / count;
        let squares: f64 = values.map(|value| (value - measured).powi(2)).sum();
        let stderr = (count > 1.0).then(|| (squares / (count - 1.0) / count).sqrt());
        Self { measured, stderr, predicted }
    }

    /// What was measured is this part of what was predicted.
    pub(super) fn ratio(&self) -> f64 {
        self.measured / self.predicted
    }

    /// For people: how large it is, and how that compares with the prediction.
    pub(super) fn words(&self) -> String {
        let spread = self.stderr.map(|stderr| format!(" ± {}", short(stderr)));
        format!("{}{}", short(self.measured), spread.unwrap_or_default())
    }
}

impl Found {
    /// Never empty: there is at least one collection.
    fn new(experiment: &Experiment, devices: &Devices, runs: &[Run]) -> Result<Self> {
        let Experiment { recipe, truth, .. } = experiment;
        let claim = experiment.claim();
        let central = match experiment.predicted_central()? {
            Some(predicted) if runs.iter().all(|run| run.central.is_some()) => {
                Some(Measured::new(runs.iter().filter_map(|run| run.central), predicted))
            }
            _ => None,
        };
        Ok(Self {
            label: named(experiment.mechanism(), experiment.sampling),
            mechanism: experiment.memory.mechanism.kind(),
            effect: experiment.memory.mechanism.words().effect,
            rate: recipe.sampling.rate.to_f64(),
            default_rate: recipe.sampling.default_rate.map(|rate| rate.to_f64()),
            min_batch: recipe.aggregation.min_batch,
            epsilon: claim.map(|(micro, _)| micro as f64 / 1e6),
            delta: claim.map(|(_, delta)| delta),
            expected: truth.expected,
            squared_error: Measured::new(runs.iter().map(|run| run.error), truth.predicted),
            non_private: Measured::new(runs.iter().map(|run| run.non_private), truth.non_private),
            central,
            runs: runs.iter().map(RunReport::new).collect(),
            buckets: runs.first().map(|run| largest(experiment, devices, run)).unwrap_or_default(),
        })
    }

    /// The collection whose number of reports is furthest from the expected one.
    pub(super) fn furthest(&self) -> f64 {
        self.runs.iter().map(|run| run.sigmas.abs()).fold(0.0, f64::max)
    }
}

impl RunReport {
    fn new(run: &Run) -> Self {
        let Run { reports, sigmas, error, stated, elapsed_s, .. } = *run;
        Self { count: reports, sigmas, measured: error, stated, elapsed_s }
    }
}

/// The largest numbers of those that are compared, with their estimates.
fn largest(experiment: &Experiment, devices: &Devices, run: &Run) -> Vec<Bucket> {
    let truth = &experiment.truth;
    let of = |values: &[f64], at: usize| values.get(at).copied().unwrap_or_default();
    let mut places = truth.compared.clone();
    let size = |at: &usize| of(&truth.numbers, *at).abs();
    places.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let bucket = |at: usize| {
        let estimate = run.estimates.get(at)?;
        let label = devices.labels.get(at).filter(|_| truth.numbers.len() > 1);
        Some(Bucket {
            label: label.cloned().unwrap_or_else(|| "all devices".to_owned()),
            r#true: of(&truth.numbers, at),
            estimate: estimate.value,
            stderr: estimate.total_error,
            exact: of(&run.exact, at),
            central: run.with_central.as_ref().map(|central| of(central, at)),
        })
    };
    places.into_iter().take(LARGEST).filter_map(bucket).collect()
}

impl Report {
    pub(super) fn new(args: &FleetArgs, seed: u64, devices: &Devices, output: &Output) -> Self {
        let name = match (&args.recipe, args.story) {
            (Some(recipe), _) => recipe.display().to_string(),
            (None, Some(story)) => story.text().to_owned(),
            (None, None) => String::new(),
        };
        let population = devices.count();
        let whole = if args.pipeline { "through the whole system" } else { "in memory" };
        output.remark(format!(
            "{name}: {} devices, asked {} times {whole}, seed {seed}",
            grouped(population),
            args.repeats
        ));
        let pipeline = args.pipeline;
        Self { name, population, seed, pipeline, experiments: Vec::new(), elapsed_s: 0.0 }
    }

    /// Adds an experiment, and prints what came of it.
    pub(super) fn add(
        &mut self,
        experiment: &Experiment,
        devices: &Devices,
        runs: &[Run],
        output: &Output,
    ) -> Result<()> {
        let found = Found::new(experiment, devices, runs)?;
        if !output.json() {
            found.print(output, self.pipeline)?;
        }
        self.experiments.push(found);
        Ok(())
    }

    /// Prints the end, and writes the page.
    pub(super) fn end(
        mut self,
        elapsed: Duration,
        out: Option<&Path>,
        output: &Output,
    ) -> Result<()> {
        self.elapsed_s = (elapsed.as_secs_f64() * 1e3).round() / 1e3;
        if let Some(path) = out {
            std::fs::write(path, page::html(&self))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        if output.json() {
            return output.value(&self);
        }
        output.remark(format!("done in {:.1} s", self.elapsed_s));
        Ok(())
    }
}

impl Found {
    fn print(&self, output: &Output, pipeline: bool) -> Result<()> {
        output.heading(&self.label)?;
        output.prose(self.facts())?;
        if pipeline {
            let noise = match self.mechanism {
                "server_gaussian" => ", and noise of the servers",
                _ => "",
            };
            output
                .prose(format!("What was collected is the sum of what the devices sent{noise}."))?;
        }
        let mut table = Table::new();
        let head = ["mean squared error", "measured", "predicted", "ratio"];
        table.set_header(head);
        for (name, measured) in self.errors() {
            table.add_row([
                name.to_owned(),
                measured.words(),
                short(measured.predicted),
                format!("{:.3}", measured.ratio()),
            ]);
        }
        right(&mut table);
        output.table(table)?;
        output.line("")?;
        let mut table = Table::new();
        table.set_header(["largest", "true", "estimate", "±", "exact sample", "one party's noise"]);
        for bucket in self.buckets.iter().take(LARGEST / 2) {
            let central = bucket.central.map_or("-".to_owned(), short);
            let [truth, estimate, stderr, exact] =
                [bucket.r#true, bucket.estimate, bucket.stderr, bucket.exact].map(short);
            table.add_row([bucket.label.clone(), truth, estimate, stderr, exact, central]);
        }
        right(&mut table);
        output.table(table)
    }

    /// Sampling, claim and turnout, in a sentence each.
    pub(super) fn facts(&self) -> String {
        let rate = match self.default_rate {
            None => format!("Rate {}", short(self.rate)),
            Some(default) => format!(
                "Rate {} with the default value, {} with others",
                short(default),
                short(self.rate)
            ),
        };
        let claim = match (self.epsilon, self.delta) {
            (Some(epsilon), Some(delta)) => {
                format!("epsilon {} at delta {delta:.0e}", up_short(epsilon))
            }
            _ => "no claim".to_owned(),
        };
        let counts: Vec<u64> = self.runs.iter().map(|run| run.count).collect();
        let mean = counts.iter().sum::<u64>() as f64 / counts.len().max(1) as f64;
        let few = counts.iter().filter(|count| **count < self.min_batch).count();
        let withheld = match few {
            0 => String::new(),
            few => format!(
                " {few} of {} were below the minimum of {}, and would not have been released.",
                counts.len(),
                grouped(self.min_batch)
            ),
        };
        format!(
            "{rate}; {claim}; {}. {} reports were expected, {} came on average; the furthest collection is \
             {:.1} standard deviations away.{withheld}",
            self.effect,
            short(self.expected),
            short(mean),
            self.furthest()
        )
    }

    /// The errors, with their names.
    pub(super) fn errors(&self) -> Vec<(&'static str, Measured)> {
        let central = self.central.map(|central| ("noise of one trusted party", central));
        [("this mechanism", self.squared_error)]
            .into_iter()
            .chain(central)
            .chain([("exact answers of the sample", self.non_private)])
            .collect()
    }
}

/// Numbers on the right.
fn right(table: &mut Table) {
    table.column_iter_mut().skip(1).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
}

/// A number with as many digits as somebody reads.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".to_owned()
    } else if (1_000.0..1e15).contains(&size) {
        let whole = grouped(size.round() as u64);
        if number < 0.0 { format!("-{whole}") } else { whole }
    } else if (0.001..1e15).contains(&size) {
        let digits = (3 - size.log10().floor() as i32).clamp(0, 6) as usize;
        let text = format!("{number:.digits$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    } else {
        format!("{number:.2e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits_or_are_whole() {
        for (number, text) in [
            (0.0, "0"),
            (1_234_567.8, "1,234,568"),
            (-54_321.0, "-54,321"),
            (12.345_67, "12.35"),
            (0.01, "0.01"),
            (100.0, "100"),
            (1.5e-7, "1.50e-7"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn a_mean_has_a_standard_error_if_there_are_several() {
        let one = Measured::new([2.0].into_iter(), 4.0);
        assert_eq!((one.measured, one.stderr, one.ratio()), (2.0, None, 0.5));
        let two = Measured::new([1.0, 3.0].into_iter(), 2.0);
        assert_eq!((two.measured, two.stderr), (2.0, Some(1.0)));
    }
}
