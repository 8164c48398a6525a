//! Sampling with the count seen, and sampling by a leader that stops early: the groups of a
//! [`Mixture`]. And the count alone.
//!
//! **The count is seen.** With `n` other devices that each send with probability `t`, the adversary
//! sees a count and a noisy sum. Without the device that is (Bin(n, t), N(0, s^2)). With it, it is
//! the same with probability `1 - t`; otherwise the count is larger by one, and in the sum, given
//! the count, another device's contribution was exchanged for this one's:
//! `(1 + Bin(n, t), N(D, s^2))` with the replacement distance `D`. (Given the two sets of senders
//! the sums differ by at most `D`; the hockey-stick divergence is jointly convex, so the worst pair
//! of values bounds every mixture of them.)
//!
//! **Dummies.** A device sends its value with probability `q` and, if not, a dummy with probability
//! `q'`, so `t = q + (1-q) q'`. Given the other senders, joint convexity also averages over what
//! the exchanged contribution was, as if that were seen: with probability `q/t` a value, from which
//! the device's value is at most `D` away and its dummy, the zero vector, at most 1; else a dummy,
//! from which its value is at most 1 away and its dummy not at all. In the first case both
//! distances are taken in the same direction: for given lengths, the likelihood ratio's sum of two
//! exponentials is largest in convex order when they grow together.
//!
//! In the group of count `k` the ratio of with to without is `1 - t + b(k-1)/b(k) (...)`, `b` being
//! the binomial. Many neighbouring counts have nearly the same `r_k = b(k-1)/b(k)`. For an upper
//! bound the counts between two nodes are split between them so that the mean of `r` is kept (a
//! mean-preserving spread of the likelihood ratio); for a lower bound they are merged.

use super::mixture::{Group, Mixture};
use super::pair::Atoms;
use crate::math::{binomial, log1p, sqrt};

/// What the adversary sees of one round with the count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountSeen {
    pub(crate) rate: f64,
    /// The number of other devices.
    pub(crate) others: u64,
    pub(crate) dummy_rate: f64,
    pub(crate) sigma: f64,
    /// Replacement distance.
    pub(crate) distance: f64,
    /// How much of the variance of the loss the grouping of counts may cost.
    pub(crate) tolerance: f64,
    /// About how many groups there may be, at most.
    pub(crate) most_groups: u64,
}

/// Whether counts are grouped so that the pair is at least, or at most, as bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Grouping {
    Pessimistic,
    Optimistic,
}

/// How many different counts there are, except those whose total mass is at most `outside`.
pub(crate) fn width(others: u64, rate: f64, dummy_rate: f64, outside: f64) -> u64 {
    let (first, last) = binomial::bulk(others, rate + (1.0 - rate) * dummy_rate, outside);
    last.saturating_sub(first)
}

impl CountSeen {
    /// The probability of sending anything.
    fn sending(&self) -> f64 {
        self.rate + (1.0 - self.rate) * self.dummy_rate
    }

    /// The pair, without improbable counts: their total mass is at most `outside`.
    pub(crate) fn pair(&self, outside: f64, grouping: Grouping, reversed: bool) -> Mixture {
        let sending = self.sending();
        let (first, last) = binomial::bulk(self.others, sending, outside);
        // With the device the count may be one higher.
        let last = (last + 1).min(self.others + 1);
        let stride = self.stride().max((last - first) / self.most_groups);
        let counts = Counts { others: self.others, sending, first, last };
        let weights = match grouping {
            Grouping::Pessimistic => counts.spread(stride),
            Grouping::Optimistic => counts.merged(stride),
        };
        let groups = weights.into_iter().flat_map(|(base, more)| self.groups(base, more)).collect();
        Mixture { sigma: self.sigma, groups, reversed }
    }

    /// A count that has probability `base` without the device, and `one_more` when there is one
    /// other fewer: one group, or two with dummies.
    fn groups(&self, base: f64, one_more: f64) -> Vec<Group> {
        let sending = self.sending();
        let dummy = (1.0 - self.rate) * self.dummy_rate;
        // The part in which a value is exchanged.
        let part = if dummy > 0.0 { self.rate / sending } else { 1.0 };
        let mut groups = vec![Group {
            base: part * base,
            gap: part * sending * base,
            moved: part * self.rate * one_more,
            distance: self.distance,
            dummy: part * dummy * one_more,
            dummy_distance: 1.0,
        }];
        if dummy > 0.0 {
            let part = dummy / sending;
            groups.push(Group {
                base: part * base,
                gap: part * (sending * base - dummy * one_more),
                moved: part * self.rate * one_more,
                distance: 1.0,
                dummy: 0.0,
                dummy_distance: 1.0,
            });
        }
        groups
    }

