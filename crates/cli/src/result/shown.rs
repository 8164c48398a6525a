//! A result for people.

use anyhow::Result;
use comfy_table::{CellAlignment, Table};
use sotto_client::QueryResult;
use sotto_client::query_result::{Coordinates, Kind, Meaning, Row};
use sotto_dp::number::up_short;
use sotto_protocol::Moment;
use sotto_vdaf::AggregateResult;

use crate::chart::{LEGEND, Shape, chart};
use crate::output::Output;
use crate::plot::{self, LEGEND_WITH_TRUTH, plot};
use crate::recipe::words::grouped;
use crate::time_text::show_moment;

/// Prints the numbers, and on stderr how many reports they come from.
pub(crate) fn print(output: &Output, result: &QueryResult) -> Result<()> {
    match (&result.meaning, &result.sums) {
        (Some(meaning), _) => numbers(output, meaning)?,
        (None, AggregateResult::Scalar(value)) => output.line(value)?,
        (None, AggregateResult::Vector(values)) => output.table(table(values))?,
    }
    output.remark(format!(
        "{} reports from {} to {}",
        result.count,
        show_moment(Moment(result.interval.start)),
        show_moment(Moment(result.interval.end()))
    ));
    Ok(())
}

fn numbers(output: &Output, meaning: &Meaning) -> Result<()> {
    if let Some(coordinates) = &meaning.coordinates {
        return vector(output, coordinates, &meaning.statistics);
    }
    // The numbers of a mean have different units.
    let bars = meaning.buckets.len() > 1 && meaning.kind != Kind::Mean;
    let shape = Shape { noise: true, bars };
    let lines = |lines: Vec<String>| lines.into_iter().try_for_each(|line| output.line(line));
    lines(chart("answer", &meaning.buckets, output.width(), shape))?;
    if !meaning.statistics.is_empty() {
        output.line("")?;
        let shape = Shape { bars: false, ..shape };
        lines(chart("statistic", &meaning.statistics, output.width(), shape))?;
    }
    if bars {
        output.prose(LEGEND)?;
    }
    Ok(())
}

/// A curve, and what is known of the whole: of a million coordinates nobody reads a table.
fn vector(output: &Output, coordinates: &Coordinates, statistics: &[Row]) -> Result<()> {
    curve(output, coordinates)?;
    let shape = Shape { noise: true, bars: false };
    let mut lines = chart("statistic", statistics, output.width(), shape).into_iter();
    lines.try_for_each(|line| output.line(line))?;
    output.prose(format!("\n{}", about(coordinates)))
}

/// The curve of a vector, and what its marks mean.
pub(crate) fn curve(output: &Output, coordinates: &Coordinates) -> Result<()> {
    plot(coordinates, output.width()).into_iter().try_for_each(|line| output.line(line))?;
    let truth = !coordinates.truths.is_empty();
    output.prose(if truth { LEGEND_WITH_TRUTH } else { plot::LEGEND })?;
    output.line("")
}

/// How many coordinates there are, and how precise they are.
pub(crate) fn about(coordinates: &Coordinates) -> String {
    let most = coordinates.errors.iter().copied().fold(0.0, f64::max);
    format!(
        "{} coordinates. Standard error of a coordinate: {} at most, {} as the root mean square of all \
         (noise and sampling). --out FILE.csv, .parquet or .npy writes all.",
        grouped(coordinates.len() as u64),
        up_short(most),
        up_short(coordinates.rms_error)
    )
}

/// Prints where the numbers come from, and what they cost.
pub(super) fn origin(output: &Output, result: &QueryResult) -> Result<()> {
    let Some(meaning) = &result.meaning else {
        return output.entry("  task       ", result.task_id);
    };
    let index = match meaning.index {
        Some(index) => format!("{}, entry {index}", meaning.log),
        None => meaning.log.clone(),
    };
    let privacy = match (meaning.delta, meaning.adjacency) {
        (Some(delta), Some(neighbours)) => format!(
            "epsilon {} at delta {delta:e}, if one device's data is {}",
            up_short(meaning.epsilon),
            neighbours.words()
        ),
        _ => "none is claimed: exact values were summed".to_owned(),
    };
    let parameters = meaning.parameters.iter().map(|one| format!(", {} {}", one.name, one.value));
    let mechanism = format!("{}{}", meaning.mechanism, parameters.collect::<String>());
    let default = meaning.default_rate.map(|rate| format!(" ({rate} with the default value)"));
    let dummies =
        meaning.dummy_rate.map(|rate| format!("; of the others, {rate} sent a report of nothing"));
    let sampling = format!(
        "{} reports from about {} devices; each took part with probability {}{}{}; nothing is released \
         below {}",
        grouped(result.count),
        grouped(meaning.population),
        meaning.rate,
        default.unwrap_or_default(),
        dummies.unwrap_or_default(),
        grouped(meaning.min_batch)
    );
    for (head, text) in [
        ("question", meaning.purpose.clone()),
        ("recipe", format!("{} {}", meaning.name, meaning.recipe_id)),
        ("log", index),
        (
            "operators",
            format!("{} (leader), {} (helper)", meaning.leader_operator, meaning.helper_operator),
        ),
        ("privacy", privacy),
        ("mechanism", mechanism),
        ("sampling", sampling),
    ] {
        output.entry(format!("  {head:<10} "), text)?;
    }
    Ok(())
}

fn table(values: &[i128]) -> Table {
    let mut table = Table::new();
    table.set_header(["bucket", "value"]);
    for (index, value) in values.iter().enumerate() {
        table.add_row([index.to_string(), value.to_string()]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::fitted;

    #[test]
    fn vectors_are_tables() {
        insta::assert_snapshot!(fitted(&mut table(&[3, 1_000]), 80), @r"
         bucket  value
              0      3
              1   1000
        ");
    }
}
