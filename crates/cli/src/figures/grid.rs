//! The panels, and their tables.

use std::fmt::Write;

use anyhow::{Result, ensure};
use sotto_dp::account::Accountant;
use sotto_dp::paper::{Errors, Experiment, Noise, Task};

use super::noises;
use crate::output::Output;
use crate::recipe::words::grouped;
use crate::svg_chart::{self, Axis, Chart, Point, Scale, Series};

/// As in the appendix of the paper.
const TASKS: [(Task, &str); 4] = [
    (Task::Histogram, "histogram"),
    (Task::SparseHistogram { gamma: 0.1 }, "sparse-0.1"),
    (Task::SparseHistogram { gamma: 0.01 }, "sparse-0.01"),
    (Task::SparseHistogram { gamma: 0.001 }, "sparse-0.001"),
];
const BUCKETS: [u64; 3] = [1_000, 10_000, 100_000];
const QUESTIONS: [u64; 4] = [1, 10, 100, 1_000];
const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;

const DEVICES: &str = "SampAgg by the rule of devices";

/// The fewest reports of an experiment.
const FEWEST: u64 = 1_000;

/// The names and contents of all files.
pub(super) fn figures(
    population: u64,
    accountant: Accountant,
    output: &Output,
) -> Result<Vec<(String, String)>> {
    ensure!(population >= FEWEST, "--population must be {FEWEST} or more: the figures begin there");
    let buckets = BUCKETS[0];
    let mut all = Vec::new();
    for (task, _) in TASKS {
        for tasks in QUESTIONS {
            all.extend(batches(population).into_iter().map(|reports| Experiment {
                task,
                population,
                buckets,
                tasks,
                reports,
                epsilon: EPSILON,
                delta: DELTA,
            }));
        }
    }
    // The noise does not depend on how many buckets it is added to.
    let found = noises(&all, |experiment| experiment.noise(accountant), output)?;
    let mut files = Vec::new();
    for (task, name) in TASKS {
        let mut table = HEAD.to_owned();
        for buckets in BUCKETS {
            for tasks in QUESTIONS {
                let panel =
                    all.iter().zip(&found).filter(|(it, _)| it.task == task && it.tasks == tasks);
                let panel: Vec<_> = panel
                    .map(|(it, noise)| Row::new(Experiment { buckets, ..*it }, *noise))
                    .collect();
                panel.iter().for_each(|row| row.write(accountant, &mut table));
                let chart = chart(&panel, accountant);
                files.push((format!("{name}-K{buckets}-T{tasks}.svg"), svg_chart::svg(&chart)));
            }
        }
        files.push((format!("{name}.csv"), table));
    }
    Ok(files)
}

/// 1 and 3 times powers of ten.
fn batches(population: u64) -> Vec<u64> {
    let sizes = (0..12).flat_map(|power| [FEWEST, 3 * FEWEST].map(|size| size * 10_u64.pow(power)));
    sizes.filter(|size| *size <= population).collect()
}

/// A point of each curve.
struct Row {
    experiment: Experiment,
    noise: Noise,
    errors: Errors,
}

const HEAD: &str = "task,gamma,N,K,T,M,epsilon,delta,accountant,rate_zero,rate_nonzero,min_batch,\
    sigma_agg,sigma_sampagg,sigma_device,nonpriv,nonpriv_impsamp,agg,sampagg,sampagg_device\n";

impl Row {
    fn new(experiment: Experiment, noise: Noise) -> Self {
        Self { experiment, noise, errors: experiment.errors(&noise) }
    }

