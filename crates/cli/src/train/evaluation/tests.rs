use sotto_protocol::Moment;
use sotto_wire::recipe::Probability;

use super::super::step::StepArgs;
use super::super::story::{At, Changes, ModelName, Name, Split, Story};
use super::*;

#[derive(clap::Parser)]
struct Steps {
    #[command(flatten)]
    step: StepArgs,
}

/// Evaluations after every so many of five rounds.
fn evaluations(every: u32) -> Result<Evaluations> {
    let step = <Steps as clap::Parser>::parse_from(["test"]).step;
    let story = Story::new(
        Name::Digits,
        &Changes {
            data: None,
            devices: Some(60),
            rounds: Some(5),
            rate: Probability::new(1, 2).ok(),
            sigma_micro: None,
            model: ModelName::Softmax,
            split: Split::OneEach,
            step: &step,
            seed: 1,
        },
    )?;
    let models = "https://models.example".to_owned();
    let at = At { author: None, parties: None, models, now: Moment(1_800_000_000) };
    Evaluations::new(story.evaluation(&at, every, 2_000_000)?, every)
}

#[test]
fn an_evaluation_is_due_after_every_so_many_rounds_and_never_beyond_its_series() {
    let due = |every| {
        let evaluations = evaluations(every).unwrap();
        (0..8).map(|rounds| evaluations.due(rounds)).collect::<Vec<_>>()
    };
    let none = None;
    assert_eq!(due(1), [none, Some(0), Some(1), Some(2), Some(3), Some(4), none, none]);
    assert_eq!(due(2), [none, none, Some(0), none, Some(1), none, none, none]);
    assert_eq!(due(5), [none, none, none, none, none, Some(0), none, none]);
    assert!(
        evaluations(6).is_err() && Evaluations::new(evaluations(1).unwrap().header, 0).is_err()
    );
}

#[test]
fn sums_mean_what_the_recipe_says() {
    let evaluations = evaluations(1).unwrap();
    // A clip of 1 is 2^15 units, and both numbers together are at most as long.
    let max = evaluations.scale.max;
    assert_eq!((evaluations.scale.largest_loss, max), (4.0, 23_170));
    let sums = [10 * max, 30 * max].map(|sum| i64::try_from(sum).unwrap());
    let Estimates { reports, found } = evaluations.found(40, &sums).unwrap();
    assert_eq!((reports, found.loss.value, found.accuracy.value), (40, 1.0, 0.75));
    // Sigma 2 of each of two servers, in units of the clip: 2 sigma/n in the accuracy.
    assert!((found.accuracy.noise / (2.0 * 2.0 / 40.0) - 1.0).abs() < 1e-4, "{found:?}");
    assert!(evaluations.found(40, &[1]).is_err() && evaluations.found(0, &sums).is_err());
}

/// Only what is there without servers: nothing of another series is taken for one's own.
#[test]
fn a_stored_evaluation_of_another_series_is_refused() {
    let evaluations = evaluations(1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let read = |folder: &Path| evaluations.load(folder);
    assert_eq!(read(folder.path()).unwrap().sums.len(), 0);
    let path = folder.path().join(EVALUATIONS);
    let mut done = Done { version: VERSION, header: evaluations.header.id(), sums: Vec::new() };
    done.sums.push(Sum { index: 0, reports: 5, numbers: vec![1, -2] });
    let store = |done: &Done| fs::write(&path, serde_json::to_vec(done).unwrap()).unwrap();
    store(&done);
    assert_eq!(read(folder.path()).unwrap().sums[0].numbers, [1, -2]);
    type Change = fn(&mut Done);
    let others: [(Change, &str); 2] = [
        (|done| done.header = EntryId::of(b""), "another series"),
        (|done| done.version = 2, "version 2"),
    ];
    for (change, reason) in others {
        let mut other = done.clone();
        change(&mut other);
        store(&other);
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    fs::write(&path, b"{}").unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("damaged"));
}
