//! Noise that devices bring themselves, as they draw it: discrete, each for itself, and drawn again
//! where a report comes out too long. Summed over all outcomes of small populations.

use sotto_dp::recipe::{Contribution, Law, Terms, judge};

use super::served::{Point, divergence_by_count, sums};
use super::stream::Stream;
use super::{Adjacency, SLACK, cases};

/// A law on the whole numbers from `-reach` to `reach`.
#[derive(Clone)]
struct Masses {
    reach: i64,
    masses: Vec<f64>,
}

impl Masses {
    fn new(reach: i64, mass: impl Fn(i64) -> f64) -> Self {
        let weights: Vec<f64> = (-reach..=reach).map(mass).collect();
        let total: f64 = weights.iter().sum();
        Self { reach, masses: weights.iter().map(|weight| weight / total).collect() }
    }

    fn at(&self, place: i64) -> f64 {
        let index = usize::try_from(place + self.reach);
        index.ok().and_then(|index| self.masses.get(index)).copied().unwrap_or(0.0)
    }

    /// The law of the sum of two.
    fn and(&self, other: &Self) -> Self {
        let reach = self.reach + other.reach;
        let mut masses = vec![0.0; 2 * reach as usize + 1];
        for (i, a) in self.masses.iter().enumerate().filter(|(_, a)| **a > 0.0) {
            for (j, b) in other.masses.iter().enumerate() {
                masses[i + j] += a * b;
            }
        }
        Self { reach, masses }
    }
}

/// One report: the value with noise of this parameter, if it is not longer than `longest`.
fn report(value: i64, sigma: f64, longest: i64) -> Masses {
    let reach = longest.min(value.abs() + (9.0 * sigma).ceil() as i64);
    Masses::new(reach, |x| (-0.5 * ((x - value) as f64 / sigma).powi(2)).exp())
}

/// A population of which all but one device hold the same number.
struct Line {
    others: u64,
    theirs: i64,
    rate: f64,
    sigma: f64,
    longest: i64,
}

/// What is seen: for each count how probable it is, with the law of the sum.
type Seen = Vec<(f64, Option<Masses>)>;

impl Line {
    /// With a device that holds `own`, or with none. Sums of fewer than `least` are not seen.
    fn seen(&self, own: Option<i64>, least: u64) -> Seen {
        let theirs = report(self.theirs, self.sigma, self.longest);
        let nothing = Masses { reach: 0, masses: vec![1.0] };
        let mut of_others = vec![nothing];
        for _ in 0..self.others {
            of_others.push(of_others[of_others.len() - 1].and(&theirs));
        }
        let choose =
            |k: u64| (0..k).fold(1.0, |found, i| found * (self.others - i) as f64 / (i + 1) as f64);
        let count = |k: u64| {
            let (sent, silent) = (k as i32, (self.others - k) as i32);
            choose(k) * self.rate.powi(sent) * (1.0 - self.rate).powi(silent)
        };
        let own = own.map(|own| report(own, self.sigma, self.longest));
        (0..=self.others + 1)
            .map(|k| {
                let sent = if own.is_some() { self.rate } else { 0.0 };
                let without = if k <= self.others { (1.0 - sent) * count(k) } else { 0.0 };
                let with = if k > 0 { sent * count(k - 1) } else { 0.0 };
                if k < least || without + with <= 0.0 {
                    return (without + with, None);
                }
                // A mixture of the two, by what they have of the probability.
                let without_own = (without > 0.0).then(|| &of_others[k as usize]);
                let with_own = (with > 0.0)
                    .then(|| own.as_ref().map(|own| of_others[k as usize - 1].and(own)))
                    .flatten();
                let at = |law: Option<&Masses>, x| law.map_or(0.0, |law| law.at(x));
                let laws = [without_own, with_own.as_ref()];
                let reach = laws.iter().flatten().map(|law| law.reach).max().unwrap();
                let mixed = |x| without * at(laws[0], x) + with * at(laws[1], x);
                (without + with, Some(Masses::new(reach, mixed)))
            })
            .collect()
    }
}

/// The divergence in the worse direction.
fn divergence(one: &Seen, other: &Seen, epsilon: f64) -> f64 {
    let ratio = epsilon.exp();
    let (mut forth, mut back) = (0.0, 0.0);
    let mut add = |p: f64, q: f64| {
        forth += (p - ratio * q).max(0.0);
        back += (q - ratio * p).max(0.0);
    };
    for ((p, first), (q, second)) in one.iter().zip(other) {
        let laws = [first, second];
        let Some(reach) = laws.iter().filter_map(|law| law.as_ref()).map(|law| law.reach).max()
        else {
            add(*p, *q);
            continue;
        };
        let at = |law: &Option<Masses>, x| law.as_ref().map_or(0.0, |law| law.at(x));
        for x in -reach..=reach {
            add(p * at(first, x), q * at(second, x));
        }
    }
    forth.max(back)
}

