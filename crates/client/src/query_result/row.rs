//! One number of a result, with its uncertainty.

use serde::{Deserialize, Serialize};
use sotto_dp::mechanism::{Estimate, Ranged};

use super::json;

/// No sum of numbers below 2^64 over 2^64 devices is above this.
const MOST: f64 = 1e39;

/// One number of a result: how many devices are in a bucket, a sum, a mean, a quantile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Form", try_from = "Form")]
pub struct Row {
    /// The name of the bucket, or what the number is.
    pub label: String,
    /// What it really is: known to a simulation, which plays every part.
    pub truth: Option<f64>,
    /// The unbiased estimate for all devices. It may be negative.
    pub estimate: f64,
    /// Its standard error, from noise and sampling together.
    pub stderr: f64,
    /// The low end of the total interval, from noise and sampling together. Minus infinity if there
    /// is none.
    pub low: f64,
    /// Its high end.
    pub high: f64,
    /// The uncertainty from the noise alone; `None` for exact values.
    pub noise: Option<Noise>,
    /// For quantiles: which one.
    pub quantile: Option<f64>,
    /// The consistent estimate, if it was asked for.
    pub consistent: Option<f64>,
}

/// The uncertainty from the noise alone, given who took part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The standard error.
    pub stderr: f64,
    /// The low end of the interval.
    pub low: f64,
    /// Its high end.
    pub high: f64,
}

impl Row {
    /// A number that is known exactly.
    pub fn exact(label: impl Into<String>, value: f64) -> Self {
        Self {
            label: label.into(),
            truth: None,
            estimate: value,
            stderr: 0.0,
            low: value,
            high: value,
            noise: None,
            quantile: None,
            consistent: None,
        }
    }

    /// A number that is estimated. The total interval holds the noise interval: where few devices
    /// are counted, it uses that a count cannot be negative, and would end before the other.
    pub fn estimated(label: impl Into<String>, estimate: &Estimate) -> Self {
        let Estimate { noise_error: stderr, noise_low: low, noise_high: high, .. } = *estimate;
        Self {
            stderr: estimate.total_error,
            low: estimate.total_low.min(low),
            high: estimate.total_high.max(high),
            noise: Some(Noise { stderr, low, high }),
            ..Self::exact(label, estimate.value)
        }
    }

    /// A number of this row for people: with as many decimals as its error leaves, so that two digits
    /// of the error are seen, or none if the error has more.
    pub fn text(&self, value: f64) -> String {
        let whole = value.fract() == 0.0;
        let decimals = match self.stderr {
            error if error > 0.0 => (1.0 - error.log10().floor()).clamp(0.0, 9.0) as usize,
            _ if whole => 0,
            _ => 3,
        };
        let text = format!("{value:.decimals$}");
        let is_zero = text.trim_start_matches(['-', '0', '.']).is_empty();
        if is_zero { text.trim_start_matches('-').to_owned() } else { text }
    }

    /// An interval of this row for people, like `113 to 190`. An end that there is not is left out.
    pub fn interval_text(&self, low: f64, high: f64) -> String {
        match (low.is_finite(), high.is_finite()) {
            (true, true) => format!("{} to {}", self.text(low), self.text(high)),
            (true, false) => format!("{} or more", self.text(low)),
            (false, true) => format!("{} or less", self.text(high)),
            (false, false) => "anything".to_owned(),
        }
    }

    /// The estimate with its total interval.
    pub fn ranged(&self) -> Ranged {
        Ranged { value: self.estimate, low: self.low, high: self.high }
    }
}

/// The row in JSON. An end of an interval that there is not is null, or absent for the noise.
#[derive(Serialize, Deserialize)]
struct Form {
    #[serde(deserialize_with = "json::visible")]
    label: String,
    #[serde(
        rename = "true",
        default,
        with = "json::optional",
        skip_serializing_if = "Option::is_none"
    )]
    truth: Option<f64>,
    #[serde(with = "json::number")]
    estimate: f64,
    #[serde(with = "json::number")]
    stderr: f64,
    #[serde(with = "json::optional")]
    lo95: Option<f64>,
    #[serde(with = "json::optional")]
    hi95: Option<f64>,
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    noise_stderr: Option<f64>,
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    noise_lo95: Option<f64>,
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    noise_hi95: Option<f64>,
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    quantile: Option<f64>,
    #[serde(default, with = "json::optional", skip_serializing_if = "Option::is_none")]
    consistent: Option<f64>,
}

impl From<Row> for Form {
    fn from(row: Row) -> Self {
        let finite = |end: f64| end.is_finite().then_some(end);
        Self {
            label: row.label,
            truth: row.truth,
            estimate: row.estimate,
            stderr: row.stderr,
            lo95: finite(row.low),
            hi95: finite(row.high),
            noise_stderr: row.noise.map(|noise| noise.stderr),
            noise_lo95: row.noise.and_then(|noise| finite(noise.low)),
            noise_hi95: row.noise.and_then(|noise| finite(noise.high)),
            quantile: row.quantile,
            consistent: row.consistent,
        }
    }
}

impl TryFrom<Form> for Row {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        let row = Self {
            label: form.label,
            truth: form.truth,
            estimate: form.estimate,
            stderr: form.stderr,
            low: form.lo95.unwrap_or(f64::NEG_INFINITY),
            high: form.hi95.unwrap_or(f64::INFINITY),
            noise: form.noise_stderr.map(|stderr| Noise {
                stderr,
                low: form.noise_lo95.unwrap_or(f64::NEG_INFINITY),
                high: form.noise_hi95.unwrap_or(f64::INFINITY),
            }),
            quantile: form.quantile,
            consistent: form.consistent,
        };
        let holds = |low: f64, high: f64| low <= row.estimate && row.estimate <= high;
        let noise_holds =
            row.noise.is_none_or(|noise| noise.stderr >= 0.0 && holds(noise.low, noise.high));
        if !(row.estimate.abs() <= MOST && row.stderr <= MOST) {
            return Err(format!("the estimate of `{}` is beyond all sums", row.label));
        }
        if row.stderr >= 0.0 && holds(row.low, row.high) && noise_holds {
            return Ok(row);
        }
        Err(format!(
            "the estimate of `{}` is not in its intervals, or an error is negative",
            row.label
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_interval_holds_the_noise_interval() {
        let estimate = Estimate {
            value: -6.0,
            noise_error: 14.0,
            noise_low: -20.0,
            noise_high: 8.0,
            total_error: 15.0,
            total_low: -6.0,
            total_high: 29.0,
        };
        let row = Row::estimated("fault", &estimate);
        assert_eq!((row.low, row.high), (-20.0, 29.0));
        assert_eq!(row.noise, Some(Noise { stderr: 14.0, low: -20.0, high: 8.0 }));
        let wide = Row::estimated("fault", &Estimate { total_low: -30.0, ..estimate });
        assert_eq!((wide.low, wide.high), (-30.0, 29.0));
    }
}
