//! What an analyst has: the collected numbers, and the probabilities with which devices sent them.

use super::Encoding;
use crate::Error;
use crate::error::{at_least_one, in_range, rate};

/// Above this a count is not exact as a floating-point number.
const LARGEST: u64 = 1 << 53;

/// The collected numbers of one batch, and how its reports came about.
#[derive(Clone, Copy, Debug)]
pub struct Collected<'a> {
    /// The numbers. Noise of a server can make them negative.
    pub sums: &'a [i128],
    /// How many reports were summed, dummies included.
    pub reports: u64,
    /// The probabilities with which devices sent them.
    pub sampling: Rates,
    /// With which probability an interval holds the truth: 0.95 for 95 %.
    pub level: f64,
}

/// The probabilities with which a device sends something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// The probability of taking part, for every value but the default.
    pub rate: f64,
    /// The same for the default value: false, 0, no label, or the symbol `default`.
    pub default_rate: f64,
    /// The probability of sending a dummy when not taking part, whatever the value is.
    pub dummy_rate: f64,
    /// The symbol of the default value. Where the encoding is one-hot it is sent like every other
    /// symbol. Where it is labels the default is no label, every other value is one label, and the
    /// estimate of this symbol is how many devices are left.
    pub default: Option<u32>,
}

impl Rates {
    /// Every device takes part with probability `rate`, and there are no dummies.
    pub const fn all(rate: f64) -> Self {
        Self { rate, default_rate: rate, dummy_rate: 0.0, default: None }
    }

    /// The probability that a device sends something, if it takes part with probability `rate`.
    pub(super) fn sending(&self, rate: f64) -> f64 {
        rate + (1.0 - rate) * self.dummy_rate
    }

    /// Whether all devices take part with the same probability.
    pub(super) fn is_single(&self) -> bool {
        self.rate == self.default_rate
    }

    fn check(&self, encoding: Encoding) -> Result<(), Error> {
        let Self { rate: q, default_rate, dummy_rate, default } = *self;
        in_range("rate", q, q > 0.0 && q <= 1.0, "above 0 and at most 1")?;
        in_range("default_rate", default_rate, (0.0..=q).contains(&default_rate), "0 to the rate")?;
        rate("dummy_rate", dummy_rate)?;
        if let Some(symbol) = default {
            let labels = match encoding {
                Encoding::OneHot { length } | Encoding::Labels { length, .. } => length,
                Encoding::Bit | Encoding::Number { .. } | Encoding::Vector { .. } => 0,
            };
            in_range("the default", symbol.into(), symbol < labels, "one of the symbols")?;
            let sent = matches!(encoding, Encoding::OneHot { .. });
            let known = if sent { default_rate } else { self.sending(default_rate) };
            in_range(
                "default_rate",
                default_rate,
                known > 0.0,
                "above 0: nothing else says how many there are",
            )?;
        }
        if let Encoding::OneHot { .. } = encoding {
            in_range(
                "dummy_rate",
                dummy_rate,
                dummy_rate == 0.0,
                "0, as each report has a symbol",
            )?;
            let holds = self.is_single() || default.is_some();
            in_range("default_rate", default_rate, holds, "the rate, unless there is a default")?;
        }
        Ok(())
    }
}

impl Collected<'_> {
    /// Checks everything but the numbers themselves.
    pub(super) fn check(&self, encoding: Encoding) -> Result<(), Error> {
        let length = u64::from(encoding.numbers());
        at_least_one("the number of symbols", length)?;
        if let Encoding::Number { max } = encoding {
            at_least_one("max", max)?;
        }
        if let Encoding::Vector { norm_bound, .. } = encoding {
            at_least_one("the largest norm", norm_bound)?;
        }
        let found = self.sums.len();
        in_range(
            "the number of sums",
            found as f64,
            found as u64 == length,
            "that of the symbols",
        )?;
        let reports = self.reports;
        in_range("reports", reports as f64, reports <= LARGEST, "at most 2^53")?;
        self.sampling.check(encoding)
    }

    /// Checks numbers without noise: so many reports can have given them.
    pub(super) fn check_sums(&self, encoding: Encoding) -> Result<(), Error> {
        self.check(encoding)?;
        let reports = i128::from(self.reports);
        let (least, most) = match encoding {
            Encoding::Number { max } if max > 1 => (0, i128::MAX),
            Encoding::Vector { norm_bound, .. } => {
                let most = reports * i128::from(norm_bound);
                (-most, most)
            }
            _ => (0, reports),
        };
        let range = "what so many reports can add up to";
        let mut total = 0_i128;
        for sum in self.sums {
            in_range("a sum", *sum as f64, (least..=most).contains(sum), range)?;
            total = total.saturating_add(*sum);
        }
        let holds = match encoding {
            Encoding::Bit | Encoding::Number { .. } | Encoding::Vector { .. } => true,
            Encoding::OneHot { .. } => total == reports,
            Encoding::Labels { most, .. } => total <= i128::from(most) * reports,
        };
        in_range("the sum of the counts", total as f64, holds, range).map(|_| ())
    }

    /// The probability with which the holders of each symbol take part.
    pub(super) fn rates(&self, encoding: Encoding) -> impl Iterator<Item = f64> {
        let Rates { rate, default_rate, default, .. } = self.sampling;
        let sent = matches!(encoding, Encoding::OneHot { .. });
        (0..encoding.numbers())
            .map(move |symbol| if sent && default == Some(symbol) { default_rate } else { rate })
    }
}