    /// Numbers that do not exist are empty.
    fn write(&self, accountant: Accountant, table: &mut String) {
        let Self { experiment, noise, errors } = self;
        let (task, gamma) = match experiment.task {
            Task::Histogram => ("histogram", None),
            Task::SparseHistogram { gamma } => ("sparse_histogram", Some(gamma)),
        };
        let some = |number: Option<f64>| number.map_or_else(String::new, |it| format!("{it:e}"));
        let (default_rate, rate) = experiment.rates();
        let Experiment { population, buckets, tasks, reports, epsilon, delta, .. } = experiment;
        let accountant = if accountant == Accountant::Rdp { "rdp" } else { "pld" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{task},{},{population},{buckets},{tasks},{reports},{epsilon},{delta:e},{accountant},{default_rate},{rate},\
             {},{:e},{:e},{},{:e},{},{:e},{:e},{}",
            gamma.map_or_else(String::new, |gamma| gamma.to_string()),
            experiment.min_batch(),
            noise.sigma_agg,
            noise.sigma_sampagg,
            some(noise.sigma_device),
            errors.nonpriv,
            some(errors.nonpriv_impsamp),
            errors.agg,
            errors.sampagg,
            some(errors.sampagg_device),
        );
    }
}

fn chart(panel: &[Row], accountant: Accountant) -> Chart {
    let Some(Row { experiment: one, .. }) = panel.first() else { return Chart::default() };
    let curve = |name: &str, error: fn(&Errors) -> Option<f64>| {
        let point =
            |row: &Row| Some(Point::new(row.experiment.reports as f64, error(&row.errors)?));
        let points = panel.iter().map(|row| point(row).unwrap_or(GAP)).collect();
        Series { name: name.to_owned(), points, ..Series::default() }
    };
    let (buckets, tasks) = (grouped(one.buckets), grouped(one.tasks));
    let questions =
        if one.tasks == 1 { "one question".to_owned() } else { format!("{tasks} questions") };
    let (title, first) = match one.task {
        Task::Histogram => (format!("Histogram of K = {buckets} buckets, {questions}"), "NonPriv"),
        Task::SparseHistogram { gamma } => {
            let title =
                format!("Sparse histogram, gamma = {gamma}, K = {buckets} buckets, {questions}");
            (title, "NonPrivUnif")
        }
    };
    let mut series = vec![
        curve(first, |it| Some(it.nonpriv)),
        curve("Agg", |it| Some(it.agg)),
        curve("SampAgg", |it| Some(it.sampagg)),
        curve(DEVICES, |it| it.sampagg_device),
    ];
    if one.task != Task::Histogram {
        series.push(curve("NonPrivImpSamp", |it| it.nonpriv_impsamp));
    }
    let counted = match accountant {
        Accountant::Rdp => "Renyi divergences",
        _ => "loss distributions",
    };
    let mut notes = vec![format!(
        "N = {} devices; epsilon {EPSILON} at delta {DELTA:e} for all questions, by {counted}",
        grouped(one.population)
    )];
    if panel.iter().any(|row| row.errors.sampagg_device.is_none()) {
        notes.push(format!("Where \"{DEVICES}\" has no point, devices refuse whatever the noise"));
    }
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Log, ..Axis::default() };
    Chart {
        title,
        notes,
        x: axis("M, reports expected to each question"),
        y: axis("expected squared error, all buckets together"),
        series,
    }
}

const GAP: Point = Point { x: f64::NAN, y: f64::NAN, bar: None, band: None };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_panel_has_its_curves() {
        let output = Output::new(false, None);
        let files = figures(10_000, Accountant::Rdp, &output).unwrap();
        assert_eq!(files.len(), 4 * 12 + 4);
        for (name, text) in &files {
            let has = |name: &str| text.contains(&format!(">{name}</text>"));
            match name.ends_with(".svg") {
                true => {
                    assert!(has("Agg") && has("SampAgg") && has("SampAgg by the rule of devices"));
                    assert_eq!(has("NonPriv"), name.starts_with("histogram"), "{name}");
                    assert_eq!(has("NonPrivImpSamp"), name.starts_with("sparse"), "{name}");
                }
                false => {
                    assert_eq!(text.lines().count(), 1 + 12 * batches(10_000).len(), "{name}");
                    let commas = |line: &str| line.matches(',').count();
                    assert!(text.lines().all(|line| commas(line) == commas(HEAD)), "{name}");
                }
            }
        }
    }

    #[test]
    fn batches_are_no_larger_than_the_population() {
        assert_eq!(batches(1_000_000), [1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000]);
        assert!(batches(999).is_empty());
    }
}
