//! The recipe rule: the judged epsilon holds for every population, under add/remove for every one
//! that is not below the certified one.

use sotto_dp::Shape;
use sotto_dp::recipe::{Law, Terms, judge};

use super::brute::Step;
use super::counts::Round;
use super::stream::Stream;

/// Populations that are tried: all up to this.
const MOST: u64 = 400;

/// The divergence of what is seen with `others` other honest devices when no sum is released below
/// `least` honest contributions: every count, and the sum from there on; (the device leaves, the
/// device comes).
fn thresholded(round: &Round, least: usize, epsilon: f64) -> (f64, f64) {
    let (mut leaves, mut comes) = (0.0, 0.0);
    let ratio = epsilon.exp();
    for (k, (base, before)) in round.counts().into_iter().enumerate() {
        let sending = round.sending();
        if k < least {
            let with = (1.0 - sending) * base + sending * before;
            leaves += (with - ratio * base).max(0.0);
            comes += (base - ratio * with).max(0.0);
        } else if base.max(before) > 1e-18 {
            let (a, b) = if round.dummy_rate == 0.0 {
                let distance = round.shape.replacement_distance();
                let (gone, moved) = (sending, sending * before);
                let step = Step { base, gone, moved, distance, sigma: round.sigma };
                (step.leaves(epsilon), step.comes(epsilon))
            } else {
                round.at_count((base, before), epsilon)
            };
            (leaves, comes) = (leaves + a, comes + b);
        }
    }
    (leaves, comes)
}

/// The judged epsilon of one recipe with `honest` certified honest others holds for the populations
/// given, except for smaller ones; the largest share of delta that it takes.
fn gaussian_case(
    terms: &Terms,
    honest: u64,
    delta: f64,
    populations: impl Iterator<Item = u64>,
) -> f64 {
    let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
    let epsilon = judge(terms, Some(2 * honest + 1), delta).unwrap().epsilon;
    if !epsilon.is_finite() {
        return 0.0;
    }
    let least = terms.min_batch.div_ceil(2) as usize;
    let sigma = sigma * 0.5f64.sqrt();
    let (rate, dummy_rate) = (terms.rate, terms.dummy_rate);
    let mut worst = 0.0f64;
    for others in populations.filter(|others| *others >= honest) {
        let round = Round { rate, others, dummy_rate, sigma, shape };
        let (leaves, comes) = thresholded(&round, least, epsilon);
        let found = leaves.max(comes);
        assert!(
            found <= delta * (1.0 + 1e-9),
            "{terms:?} {honest} {delta:e}: {epsilon} at {others}: {found:e}"
        );
        worst = worst.max(found / delta);
    }
    worst
}

fn gaussian_terms(stream: &mut Stream, dummy_rate: f64) -> Terms {
    let shape = if stream.whole(0, 1) == 0 { Shape::OneHot } else { Shape::Vector };
    let law = Law::Gaussian { sigma: stream.spread(0.8, 8.0), shape };
    let (rate, min_batch) = (stream.spread(0.03, 0.9), stream.whole(2, 60));
    Terms { dummy_rate, ..Terms::new(law, rate, min_batch, 1) }
}

#[test]
fn gaussian_recipes_hold_for_every_population() {
    let mut stream = Stream::new(13);
    let (mut finite, mut near) = (0, 0);
    for _ in 0..24 {
        let (terms, delta) = (gaussian_terms(&mut stream, 0.0), stream.spread(1e-8, 1e-2));
        for honest in [0, 4, 20, MOST] {
            let worst = gaussian_case(&terms, honest, delta, 0..=MOST);
            assert!(honest > 0 || worst == 0.0, "{terms:?}: finite although nobody is certified");
            finite += u32::from(worst > 0.0);
            near += u32::from(worst > 0.01);
        }
    }
    println!("{finite} finite, {near} within a factor of 100 of delta");
    assert!(finite >= 36 && near >= 12);
}