/// The probability that the noise on a value of the largest norm comes out too long.
fn too_long(norm: i64, sigma: f64, longest: i64) -> f64 {
    let reach = norm + (40.0 * sigma) as i64;
    let law = report(norm, sigma, i64::MAX >> 1);
    (longest + 1..=reach).map(|x| law.at(x) + law.at(-x)).sum()
}

/// Recipes hold for every population that is tried, with half of the batch dishonest (their noise is
/// known) or missing, or none; and with reports that are drawn again, so often that it can be seen.
#[test]
fn recipes_with_noise_of_devices_hold() {
    let mut stream = Stream::new(41);
    let (mut finite, mut near, mut redrawing) = ([0; 2], [0; 2], [0; 2]);
    for case in 0..cases(48) {
        let side = case as usize % 2;
        let adjacency = [Adjacency::AddRemove, Adjacency::Replace][side];
        let norm = stream.whole(1, 4) as i64;
        let each = stream.between(1.0, 4.0);
        let others = stream.whole(4, 7);
        let (rate, min_batch) = match adjacency {
            // What protects presence needs a crowd in which not all send.
            Adjacency::AddRemove => (stream.spread(0.03, 0.3), stream.whole(2, 8)),
            _ => (stream.between(0.7, 1.0), stream.whole(others, 2 * others + 2)),
        };
        let delta = if side == 0 { stream.spread(3e-3, 0.1) } else { stream.spread(1e-4, 2e-2) };
        // How long a report may be: longer ones cost a part of delta. Of a larger part, too few recipes
        // would have a finite epsilon; of a smaller one, nothing would be seen.
        let share = 0.03;
        let cost = |longest| (others + 1) as f64 * too_long(norm, each, longest);
        let longest = (norm..).find(|longest| cost(*longest) <= share * delta).unwrap();
        let vector = Contribution::Vector { norm: norm as f64, dimension: 1 };
        let law = Law::DistributedGaussian {
            sigma: each * (min_batch as f64).sqrt(),
            contribution: vector,
            unit: 1,
            dimension: 1,
            adjacency,
            redrawn: cost(longest),
        };
        let terms = Terms::new(law, rate, min_batch, 1);
        let found = judge(&terms, Some(2 * others + 1), delta).unwrap();
        assert!(found.adjacency == adjacency && found.delta == delta);
        if !found.epsilon.is_finite() {
            continue;
        }
        finite[side] += 1;
        redrawing[side] += u32::from(cost(longest) > 0.01 * delta);
        let mut worst = 0.0f64;
        for theirs in [norm, 0, -norm] {
            let line = Line { others, theirs, rate, sigma: each, longest };
            for dishonest in [0, min_batch / 2] {
                let least = min_batch - dishonest;
                let one = line.seen(Some(norm), least);
                let other = match adjacency {
                    Adjacency::Replace => line.seen(Some(-norm), least),
                    _ => line.seen(None, least),
                };
                let truth = divergence(&one, &other, found.epsilon);
                assert!(truth <= delta * (1.0 + SLACK), "{terms:?} {others}: {found:?} {truth:e}");
                worst = worst.max(truth / delta);
            }
        }
        near[side] += u32::from(worst > 0.01);
    }
    println!("{finite:?} finite, {redrawing:?} of them redrawn, {near:?} use a hundredth of delta");
    let enough = |count: &u32| *count >= cases(48) / 12;
    assert!(finite.iter().chain(&near).chain(&redrawing).all(enough), "{near:?} {redrawing:?}");
}

/// The same in the plane, for vectors in any direction and with dummies, which bring noise too. Here
/// no report is drawn again.
#[test]
fn noise_of_devices_hides_vectors_in_every_direction() {
    let mut stream = Stream::new(42);
    let (mut finite, mut near) = ([0; 2], [0; 2]);
    for case in 0..cases(40) {
        let side = case as usize % 2;
        let adjacency = [Adjacency::AddRemove, Adjacency::Replace][side];
        let entry = |stream: &mut Stream| stream.whole(0, 4) as i64 - 2;
        let own = [stream.whole(1, 2) as i64, entry(&mut stream)];
        let norm = ((own[0] * own[0] + own[1] * own[1]) as f64).sqrt();
        let each = stream.between(1.0, 1.6);
        let others = stream.whole(3, 5);
        let (rate, min_batch) = match adjacency {
            Adjacency::AddRemove => (stream.spread(0.03, 0.3), stream.whole(4, 9)),
            _ => (stream.between(0.7, 1.0), stream.whole(others, 2 * others + 2)),
        };
        let dummy_rate = if stream.whole(0, 1) == 0 { 0.0 } else { stream.between(0.02, 0.3) };
        let delta = if side == 0 { stream.spread(3e-3, 0.1) } else { stream.spread(1e-4, 2e-2) };
        let law = Law::DistributedGaussian {
            sigma: each * (min_batch as f64).sqrt(),
            contribution: Contribution::Vector { norm, dimension: 2 },
            unit: 1,
            dimension: 2,
            adjacency,
            redrawn: 0.0,
        };
        let terms = Terms { dummy_rate, ..Terms::new(law, rate, min_batch, 1) };
        let found = judge(&terms, Some(2 * others + 1), delta).unwrap();
        if !found.epsilon.is_finite() {
            continue;
        }
        finite[side] += 1;
        let one = report(0, each, i64::MAX >> 1);
        let noise = |count: u64| {
            let all = (1..count).fold(one.clone(), |sum, _| sum.and(&one));
            (0..=all.reach).map(|x| all.at(x)).take_while(|mass| *mass > 1e-16).collect()
        };
        let opposite = own.map(|x| -x);
        let mut worst = 0.0f64;
        for theirs in [opposite, own, [-own[1], own[0]]] {
            let crowd = vec![theirs; others as usize];
            let with = |value: Point| sums(&[&crowd[..], &[value]].concat(), rate, dummy_rate);
            let neighbour = match adjacency {
                Adjacency::Replace => with(opposite),
                _ => sums(&crowd, rate, dummy_rate),
            };
            for dishonest in [0, min_batch / 2] {
                let (laws, least) = ([&with(own), &neighbour], min_batch - dishonest);
                let truth = divergence_by_count(laws, true, &noise, least.max(1), found.epsilon);
                assert!(truth <= delta * (1.0 + SLACK), "{terms:?} {others}: {found:?} {truth:e}");
                worst = worst.max(truth / delta);
            }
        }
        near[side] += u32::from(worst > 0.01);
    }
    println!("{finite:?} finite, {near:?} use a hundredth of delta");
    assert!(finite.iter().chain(&near).all(|count| *count >= cases(40) / 12), "{near:?}");
}

