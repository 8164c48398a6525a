//! A vector on a terminal: a curve over its coordinates, with the interval around it.

use sotto_client::query_result::{Coordinates, Row};

use crate::output::columns;

/// How many lines the curve has.
const LINES: usize = 14;

/// No coordinate is wider than this.
const WIDEST: usize = 3;

/// What the marks mean.
pub(crate) const LEGEND: &str =
    "● estimate, ░ its 95 % interval from noise and sampling, ▒ from the noise alone";

/// The same where the true values are known.
pub(crate) const LEGEND_WITH_TRUTH: &str = "● estimate, ○ true value where another, ░ 95 % interval \
                                            from noise and sampling, ▒ from the noise alone";

/// The curve within this width. Where there is no room for each coordinate, a mark stands for the
/// mean of several that follow each other.
pub(crate) fn plot(coordinates: &Coordinates, width: usize) -> Vec<String> {
    let widest = coordinates.rows().map(|row| scale_text(row.estimate).len()).max().unwrap_or(0);
    let room = width.saturating_sub(widest + 5).max(8);
    let rows = coordinates.binned(room);
    let cells = (room / rows.len().max(1)).clamp(1, WIDEST);
    let scale = Scale::over(&rows);
    let labels: Vec<String> = (0..LINES).map(|line| scale.label(line)).collect();
    let left = labels.iter().map(|label| columns(label)).max().unwrap_or(0);
    let curve = labels.iter().enumerate().map(|(line, label)| {
        let marks = rows.iter().map(|row| scale.mark(row, line).to_string().repeat(cells));
        let marks: String = marks.collect();
        format!("  {label:>left$} ┤{}", marks.trim_end())
    });
    let axis = format!("  {:left$} └{}", "", "─".repeat(rows.len() * cells));
    let below = format!("  {:left$}  {}", "", indices(&rows, cells));
    curve.chain([axis, below.trim_end().to_owned()]).collect()
}

/// The values of the lines, from the highest to the lowest.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// Holds zero, the estimates and true values, and the intervals as far as they are not much
    /// longer than these.
    fn over(rows: &[Row]) -> Self {
        let finite = |ends: &mut dyn Iterator<Item = f64>| {
            ends.filter(|end| end.is_finite())
                .fold((0.0_f64, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)))
        };
        let values = &mut rows.iter().flat_map(|row| [Some(row.estimate), row.truth]).flatten();
        let (low, high) = finite(values);
        let far = (high - low).max(f64::MIN_POSITIVE);
        let (lowest, highest) = finite(&mut rows.iter().flat_map(|row| [row.low, row.high]));
        Self { low: lowest.max(low - far), high: highest.min(high + far).max(low + far) }
    }

    /// The line of a value; the first or the last if it is beyond.
    fn line(&self, value: f64) -> usize {
        let part = (self.high - value) / (self.high - self.low);
        (part.clamp(0.0, 1.0) * (LINES - 1) as f64).round() as usize
    }

    fn mark(&self, row: &Row, line: usize) -> char {
        let within = |low: f64, high: f64| (self.line(high)..=self.line(low)).contains(&line);
        match row {
            _ if line == self.line(row.estimate) => '●',
            Row { truth: Some(truth), .. } if line == self.line(*truth) => '○',
            Row { noise: Some(noise), .. }
                if noise.low < noise.high && within(noise.low, noise.high) =>
            {
                '▒'
            }
            _ if row.low < row.high && within(row.low, row.high) => '░',
            _ if line == self.line(0.0) => '·',
            _ => ' ',
        }
    }

    /// The value of every third line, and zero.
    fn label(&self, line: usize) -> String {
        let zero = self.line(0.0);
        if line == zero {
            return "0".to_owned();
        }
        if !line.abs_diff(zero).is_multiple_of(3) {
            return String::new();
        }
        let step = (self.high - self.low) / (LINES - 1) as f64;
        scale_text(self.high - step * line as f64)
    }
}

/// Three digits.
fn scale_text(value: f64) -> String {
    let decimals = match value.abs() {
        size if size > 0.0 => (2.0 - size.log10().floor()).clamp(0.0, 9.0) as usize,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// The index of about every tenth mark.
fn indices(rows: &[Row], cells: usize) -> String {
    let mut line = String::new();
    for (at, row) in rows.iter().enumerate() {
        let column = at * cells;
        if column >= line.len() + usize::from(at > 0) && column.is_multiple_of(12) {
            line = format!("{line:column$}{}", row.label);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(length: usize, truths: bool) -> Coordinates {
        let estimates: Vec<f64> = (0..length)
            .map(|at| (at as f64 / length as f64 * std::f64::consts::TAU).sin() * 2.0)
            .collect();
        let moved = |by: f64| estimates.iter().map(|one| one + by).collect::<Vec<_>>();
        Coordinates {
            truths: if truths { moved(0.5) } else { Vec::new() },
            errors: vec![0.25; length],
            lows: moved(-0.5),
            highs: moved(0.5),
            noise_errors: vec![0.1; length],
            noise_lows: moved(-0.2),
            noise_highs: moved(0.2),
            rms_error: 0.2,
            estimates,
        }
    }

    #[test]
    fn a_wave_is_seen() {
        insta::assert_snapshot!(plot(&wave(36, true), 60).join("\n"));
    }

    /// However many coordinates there are, and however wide the terminal is.
    #[test]
    fn all_vectors_fit() {
        for (length, width) in [(1, 40), (2, 80), (48, 80), (1_000, 80), (100_000, 100), (5, 10)] {
            let lines = plot(&wave(length, false), width);
            assert_eq!(lines.len(), LINES + 2);
            assert!(lines.iter().all(|line| columns(line) <= width.max(24)), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains('●')), "{lines:#?}");
        }
        // Nothing but zeros, and no end of an interval.
        let flat = Coordinates {
            lows: vec![f64::NEG_INFINITY; 3],
            highs: vec![f64::INFINITY; 3],
            estimates: vec![0.0; 3],
            ..wave(3, false)
        };
        assert_eq!(plot(&flat, 40).len(), LINES + 2);
    }
}