/// Two rounds, the first among so few that nothing is released, the second among any number.
#[test]
fn gaussian_recipes_hold_if_the_population_changes() {
    let mut stream = Stream::new(18);
    let mut worst = 0.0f64;
    for _ in 0..10 {
        let (terms, delta) = (gaussian_terms(&mut stream, 0.0), stream.spread(1e-6, 1e-2));
        let Terms { rate, min_batch, .. } = terms;
        let Law::Gaussian { sigma, shape } = terms.law else { panic!("Gaussian only") };
        let honest = stream.whole(3, 12);
        let epsilon =
            judge(&Terms { rounds: 2, ..terms }, Some(2 * honest + 1), delta).unwrap().epsilon;
        if !epsilon.is_finite() {
            continue;
        }
        let round =
            |others| Round { rate, others, dummy_rate: 0.0, sigma: sigma * 0.5f64.sqrt(), shape };
        let least = min_batch.div_ceil(2) as usize;
        for others in (honest..=MOST).step_by(9) {
            let (mut leaves, mut comes) = (0.0, 0.0);
            for (base, before) in round(honest).counts() {
                let with = (1.0 - rate) * base + rate * before;
                let loss = (with / base).ln();
                if base > 0.0 {
                    leaves += with * thresholded(&round(others), least, epsilon - loss).0;
                    comes += base * thresholded(&round(others), least, epsilon + loss).1;
                } else {
                    leaves += with;
                }
            }
            let found = leaves.max(comes);
            assert!(found <= delta * (1.0 + 1e-9), "{terms:?} {honest} {others}: {found:e}");
            worst = worst.max(found / delta);
        }
    }
    assert!(worst > 0.01, "{worst}");
}

#[test]
fn gaussian_recipes_with_dummies_hold_for_many_populations() {
    let mut stream = Stream::new(14);
    for _ in 0..8 {
        let dummy_rate = stream.between(0.05, 0.6);
        let (terms, delta) = (gaussian_terms(&mut stream, dummy_rate), stream.spread(1e-8, 1e-2));
        // Those around the edge, where releases become likely, and some beyond.
        let sending = terms.rate + (1.0 - terms.rate) * dummy_rate;
        let edge = (0.5 * terms.min_batch as f64 / sending) as u64;
        for honest in [edge / 3, edge] {
            let populations = (0..=2 * edge + 10).step_by(1 + edge as usize / 12);
            gaussian_case(&terms, honest, delta, populations);
        }
    }
}

/// A real crowd of a recipe with a local randomizer: all others hold the same value, and what is
/// looked at are the number of reports and how many of them fall into each of two classes.
#[derive(Clone, Copy, Debug)]
enum Crowd {
    /// Disjoint classes: the probabilities of a report of another device, of the device if it holds
    /// the first value, and if it holds the second.
    Classes { others: (f64, f64), first: (f64, f64), second: (f64, f64) },
    /// Two columns of a sum of bits: the same, each bit by itself.
    Columns { others: (f64, f64), first: (f64, f64), second: (f64, f64) },
}

/// Crowds of which the worst is close to the best attack that is known.
fn crowds(law: Law) -> Vec<Crowd> {
    match law {
        Law::RandomizedResponse { epsilon0, k } => {
            let p = 1.0 / (epsilon0.exp() + k as f64 - 1.0);
            let own = epsilon0.exp() * p;
            let of = |others| Crowd::Classes { others, first: (own, p), second: (p, own) };
            let third = (k > 2).then(|| of((p, p)));
            third.into_iter().chain([of((own, p)), of((p, own))]).collect()
        }
        Law::Rappor { epsilon0, k } => {
            let p = 1.0 / (epsilon0.exp() + 1.0);
            let of = |others| Crowd::Columns { others, first: (1.0 - p, p), second: (p, 1.0 - p) };
            let third = (k > 2).then(|| of((p, p)));
            third.into_iter().chain([of((1.0 - p, p)), of((p, 1.0 - p))]).collect()
        }
        Law::ProjectiveGeometry { epsilon0, order, dimension } => {
            // The others hold a third point of the line through the two.
            let points = |t: u32| (order.pow(t) - 1) as f64;
            let t = dimension as u32;
            let (own, shared) = (points(t - 1) / points(t), points(t - 2) / points(t));
            let e = epsilon0.exp();
            let by_rest = 1.0 + (e - 1.0) / own;
            let by_own = e * (1.0 - own) / (1.0 - e * own).max(1e-300);
            let weight = by_rest.min(by_own);
            let p = (own - shared) / (1.0 + (weight - 1.0) * own);
            let (first, second) = ((weight * p, p), (p, weight * p));
            vec![Crowd::Classes { others: (p, p), first, second }]
        }
        Law::Exact
        | Law::Gaussian { .. }
        | Law::DistributedGaussian { .. }
        | Law::ServerGaussian { .. } => panic!("not local"),
    }
}

