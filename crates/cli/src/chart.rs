//! Results on a terminal: a line for each number, with its intervals and a bar.

use sotto_client::query_result::Row;

use crate::output::columns;

/// Character cells of the longest bar, where there is room, and where labels are long.
const MOST_CELLS: usize = 40;
const LEAST_CELLS: usize = 10;

/// Eighths of a cell.
const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// What bars without a true value mean.
pub(crate) const LEGEND: &str = "The total interval is from noise and sampling. Bars: █ up to its low \
                                 end, ▓ to the estimate, ░ to its high end.";

/// Which columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Also the interval from the noise alone.
    pub(crate) noise: bool,
    /// Bars, which are of use for several numbers of one unit.
    pub(crate) bars: bool,
}

/// A column of numbers: its head, and a cell for each row.
struct Numbers {
    head: &'static str,
    cells: Vec<String>,
}

impl Numbers {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| columns(cell)).fold(columns(self.head), usize::max)
    }

    /// At the right, as numbers are; intervals are all of one width, with a head in the middle.
    fn lines(&self) -> Vec<String> {
        let width = self.width();
        let head = format!("{:>width$}", self.head);
        let cells = self.cells.iter().map(|cell| format!("{cell:>width$}"));
        std::iter::once(head).chain(cells).collect()
    }
}

/// A head, and then a line for each row: label, true value, consistent estimate, estimate,
/// intervals, bar. All fit `width`; a label that does not gets more lines.
///
/// A bar is as long as the estimate. Where the true value is known, a `┊` marks it if it differs
/// from the end of the bar. Elsewhere shades show the interval.
pub(crate) fn chart(heading: &str, rows: &[Row], width: usize, shape: Shape) -> Vec<String> {
    let numbers = numbers(rows, shape);
    let numbers_width: usize = numbers.iter().map(|column| column.width() + 2).sum();
    let bar_room = if shape.bars { LEAST_CELLS + 1 } else { 0 };
    let longest = rows.iter().map(|row| columns(&row.label)).max().unwrap_or(0);
    let room = width.saturating_sub(2 + numbers_width + bar_room).max(heading.len()).max(4);
    let label_width = longest.max(heading.len()).min(room);
    let left = width.saturating_sub(2 + label_width + numbers_width + 1);
    let cells = left.clamp(LEAST_CELLS, MOST_CELLS);
    let truth = |row: &Row| row.truth.unwrap_or_default();
    let ends =
        |row: &Row| [row.estimate, truth(row), if row.truth.is_none() { row.high } else { 0.0 }];
    let ends = rows.iter().flat_map(ends).filter(|end| end.is_finite());
    let largest = ends.fold(0.0, f64::max);
    let largest = if largest > 0.0 { largest } else { 1.0 };
    let columns_of: Vec<Vec<String>> = numbers.iter().map(Numbers::lines).collect();
    let line =
        |at: usize| columns_of.iter().map(|column| format!("  {}", column[at])).collect::<String>();
    let head = format!("  {heading:<label_width$}{}", line(0));
    let lines = rows.iter().enumerate().flat_map(|(at, row)| {
        let bar = if shape.bars { bar(row, largest, cells) } else { String::new() };
        let mut label = cut(&row.label, label_width).into_iter();
        let first = label.next().unwrap_or_default();
        let pad = " ".repeat(label_width.saturating_sub(columns(&first)));
        let first = format!("  {first}{pad}{} {bar}", line(at + 1));
        std::iter::once(first).chain(label.map(|rest| format!("  {rest}"))).collect::<Vec<_>>()
    });
    std::iter::once(head).chain(lines).map(|line| line.trim_end().to_owned()).collect()
}

fn numbers(rows: &[Row], shape: Shape) -> Vec<Numbers> {
    let exact = rows.iter().all(|row| row.low == row.high);
    let mut found = Vec::new();
    let mut add = |head, cell: &dyn Fn(&Row) -> String| {
        found.push(Numbers { head, cells: rows.iter().map(cell).collect() });
    };
    if rows.iter().any(|row| row.truth.is_some()) {
        add("true", &|row| row.truth.map(|truth| true_text(row, truth)).unwrap_or_default());
    }
    add("estimate", &|row| row.text(row.estimate));
    if rows.iter().any(|row| row.consistent.is_some()) {
        add("consistent", &|row| row.consistent.map(|it| row.text(it)).unwrap_or_default());
    }
    if shape.noise && rows.iter().any(|row| row.noise.is_some()) {
        let of = |row: &Row| row.noise.map(|noise| row.interval_text(noise.low, noise.high));
        add("95 % (noise)", &|row| of(row).unwrap_or_default());
    }
    if !exact {
        let head = if shape.noise { "95 % (total)" } else { "95 %" };
        add(head, &|row| row.interval_text(row.low, row.high));
    }
    found
}

/// A true value needs no more decimals than it has.
fn true_text(row: &Row, truth: f64) -> String {
    if truth.fract() == 0.0 { truth.to_string() } else { row.text(truth) }
}

/// The label in pieces of at most this many columns.
fn cut(label: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in label.chars() {
        let piece = pieces.last().map_or(0, |piece| columns(piece));
        if piece > 0 && piece + columns(character.encode_utf8(&mut [0; 4])) > width {
            pieces.push(String::new());
        }
        pieces.iter_mut().last().into_iter().for_each(|piece| piece.push(character));
    }
    pieces
}

