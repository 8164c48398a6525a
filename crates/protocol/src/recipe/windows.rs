//! The windows in which the answers to a recipe are released: how answers are spread over them, and
//! how many one may hold.

use sotto_wire::recipe::{Recipe, When};

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
    /// The most reports over the whole life of the recipe.
    most: u64,
    life_s: u64,
    max_window_s: u64,
}

impl RateRule {
    /// The rule for a recipe with an audience of this many devices.
    pub fn new(recipe: &Recipe, audience: u64) -> Self {
        let rate = recipe.sampling.rate;
        let most = RATE_FACTOR * u128::from(rate.num()) * u128::from(audience);
        let most = most / u128::from(rate.den());
        Self {
            most: u64::try_from(most).unwrap_or(u64::MAX),
            life_s: recipe.when.closes.saturating_sub(recipe.when.opens).max(1),
            max_window_s: recipe.when.max_window_s,
        }
    }

    /// The most reports in a batch that covers this much time.
    pub fn most_in(&self, length_s: u64) -> u64 {
        let length_s = length_s.max(self.max_window_s).min(self.life_s);
        let most = u128::from(self.most) * u128::from(length_s) / u128::from(self.life_s);
        u64::try_from(most).unwrap_or(u64::MAX)
    }
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
