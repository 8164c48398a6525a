//! Recipes whose devices randomize their own values. The rule and its proof are in [`super`].

use super::counted::Counted;
use super::{IMPROBABLE, Law, Rule, SILENT, Terms, best, most_silent, most_surely};
use crate::math::search::{crossing, last_where};
use crate::math::{binomial, down, ln, log1p, up};
use crate::mechanism::rappor::HEAVY;
use crate::shuffle::{self, Crowd, Randomizer};
use crate::{Adjacency, Error, Event, Shape};

/// Halvings of a quarter of epsilon.
const REFINED: u32 = 7;

/// A local randomizer, and whether only the sum of its reports is seen. (A sum of one-hot reports is
/// their histogram.)
#[derive(Clone)]
pub(super) struct Local {
    event: Event,
    randomizer: Randomizer,
    summed: bool,
}

/// One of the two bounds: what is seen of one round. Both the device's own coin and how the others
/// hide it are in it.
struct Seen {
    crowd: Crowd,
    summed: bool,
}

impl Local {
    pub(super) fn of(law: Law) -> Option<Self> {
        let event = law.local()?;
        let randomizer = Randomizer::of(&event)?;
        Some(Self { event, randomizer, summed: matches!(law, Law::Rappor { .. }) })
    }

    /// The epsilon of the randomizer alone, under replacement.
    pub(super) fn epsilon(&self) -> f64 {
        self.randomizer.local_epsilon()
    }

    /// The epsilon of all rounds, for every population.
    pub(super) fn judged(&self, terms: &Terms, delta: f64) -> Result<f64, Error> {
        if !self.summed {
            return self.of_rounds(terms, delta);
        }
        // Reports that are too heavy are replaced, which the law of the sum does not allow for.
        let reports = terms.honest_batch() as f64 * terms.rounds as f64;
        let left = down(delta - reports * HEAVY, 1e-15);
        if left > 0.5 * delta {
            return self.of_rounds(terms, left);
        }
        // That of the single reports does.
        Self { summed: false, ..self.clone() }.of_rounds(terms, delta)
    }

    /// The same, where reports are as the law says.
    fn of_rounds(&self, terms: &Terms, delta: f64) -> Result<f64, Error> {
        let Terms { rate, rounds, .. } = *terms;
        let one = rounds == 1;
        if rate <= 0.0 || (one && rate <= delta) {
            return Ok(0.0);
        }
        let improbable = down(SILENT * delta / rounds as f64, 1e-15);
        let rest = down(delta * (1.0 - SILENT), 1e-15);
        let population = self.by_population(terms, if one { delta } else { improbable });
        let batch = self.by_batch(terms, improbable);
        if one {
            let by_population = population.map_or(self.epsilon(), |seen| self.upper(&seen, delta));
            // Rates up to that of the batch count with their mean.
            let target = down(rest * batch.crowd.share / rate, 1e-12).max(rest);
            let least = by_population.min(self.upper(&batch, target)).min(self.epsilon());
            return Ok(self.refined(terms, &batch, delta, least));
        }
        // The better one for a single round is composed.
        let each = rest / rounds as f64;
        let seen = match population {
            Some(seen) if self.upper(&seen, each) < self.upper(&batch, each) => seen,
            _ => batch,
        };
        let together = self.composed(&seen, rounds, rest)?;
        let alone = Event::Repeated { times: rounds, of: Box::new(self.event.clone()) };
        Ok(together.min(best(&alone, Adjacency::Replace, Shape::OneHot, delta)?))
    }