    /// How many counts make up a group: as many as keep the error in the variance of the loss below
    /// the tolerance, but never more than a quarter of the count's standard deviation.
    fn stride(&self) -> u64 {
        let sending = self.sending();
        let deviation = sqrt(self.others as f64 * sending * (1.0 - sending));
        if !(deviation > 4.0) {
            return 1;
        }
        let count = 1.0 / (deviation * deviation);
        let noise = self.distance * self.distance / (self.sigma * self.sigma);
        let share = count / (count + noise);
        (deviation * sqrt(self.tolerance / share).min(0.25)) as u64
    }
}

/// A range of counts.
pub(crate) struct Counts {
    pub(crate) others: u64,
    pub(crate) sending: f64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Counts {
    /// (b(k), b(k-1)) for each count of the range.
    fn masses(&self) -> impl Iterator<Item = (f64, f64)> {
        let odds = self.sending / (1.0 - self.sending);
        let mut base = 0.0;
        (self.first..=self.last).map(move |k| {
            // By ratios, restarted now and then: each step costs an ulp or two.
            base = if (k - self.first).is_multiple_of(64) || !odds.is_finite() {
                binomial::pmf(self.others, k, self.sending)
            } else {
                base * ((self.others + 1 - k) as f64 / k as f64) * odds
            };
            let before = if k == 0 {
                0.0
            } else if k > self.others || !odds.is_finite() {
                binomial::pmf(self.others, k - 1, self.sending)
            } else {
                base * (k as f64 / ((self.others + 1 - k) as f64 * odds))
            };
            (base, before)
        })
    }

    /// Neighbouring counts as one outcome.
    pub(crate) fn merged(&self, stride: u64) -> Vec<(f64, f64)> {
        let masses: Vec<_> = self.masses().collect();
        let sum = |chunk: &[(f64, f64)]| {
            chunk.iter().fold((0.0, 0.0), |sum, m| (sum.0 + m.0, sum.1 + m.1))
        };
        masses.chunks(stride.max(1) as usize).map(sum).collect()
    }

    /// Neighbouring counts split between the nodes around them: every `stride`-th count, and the
    /// last count that is possible without the device.
    pub(crate) fn spread(&self, stride: u64) -> Vec<(f64, f64)> {
        let stride = stride.max(1) as usize;
        let masses: Vec<_> = self.masses().collect();
        let ratio = |m: (f64, f64)| if m.0 > 0.0 { m.1 / m.0 } else { f64::INFINITY };
        // A count that only the device makes possible has an infinite ratio: it stays separate.
        let finite = masses.iter().take_while(|m| m.0 > 0.0 && ratio(**m).is_finite()).count();
        let mut nodes: Vec<(usize, f64, f64)> = Vec::new();
        let mut j = 0;
        while j < finite {
            nodes.push((j, 0.0, 0.0));
            j = if j + 1 == finite { finite } else { (j + stride).min(finite - 1) };
        }
        let mut node = 0;
        for (j, &m) in masses.iter().take(finite).enumerate() {
            while node + 1 < nodes.len() && nodes[node + 1].0 <= j {
                node += 1;
            }
            let (low, r) = (ratio(masses[nodes[node].0]), ratio(m));
            let upper = if node + 1 < nodes.len() && r > low {
                let high = ratio(masses[nodes[node + 1].0]);
                ((r - low) / (high - low)).clamp(0.0, 1.0)
            } else {
                0.0
            };
            nodes[node].1 += m.0 * (1.0 - upper);
            if upper > 0.0 {
                nodes[node + 1].1 += m.0 * upper;
            }
        }
        for (at, base, one_more) in &mut nodes {
            *one_more = *base * ratio(masses[*at]);
        }
        let alone = masses.iter().skip(finite).copied();
        nodes.iter().map(|&(_, base, one_more)| (base, one_more)).chain(alone).collect()
    }
}

/// Poisson sampling of `others + 1` devices by a leader that stops at `most`, taking a uniform
/// subset of those that arrived.
///
/// Let K others arrive. If K < most, the device, when it arrives, is added: distance 1. Otherwise
/// it is taken with probability `most / (K+1)`, replacing another device: replacement distance.
/// Given K, the rest of the batch and whom it replaces, that is a sampled Gaussian; joint convexity
/// averages over K. So the pair in which K's group (fewer, or not fewer) is seen dominates, and in
/// the second group the probability is at most `q most / (most + 1)`.
pub(crate) fn truncated_poisson(
    (rate, others, most): (f64, u64, u64),
    sigma: f64,
    replacement: f64,
    reversed: bool,
) -> Mixture {
    let fewer = binomial::lower_tail(others, rate, most).min(1.0);
    let full = binomial::upper_tail(others, rate, most).min(1.0);
    let group = |base: f64, q: f64, distance: f64| Group {
        base,
        gap: q * base,
        moved: q * base,
        distance,
        dummy: 0.0,
        dummy_distance: 1.0,
    };
    let taken = rate * (most as f64 / (most as f64 + 1.0));
    let groups = vec![group(fewer, rate, 1.0), group(full, taken, replacement)];
    Mixture { sigma, groups, reversed }
}

/// The count seen when a device's value is compared with the null value: the count itself then says
/// nothing, but given the count `k` the device is among the senders with probability
/// `k / (others + 1)`.
pub(crate) fn count_seen_zero_out(
    rate: f64,
    others: u64,
    sigma: f64,
    outside: f64,
    reversed: bool,
) -> Mixture {
    let devices = others.saturating_add(1);
    let (first, last) = binomial::bulk(devices, rate, outside);
    let group = |k: u64, mass: f64| {
        let q = k as f64 / devices as f64;
        Group {
            base: mass,
            gap: q * mass,
            moved: q * mass,
            distance: 1.0,
            dummy: 0.0,
            dummy_distance: 1.0,
        }
    };
    // A group of counts is bounded by its largest count: the divergence grows with the rate.
    let stride = (last - first).div_ceil(512).max(1);
    let mut groups = Vec::new();
    let mut k = first;
    while k <= last {
        let end = (k + stride - 1).min(last);
        groups.push(group(end, (k..=end).map(|k| binomial::pmf(devices, k, rate)).sum()));
        k = end + 1;
    }
    Mixture { sigma, groups, reversed }
}

/// The count and nothing else, with the device against without it (or reversed), but for counts
/// whose total mass is at most `outside`.
///
/// With `n` others the count is Bin(n, t) without the device, and Bin(n + 1, t) with it. Their
/// ratio at `k` is `(n + 1) (1 - t) / (n + 1 - k)`; only the device makes `n + 1` possible.
pub(crate) fn count_only(rate: f64, others: u64, outside: f64, reversed: bool) -> Atoms {
    let devices = others + 1;
    let (of, sign) = if reversed { (others, -1.0) } else { (devices, 1.0) };
    let (first, last) = binomial::bulk(of, rate, outside);
    let mean = devices as f64 * rate;
    let atom = |k: u64| {
        let loss = log1p((k as f64 - mean) / (devices - k) as f64);
        (sign * loss, binomial::pmf(of, k, rate))
    };
    let mut alone = if last == devices { binomial::pmf(devices, devices, rate) } else { 0.0 };
    let mut atoms = Vec::new();
    for (loss, mass) in (first..=last.min(others)).map(atom) {
        // At the rate 1 no count is possible both with and without the device.
        if loss.is_finite() {
            atoms.push((loss, mass));
        } else {
            alone += mass;
        }
    }
    Atoms::new(atoms, alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pld::pair::Pair;

    fn model(others: u64, tolerance: f64, dummy_rate: f64) -> CountSeen {
        CountSeen {
            rate: 0.05,
            others,
            dummy_rate,
            sigma: 1.5,
            distance: 2.0,
            tolerance,
            most_groups: 1 << 20,
        }
    }

    #[test]
    fn grouped_counts_enclose_single_ones() {
        for others in [30, 4_000, 100_000] {
            for dummy_rate in [0.0, 0.1] {
                let exact = model(others, 0.0, dummy_rate);
                let rough = model(others, 1.0, dummy_rate);
                assert!(others < 1_000 || rough.stride() > 2, "{}", rough.stride());
                for reversed in [false, true] {
                    let truth = exact.pair(1e-12, Grouping::Optimistic, reversed);
                    let up = rough.pair(1e-12, Grouping::Pessimistic, reversed);
                    let down = rough.pair(1e-12, Grouping::Optimistic, reversed);
                    for j in 0..20 {
                        let epsilon = 0.2 * f64::from(j);
                        let (low, high) = truth.hockey_stick(epsilon);
                        assert!(up.hockey_stick(epsilon).1 >= low, "{others} {reversed} {epsilon}");
                        assert!(
                            down.hockey_stick(epsilon).0 <= high,
                            "{others} {reversed} {epsilon}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn groups_hold_all_of_the_mass() {
        for others in [3, 500, 1_000_000] {
            for grouping in [Grouping::Pessimistic, Grouping::Optimistic] {
                let pair = model(others, 1e-2, 0.2).pair(1e-13, grouping, false);
                let base: f64 = pair.groups.iter().map(|g| g.base).sum();
                let mixed: f64 =
                    pair.groups.iter().map(|g| g.base - g.gap + g.moved + g.dummy).sum();
                assert!(
                    (base - 1.0).abs() < 1e-10 && (mixed - 1.0).abs() < 1e-10,
                    "{base} {mixed}"
                );
            }
        }
    }
}
