//! The questions that ship with the program. A story is a recipe and a population, in
//! `data/stories`.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;

/// A question, and the devices that are asked.
#[derive(Debug, Serialize)]
pub(crate) struct Story {
    /// What people type.
    pub(crate) name: &'static str,
    /// What is asked, and how, in one sentence.
    pub(crate) about: &'static str,
    /// What a row of the result is.
    #[serde(skip)]
    pub(crate) heading: &'static str,
    /// What each device has.
    #[serde(skip)]
    pub(crate) each: &'static str,
    /// What the servers and the collector will learn.
    #[serde(skip)]
    pub(crate) learned: &'static str,
    /// The recipe, without [`END`].
    #[serde(skip)]
    recipe: &'static str,
    /// Kinds of devices, and how many there are of each.
    #[serde(skip)]
    pub(super) population: &'static str,
}

/// The story if none is named.
pub(super) const DEFAULT: &str = "words";

/// The end of every recipe, which the demo replaces.
const END: &str = include_str!("../../data/stories/end.toml");

/// All of them.
pub(super) static STORIES: [Story; 7] = [
    Story {
        name: DEFAULT,
        about: "Which words are common? Devices randomize their answers.",
        heading: "word",
        each: "each holding one of 24 words",
        learned: "how many devices hold each word",
        recipe: include_str!("../../data/stories/words.toml"),
        population: include_str!("../../data/stories/words.tsv"),
    },
    Story {
        name: "needles",
        about: "Which rare faults occur? Devices with a fault answer more often than others.",
        heading: "fault",
        each: "few of which have a fault",
        learned: "how many devices have each fault",
        recipe: include_str!("../../data/stories/needles.toml"),
        population: include_str!("../../data/stories/needles.tsv"),
    },
    Story {
        name: "ages",
        about: "How old are people? Quantiles, from counts to which the servers add noise.",
        heading: "age",
        each: "each knowing the age of its owner",
        learned: "how many owners are of each age group",
        recipe: include_str!("../../data/stories/ages.toml"),
        population: include_str!("../../data/stories/ages.tsv"),
    },
    Story {
        name: "sleep",
        about: "How long do people sleep? The mean, from a sum to which the servers add noise.",
        heading: "hours",
        each: "each knowing how many hours its owner slept",
        learned: "how long all slept together and on average",
        recipe: include_str!("../../data/stories/sleep.toml"),
        population: include_str!("../../data/stories/sleep.tsv"),
    },
    Story {
        name: "apps",
        about: "Which apps are on phones, up to three on each? The servers add noise to the counts.",
        heading: "app",
        each: "each with up to three of eight apps",
        learned: "how many devices have each app",
        recipe: include_str!("../../data/stories/apps.toml"),
        population: include_str!("../../data/stories/apps.tsv"),
    },
    Story {
        name: "nearest",
        about: "Which published topic is closest to what people write? Devices compare embeddings.",
        heading: "topic",
        each: "each with the 16 numbers of an embedding",
        learned: "for how many devices each of eight published topics is the closest",
        recipe: include_str!("../../data/stories/nearest.toml"),
        population: include_str!("../../data/stories/nearest.tsv"),
    },
    Story {
        name: "vectors",
        about: "When are people active? The mean of 48 numbers each; devices add the noise.",
        heading: "activity in each half hour from midnight on, mean of all devices",
        each: "each with 48 numbers: how active its owner is in each half hour of a day",
        learned: "the mean of these 48 numbers",
        recipe: include_str!("../../data/stories/vectors.toml"),
        population: include_str!("../../data/stories/vectors.tsv"),
    },
];

impl Story {
    /// The recipe.
    pub(super) fn recipe(&self) -> String {
        format!("{}{END}", self.recipe)
    }
}