    /// Two rates. Given the count, the device is among the senders with a probability that is hardly
    /// above its own rate, or another one takes its place in a shuffle of the smallest batch.
    pub(super) fn counted(&self, terms: &Terms, delta: f64) -> Rule {
        let (local, terms) = (self.clone(), *terms);
        let improbable = IMPROBABLE * delta / terms.rounds as f64;
        // Reports that are too heavy are replaced, which the law of the sum does not allow for.
        let summed = local.summed && terms.honest_batch() as f64 * HEAVY <= improbable;
        let release = move |population| {
            let reports = terms.honest_reports(improbable);
            let share = terms.share_given_count(population, improbable);
            let crowd = Crowd { reports, rate: 1.0, share };
            let seen = Seen { crowd, summed };
            Event::Composed { of: vec![terms.count_alone(population), local.event(&seen)] }
        };
        Rule::Counted(Counted {
            adjacency: Adjacency::Replace,
            release: Box::new(release),
            exceptions: 4,
        })
    }

    /// The paper's model: exactly `min_batch` reports of a population at the rate, all honest.
    pub(super) fn paper(&self, terms: &Terms, delta: f64) -> Result<f64, Error> {
        if terms.rate <= 0.0 {
            return Ok(0.0);
        }
        let crowd = Crowd { reports: terms.min_batch, rate: 1.0, share: terms.rate };
        let seen = Seen { crowd, summed: self.summed };
        if terms.rounds == 1 {
            return Ok(self.upper(&seen, delta));
        }
        self.composed(&seen, terms.rounds, delta)
    }

    /// Everything among one more than the most others that are silent, except with probability
    /// `improbable`. Of RAPPOR even the reports are shown.
    fn by_population(&self, terms: &Terms, improbable: f64) -> Option<Seen> {
        let rate = terms.rate;
        if improbable >= rate || terms.dummy_rate > 0.0 {
            return None;
        }
        let reports = most_silent(rate, terms.honest_batch(), improbable / rate);
        let reports = reports.map_or(1, |others| others + 2);
        Some(Seen { crowd: Crowd { reports, rate, share: 1.0 }, summed: false })
    }

    /// The smallest batch at the largest rate, except with probability `improbable`: half of it for
    /// either.
    fn by_batch(&self, terms: &Terms, improbable: f64) -> Seen {
        let improbable = if terms.dummy_rate > 0.0 { 0.5 * improbable } else { improbable };
        let reports = terms.honest_reports(improbable);
        let share = largest_rate(terms.rate, reports, improbable);
        Seen { crowd: Crowd { reports, rate: 1.0, share }, summed: self.summed }
    }

    /// A smaller epsilon for one round, if both rules together allow it: with few others a release
    /// is not only rare, but also hides in its batch. With `j` others or fewer, those releases whose
    /// rate is at most `x` have together at most the delta of the batch at `x`, times `q/x`, times
    /// the probability of a release if the device answers.
    fn refined(&self, terms: &Terms, batch: &Seen, delta: f64, known: f64) -> f64 {
        let (rate, share) = (terms.rate, batch.crowd.share);
        if self.summed || terms.dummy_rate > 0.0 || share >= 1.0 || known <= 0.0 {
            return known;
        }
        let rest = down(delta * (1.0 - SILENT), 1e-15);
        let holds = |epsilon: f64| {
            let in_batch = shuffle::delta(self.randomizer, &batch.crowd, epsilon);
            let release = down(rest * share / (rate * in_batch), 1e-12).min(0.5);
            let silent = most_silent(rate, terms.honest_batch(), release);
            let crowd = Crowd { reports: silent.map_or(1, |others| others + 2), rate, share: 1.0 };
            shuffle::delta(self.randomizer, &crowd, epsilon) <= delta
        };
        let (mut low, mut high) = (0.75 * known, known);
        for _ in 0..REFINED {
            let middle = 0.5 * (low + high);
            *(if holds(middle) { &mut high } else { &mut low }) = middle;
        }
        high
    }

    fn upper(&self, seen: &Seen, delta: f64) -> f64 {
        if delta >= seen.crowd.share {
            return 0.0;
        }
        shuffle::upper(self.randomizer, seen.summed, &seen.crowd, delta)
    }

    fn composed(&self, seen: &Seen, rounds: u64, delta: f64) -> Result<f64, Error> {
        let event = Event::Repeated { times: rounds, of: Box::new(self.event(seen)) };
        best(&event, Adjacency::Replace, Shape::OneHot, delta)
    }

