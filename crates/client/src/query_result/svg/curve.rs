//! A vector as a curve over its coordinates, with bands for the intervals.

use std::fmt::Write;

use super::axis::Axis;
use super::{Image, MARGIN, Row, SMALL, WIDTH};
use crate::query_result::Coordinates;

/// How high the curve is.
const HEIGHT: f64 = 320.0;

/// Of more coordinates several that follow each other are one point.
pub(super) const MOST_POINTS: usize = 700;

/// About how many indices are written below the curve.
const INDICES: usize = 8;

impl Image {
    pub(super) fn curve(&mut self, coordinates: &Coordinates) {
        let rows = coordinates.binned(MOST_POINTS);
        self.y += 16.0;
        let (top, bottom) = (self.y, self.y + HEIGHT);
        // Values go up, pixels down.
        let values = Axis::over(&rows, bottom, top);
        let ticks = values.ticks();
        let widest = ticks.iter().map(|(_, text)| super::width(text, SMALL)).fold(0.0, f64::max);
        let (left, right) = (MARGIN + widest + 8.0, WIDTH - MARGIN);
        for (y, text) in &ticks {
            let attributes = "class=\"muted\" font-size=\"11\" text-anchor=\"end\"";
            self.put(left - 6.0, y + 4.0, attributes, text);
            self.line("grid", 1.0, (left, *y), (right, *y));
        }
        let across = (right - left) / rows.len().saturating_sub(1).max(1) as f64;
        let at = |index: usize| left + across * index as f64;
        let ends = |ends: fn(&Row) -> (f64, f64)| {
            let high = rows.iter().enumerate().map(|(at, row)| (at, ends(row).1));
            let low = rows.iter().enumerate().rev().map(|(at, row)| (at, ends(row).0));
            high.chain(low).collect::<Vec<_>>()
        };
        let points = |ends: &[(usize, f64)]| {
            let mut points = String::new();
            for (index, value) in ends {
                // Writing to a string cannot fail.
                let _ = write!(points, "{:.1},{:.1} ", at(*index), values.at(*value));
            }
            points
        };
        let total = points(&ends(|row| (row.low, row.high)));
        self.add(format_args!("<polygon class=\"band\" points=\"{}\"/>\n", total.trim_end()));
        let noise = points(&ends(|row| {
            row.noise.map_or((row.estimate, row.estimate), |it| (it.low, it.high))
        }));
        self.add(format_args!("<polygon class=\"inner\" points=\"{}\"/>\n", noise.trim_end()));
        let estimates: Vec<_> = rows.iter().map(|row| row.estimate).enumerate().collect();
        let curve = points(&estimates);
        self.add(format_args!("<polyline class=\"curve\" points=\"{}\"/>\n", curve.trim_end()));
        let zero = values.at(0.0);
        self.line("zero", 1.0, (left, zero), (right, zero));
        let step = rows.len().div_ceil(INDICES).max(1);
        for (index, row) in rows.iter().enumerate().step_by(step) {
            let attributes = "class=\"muted\" font-size=\"11\" text-anchor=\"middle\"";
            self.put(at(index), bottom + 16.0, attributes, &row.label);
        }
        self.y = bottom + 28.0;
    }
}
