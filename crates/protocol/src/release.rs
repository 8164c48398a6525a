//! When a batch may be released, beside the minimum batch size. Leader and helper apply the same
//! rules, each to its own count and timestamps.

use sotto_wire::recipe::Recipe;
use sotto_wire::{Interval, ProblemType};

use crate::recipe::windows::{GRACE_S, RateRule};
use crate::{Abort, AggregatorTask, BucketAggregate, Fault, Moment};

/// The rules of a task. By default there are none, as for plain DAP tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseRules {
    /// The longest time, in seconds, that the reports of one release may cover.
    pub max_window_s: Option<u64>,
    /// The most reports in a given time.
    pub rate: Option<RateRule>,
    /// How long after the end of its interval a batch is released, in seconds. `None`: at any time.
    ///
    /// Who sees when a batch gets its last report, and who has just sent something, would know who
    /// answered.
    pub grace_s: Option<u64>,
}

impl ReleaseRules {
    /// The rules of a recipe. `certified` is its audience, if both aggregators have certified it.
    pub fn of(recipe: &Recipe, certified: Option<u64>) -> Self {
        let rate = certified.map(|audience| RateRule::new(recipe, audience));
        Self { max_window_s: Some(recipe.when.max_window_s), rate, grace_s: Some(GRACE_S) }
    }
}

/// Checks a batch that has reached the minimum batch size. A smaller one must be refused before:
/// nothing that depends on its reports may leave.
pub(crate) fn check_batch(
    task: &AggregatorTask,
    batch: &BucketAggregate,
) -> Result<Result<(), Abort>, Fault> {
    let interval = batch.interval()?;
    Ok(check_window(task, interval).and_then(|()| check_rate(task, interval, batch.count)))
}

/// A release must not cover more time than the task allows.
pub(crate) fn check_window(task: &AggregatorTask, interval: Interval) -> Result<(), Abort> {
    let length_s = length_s(task, interval);
    match task.release.max_window_s {
        Some(longest) if length_s > longest => Err(Abort::new(
            ProblemType::BatchInvalid,
            format!("The batch covers {length_s} s, more than the {longest} s of the recipe."),
        )),
        _ => Ok(()),
    }
}

/// A release must not hold many more reports than the audience would send in the time it covers.
fn check_rate(task: &AggregatorTask, interval: Interval, count: u64) -> Result<(), Abort> {
    let length_s = length_s(task, interval);
    let most = task.release.rate.map(|rate| rate.most_in(length_s));
    match most {
        Some(most) if count > most => Err(Abort::new(
            ProblemType::BatchInvalid,
            format!(
                "The batch holds more than {most} reports in {length_s} s: twice what the certified \
                 audience would send."
            ),
        )),
        _ => Ok(()),
    }
}

/// From when on a batch with this interval may be released.
pub(crate) fn released_from(task: &AggregatorTask, interval: Interval) -> Moment {
    let precision = task.task.configuration().time_precision();
    let end = interval.end().start_seconds(precision);
    Moment(task.release.grace_s.map_or(0, |grace_s| end.saturating_add(grace_s)))
}

fn length_s(task: &AggregatorTask, interval: Interval) -> u64 {
    interval.duration().as_seconds(task.task.configuration().time_precision())
}
