//! `sotto result compare`: whether results differ by more than noise and sampling, and a chart of how
//! they change.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use sotto_client::QueryResult;
use sotto_client::query_result::{Comparison, Incomparable, LEVEL, Row, RowDifference};

use super::file;
use crate::output::{Outcome, Output, hinted};
use crate::svg_chart::{self, Axis, Chart, Look, Point, Scale, Series};

/// More rows than these are not read.
const MOST_ROWS: usize = 50;

/// What the numbers are.
const TEST: &str = "a z-test for each row, from the intervals for noise and sampling, with Holm's \
                    correction for the number of rows";

/// What differs where there are several results.
const EACH_STEP: &str = "each result is compared with the one before it, and the p-values are \
                         multiplied by the number of these steps";

/// More rows than these are not drawn.
const MOST_DRAWN: usize = 8;

/// Compares results that were kept.
#[derive(Debug, Args)]
#[command(
    after_help = "Each row is tested by itself; the p-values are adjusted for the number of rows \
    (Holm), so that chance alone makes any row differ with at most the probability of \
    --significance. The test assumes that the two collections are independent, as any two \
    releases are. It compares numbers of devices, not shares.\n\nGive more than two results, such as the rounds of a \
    question, to compare each with the one before it. --chart draws all of them.\n\nExit code 0: no difference beyond noise and \
    sampling. 1: they differ. 2: they cannot be compared."
)]
pub(super) struct CompareArgs {
    /// Results in JSON, with the same rows, in the order of time.
    #[arg(value_name = "FILE", num_args = 2.., required = true)]
    files: Vec<PathBuf>,
    /// Draw how the estimates change, with their intervals, into this SVG file.
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
    /// The probability that any row is said to differ, if none does, is at most this.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    significance: f64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    differs: bool,
    significance: f64,
    test: String,
    comparisons: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    /// Which result is the second one, from 1, if there are more than two.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    label: &'a str,
    first: f64,
    second: f64,
    difference: f64,
    lo95: Option<f64>,
    hi95: Option<f64>,
    p_adjusted: f64,
    differs: bool,
}

impl<'a> From<&'a RowDifference> for Line<'a> {
    fn from(row: &'a RowDifference) -> Self {
        let end = |end: f64| end.is_finite().then_some(end);
        Self {
            step: None,
            label: &row.label,
            first: row.first,
            second: row.second,
            difference: row.difference.value,
            lo95: end(row.difference.low),
            hi95: end(row.difference.high),
            p_adjusted: row.p_adjusted,
            differs: row.differs,
        }
    }
}

