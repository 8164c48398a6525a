//! The number of messages: its law, grouped where neighbouring counts say nearly the same; sampling
//! by a leader that stops early; and the count alone.
//!
//! Of `n` others each sends a message with probability `t`. At the count `k` a round has two
//! masses: `b(k)`, where the device sends nothing, and `b(k-1)`, where it sends one, `b` being the
//! binomial. Whatever is compared has masses that are linear in these two ([`super::seen`]), so its
//! divergence is a convex and homogeneous function of them. Many neighbouring counts have nearly
//! the same ratio `b(k-1)/b(k)`. For an upper bound the counts between two nodes are split between
//! them so that both masses are kept, which raises such a function; for a lower bound they are
//! merged, which is post-processing.

use super::mixture::{Group, Mixture, between, tail};
use super::pair::Atoms;
use crate::math::{binomial, exp, ln, log1p};

/// Whether counts are grouped so that the pair is at least, or at most, as bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Grouping {
    Pessimistic,
    Optimistic,
}

/// How many different counts there are, except those whose total mass is at most `outside`.
pub(crate) fn width(others: u64, rate: f64, outside: f64) -> u64 {
    let (first, last) = binomial::bulk(others, rate, outside);
    last.saturating_sub(first)
}

/// A range of counts of `others` devices that each send with probability `sending`.
pub(crate) struct Counts {
    pub(crate) others: u64,
    pub(crate) sending: f64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Counts {
    /// All counts, except improbable ones: their total mass is at most `outside`.
    pub(super) fn new(others: u64, sending: f64, outside: f64) -> Self {
        let (first, last) = binomial::bulk(others, sending, outside);
        // With the device the count may be one higher.
        Self { others, sending, first, last: (last + 1).min(others + 1) }
    }

    /// (b(k), b(k-1)) of each group of about `stride` counts, but of no more than `most` groups.
    pub(super) fn grouped(&self, stride: u64, most: u64, grouping: Grouping) -> Vec<(f64, f64)> {
        let stride = stride.max((self.last - self.first) / most);
        match grouping {
            Grouping::Pessimistic => self.spread(stride),
            Grouping::Optimistic => self.merged(stride),
        }
    }

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
            } else if k > self.others || !odds.is_finite() || odds == 0.0 {
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

/// The same masses where one more noisy number is seen, which does not depend on the device's
/// value: where the device sends nothing it is around 1 with probability `part`, otherwise around
/// 0. Grouped by the ratio of the two masses, at least as bad.
pub(super) fn with_another(
    masses: &[(f64, f64)],
    (part, sigma): (f64, f64),
    groups: u32,
) -> Vec<(f64, f64)> {
    // How far into the tails of the number the nodes go, in deviations.
    const REACH: f64 = 9.0;
    let finite = |m: &&(f64, f64)| m.0 > 0.0 && m.1 > 0.0;
    let ratios = || masses.iter().filter(finite).map(|(b, before)| before / b);
    let (least, most) = (ratios().fold(f64::INFINITY, f64::min), ratios().fold(0.0, f64::max));
    if !(most > 0.0) {
        return masses.to_vec();
    }
    // The ratio is divided by (1-p) + p L, L lognormal. Far ones say no more.
    let far =
        |z: f64| 1.0 - part + part * exp((z / sigma - 0.5 / (sigma * sigma)).clamp(-7.0, 7.0));
    let (low, high) = (least / far(REACH), most / far(-REACH));
    let step = ln(high / low) / f64::from(groups);
    let nodes: Vec<f64> = (0..=groups).map(|j| low * exp(step * f64::from(j))).collect();
    let mut weights = vec![0.0; nodes.len()];
    let (mut none, mut alone) = (0.0, 0.0);
    for &(b, before) in masses.iter().filter(finite) {
        // The number at which the ratio is that of a node: it falls as the ratio grows.
        let at = |node: &f64| {
            let odds = (before / (b * node) - (1.0 - part)) / part;
            let x = if odds > 0.0 { sigma * sigma * ln(odds) + 0.5 } else { f64::NEG_INFINITY };
            (tail(x / sigma), tail((x - 1.0) / sigma))
        };
        let mut last = (tail(f64::INFINITY), tail(f64::INFINITY));
        for j in 0..=nodes.len() {
            let end = (tail(f64::NEG_INFINITY), tail(f64::NEG_INFINITY));
            let here = nodes.get(j).map_or(end, at);
            let (still, moved) = (between(here.0, last.0).0, between(here.1, last.1).0);
            last = here;
            let (silent, sent) = (b * ((1.0 - part) * still + part * moved), before * still);
            // The ratio goes to the nodes around it with both masses kept: below the first to 0,
            // above the last to infinity.
            match (j.checked_sub(1), nodes.get(j)) {
                (None, Some(node)) => {
                    let up = (sent / node).min(silent);
                    weights[j] += up;
                    none += silent - up;
                }
                (Some(before), Some(node)) => {
                    let up = (sent - nodes[before] * silent) / (node - nodes[before]);
                    let up = up.clamp(0.0, silent);
                    weights[j] += up;
                    weights[before] += silent - up;
                }
                (before, None) => {
                    let top = before.unwrap_or(0);
                    weights[top] += silent;
                    alone += (sent - nodes[top] * silent).max(0.0);
                }
            }
        }
    }
    let mut found: Vec<_> = masses.iter().filter(|m| !finite(m)).copied().collect();
    found.extend([(none, 0.0), (0.0, alone)]);
    found.extend(weights.iter().zip(&nodes).map(|(weight, node)| (*weight, weight * node)));
    found
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
        stay: (1.0 - q) * base,
        gap: q * base,
        moved: q * base,
        distance,
    };
    let taken = rate * (most as f64 / (most as f64 + 1.0));
    let groups = vec![group(fewer, rate, 1.0), group(full, taken, replacement)];
    Mixture { sigma, groups, reversed }
}

/// The count seen when the device is there under both neighbours: the count itself then says
/// nothing, but given the count `k` the senders are a uniform subset, and the device is among them
/// with probability `k / (others + 1)`. These are (probability of the count, that rate), for about
/// `most` groups of counts; improbable counts are left out, with at most `outside` of the mass.
///
/// For a fixed count the divergence is convex in the rate, because both laws are linear in it. So a
/// count between two nodes is at most as bad as its split between them with the mean kept, and a
/// group of counts at least as bad as their mean.
pub(crate) fn rates_seen(
    (rate, others): (f64, u64),
    outside: f64,
    most: u64,
    grouping: Grouping,
) -> Vec<(f64, f64)> {
    let devices = others.saturating_add(1);
    let (first, last) = binomial::bulk(devices, rate, outside);
    let stride = (last - first).div_ceil(most).max(1);
    let counts = Counts { others: devices, sending: rate, first, last };
    let rounding = match grouping {
        Grouping::Pessimistic => 1.0 + f64::EPSILON,
        Grouping::Optimistic => 1.0 - f64::EPSILON,
    };
    let share = |k: f64| (k / devices as f64 * rounding).min(1.0);
    let node = |i: u64| (first + i * stride).min(last) as f64;
    let nodes = (last - first) / stride + 2;
    // (mass, the sum of mass times count)
    let mut groups = vec![(0.0, 0.0); nodes as usize];
    for (k, (mass, _)) in (first..).zip(counts.masses()) {
        let i = (k - first) / stride;
        let mut add = |i: u64, mass: f64, k: f64| {
            let group = &mut groups[i as usize];
            *group = (group.0 + mass, group.1 + mass * k);
        };
        let (k, low, high) = (k as f64, node(i), node(i + 1));
        match grouping {
            Grouping::Pessimistic if high > low => {
                let upper = (k - low) / (high - low);
                add(i, mass * (1.0 - upper), low);
                add(i + 1, mass * upper, high);
            }
            _ => add(i, mass, k),
        }
    }
    groups.iter().filter(|group| group.0 > 0.0).map(|&(mass, k)| (mass, share(k / mass))).collect()
}

/// The count and nothing else, with the device against without it (or reversed), but for counts
/// whose total mass is at most `outside`, in about `most` groups.
///
/// With `n` others the count is Bin(n, t) without the device, and Bin(n + 1, t) with it. Their
/// ratio at `k` is `(n + 1) (1 - t) / (n + 1 - k)`; only the device makes `n + 1` possible.
pub(crate) fn count_only(
    (rate, others): (f64, u64),
    outside: f64,
    most: u64,
    grouping: Grouping,
    reversed: bool,
) -> Atoms {
    let devices = others + 1;
    let (first, last) = binomial::bulk(devices, rate, outside);
    let alone = if last == devices { binomial::pmf(devices, devices, rate) } else { 0.0 };
    let counts = Counts { others, sending: rate, first, last: last.min(others) };
    let stride = ((last - first) / most).max(1);
    let groups = match grouping {
        Grouping::Pessimistic => counts.spread(stride),
        Grouping::Optimistic => counts.merged(stride),
    };
    // The mass that the other law does not have.
    let mut infinite = if reversed { 0.0 } else { alone };
    let mut atoms = Vec::new();
    for (base, before) in groups.into_iter().filter(|group| group.0 > 0.0) {
        // The logarithm of the ratio of with to without.
        let loss = log1p(rate * (before / base - 1.0));
        if loss.is_finite() {
            atoms.push(if reversed { (-loss, base) } else { (loss, base * exp(loss)) });
        } else if reversed {
            // At the rate 1 no count is possible both with and without the device.
            infinite += base;
        }
    }
    Atoms::new(atoms, infinite)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both masses are kept, and the ratio is spread: the mean of its square does not fall.
    #[test]
    fn another_number_spreads_the_ratio() {
        let counts = Counts::new(40, 0.3, 1e-13).grouped(1, 1 << 20, Grouping::Pessimistic);
        let sum = |of: &[(f64, f64)], f: fn(&(f64, f64)) -> f64| of.iter().map(f).sum::<f64>();
        let square = |m: &(f64, f64)| if m.0 > 0.0 { m.1 * m.1 / m.0 } else { 0.0 };
        for sigma in [0.3, 1.0, 7.0] {
            for part in [1e-6, 0.1, 0.7, 0.999_999] {
                let found = with_another(&counts, (part, sigma), 400);
                assert!((sum(&found, |m| m.0) - 1.0).abs() < 1e-9, "{sigma} {part}");
                assert!((sum(&found, |m| m.1) - 1.0).abs() < 1e-9, "{sigma} {part}");
                // For each count the mean of 1/((1-p) + p L), L lognormal, under the first law.
                let step = 1e-3;
                let mean: f64 = (-12_000..12_000)
                    .map(|j| {
                        let z = f64::from(j) * step;
                        let density = libm::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt();
                        let odds = libm::exp(z / sigma - 0.5 / (sigma * sigma));
                        step * density / (1.0 - part + part * odds)
                    })
                    .sum();
                let exact = mean * sum(&counts, square);
                let (spread, infinite) =
                    (sum(&found, square), found.iter().any(|m| m.0 <= 0.0 && m.1 > 1e-9));
                assert!(
                    infinite || spread > exact * (1.0 - 1e-9),
                    "{sigma} {part}: {spread} {exact}"
                );
                assert!(infinite || spread < exact * 1.01, "{sigma} {part}: {spread} {exact}");
            }
        }
    }

    #[test]
    fn groups_hold_all_of_the_mass() {
        for others in [3, 500, 1_000_000] {
            let counts = Counts::new(others, 0.24, 1e-13);
            for (grouping, stride) in
                [(Grouping::Pessimistic, 7), (Grouping::Optimistic, 7), (Grouping::Optimistic, 1)]
            {
                let groups = counts.grouped(stride, 1 << 20, grouping);
                let silent: f64 = groups.iter().map(|g| g.0).sum();
                let sending: f64 = groups.iter().map(|g| g.1).sum();
                assert!((silent - 1.0).abs() < 1e-10, "{others} {silent}");
                assert!((sending - 1.0).abs() < 1e-10, "{others} {sending}");
            }
        }
    }
}