/// `ln n!` for small n.
fn ln_factorials(most: u64) -> Vec<f64> {
    let mut sum = 0.0;
    (0..=most)
        .map(|n| {
            sum += (n.max(1) as f64).ln();
            sum
        })
        .collect()
}

/// What a crowd of `others`, each of which answers with probability `rate`, shows.
struct World {
    crowd: Crowd,
    rate: f64,
    /// The device's rate with its first value, and with its second.
    own: (f64, f64),
    others: u64,
    ln_factorials: Vec<f64>,
}

impl World {
    fn binomial(&self, n: u64, k: u64, p: f64) -> f64 {
        if k > n {
            return 0.0;
        }
        let of = |n: u64| self.ln_factorials[n as usize];
        let power = |p: f64, k: u64| if k == 0 { 0.0 } else { k as f64 * p.ln() };
        (of(n) - of(k) - of(n - k) + power(p, k) + power(1.0 - p, n - k)).exp()
    }

    /// The probability that `sent` others show (i, j).
    fn crowd(&self, sent: u64, i: u64, j: u64) -> f64 {
        match self.crowd {
            Crowd::Columns { others, .. } => {
                self.binomial(sent, i, others.0) * self.binomial(sent, j, others.1)
            }
            Crowd::Classes { others, .. } => {
                if i + j > sent {
                    return 0.0;
                }
                let rest = others.1 / (1.0 - others.0);
                self.binomial(sent, i, others.0) * self.binomial(sent - i, j, rest)
            }
        }
    }

    /// With the device's own report, under its first and its second value.
    fn with_device(&self, sent: u64, i: u64, j: u64) -> (f64, f64) {
        let at = |di: u64, dj: u64| {
            if i < di || j < dj { 0.0 } else { self.crowd(sent, i - di, j - dj) }
        };
        let (none, left, right, both) = (at(0, 0), at(1, 0), at(0, 1), at(1, 1));
        let of = |own: (f64, f64)| match self.crowd {
            Crowd::Classes { .. } => own.0 * left + own.1 * right + (1.0 - own.0 - own.1) * none,
            Crowd::Columns { .. } => {
                own.0 * own.1 * both
                    + own.0 * (1.0 - own.1) * left
                    + (1.0 - own.0) * own.1 * right
                    + (1.0 - own.0) * (1.0 - own.1) * none
            }
        };
        let (Crowd::Classes { first, second, .. } | Crowd::Columns { first, second, .. }) =
            self.crowd;
        (of(first), of(second))
    }

    /// The divergence of what is seen, in both directions: the count, and the reports if there are
    /// `least` or more.
    fn divergence(&self, least: u64, epsilon: f64) -> f64 {
        let (mut forth, mut back, grown) = (0.0, 0.0, epsilon.exp());
        let mut add = |p: f64, q: f64| {
            forth += (p - grown * q).max(0.0);
            back += (q - grown * p).max(0.0);
        };
        let (Crowd::Classes { others, .. } | Crowd::Columns { others, .. }) = self.crowd;
        for k in 0..=self.others + 1 {
            let without = self.binomial(self.others, k, self.rate);
            let before = self.binomial(self.others, k.wrapping_sub(1), self.rate);
            if without + before < 1e-14 {
                continue;
            }
            let at = |own: f64, with: f64, same: f64| (1.0 - own) * same + own * with;
            if k < least {
                let count = |own| at(own, before, without);
                add(count(self.own.0), count(self.own.1));
                continue;
            }
            let range = |p: f64| {
                let reach = 8.0 * (k as f64 * p * (1.0 - p)).sqrt() + 10.0;
                let (low, high) = (k as f64 * p - reach, k as f64 * p + reach);
                low.max(0.0) as u64..=(high as u64).min(k)
            };
            for i in range(others.0) {
                for j in range(others.1) {
                    let same = without * self.crowd(k, i, j);
                    let (p, q) =
                        if before > 0.0 { self.with_device(k - 1, i, j) } else { (0.0, 0.0) };
                    add(at(self.own.0, before * p, same), at(self.own.1, before * q, same));
                }
            }
        }
        forth.max(back)
    }
}

