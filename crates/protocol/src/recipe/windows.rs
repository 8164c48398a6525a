//! The windows in which the answers to a recipe are released: how answers are spread over them, and
//! how many one may hold.

use sotto_wire::recipe::{Participation, Probability, Recipe, Sampling, When};

/// How long after its end a batch of a recipe stays open, in seconds. A report waits for a pass in
/// which its device sends, two hours on average; one in 400 comes later than this.
pub const GRACE_S: u64 = 12 * 3_600;

/// How many times the expected number of reports a batch may hold. Beyond that, most of its reports
/// may come from devices that do not exist.
const RATE_FACTOR: u128 = 2;

/// At most twice as many reports as the audience sends if all of its devices are honest.
///
/// A shorter batch may hold as many as one over the longest window: answers may come in a burst.
/// It needs a certified audience: an author could state any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRule {
    /// The most reports over the whole life of the recipe, or of a round.
    most: u64,
    life_s: u64,
    max_window_s: u64,
}

impl RateRule {
    /// The rule for a recipe with an audience of this many devices.
    pub fn new(recipe: &Recipe, audience: u64) -> Self {
        let Sampling { rate, dummy_rate, .. } = recipe.sampling;
        let part =
            |of: u128, rate: Probability| of * u128::from(rate.num()) / u128::from(rate.den());
        let all = RATE_FACTOR * u128::from(audience);
        let mut answers = part(all, rate);
        let participation = recipe.series.as_ref().map(|series| series.participation);
        if let (Some(Participation::Donation {}), Some(series)) = (participation, &recipe.series) {
            // The first round has the most answers.
            answers = answers.div_ceil(u128::from(series.rounds.max(1)));
        }
        let most = answers + part(all - answers, dummy_rate);
        let When { opens, closes, max_window_s, .. } = recipe.answer_times();
        let life_s = closes.saturating_sub(opens).max(1);
        // A round asks all devices at once, however long the series is.
        let max_window_s = match participation {
            Some(_) => life_s,
            None => max_window_s,
        };
        Self { most: u64::try_from(most).unwrap_or(u64::MAX), life_s, max_window_s }
    }

    /// The most reports in a batch that covers this much time.
    pub fn most_in(&self, length_s: u64) -> u64 {
        let length_s = length_s.max(self.max_window_s).min(self.life_s);
        let most = u128::from(self.most) * u128::from(length_s) / u128::from(self.life_s);
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

/// The probability with which a device that answers with probability `rate` sends a report, which
/// may be a dummy.
pub fn sending_rate(sampling: &Sampling, rate: Probability) -> f64 {
    let rate = rate.to_f64();
    rate + (1.0 - rate) * sampling.dummy_rate.to_f64()
}

/// The time at the end of a recipe at which no answer is planned.
pub(crate) fn slack_s(when: &When) -> u64 {
    when.max_window_s / 8
}

/// The share of all answers that the emptiest window gets, which is the last one.
pub fn least_share(when: &When) -> f64 {
    let (life_s, slack_s) = (when.closes.saturating_sub(when.opens), slack_s(when));
    if when.max_window_s >= life_s {
        return 1.0;
    }
    (when.max_window_s - slack_s) as f64 / (life_s - slack_s) as f64
}

/// An interval of report times, in POSIX seconds: from `start` until just before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its first second.
    pub start: u64,
    /// The first second after it.
    pub end: u64,
}

impl Span {
    /// When it is time to collect it: its last reports have arrived.
    pub fn due(&self) -> u64 {
        self.end.saturating_add(GRACE_S)
    }
}

/// The intervals in which a recipe is meant to be collected: each as long as the recipe allows, the
/// last one perhaps shorter.
pub fn releases(when: &When) -> impl DoubleEndedIterator<Item = Span> + use<> {
    let (opens, closes, step) = (when.opens, when.closes, when.max_window_s.max(1));
    let count = closes.saturating_sub(opens).div_ceil(step);
    (0..count).map(move |number| {
        let start = opens + number * step;
        Span { start, end: start.saturating_add(step).min(closes) }
    })
}

/// The interval of [`releases`] that contains all of `span`.
pub fn release_of(when: &When, span: Span) -> Option<Span> {
    let step = when.max_window_s.max(1);
    let number = span.start.checked_sub(when.opens)? / step;
    let start = when.opens.saturating_add(number.saturating_mul(step));
    let release = Span { start, end: start.saturating_add(step).min(when.closes) };
    (span.end <= release.end).then_some(release)
}

/// How many reports an interval is expected to hold, by the clock and the recipe alone: answers are
/// spread evenly over the life of a recipe, or of a round that has a length. With importance sampling, at most so many.
pub fn expected_reports(recipe: &Recipe, span: Span) -> f64 {
    let when = &recipe.answer_times();
    let last = when.closes.saturating_sub(slack_s(when));
    let covered = span.end.min(last).saturating_sub(span.start.max(when.opens));
    let life = last.saturating_sub(when.opens).max(1);
    let rate = sending_rate(&recipe.sampling, recipe.sampling.rate);
    let all = recipe.who.population as f64 * rate;
    all * covered as f64 / life as f64
}

/// Whether an interval can hold the minimum batch: four standard deviations more than expected. So
/// it is wrong about fewer than one interval in 30,000, if the audience has the stated size.
pub fn can_reach_minimum(recipe: &Recipe, span: Span) -> bool {
    let expected = expected_reports(recipe, span);
    expected + 4.0 * expected.sqrt() >= recipe.aggregation.min_batch as f64
}

/// The last interval that is due and can hold the minimum batch.
pub fn last_release(recipe: &Recipe, now: u64) -> Option<Span> {
    let is_due = |span: &Span| span.due() <= now && can_reach_minimum(recipe, *span);
    releases(&recipe.answer_times()).rev().find(is_due)
}

/// The interval that is due next.
pub fn next_release(recipe: &Recipe, now: u64) -> Option<Span> {
    releases(&recipe.answer_times()).find(|span| span.due() > now)
}
