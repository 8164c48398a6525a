//! The measurements of the devices in a benchmark, and the expected result.

use anyhow::{Result, ensure};
use sotto_crypto::hpke::Suite;
use sotto_vdaf::Measurement;

/// A kind of task with the measurements of its devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Prio3Count.
    Count,
    /// Prio3Histogram with 256 buckets.
    Histogram256,
    /// Prio3SumVec of 1000 elements of one bit.
    SumVec1000,
}

impl Workload {
    /// Its name in tables and file names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Count => "Prio3Count",
            Self::Histogram256 => "Prio3Histogram-256",
            Self::SumVec1000 => "Prio3SumVec-1x1000",
        }
    }

    /// The options of `sotto task new`.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Self::Count => &["--vdaf", "count"],
            Self::Histogram256 => &["--vdaf", "histogram", "--length", "256"],
            Self::SumVec1000 => {
                &["--vdaf", "sum-vec", "--length", "1000", "--max-measurement", "1"]
            }
        }
    }

    /// The measurement of device `index`.
    pub(crate) fn measurement(self, index: u64) -> Measurement {
        match self {
            Self::Count => Measurement::Count(index.is_multiple_of(3)),
            Self::Histogram256 => Measurement::Histogram((index.wrapping_mul(97) % 256) as u32),
            Self::SumVec1000 => Measurement::SumVec((0..1000).map(|at| bit(index, at)).collect()),
        }
    }

    /// The sum over the devices `0..count`, one number per element.
    pub(crate) fn expected(self, count: u64) -> Vec<i128> {
        let mut sums = vec![
            0_i128;
            match self {
                Self::Count => 1,
                Self::Histogram256 => 256,
                Self::SumVec1000 => 1000,
            }
        ];
        for index in 0..count {
            match self {
                Self::Count => sums[0] += i128::from(index.is_multiple_of(3)),
                Self::Histogram256 => sums[(index.wrapping_mul(97) % 256) as usize] += 1,
                Self::SumVec1000 => {
                    for (at, sum) in sums.iter_mut().enumerate() {
                        *sum += i128::from(bit(index, at as u64));
                    }
                }
            }
        }
        sums
    }

    /// Compares a collected sum with the expected one.
    pub(crate) fn check(self, count: u64, sum: &[i128]) -> Result<()> {
        ensure!(self.expected(count) == sum, "the result is wrong");
        Ok(())
    }

    /// CPU microseconds per report of the best-known peer (leader, helper and their databases
    /// together), if it was measured on the same kind of machine. See docs/performance.md.
    pub(crate) fn peer_cpu_us(self) -> Option<f64> {
        match self {
            Self::Count => Some(944.0),
            Self::Histogram256 => Some(1128.0),
            Self::SumVec1000 => Some(2505.0),
        }
    }
}

fn bit(index: u64, at: u64) -> u64 {
    u64::from((index + at * 13).is_multiple_of(7))
}

/// The name of a suite, in tables and for `sotto keys new`.
pub(crate) fn suite_name(suite: Suite) -> &'static str {
    match suite {
        Suite::X25519 => "x25519",
        Suite::Hybrid => "hybrid",
    }
}
