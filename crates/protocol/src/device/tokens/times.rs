//! When a device requests tokens, and from when it uses them. Both are random: a regular hour is a
//! fingerprint, and a report right after its token could be linked to it.

use rand_core::CryptoRng;
use sotto_wire::recipe::When;

use crate::recipe::windows::{has_windows, slack_s};
use crate::uniform_below;

/// A random time from now on: uniform over the spread in the trust file, but within the first half
/// of the recipe's remaining time.
pub(super) fn soon(closes: u64, now: u64, spread_s: u64, rng: &mut dyn CryptoRng) -> u64 {
    let spread = spread_s.min(closes.saturating_sub(now) / 2);
    now.saturating_add(uniform_below(spread.saturating_add(1), rng))
}

/// A random time from which a report may be sent.
///
/// If answers are released in several windows, they are spread evenly over the recipe's life, so
/// that each window gets its share: aggregators refuse one that gets twice as much. A little time
/// at the end is left to devices that are late ([`slack_s`]). A spread of 0 means no delay at all.
///
/// `other` is the time drawn when the recipe's other token was granted. It counts for both tokens:
/// the later of two uniform times is not uniform.
pub(super) fn answer(
    when: &When,
    now: u64,
    spread_s: u64,
    other: Option<u64>,
    rng: &mut dyn CryptoRng,
) -> u64 {
    let first = now.max(when.opens);
    let length = when.closes.saturating_sub(slack_s(when)).saturating_sub(first);
    let is_even = has_windows(when) && spread_s > 0 && length > 0;
    match other.filter(|other| is_even && *other > now) {
        Some(other) => other,
        None if is_even => first.saturating_add(uniform_below(length.saturating_add(1), rng)),
        None => soon(when.closes, now, spread_s, rng),
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::recipe::windows::least_share;

    const DAY: u64 = 86_400;
    const WEEK: When =
        When { opens: 10 * DAY, closes: 17 * DAY, window_s: 3_600, max_window_s: DAY };

    /// 7,000 devices get both tokens before the recipe opens. Each window of a day gets less than
    /// twice its share of 1,000: the expected number is 1,018, so a false alarm is 30 sigma away.
    /// None gets less than the least share (891) by more than 5 sigma.
    #[test]
    fn every_window_gets_its_share() {
        let mut days = [0u32; 7];
        for seed in 0..7_000 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let now = WEEK.opens - seed % DAY;
            let leader = answer(&WEEK, now, DAY / 2, None, &mut rng);
            let helper = answer(&WEEK, now + 60, DAY / 2, Some(leader), &mut rng);
            let at = leader.max(helper);
            assert!((WEEK.opens..=WEEK.closes - DAY / 8).contains(&at), "{at}");
            days[((at - WEEK.opens) / DAY) as usize] += 1;
        }
        assert!(days.iter().all(|count| *count < 2_000), "{days:?}");
        let least = 7_000.0 * least_share(&WEEK);
        assert!((890.0..892.0).contains(&least), "{least}");
        assert!(days.iter().all(|count| f64::from(*count) > least - 140.0), "{days:?}");
    }

    #[test]
    fn with_one_window_a_device_answers_soon() {
        let whole = When { max_window_s: 7 * DAY, ..WEEK };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for (when, spread_s, most) in [(&whole, DAY / 2, DAY / 2), (&whole, 0, 0), (&WEEK, 0, 0)] {
            for _ in 0..100 {
                let after = answer(when, WEEK.opens, spread_s, Some(9), &mut rng) - WEEK.opens;
                assert!(after <= most, "{after}");
            }
        }
    }

    /// A second token that comes after the time that was drawn gets a new one.
    #[test]
    fn a_token_is_not_used_when_it_arrives() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let now = WEEK.opens + DAY;
        let at = answer(&WEEK, now, DAY / 2, Some(now - 5), &mut rng);
        assert!(at > now, "{at}");
        assert_eq!(answer(&WEEK, now, DAY / 2, Some(now + 5), &mut rng), now + 5);
    }
}
