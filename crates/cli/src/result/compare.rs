//! `sotto result compare`: whether two results differ by more than noise and sampling.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use sotto_client::QueryResult;
use sotto_client::query_result::{Comparison, Incomparable, LEVEL, Row, RowDifference};

use super::file;
use crate::output::{Outcome, Output, hinted};

/// More rows than these are not read.
const MOST_ROWS: usize = 50;

/// What the numbers are.
const TEST: &str = "a z-test for each row, from the intervals for noise and sampling, with Holm's \
                    correction for the number of rows";

/// Compares two results that were kept.
#[derive(Debug, Args)]
#[command(
    after_help = "Each row is tested by itself; the p-values are adjusted for the number of rows \
    (Holm), so that chance alone makes any row differ with at most the probability of \
    --significance. The test assumes that the two collections are independent, as any two \
    releases are. It compares numbers of devices, not shares.\n\nExit code 0: no difference beyond noise and \
    sampling. 1: they differ. 2: they cannot be compared."
)]
pub(super) struct CompareArgs {
    /// The first result, in JSON.
    #[arg(value_name = "A")]
    first: PathBuf,
    /// The second one, with the same rows.
    #[arg(value_name = "B")]
    second: PathBuf,
    /// The probability that any row is said to differ, if none does, is at most this.
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    significance: f64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Printed<'a> {
    differs: bool,
    significance: f64,
    test: &'static str,
    comparisons: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
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
        let [first, second] = [file::read(&self.first)?, file::read(&self.second)?];
        let comparison = Comparison::new(&first, &second, self.significance)
            .map_err(|reason| refusal(&reason, &self.first, &self.second))?;
        if output.json() {
            output.value(&Printed {
                differs: comparison.differs(),
                significance: comparison.significance,
                test: TEST,
                comparisons: comparison.rows.iter().map(Line::from).collect(),
            })?;
        } else {
            print(output, &comparison)?;
            if let Some(remark) = remark(&first, &second) {
                output.remark(remark);
            }
        }
        Ok(if comparison.differs() { Outcome::No } else { Outcome::Yes })
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
    let (rows, level) = (comparison.rows.len(), comparison.significance);
    let differing = comparison.rows.iter().filter(|row| row.differs).count();
    output.prose(match differing {
        0 => format!("\nNo difference beyond noise and sampling, at the level {level}."),
        _ => format!("\nThey differ by more than noise and sampling, at the level {level}: {differing} of {rows} rows."),
    })?;
    output.prose(format!(
        "The test: {TEST}. Each interval of {} % is for its row alone.",
        LEVEL * 100.0
    ))
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