/// A parser of the names.
pub(super) fn parser() -> impl TypedValueParser<Value = &'static Story> {
    let names = STORIES.iter().map(|story| story.name);
    PossibleValuesParser::new(names).try_map(|name| {
        STORIES.iter().find(|story| story.name == name).ok_or("there is no such story")
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sotto_dp::mechanism::Value as Answer;

    use super::*;
    use crate::demo::population::Population;
    use crate::demo::question::{Question, story};
    use crate::demo::truth;

    const DEVICES: u32 = 500;

    fn story_of(name: &str) -> &'static Story {
        STORIES.iter().find(|story| story.name == name).unwrap()
    }

    fn asked(name: &str) -> (Question, Vec<&'static str>) {
        let found = story_of(name);
        let question = story(found, DEVICES, 7).unwrap();
        let kinds = Population::parse(found.population).unwrap();
        let lines = question.held.iter().map(|kind| kinds.kinds()[*kind as usize]).collect();
        (question, lines)
    }

    /// The number of lines for which this holds.
    fn count(lines: &[&str], holds: impl Fn(&str) -> bool) -> f64 {
        lines.iter().filter(|line| holds(line)).count() as f64
    }

    #[test]
    fn names_are_distinct_and_sentences_end() {
        let names: BTreeSet<&str> = STORIES.iter().map(|story| story.name).collect();
        assert_eq!(names.len(), STORIES.len());
        assert!(STORIES.iter().all(|story| story.about.ends_with('.')));
    }

    /// No device counts as the fallback, all are asked, and every label is somebody's answer.
    #[test]
    fn every_device_has_an_answer_and_every_answer_a_device() {
        for one in &STORIES {
            let question = story(one, DEVICES, 7).unwrap();
            assert_eq!(question.held.len(), DEVICES as usize, "{}", one.name);
            let mut given = BTreeSet::new();
            for kind in &question.kinds {
                assert_eq!(question.assessment.fallback_reason(kind), None, "{}", one.name);
                match question.assessment.answer(kind) {
                    Answer::OneHot(bucket) => given.extend([bucket]),
                    Answer::Labels(labels) => given.extend(labels),
                    Answer::Bit(_) | Answer::Number(_) => given.extend([0]),
                    Answer::Vector(numbers) => given.extend(0..numbers.len() as u32),
                }
            }
            assert_eq!(given.len(), question.labels.len(), "{}", one.name);
        }
    }

    /// The demo of plain DAP sends the kind of a device as its bucket.
    #[test]
    fn a_word_is_a_bucket() {
        let (question, lines) = asked(DEFAULT);
        for (bucket, kind) in (0..).zip(&question.kinds) {
            assert_eq!(question.assessment.answer(kind), Answer::OneHot(bucket));
        }
        let truth = question.labels.iter().map(|word| count(&lines, |line| line == word));
        assert_eq!(truth::buckets(&question), truth.collect::<Vec<_>>());
        assert!(truth::statistics(&question).is_empty());
    }

    #[test]
    fn the_true_needles_are_those_that_devices_hold() {
        let (question, lines) = asked("needles");
        let fault = |line: &str| line.split(',').next().unwrap().to_owned();
        let truth = question.labels.iter().map(|label| count(&lines, |line| fault(line) == *label));
        assert_eq!(truth::buckets(&question), truth.collect::<Vec<_>>());
        assert!(truth::buckets(&question)[0] > 400.0, "most devices have no fault");
        let sampling = question.draft.sampling;
        let rate = |line: &&str| match (fault(line).as_str(), sampling.default_rate) {
            ("none", Some(rate)) => rate.to_f64(),
            _ => sampling.rate.to_f64(),
        };
        let expected: f64 = lines.iter().map(rate).sum();
        assert!((question.expected() - expected).abs() < 1e-9, "{expected}");
    }

    #[test]
    fn the_true_quantiles_are_those_of_the_ages() {
        let (question, lines) = asked("ages");
        let mut ages: Vec<f64> = lines.iter().map(|line| line.parse().unwrap()).collect();
        ages.sort_by(f64::total_cmp);
        // The 50th, 125th, ... of 500.
        let truth = [49, 124, 249, 374, 449].map(|at| ages[at]);
        assert_eq!(truth::statistics(&question), truth);
        let (first, last) =
            (truth::buckets(&question)[0], *truth::buckets(&question).last().unwrap());
        assert_eq!(first, count(&lines, |age| age.parse::<i64>().unwrap() < 10));
        assert_eq!(last, count(&lines, |age| age.parse::<i64>().unwrap() >= 80));
    }

    #[test]
    fn the_true_mean_is_that_of_the_hours() {
        let (question, lines) = asked("sleep");
        let hours = |line: &&str| line.parse::<f64>().unwrap().min(12.0);
        let sum: f64 = lines.iter().map(hours).sum();
        assert_eq!(truth::buckets(&question), [sum]);
        assert_eq!(truth::statistics(&question), [500.0, sum / 500.0]);
    }

    /// No vector is clipped.
    #[test]
    fn the_true_vector_is_the_mean_of_those_that_devices_hold() {
        let (question, lines) = asked("vectors");
        let mut sum = vec![0.0; 48];
        for line in &lines {
            let numbers: Vec<f64> = line.split(';').map(|one| one.parse().unwrap()).collect();
            assert!(numbers.iter().map(|one| one * one).sum::<f64>() <= 1.0);
            sum.iter_mut().zip(numbers).for_each(|(sum, one)| *sum += one);
        }
        for (found, sum) in truth::buckets(&question).iter().zip(&sum) {
            assert!((found - sum / 500.0).abs() < 1e-12);
        }
        assert_eq!(truth::statistics(&question)[0], 500.0);
    }

    /// Each topic has three embeddings, which are close to it.
    #[test]
    fn the_true_topics_are_the_closest_ones() {
        let (question, lines) = asked("nearest");
        let kinds: Vec<&str> =
            Population::parse(story_of("nearest").population).unwrap().kinds().to_vec();
        let truth = kinds.chunks(3).map(|topic| count(&lines, |line| topic.contains(&line)));
        assert_eq!(truth::buckets(&question), truth.collect::<Vec<_>>());
    }

    #[test]
    fn the_true_apps_are_those_on_the_phones() {
        let (question, lines) = asked("apps");
        let has = |line: &str, app: &str| line.split(';').any(|one| one == app);
        let truth = question.labels.iter().map(|app| count(&lines, |line| has(line, app)));
        assert_eq!(truth::buckets(&question), truth.collect::<Vec<_>>());
    }
}