/// A device that counted all of the noise would claim what does not hold: of four contributions two
/// are honest. And where reports are drawn again so often that it cannot be charged, nothing is
/// claimed.
#[test]
fn half_of_the_noise_counts() {
    let (norm, each, min_batch, delta) = (4_u32, 4.0, 4, 1e-3);
    let law = |sigma: f64, redrawn: f64| Law::DistributedGaussian {
        sigma: sigma * (min_batch as f64).sqrt(),
        contribution: Contribution::Vector { norm: norm.into(), dimension: 1 },
        unit: 1,
        dimension: 1,
        adjacency: Adjacency::Replace,
        redrawn,
    };
    let of = |law: Law| judge(&Terms::new(law, 1.0, min_batch, 1), None, delta).unwrap();
    let truth = |epsilon: f64| {
        let line = Line { others: 1, theirs: 0, rate: 1.0, sigma: each, longest: 1_000 };
        let [one, other] = [i64::from(norm), -i64::from(norm)].map(|own| line.seen(Some(own), 1));
        divergence(&one, &other, epsilon)
    };
    let found = of(law(each, 0.0));
    assert!((0.5 * delta..=delta).contains(&truth(found.epsilon)), "{}", truth(found.epsilon));
    assert!(truth(of(law(2f64.sqrt() * each, 0.0)).epsilon) > delta, "half of the noise");
    assert!(truth(found.paper_epsilon) > delta, "all of the noise");

    // Each part of delta that may be charged costs a little more, until there is none.
    let charges =
        [0.0, 1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1.0].map(|often| of(law(each, often)).epsilon);
    assert!(charges.is_sorted(), "{charges:?}");
    assert!(charges[0] < charges[2] && charges[3] < f64::INFINITY, "{charges:?}");
    assert!(charges[5..].iter().all(|epsilon| epsilon.is_infinite()), "{charges:?}");
}

/// A sum of draws is nearly one draw of the summed variance, as is proved: summed.
#[test]
fn a_sum_of_draws_is_as_close_to_one_draw_as_promised() {
    for (sigma, parties) in [(0.6_f64, 2_u64), (0.7, 5), (0.8, 30), (1.0, 3), (1.3, 4)] {
        let one = report(0, sigma, i64::MAX >> 1);
        let mut sum = one.clone();
        for _ in 1..parties {
            sum = sum.and(&one);
        }
        let all = sigma * (parties as f64).sqrt();
        let exact = report(0, all, i64::MAX >> 1);
        let promised = |coordinates| {
            let of = |closeness: f64| closeness / coordinates;
            let sum = sotto_dp::discrete::smoothed_sum(sigma, parties, all, coordinates).unwrap();
            of(sum.closeness)
                - of(sotto_dp::discrete::smoothed(all, coordinates).unwrap().closeness)
        };
        let reach = (5.0 * all) as i64;
        let off = (-reach..=reach).map(|x| (sum.at(x) / exact.at(x)).ln().abs());
        let (off, promised) = (off.fold(0.0, f64::max), promised(1.0));
        assert!(off <= promised * (1.0 + 1e-9) + 1e-10, "{sigma} {parties}: {off} {promised}");
        assert!(off > 0.001 * promised || promised < 1e-6, "{sigma} {parties}: {off} {promised}");
    }
    // What a recipe may have: nothing to be seen.
    let found = sotto_dp::discrete::smoothed_sum(4.0, 1_000_000, 4_000.0, 1e6).unwrap();
    assert!(found.closeness < 1.1e-10, "{found:?}");
}