impl CompareArgs {
    pub(super) fn run(self, output: &Output) -> Result<Outcome> {
        let results = self.files.iter().map(|path| file::read(path)).collect::<Result<Vec<_>>>()?;
        let steps = results.len() - 1;
        // The probability of a false alarm in any step is at most what was asked for. A level that is
        // none stays one.
        let level = self.significance;
        let level = if level < 1.0 { level / steps as f64 } else { level };
        let named = self.files.iter().zip(&results).collect::<Vec<_>>();
        let compared = named.windows(2).map(|pair| {
            let [(first_path, first), (second_path, second)] = [pair[0], pair[1]];
            let found = Comparison::new(first, second, level);
            found.map_err(|reason| refusal(&reason, first_path, second_path))
        });
        let mut compared = compared.collect::<Result<Vec<_>>>()?;
        for row in compared.iter_mut().flat_map(|one| &mut one.rows) {
            row.p_adjusted = (row.p_adjusted * steps as f64).min(1.0);
        }
        if let Some(path) = &self.chart {
            std::fs::write(path, svg_chart::svg(&trend(&named)))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let differs = compared.iter().any(Comparison::differs);
        if output.json() {
            self.print_json(&compared, differs, output)?;
        } else {
            for (step, one) in compared.iter().enumerate() {
                if steps > 1 {
                    let pair = [&self.files[step], &self.files[step + 1]];
                    output.title(&format!("{} -> {}", pair[0].display(), pair[1].display()))?;
                }
                print(output, one)?;
                if let Some(remark) = remark(&results[step], &results[step + 1]) {
                    output.remark(remark);
                }
            }
            self.print_test(steps, output)?;
        }
        Ok(if differs { Outcome::No } else { Outcome::Yes })
    }

    fn print_json(&self, compared: &[Comparison], differs: bool, output: &Output) -> Result<()> {
        let lines = compared.iter().enumerate().flat_map(|(step, one)| {
            let step = (compared.len() > 1).then_some(step + 2);
            one.rows.iter().map(move |row| Line { step, ..Line::from(row) })
        });
        let test = if compared.len() > 1 { format!("{TEST}; {EACH_STEP}") } else { TEST.into() };
        let significance = self.significance;
        output.value(&Printed { differs, significance, test, comparisons: lines.collect() })
    }

    fn print_test(&self, steps: usize, output: &Output) -> Result<()> {
        let (level, percent) = (self.significance, LEVEL * 100.0);
        let several = if steps > 1 { format!("; {EACH_STEP}") } else { String::new() };
        output.prose(format!(
            "The test: {TEST}{several}. The level is {level}. Each interval of {percent} % is for its row \
             alone."
        ))
    }
}

/// Between two rows in a chart, where results are 1 apart.
const APART: f64 = 0.06;

/// How the rows change from result to result: those that are largest at the end. They are beside
/// each other, so that every interval is seen.
fn trend(results: &[(&PathBuf, &QueryResult)]) -> Chart {
    let rows = |result: &QueryResult| match (result.bars(), &result.meaning) {
        (bars, Some(found)) if bars.is_empty() => found.statistics.clone(),
        (bars, _) => bars,
    };
    let all: Vec<Vec<Row>> = results.iter().map(|one| rows(one.1)).collect();
    let mut last = all.last().cloned().unwrap_or_default();
    last.sort_by(|one, other| other.estimate.total_cmp(&one.estimate));
    let left_out = last.len().saturating_sub(MOST_DRAWN);
    last.truncate(MOST_DRAWN);
    let middle = (last.len() as f64 - 1.0) / 2.0;
    let series = last.into_iter().enumerate().map(|(place, last)| {
        let beside = APART * (place as f64 - middle);
        let points = all.iter().enumerate().filter_map(|(at, rows)| {
            let row = rows.iter().find(|row| row.label == last.label)?;
            let bar = row.low.is_finite() && row.high.is_finite();
            let bar = bar.then_some((row.low, row.high));
            Some(Point { bar, ..Point::new((at + 1) as f64 + beside, row.estimate) })
        });
        Series { name: last.label.clone(), points: points.collect(), look: Look::Line }
    });
    let mut notes =
        vec!["Bars are intervals of 95 % for noise and sampling, each for its row.".into()];
    if left_out > 0 {
        notes.push(format!(
            "The {MOST_DRAWN} rows that are largest at the end; {left_out} more are not shown."
        ));
    }
    Chart {
        title: "Estimates from result to result".to_owned(),
        notes,
        x: Axis {
            label: format!("result, 1 to {}", results.len()),
            scale: Scale::Whole,
            ..Axis::default()
        },
        y: Axis { label: "estimate".to_owned(), holds: vec![0.0], ..Axis::default() },
        series: series.collect(),
    }
}

fn refusal(reason: &Incomparable, first: &Path, second: &Path) -> anyhow::Error {
    let (first, second) = (first.display(), second.display());
    let hint = match reason {
        Incomparable::Plain(_) => "compare results of recipes",
        Incomparable::Significance => "0.05 is usual",
        _ => "compare results of the same question, such as two intervals of one recipe",
    };
    hinted(anyhow!("{first} and {second} cannot be compared: {reason}"), hint)
}

fn print(output: &Output, comparison: &Comparison) -> Result<()> {
    let mut table = Table::new();
    table.set_header(["answer", "first", "second", "change", "95 % (one row)", "p (all rows)", ""]);
    // Of many rows only those that differ are of interest, and not all of them.
    let many = comparison.rows.len() > MOST_ROWS;
    let shown = comparison.rows.iter().filter(|row| !many || row.differs).take(MOST_ROWS);
    for row in shown {
        let ends = &row.difference;
        // As many digits as the interval leaves.
        let digits = Row { stderr: (ends.high - ends.low) / 4.0, ..Row::exact("", 0.0) };
        let p = match row.p_adjusted {
            p if p < 0.0001 => "below 0.0001".to_owned(),
            p => format!("{p:.4}"),
        };
        table.add_row([
            row.label.clone(),
            digits.text(row.first),
            digits.text(row.second),
            digits.text(ends.value),
            digits.interval_text(ends.low, ends.high),
            p,
            if row.differs { "differs".to_owned() } else { String::new() },
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    output.table(table)?;
    let rows = comparison.rows.len();
    let differing = comparison.rows.iter().filter(|row| row.differs).count();
    output.prose(match differing {
        0 => "\nNo difference beyond noise and sampling.".to_owned(),
        _ => format!("\nThey differ by more than noise and sampling: {differing} of {rows} rows."),
    })
}

/// What a reader might overlook.
fn remark(first: &QueryResult, second: &QueryResult) -> Option<String> {
    let [one, other] = [first.meaning.as_ref()?, second.meaning.as_ref()?];
    if (first.task_id, first.interval) == (second.task_id, second.interval) {
        return Some("both are the same collection".to_owned());
    }
    let recipes = (one.recipe_id != other.recipe_id).then(|| {
        format!(
            "the recipes differ ({} and {}): `sotto recipe diff` says how",
            one.recipe_id, other.recipe_id
        )
    });
    let populations = (one.population != other.population).then(|| {
        format!(
            "the populations are {} and {}: numbers of devices are compared, not shares",
            one.population, other.population
        )
    });
    let remarks: Vec<String> = recipes.into_iter().chain(populations).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}
