//! An axis on the image: which numbers are written, and where values are.

use sotto_client::query_result::axis::{grouped, step};
use sotto_client::query_result::text::width;

use super::{Axis, SMALL, Scale};

/// About how many steps a linear axis has.
const STEPS: f64 = 6.0;

/// More decades have a number at some of them only.
const DECADES: i32 = 10;

/// Over at most so many decades, 2 and 5 times a power have a number too.
const FEW_DECADES: i32 = 2;

/// Things that are counted are fewer: a half is seen beside them.
const MOST: f64 = 1e9;

/// An axis from one place to another, in pixels.
pub(super) struct Placed {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    pub(super) ticks: Vec<Tick>,
}

pub(super) struct Tick {
    value: f64,
    pub(super) place: f64,
    /// Markup.
    pub(super) text: String,
    /// No text is wider.
    pub(super) width: f64,
}

impl Placed {
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
    ) -> Self {
        let scale = axis.scale;
        let shown = values.chain(axis.holds.iter().copied()).filter_map(|it| scaled(scale, it));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| {
            (low.min(it), high.max(it))
        });
        let step = match scale {
            Scale::Linear | Scale::Whole if high > low => step((high - low) / STEPS),
            Scale::Linear | Scale::Whole if high == low => step(high.abs().max(1.0) / STEPS),
            _ => 1.0,
        };
        let step = if scale == Scale::Whole { step.max(1.0) } else { step };
        let (low, high) = match scale {
            _ if low > high => (0.0, 1.0),
            Scale::Whole if -MOST < low && high < MOST => (low.round() - 0.5, high.round() + 0.5),
            _ => whole(low, high, step),
        };
        let mut placed = Self { scale, low, high, from, to, ticks: Vec::new() };
        placed.ticks = match scale {
            Scale::Linear | Scale::Whole => placed.linear(step),
            Scale::Log => placed.log(),
        };
        placed
    }

    /// Where a value is, if the axis can show it.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        scaled(self.scale, value).map(|value| self.place(value))
    }

    fn place(&self, scaled: f64) -> f64 {
        let share = (scaled - self.low) / (self.high - self.low);
        self.from + share * (self.to - self.from)
    }

    fn tick(&self, value: f64, text: String, widest: f64) -> Tick {
        Tick { value, place: self.place(value), text, width: widest }
    }

    fn linear(&self, step: f64) -> Vec<Tick> {
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let first = (self.low / step - 1e-9).ceil() * step;
        let count = ((self.high - first) / step + 1e-9).floor() as u32;
        let ticks = (0..=count.min(20)).map(|at| {
            let value = first + f64::from(at) * step;
            let text = grouped(&format!("{value:.decimals$}"));
            let widest = width(&text, SMALL);
            self.tick(value, text, widest)
        });
        ticks.collect()
    }

    fn log(&self) -> Vec<Tick> {
        let (low, high) = (self.low as i32, self.high as i32);
        let every = (high - low).unsigned_abs().div_ceil(DECADES.unsigned_abs()).max(1) as usize;
        let is_plain = low >= -3 && high <= 4;
        let between: &[u32] = if is_plain && high - low <= FEW_DECADES { &[1, 2, 5] } else { &[1] };
        let decades = (low..=high).step_by(every);
        let ticks =
            decades.flat_map(|exponent| between.iter().map(move |times| (exponent, *times)));
        let ticks = ticks.map(|(exponent, times)| {
            let value = f64::from(exponent) + f64::from(times).log10();
            let decimals = usize::try_from(-exponent).unwrap_or(0);
            let plain = grouped(&format!("{:.decimals$}", 10.0_f64.powf(value)));
            match is_plain {
                true => self.tick(value, plain.clone(), width(&plain, SMALL)),
                false => {
                    let (text, widest) = power(exponent);
                    self.tick(value, text, widest)
                }
            }
        });
        ticks.filter(|tick| tick.value <= self.high + 1e-9).collect()
    }

    /// Lines between the numbers.
    pub(super) fn minor(&self) -> Vec<f64> {
        let (low, high) = (self.low as i32, self.high as i32);
        if self.scale != Scale::Log || high - low > DECADES {
            return Vec::new();
        }
        let lines = (low..high).flat_map(|exponent| {
            (2..10).map(move |times| f64::from(exponent) + f64::from(times).log10())
        });
        lines.map(|value| self.place(value)).collect()
    }

    /// Keeps the numbers that have so much room.
    pub(super) fn thin(&mut self, room: impl Fn(&Tick) -> f64) {
        let mut last: Option<(f64, f64)> = None;
        self.ticks.retain(|tick| {
            let half = room(tick) / 2.0;
            let fits =
                last.is_none_or(|(place, before)| (tick.place - place).abs() >= before + half);
            if fits {
                last = Some((tick.place, half));
            }
            fits
        });
    }
}

