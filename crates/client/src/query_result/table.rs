//! A result as a table: a row for each number, with its origin in every row, so that the tables of
//! several weeks can be put together. And the table as CSV (RFC 4180).
//!
//! A spreadsheet takes a text that begins with one of a few characters for a formula, and recipes
//! are written by others. So such texts get an apostrophe in front in CSV. Numbers stay as they are.

use sotto_wire::utc;

use super::json::rounded;
use super::{Meaning, QueryResult, Row};

/// A column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name, as in JSON.
    pub name: &'static str,
    /// A cell for each row.
    pub cells: Cells,
}

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Texts.
    Text(Vec<Option<String>>),
    /// Numbers, of which an epsilon may be infinite.
    Number(Vec<Option<f64>>),
    /// Whole numbers.
    Whole(Vec<Option<u64>>),
}

impl QueryResult {
    /// The columns of the table, all of the same length. They are the same for all results.
    pub fn table(&self) -> Vec<Column> {
        let mut rows = self.buckets();
        rows.extend(self.meaning.iter().flat_map(|meaning| meaning.statistics.clone()));
        let noise = |row: &Row, end: fn(&super::Noise) -> f64| finite(row.noise.as_ref().map(end));
        let numbers = |name, value: &dyn Fn(&Row) -> Option<f64>| Column {
            name,
            cells: Cells::Number(rows.iter().map(value).collect()),
        };
        let texts = |name, value: &dyn Fn(&Row) -> Option<String>| Column {
            name,
            cells: Cells::Text(rows.iter().map(value).collect()),
        };
        let meaning = self.meaning.as_ref();
        let said = |name, value: fn(&Meaning) -> String| texts(name, &|_| meaning.map(value));
        let count = rows.iter().map(|_| Some(self.count)).collect();
        vec![
            texts("label", &|row| Some(row.label.clone())),
            numbers("quantile", &|row| row.quantile),
            numbers("estimate", &|row| Some(row.estimate)),
            numbers("stderr", &|row| Some(row.stderr)),
            numbers("lo95", &|row| finite(Some(row.low))),
            numbers("hi95", &|row| finite(Some(row.high))),
            numbers("noise_stderr", &|row| noise(row, |noise| noise.stderr)),
            numbers("noise_lo95", &|row| noise(row, |noise| noise.low)),
            numbers("noise_hi95", &|row| noise(row, |noise| noise.high)),
            numbers("consistent", &|row| row.consistent),
            Column { name: "count", cells: Cells::Whole(count) },
            texts("start", &|_| Some(utc::format(self.interval.start))),
            texts("end", &|_| Some(utc::format(self.interval.end()))),
            said("recipe_id", |meaning| meaning.recipe_id.to_string()),
            said("name", |meaning| meaning.name.clone()),
            numbers("epsilon", &|_| meaning.map(|meaning| meaning.epsilon)),
            numbers("delta", &|_| meaning.and_then(|meaning| meaning.delta)),
        ]
    }

    /// The table as CSV, with the names of the columns in the first line. What there is not is
    /// empty.
    pub fn to_csv(&self) -> String {
        let table = self.table();
        let names: Vec<&str> = table.iter().map(|column| column.name).collect();
        let mut csv = names.join(",") + "\r\n";
        // There may be a million rows: only one of them at a time as texts.
        let line =
            |row| table.iter().map(|column| column.cells.in_csv(row)).collect::<Option<Vec<_>>>();
        for cells in (0..).map_while(line) {
            csv += &(cells.join(",") + "\r\n");
        }
        csv
    }
}

impl Cells {
    /// The text of a cell; `None` below the last row.
    fn in_csv(&self, row: usize) -> Option<String> {
        Some(match self {
            Self::Text(cells) => text(cells.get(row)?.as_deref()),
            Self::Number(cells) => number(*cells.get(row)?),
            Self::Whole(cells) => {
                cells.get(row)?.map(|whole| whole.to_string()).unwrap_or_default()
            }
        })
    }
}

/// No end of an interval instead of an infinite one.
fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

fn number(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => rounded(value).to_string(),
        Some(_) => "inf".to_owned(),
        None => String::new(),
    }
}

/// A text that is a text everywhere.
fn text(value: Option<&str>) -> String {
    let value = value.unwrap_or_default();
    let is_formula = value.trim_start().starts_with(['=', '+', '-', '@']);
    let guarded = if is_formula { format!("'{value}") } else { value.to_owned() };
    match guarded.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", guarded.replace('"', "\"\"")),
        false => guarded,
    }
}