/// The bar of a row, where the longest bar of `most` cells stands for `largest`.
fn bar(row: &Row, largest: f64, most: usize) -> String {
    match row.truth {
        Some(truth) => marked(row.estimate / largest, truth / largest, most),
        None if row.low == row.high => marked(row.estimate / largest, row.estimate / largest, most),
        None => {
            let cells = |end: f64| ((end / largest).clamp(0.0, 1.0) * most as f64).round() as usize;
            let (low, middle, high) = (cells(row.low), cells(row.estimate), cells(row.high));
            let part =
                |character: &str, from: usize, to: usize| character.repeat(to.saturating_sub(from));
            part("█", 0, low) + &part("▓", low, middle) + &part("░", middle, high)
        }
    }
}

/// Both values are fractions of the longest bar, which has this many cells.
fn marked(estimate: f64, truth: f64, most: usize) -> String {
    let eighths = |fraction: f64| (fraction.clamp(0.0, 1.0) * (most * 8) as f64).round() as usize;
    let filled = eighths(estimate);
    let mut cells: Vec<char> = vec!['█'; filled / 8];
    if filled % 8 > 0 {
        cells.push(PARTS[filled % 8]);
    }
    let marker = (eighths(truth) / 8).min(most.saturating_sub(1));
    if eighths(truth).abs_diff(filled) >= 8 {
        while cells.len() <= marker {
            cells.push(' ');
        }
        cells[marker] = '┊';
    }
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Shape = Shape { noise: false, bars: true };
    const BOTH: Shape = Shape { noise: true, bars: true };

    fn held(label: &str, truth: f64) -> Row {
        Row { truth: Some(truth), ..Row::exact(label, truth) }
    }

    fn shown(heading: &str, rows: &[Row], shape: Shape) -> String {
        chart(heading, rows, 80, shape).join("\n")
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        assert_eq!(marked(1.0, 1.0, 40).chars().count(), 40);
        assert_eq!(marked(0.5, 0.5, 40).chars().count(), 20);
        assert_eq!(marked(0.0, 0.0, 40), "");
        assert_eq!(marked(-0.3, 0.0, 40), "");
        assert_eq!(marked(1.0 / 80.0, 1.0 / 80.0, 40), "▌");
        assert_eq!(marked(0.5, 1.0, 40).chars().last(), Some('┊'));
        assert_eq!(marked(1.0, 0.5, 40).chars().nth(20), Some('┊'));
    }

    #[test]
    fn shades_show_the_interval() {
        let row = |low, estimate, high| Row { low, high, ..Row::exact("a", estimate) };
        assert_eq!(bar(&row(2.0, 5.0, 8.0), 10.0, 10), "██▓▓▓░░░");
        assert_eq!(bar(&row(-5.0, -1.0, 3.0), 10.0, 10), "░░░");
        assert_eq!(bar(&row(-5.0, -2.0, -1.0), 10.0, 10), "");
        assert_eq!(bar(&row(f64::NEG_INFINITY, 5.0, f64::INFINITY), 10.0, 10), "▓▓▓▓▓░░░░░");
        assert_eq!(bar(&Row::exact("a", 5.0), 10.0, 10), "█████");
    }

    #[test]
    fn exact_buckets_have_no_interval() {
        let rows = [held("queen", 20.0), held("dodo", 10.0)];
        insta::assert_snapshot!(shown("word", &rows, PLAIN), @r"
          word   true  estimate
          queen    20        20 ████████████████████████████████████████
          dodo     10        10 ████████████████████
        ");
    }

    /// A label that is too long for its column gets more lines, so that all fit.
    #[test]
    fn long_labels_fit() {
        let label = "an answer that is much longer than others and does not fit into one line";
        let long = Row { stderr: 1.0, low: 18.0, high: 22.0, ..held(label, 20.0) };
        for (width, shape) in [(60, PLAIN), (80, BOTH), (100, BOTH)] {
            let lines = chart("answer", &[long.clone(), held("東京", 10.0)], width, shape);
            assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains("東京 ")), "{lines:#?}");
            let shown: String = lines.iter().filter_map(|line| line.get(2..20)).collect();
            assert!(shown.contains("an answer"), "{lines:#?}");
        }
    }

    #[test]
    fn estimates_have_one() {
        let row = Row { stderr: 5.0, low: 10.2, high: 29.8, ..Row::exact("tea", 20.0) };
        let row = Row { truth: Some(10.0), ..row };
        insta::assert_snapshot!(shown("word", &[row], PLAIN), @r"
          word  true  estimate          95 %
          tea     10      20.0  10.2 to 29.8 ████████████████████┊███████████████████
        ");
    }

    #[test]
    fn both_intervals_stand_beside_each_other() {
        let noise = |low, high| Some(sotto_client::query_result::Noise { stderr: 0.0, low, high });
        let short = Row { stderr: 34.6, low: 337.6, high: 473.9, ..Row::exact("short", 400.0) };
        let long = Row { stderr: 17.3, low: 71.3, high: 140.2, ..Row::exact("long", 100.0) };
        let short = Row { noise: noise(400.0, 400.0), consistent: Some(400.0), ..short };
        let rows = [short, Row { noise: noise(100.0, 100.0), ..long }];
        insta::assert_snapshot!(shown("answer", &rows, BOTH), @r"
          answer  estimate  consistent  95 % (noise)  95 % (total)
          short        400         400    400 to 400    338 to 474 ███████████████▓▓▓░░░
          long         100                100 to 100     71 to 140 ███▓░░
        ");
        insta::assert_snapshot!(shown("statistic", &rows[..1], Shape { bars: false, ..PLAIN }), @r"
          statistic  estimate  consistent        95 %
          short           400         400  338 to 474
        ");
        assert_eq!(chart("answer", &[], 80, BOTH), ["  answer  estimate"]);
    }
}
