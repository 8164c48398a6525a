//! Where measurements come from: the command line or lines of a file.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use sotto_vdaf::{Measurement, VdafConfig};

/// Measurements, one after the other. A file is never read into memory as a whole.
pub(crate) struct Source {
    config: VdafConfig,
    texts: Box<dyn Iterator<Item = io::Result<String>> + Send>,
    count: Option<u64>,
    number: u64,
}

impl Source {
    /// The values of `--measurement`.
    pub(crate) fn values(config: VdafConfig, values: Vec<String>) -> Self {
        let count = Some(values.len() as u64);
        let texts = Box::new(values.into_iter().map(Ok));
        Self { config, texts, count, number: 0 }
    }

    /// The lines of a file, empty ones left out; `-` is stdin.
    pub(crate) fn lines(config: VdafConfig, path: &Path) -> Result<Self> {
        let reader: Box<dyn BufRead + Send> = if path == Path::new("-") {
            Box::new(BufReader::new(io::stdin()))
        } else {
            let file =
                File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Box::new(BufReader::new(file))
        };
        let is_text =
            |line: &io::Result<String>| !matches!(line, Ok(line) if line.trim().is_empty());
        Ok(Self { config, texts: Box::new(reader.lines().filter(is_text)), count: None, number: 0 })
    }

    /// How many there are, if that is known.
    pub(crate) fn expected(&self) -> Option<u64> {
        self.count
    }

    fn parse(&self, text: &str) -> Result<Measurement> {
        let text = text.trim();
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        // The message must not quote the value, which is the secret that all of this protects.
        Measurement::parse(&self.config, &value)
            .with_context(|| format!("measurement {}", self.number))
    }
}

impl Iterator for Source {
    type Item = Result<Measurement>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.texts.next()?;
        self.number += 1;
        Some(text.context("cannot read measurements").and_then(|text| self.parse(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(config: VdafConfig, texts: &[&str]) -> Vec<Result<Measurement>> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Source::values(config, texts).collect()
    }

    #[test]
    fn values_follow_the_vdaf() {
        let good: Vec<(VdafConfig, &str, Measurement)> = vec![
            (VdafConfig::count(), "true", Measurement::Count(true)),
            (VdafConfig::count(), "0", Measurement::Count(false)),
            (VdafConfig::sum(9), "7", Measurement::Sum(7)),
            (VdafConfig::histogram(4), " 3 ", Measurement::Histogram(3)),
            (VdafConfig::sum_vec(2, 5), "[1, 5]", Measurement::SumVec(vec![1, 5])),
            (
                VdafConfig::multihot_count_vec(3, 2),
                "[true,false,1]",
                Measurement::MultihotCountVec(vec![true, false, true]),
            ),
            (VdafConfig::l1_bound_sum(2, 5), "[\"2\", 3]", Measurement::L1BoundSum(vec![2, 3])),
        ];
        for (config, text, expected) in good {
            let measurements = parsed(config, &[text]);
            assert!(matches!(&measurements[..], [Ok(m)] if *m == expected), "{text}");
        }
    }

    #[test]
    fn errors_name_the_place_and_not_the_value() {
        let measurements = parsed(VdafConfig::histogram(4), &["1", "77123", "abc"]);
        for (index, shown) in [(1, "77123"), (2, "abc")] {
            let error = format!("{:#}", measurements[index].as_ref().unwrap_err());
            assert!(error.starts_with(&format!("measurement {}", index + 1)), "{error}");
            assert!(!error.contains(shown), "{error}");
        }
    }

    #[test]
    fn lines_skip_empty_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        std::fs::write(&path, "1\n\n  \n2\n").unwrap();
        let source = Source::lines(VdafConfig::sum(9), &path).unwrap();
        assert_eq!(
            source.map(Result::unwrap).collect::<Vec<_>>(),
            [Measurement::Sum(1), Measurement::Sum(2)]
        );
    }
}