    fn event(&self, seen: &Seen) -> Event {
        let of = Box::new(self.event.clone());
        let Crowd { reports: n, rate, share } = seen.crowd;
        let of = if rate < 1.0 { Box::new(Event::PoissonSampled { rate, of }) } else { of };
        let whole = if seen.summed { Event::Summed { n, of } } else { Event::Shuffled { n, of } };
        if share < 1.0 { Event::PoissonSampled { rate: share, of: Box::new(whole) } } else { whole }
    }
}

impl Terms {
    /// The largest probability with which a device with a value is among the senders, given their
    /// number, except for improbable ones.
    ///
    /// Of `population` others, show all but a number that send with the probability `t0`. With `c` of
    /// the device and these, the odds are `t1/(1-t1)` times `b(c-1)/b(c)`, where `b` is the law of
    /// how many of these send.
    fn share_given_count(&self, population: u64, improbable: f64) -> f64 {
        let (sending, least) = (self.sending(), self.least_sending());
        let hidden = (1.0 - self.rate) / (1.0 - self.least_rate());
        let crowd = most_surely(population, hidden, improbable);
        if sending >= 1.0 || crowd == 0 {
            return 1.0;
        }
        let usual = |sent: u64| binomial::upper_tail(crowd, least, sent) > 0.99 * improbable;
        // With the device.
        let most = last_where(0, crowd + 1, usual) + 1;
        if most > crowd {
            return 1.0;
        }
        let before = most as f64 * (1.0 - least) / ((crowd - most + 1) as f64 * least);
        let odds = sending / (1.0 - sending) * before;
        up(odds / (1.0 + odds), 1e-14).min(1.0)
    }
}

/// The `x` above `q` with `crowd KL(x || q) / x = ln 1/improbable`, rounded up; at most 1.
pub(super) fn largest_rate(q: f64, crowd: u64, improbable: f64) -> f64 {
    if q <= 0.0 || q >= 1.0 {
        return q;
    }
    let needed = -ln(improbable) / crowd as f64;
    // KL(x || q) = x ln(x/q) + (1-x) ln((1-x)/(1-q)).
    let missing = |x: f64| {
        let rest = if x < 1.0 { (1.0 - x) * (log1p(-x) - log1p(-q)) } else { 0.0 };
        needed - (x * ln(x / q) + rest) / x
    };
    if missing(1.0) > 0.0 {
        return 1.0;
    }
    up(crossing(missing, (q, needed), (1.0, missing(1.0)), 1e-9, 0.0).high, 1e-9).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delta_below_that_of_heavy_reports_is_that_of_single_reports() {
        let terms = Terms::new(Law::Rappor { epsilon0: 4.0, k: 100 }, 0.02, 10_000, 1);
        let summed = Local::of(terms.law).unwrap();
        let single = Local { summed: false, ..summed.clone() };
        // 5,000 reports, each heavy with probability 2^-80: 4e-21.
        for (delta, is_summed) in [(1e-9, true), (1e-20, true), (6e-21, false), (1e-30, false)] {
            let found = summed.judged(&terms, delta).unwrap();
            let (sum, each) =
                [&summed, &single].map(|law| law.of_rounds(&terms, delta).unwrap()).into();
            assert!(sum < each, "{delta}");
            assert_eq!(found == each, !is_summed, "{delta}: {found} {sum} {each}");
            assert!(found >= sum, "{delta}: {found} {sum}");
        }
    }

    #[test]
    fn the_largest_rate_is_above_the_rate_and_falls_with_the_crowd() {
        let mut last = 1.0;
        for crowd in [50, 500, 5_000, 50_000] {
            let rate = largest_rate(0.02, crowd, 1e-9);
            assert!(rate > 0.02 && rate < last, "{crowd} {rate}");
            last = rate;
        }
        assert!(last < 0.0206);
    }
}
