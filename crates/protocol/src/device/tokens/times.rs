//! When a device requests tokens, and from when it uses them. Both are random: a regular hour is a
//! fingerprint, and a report right after its token could be linked to it.

use rand_core::CryptoRng;
use sotto_wire::recipe::When;

use crate::recipe::windows::slack_s;
use crate::uniform_below;

/// A random time from now on: uniform over the spread in the trust file, but within the first half
/// of the recipe's remaining time.
pub(super) fn soon(closes: u64, now: u64, spread_s: u64, rng: &mut dyn CryptoRng) -> u64 {
    let spread = spread_s.min(closes.saturating_sub(now) / 2);
    now.saturating_add(uniform_below(spread.saturating_add(1), rng))
}

/// When to send: drawn when the recipe's first token arrives, uniform over the recipe's life.
///
/// So every release window gets its share: aggregators refuse one that gets twice as much. A little
/// time at the end is left to devices that are late ([`slack_s`]). And it says nothing about when
/// the tokens were requested: it starts at a time that is the same for all devices, at which nearly
/// all of them have their tokens. A spread of 0 means no delay at all, for tests.
pub(super) fn answer(
    when: &When,
    known_from: u64,
    now: u64,
    spread_s: u64,
    rng: &mut dyn CryptoRng,
) -> u64 {
    let last = when.closes.saturating_sub(slack_s(when));
    let half = when.opens.midpoint(last);
    let ready = known_from.saturating_add(spread_s.saturating_mul(2)).min(half);
    let first = now.max(when.opens).max(ready);
    match last.checked_sub(first) {
        Some(length) if spread_s > 0 => first + uniform_below(length.saturating_add(1), rng),
        _ => soon(when.closes, now, spread_s, rng),
    }
}