/// A value as its scale sees it, if it can.
fn scaled(scale: Scale, value: f64) -> Option<f64> {
    let scaled = match scale {
        Scale::Linear | Scale::Whole => value,
        Scale::Log => value.log10(),
    };
    // Far beyond what anybody draws; differences stay finite.
    (scaled.abs() < 1e300).then_some(scaled)
}

/// To whole multiples of a step.
fn whole(low: f64, high: f64, step: f64) -> (f64, f64) {
    let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
    if high > low { (low, high) } else { (low, low + step) }
}

/// `10` with an exponent above it, as markup, and its width.
fn power(exponent: i32) -> (String, f64) {
    match exponent {
        0 => ("1".to_owned(), width("1", SMALL)),
        1 => ("10".to_owned(), width("10", SMALL)),
        _ => {
            let sign = if exponent < 0 { "\u{2212}" } else { "" };
            let text =
                format!("10<tspan dy=\"-4\" font-size=\"9\">{sign}{}</tspan>", exponent.abs());
            (text, width("10", SMALL) + width(&exponent.abs().to_string(), 9.0) + width("+", 9.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(scale: Scale, values: &[f64]) -> Placed {
        let axis = Axis { scale, ..Axis::default() };
        Placed::new(&axis, values.iter().copied(), (0.0, 600.0))
    }

    fn texts(scale: Scale, values: &[f64]) -> Vec<String> {
        placed(scale, values).ticks.into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(texts(Scale::Linear, &[0.0, 100.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(texts(Scale::Linear, &[3.0, 3.0]), ["3.0", "3.5"]);
        assert_eq!(texts(Scale::Whole, &[1.0, 3.2]), ["1", "2", "3"]);
        assert_eq!(texts(Scale::Whole, &[2.0]), ["2"]);
        assert_eq!(texts(Scale::Whole, &[1.0, 20.0]), ["5", "10", "15", "20"]);
        assert_eq!(texts(Scale::Log, &[0.3, 9.0]), ["0.1", "0.2", "0.5", "1", "2", "5", "10"]);
        assert_eq!(texts(Scale::Log, &[2.0, 3_000.0]), ["1", "10", "100", "1,000", "10,000"]);
        let powers = texts(Scale::Log, &[1e-5, 1.0]);
        assert_eq!(
            powers.first().map(String::as_str),
            Some("10<tspan dy=\"-4\" font-size=\"9\">\u{2212}5</tspan>")
        );
        assert_eq!(powers.last().map(String::as_str), Some("1"));
    }

    #[test]
    fn every_value_has_a_place_or_none() {
        let axis = placed(Scale::Log, &[1.0, 100.0]);
        assert_eq!(axis.at(10.0), Some(300.0));
        assert!([0.0, -1.0, f64::NAN, f64::INFINITY].iter().all(|it| axis.at(*it).is_none()));
        for values in
            [&[f64::MIN_POSITIVE, 1e300][..], &[-1e299, 1e299], &[0.0, 0.0], &[1e17, 1e17]]
        {
            for scale in [Scale::Linear, Scale::Whole, Scale::Log] {
                let axis = placed(scale, values);
                assert!(axis.ticks.len() < 40 && axis.minor().len() < 100, "{values:?}");
                let places = values.iter().filter_map(|it| axis.at(*it));
                assert!(places.into_iter().all(|at| (-0.1..=600.1).contains(&at)), "{values:?}");
            }
        }
    }
}