/// One recipe against real crowds of some populations, most of which are so small that a release is
/// rare, or just likely; the largest part of delta that one takes.
fn local_case(terms: &Terms, delta: f64) -> f64 {
    let epsilon = judge(terms, None, delta).unwrap().epsilon;
    let least = terms.min_batch.div_ceil(2);
    let edge = least as f64 / terms.rate;
    let spread = (least as f64).sqrt() / terms.rate;
    let mut populations: Vec<u64> = (0..5)
        .map(|j| (edge + (f64::from(j) - 3.0) * 1.2 * spread).max(1.0) as u64)
        .chain([1, least, 2 * edge as u64])
        .collect();
    populations.sort_unstable();
    populations.dedup();
    let mut worst = 0.0f64;
    for devices in populations {
        let ln_factorials = ln_factorials(devices);
        for crowd in crowds(terms.law) {
            let world = World {
                crowd,
                rate: terms.rate,
                own: (terms.rate, terms.rate),
                others: devices - 1,
                ln_factorials: ln_factorials.clone(),
            };
            let found = world.divergence(least, epsilon);
            assert!(
                found <= delta * (1.0 + 1e-9) + 1e-12,
                "{terms:?} {delta:e}: {epsilon} at {devices} of {crowd:?}: {found:e}"
            );
            worst = worst.max(found / delta);
        }
    }
    worst
}

/// The rule for local randomizers, with the sampling in the sum: no crowd that is tried takes more
/// than delta, and the worst ones take a good part of it.
#[test]
fn local_recipes_hold_for_every_population() {
    let mut stream = Stream::new(15);
    let (mut near, cases) = (0, super::cases(12));
    for case in 0..cases {
        let (epsilon0, k) = (stream.between(0.5, 4.0), stream.whole(2, 12));
        let law = match case % 3 {
            0 => Law::RandomizedResponse { epsilon0, k },
            1 => Law::Rappor { epsilon0, k },
            _ => {
                let (order, dimension) = ([3, 7, 13][stream.whole(0, 2) as usize], 3);
                Law::ProjectiveGeometry { epsilon0, order, dimension }
            }
        };
        let (rate, min_batch) = (stream.spread(0.05, 0.9), stream.whole(2, 120));
        let terms = Terms::new(law, rate, min_batch, 1);
        let delta = stream.spread(1e-8, 1e-2);
        let worst = local_case(&terms, delta);
        near += u32::from(worst > 0.02);
    }
    println!("{cases} recipes, {near} with a crowd that takes 2 % of delta");
    assert!(near * 4 >= cases, "{near}");
}

/// Local randomizers with two rates: one of the device's values is the default. The others hold the
/// default value or not, at least as many as are certified.
#[test]
fn local_recipes_with_two_rates_hold() {
    let mut stream = Stream::new(19);
    let (mut finite, mut near, cases) = (0, 0, super::cases(20));
    for case in 0..cases {
        let (epsilon0, k) = (stream.between(0.3, 2.5), stream.whole(2, 12));
        let law = match case % 3 {
            0 => Law::RandomizedResponse { epsilon0, k },
            1 => Law::Rappor { epsilon0, k },
            _ => Law::ProjectiveGeometry { epsilon0, order: 3, dimension: 3 },
        };
        let rate = stream.between(0.1, 0.6);
        let default_rate = rate * stream.between(0.3, 0.98);
        let (min_batch, honest) = (stream.whole(20, 160), stream.whole(40, 120));
        let terms =
            Terms { default_rate: Some(default_rate), ..Terms::new(law, rate, min_batch, 1) };
        let delta = stream.spread(1e-3, 0.1);
        let epsilon = judge(&terms, Some(2 * honest + 1), delta).unwrap().epsilon;
        if !epsilon.is_finite() {
            continue;
        }
        finite += 1;
        let mut worst = 0.0f64;
        for others in [honest, 2 * honest] {
            let ln_factorials = ln_factorials(others + 1);
            for crowd in crowds(law) {
                for theirs in [default_rate, rate] {
                    // The first value is the default, or the second is, or neither.
                    for own in [(default_rate, rate), (rate, default_rate), (rate, rate)] {
                        let ln_factorials = ln_factorials.clone();
                        let world = World { crowd, rate: theirs, own, others, ln_factorials };
                        let found = world.divergence(min_batch.div_ceil(2), epsilon);
                        assert!(
                            found <= delta * (1.0 + 1e-9) + 1e-12,
                            "{terms:?} {delta:e}: {epsilon} at {others}, {crowd:?}: {found:e}"
                        );
                        worst = worst.max(found / delta);
                    }
                }
            }
        }
        near += u32::from(worst > 0.01);
    }
    println!("{finite} of {cases} finite, {near} use a hundredth of delta");
    assert!(finite * 4 >= cases && near * 20 >= cases, "{finite} {near}");
}