/// When a recipe that is decided now is answered; `None` if it is too early to decide.
///
/// Deciding seals the report, so it is done at most a day before (twice the spread): keys change. It
/// takes a pass that reads the log. A device that had none in that day, which is rare, draws another
/// time.
pub(super) fn decided(
    drawn: u64,
    closes: u64,
    now: u64,
    spread_s: u64,
    rng: &mut dyn CryptoRng,
) -> Option<u64> {
    match drawn {
        late if late < now => Some(soon(closes, now, spread_s, rng)),
        drawn => (drawn <= now.saturating_add(spread_s.saturating_mul(2))).then_some(drawn),
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::device::next_pass;
    use crate::recipe::windows::least_share;

    const DAY: u64 = 86_400;
    const WEEK: When =
        When { opens: 10 * DAY, closes: 17 * DAY, window_s: 3_600, max_window_s: DAY };

    /// 7,000 devices get their tokens before the recipe opens. Each window of a day gets less than
    /// twice its share of 1,000: the expected number is 1,018, so a false alarm is 30 sigma away.
    /// None gets less than the least share (891) by more than 5 sigma.
    #[test]
    fn every_window_gets_its_share() {
        let mut days = [0u32; 7];
        for seed in 0..7_000 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let now = WEEK.opens - seed % DAY;
            let at = answer(&WEEK, WEEK.opens - 2 * DAY, now, DAY / 2, &mut rng);
            assert!((WEEK.opens..=WEEK.closes - DAY / 8).contains(&at), "{at}");
            days[((at - WEEK.opens) / DAY) as usize] += 1;
        }
        assert!(days.iter().all(|count| *count < 2_000), "{days:?}");
        let least = 7_000.0 * least_share(&WEEK);
        assert!((890.0..892.0).contains(&least), "{least}");
        assert!(days.iter().all(|count| f64::from(*count) > least - 140.0), "{days:?}");
    }

    /// A recipe that opens as soon as devices may know it: nobody sends before all have their
    /// tokens, so the earliest time does not tell who was early.
    #[test]
    fn everybody_starts_at_the_same_time() {
        let known_from = WEEK.opens - 60;
        for early in 0..1_000 {
            let mut rng = ChaCha20Rng::seed_from_u64(early);
            let at = answer(&WEEK, known_from, known_from + 80 * early, DAY / 2, &mut rng);
            assert!((known_from + DAY..=WEEK.closes - DAY / 8).contains(&at), "{at}");
        }
    }

    #[test]
    fn without_a_spread_a_device_answers_at_once() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for now in [WEEK.opens - 5, WEEK.opens, WEEK.closes - 1] {
            assert_eq!(answer(&WEEK, 0, now, 0, &mut rng), now);
        }
    }

    /// Within the slack at the end, a device that is late answers soon.
    #[test]
    fn a_late_device_answers_within_half_of_what_is_left() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let now = WEEK.closes - 1_000;
        for _ in 0..100 {
            let at = answer(&WEEK, 0, now, DAY / 2, &mut rng);
            assert!((now..=now + 500).contains(&at), "{at}");
        }
    }

    /// When a device requests its tokens, when it reads the log, and when it sends.
    struct Life {
        asked: u64,
        reads: Vec<u64>,
        sent: u64,
    }

    /// A week of a device's passes. `pause` gives the time to the next one. If they are `separate`, a
    /// pass reads or sends, by a coin; if not, it does both.
    fn life(rng: &mut ChaCha20Rng, pause: fn(&mut ChaCha20Rng) -> u64, separate: bool) -> Life {
        const SPREAD: u64 = DAY / 2;
        let known_from = WEEK.opens - DAY;
        let (mut now, mut due, mut asked, mut from) = (known_from - DAY, None, None, None);
        now += uniform_below(DAY, rng);
        let (mut drawn, mut reads_at, mut sent) = (None, Vec::new(), None);
        while now < WEEK.closes || sent.is_none() {
            now += pause(rng);
            let reads = !separate || uniform_below(2, rng) == 0;
            if reads && now >= known_from {
                reads_at.push(now);
                let due = *due.get_or_insert_with(|| soon(WEEK.closes, now, SPREAD, rng));
                if asked.is_none() && due <= now {
                    asked = Some(now);
                    drawn = Some(answer(&WEEK, known_from, now, SPREAD, rng));
                }
                if let Some(drawn) = drawn.filter(|_| from.is_none() && now >= WEEK.opens) {
                    from = decided(drawn, WEEK.closes, now, SPREAD, rng);
                }
            }
            let sends = !separate || !reads;
            if sends && from.is_some_and(|from| from <= now) {
                sent.get_or_insert(now);
            }
        }
        Life { asked: asked.unwrap(), reads: reads_at, sent: sent.unwrap() }
    }

    fn request(life: &Life, _: u64) -> u64 {
        life.asked
    }

    /// The last read of the log before this time.
    fn last_read(life: &Life, sent: u64) -> u64 {
        life.reads.iter().copied().rfind(|read| *read <= sent).unwrap_or(0)
    }

    /// How well somebody does who sees when each of 3,000 devices asked (or read), and when reports
    /// came: the statistic of a chi-square test that the ranks of the true devices are uniform, over
    /// ten bins. The score of a pair of times is learned from another fleet: how often their
    /// difference occurs, and its phase in an hour.
    fn linked(
        pause: fn(&mut ChaCha20Rng) -> u64,
        separate: bool,
        seen: fn(&Life, u64) -> u64,
    ) -> f64 {
        const DEVICES: usize = 3_000;
        let fleet = |seed| {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let lives = (0..DEVICES).map(|_| life(&mut rng, pause, separate));
            lives.collect::<Vec<_>>()
        };
        let features = |life: &Life, sent: u64| {
            let apart = sent.saturating_sub(seen(life, sent));
            [(apart / 14_400).min(59) as usize, 60 + (apart % 3_600 / 60) as usize]
        };
        let mut weights = [1.0f64; 120];
        for life in fleet(1) {
            features(&life, life.sent).into_iter().for_each(|feature| weights[feature] += 1.0);
        }
        // Against how often they occur by chance.
        let mut chance = [1.0f64; 120];
        let other = fleet(2);
        for (one, another) in other.iter().zip(other.iter().skip(1)) {
            features(one, another.sent).into_iter().for_each(|feature| chance[feature] += 1.0);
        }
        let score = |life: &Life, sent: u64| {
            features(life, sent).map(|at| (weights[at] / chance[at]).ln()).iter().sum::<f64>()
        };
        let lives = fleet(3);
        let mut rng = ChaCha20Rng::seed_from_u64(4);
        let mut bins = [0.0f64; 10];
        for truth in &lives {
            let own = score(truth, truth.sent);
            let better = lives.iter().filter(|life| score(life, truth.sent) > own).count();
            let equal = lives.iter().filter(|life| score(life, truth.sent) == own).count();
            let rank = better + uniform_below(equal as u64, &mut rng) as usize;
            bins[rank * 10 / DEVICES] += 1.0;
        }
        let expected = DEVICES as f64 / 10.0;
        bins.iter().map(|count| (count - expected).powi(2) / expected).sum()
    }

    fn at_random(rng: &mut ChaCha20Rng) -> u64 {
        next_pass(rng).as_secs()
    }

    /// Nine degrees of freedom: a correct device exceeds 33.7 with probability below 1e-4. The seeds
    /// are fixed.
    const MOST: f64 = 33.7;

    #[test]
    fn nobody_links_a_report_to_a_token_request_by_its_time() {
        let found = linked(at_random, true, request);
        assert!(found < MOST, "{found}");
    }

    #[test]
    fn nobody_links_a_report_to_a_read_of_the_log_by_its_time() {
        let found = linked(at_random, true, last_read);
        assert!(found < MOST, "{found}");
    }

    /// The same test notices passes at fixed times, and passes that read and send.
    #[test]
    fn regular_passes_are_noticed() {
        let hourly = linked(|_| 3_600, true, request);
        assert!(hourly > 10.0 * MOST, "{hourly}");
        let at_once = linked(at_random, false, last_read);
        assert!(at_once > 10.0 * MOST, "{at_once}");
    }
}
