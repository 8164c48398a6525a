//! Axes: round numbers, and the axis of the values of a result, from zero or the lowest end to the
//! highest.

use super::super::Row;
use super::text::width;

/// About how many steps there are.
const STEPS: f64 = 5.0;

/// Maps values to pixels.
pub(in super::super) struct Axis {
    low: f64,
    high: f64,
    left: f64,
    right: f64,
}

impl Axis {
    /// Holds all rows with their intervals, and zero.
    pub(super) fn over(rows: &[Row], left: f64, right: f64) -> Self {
        let ends = rows.iter().flat_map(|row| {
            let noise = row.noise.iter().flat_map(|noise| [noise.low, noise.high]);
            [row.estimate, row.low, row.high].into_iter().chain(noise)
        });
        let ends = ends.filter(|end| end.is_finite());
        let (low, high) =
            ends.fold((0.0_f64, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, left, right }
    }

    /// Where a value is. What is beyond the axis is at its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0);
        self.left + share.clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// Round numbers along the axis, with their places.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let step = step((self.high - self.low) / STEPS);
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        // Few, unless the step is lost beside large values.
        let numbers = (0..=20).map(|at| ((self.low / step).ceil() + f64::from(at)) * step);
        let numbers = numbers.take_while(|number| *number <= self.high);
        numbers.map(|number| (self.at(number), grouped(&format!("{number:.decimals$}")))).collect()
    }

    /// The same from left to right: as many as fit beside each other within an image of this width.
    pub(super) fn ticks_across(&self, image: f64) -> Vec<(f64, String)> {
        let mut free = 0.0;
        let mut ticks = self.ticks();
        ticks.retain(|(at, text)| {
            let half = width(text, super::SMALL) / 2.0;
            let fits = at - half >= free && at + half <= image;
            free = if fits { at + half + 8.0 } else { free };
            fits
        });
        ticks
    }
}

/// 1, 2 or 5 times a power of ten, at least this much.
pub fn step(least: f64) -> f64 {
    let power = 10.0_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least);
    factor.unwrap_or(10.0) * power
}

/// `12,500`. Not minus zero.
pub fn grouped(number: &str) -> String {
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number),
    };
    let sign = if digits.chars().all(|digit| matches!(digit, '0' | '.')) { "" } else { sign };
    let (whole, fraction) = match digits.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (digits, String::new()),
    };
    let mut shown = sign.to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown + &fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(low: f64, high: f64) -> Vec<String> {
        let row = Row { low, high, ..Row::exact("a", (low + high) / 2.0) };
        let axis = Axis::over(&[row], 100.0, 700.0);
        axis.ticks_across(760.0).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(ticks(0.0, 190.0), ["0", "50", "100", "150"]);
        assert_eq!(ticks(-130.0, 400.0), ["0", "200", "400"]);
        assert_eq!(ticks(0.0, 1_234_567.0), ["0", "500,000", "1,000,000"]);
        assert_eq!(ticks(0.0, 0.037), ["0.00", "0.01", "0.02", "0.03"]);
        assert_eq!(ticks(-3.0, 0.0), ["-3", "-2", "-1", "0"]);
    }

    #[test]
    fn an_axis_may_go_up() {
        let row = Row { low: -0.3, high: 0.65, ..Row::exact("a", 0.0) };
        let ticks = Axis::over(&[row], 320.0, 0.0).ticks();
        let texts: Vec<&str> = ticks.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(texts, ["-0.2", "0.0", "0.2", "0.4", "0.6"]);
        assert!(ticks.is_sorted_by(|one, next| one.0 > next.0), "{ticks:?}");
    }

    #[test]
    fn every_value_has_a_place() {
        let axis = |low: f64, high: f64| {
            Axis::over(&[Row { low, high, ..Row::exact("a", 0.0) }], 100.0, 700.0)
        };
        assert_eq!(axis(0.0, 10.0).at(5.0), 400.0);
        assert_eq!(axis(0.0, 10.0).at(f64::INFINITY), 700.0);
        assert_eq!(axis(f64::NEG_INFINITY, 10.0).at(f64::NEG_INFINITY), 100.0);
        assert_eq!(axis(0.0, 0.0).at(0.0), 100.0);
        for (low, high) in [(-f64::MAX, f64::MAX), (0.0, f64::MIN_POSITIVE), (0.0, f64::MAX)] {
            let axis = axis(low, high);
            assert!((100.0..=700.0).contains(&axis.at(0.0)), "{low} {high}");
            assert!(axis.ticks().len() < 22);
        }
    }
}
