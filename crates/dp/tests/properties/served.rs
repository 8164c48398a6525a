//! Noise of an honest server: discrete Gaussian noise on sums of whole numbers, summed over all
//! outcomes of small populations.

use std::collections::BTreeMap;

use sotto_dp::discrete::smoothed;
use sotto_dp::recipe::{Contribution, Law, Terms, judge};

use super::stream::Stream;
use super::{Accountant, Adjacency, Event, Question, SLACK, Shape, cases};

/// Two coordinates; of one number only the first is used.
pub(super) type Point = [i64; 2];

/// How probable each count and sum is.
type Sums = BTreeMap<(u64, Point), f64>;

pub(super) fn sums(devices: &[Point], rate: f64, dummy_rate: f64) -> Sums {
    let mut law = Sums::from([((0, [0, 0]), 1.0)]);
    for value in devices {
        let mut next = Sums::new();
        for ((count, sum), mass) in law {
            let moved = [sum[0] + value[0], sum[1] + value[1]];
            for (key, probability) in [
                ((count + 1, moved), rate),
                ((count + 1, sum), (1.0 - rate) * dummy_rate),
                ((count, sum), (1.0 - rate) * (1.0 - dummy_rate)),
            ] {
                *next.entry(key).or_insert(0.0) += mass * probability;
            }
        }
        law = next;
    }
    law
}

/// The discrete Gaussian at the distances 0, 1, 2, ...
fn noise(sigma: f64) -> Vec<f64> {
    let weight = |x: i64| (-0.5 * (x as f64 / sigma).powi(2)).exp();
    let reach = (10.0 * sigma).ceil() as i64 + 1;
    let total: f64 = (-reach..=reach).map(weight).sum();
    (0..=reach).map(|x| weight(x) / total).collect()
}

/// The divergence of two laws of sums, in the worse direction, where the sum is seen with noise if
/// there are `least` contributions or more, and the count always.
fn divergence(laws: [&Sums; 2], plane: bool, sigma: f64, least: u64, epsilon: f64) -> f64 {
    let noise = noise(sigma);
    divergence_by_count(laws, plane, &|_| noise.clone(), least, epsilon)
}

/// The same with noise that depends on the count: its law at the distances 0, 1, 2, ...
pub(super) fn divergence_by_count(
    laws: [&Sums; 2],
    plane: bool,
    noise: &dyn Fn(u64) -> Vec<f64>,
    least: u64,
    epsilon: f64,
) -> f64 {
    let ratio = epsilon.exp();
    let mut by_count = BTreeMap::<u64, [Vec<(Point, f64)>; 2]>::new();
    for (side, law) in laws.into_iter().enumerate() {
        for ((count, sum), mass) in law {
            by_count.entry(*count).or_default()[side].push((*sum, *mass));
        }
    }
    let (mut forth, mut back) = (0.0, 0.0);
    let mut add = |p: f64, q: f64| {
        forth += (p - ratio * q).max(0.0);
        back += (q - ratio * p).max(0.0);
    };
    for (count, [a, b]) in by_count {
        let total = |of: &[(Point, f64)]| of.iter().map(|(_, mass)| mass).sum::<f64>();
        if count < least {
            add(total(&a), total(&b));
            continue;
        }
        let noise = noise(count);
        let reach = noise.len() as i64 - 1;
        let at = |d: i64| noise.get(d.unsigned_abs() as usize).copied().unwrap_or(0.0);
        let range = |axis: usize| {
            let all = || a.iter().chain(&b).map(|(sum, _)| sum[axis]);
            (all().min().unwrap() - reach, all().max().unwrap() + reach)
        };
        let rows = if plane { range(1) } else { (0, 0) };
        for x in range(0).0..=range(0).1 {
            for y in rows.0..=rows.1 {
                let density = |of: &[(Point, f64)]| -> f64 {
                    let near =
                        |sum: &Point| at(x - sum[0]) * if plane { at(y - sum[1]) } else { 1.0 };
                    of.iter().map(|(sum, mass)| mass * near(sum)).sum()
                };
                add(density(&a), density(&b));
            }
        }
    }
    forth.max(back)
}

/// Vectors of whole numbers in any direction: judged as continuous noise that was rounded, sampled
/// or not, and with the count seen.
#[test]
fn whole_numbers_are_covered_in_every_direction() {
    let mut stream = Stream::new(36);
    let (mut near, mut plane) = (0, 0);
    for _ in 0..cases(40) {
        let entry = |stream: &mut Stream| stream.whole(0, 4) as i64 - 2;
        let value = [entry(&mut stream).abs() + 1, entry(&mut stream)];
        let (sigma, rate) = (stream.between(1.0, 4.0), stream.spread(0.05, 1.0));
        let delta = stream.spread(1e-7, 1e-2);
        let coordinates = if value[1] == 0 { 1.0 } else { 2.0 };
        let found = smoothed(sigma, coordinates).unwrap();
        let norm = ((value[0] * value[0] + value[1] * value[1]) as f64).sqrt();
        let of = Box::new(Event::Gaussian { sigma: found.sigma, sensitivity: norm });
        let others = stream.whole(1, 3);
        let shape = Shape::Vector;
        let seen = Event::SampledCountSeen {
            rate,
            population: others,
            dummy_rate: 0.0,
            sigma: found.sigma / norm,
            shape,
        };
        for event in [Event::PoissonSampled { rate, of }, seen] {
            let hidden = matches!(event, Event::PoissonSampled { .. });
            let (adjacency, accountant) = (Adjacency::AddRemove, Accountant::Best);
            let question = Question { event: &event, adjacency, shape, accountant };
            let less = delta * (-found.closeness).exp();
            let epsilon = question.epsilon_upper(less).unwrap() + 2.0 * found.closeness;
            let opposite = [-value[0], -value[1]];
            let crowd = if hidden { vec![] } else { vec![opposite; others as usize] };
            let with = sums(&[&crowd[..], &[value]].concat(), rate, 0.0);
            let without = sums(&crowd, rate, 0.0);
            let forget = |law: &Sums| {
                let mut sum = Sums::new();
                for ((_, at), mass) in law {
                    *sum.entry((0, *at)).or_insert(0.0) += mass;
                }
                sum
            };
            let laws = if hidden { [forget(&with), forget(&without)] } else { [with, without] };
            let truth = divergence([&laws[0], &laws[1]], value[1] != 0, sigma, 0, epsilon);
            assert!(truth <= delta * (1.0 + SLACK), "{event:?} {value:?} {delta:e}: {truth:e}");
            near += u32::from(truth > 0.3 * delta);
            plane += u32::from(value[1] != 0);
        }
    }
    println!("{near} of {} use a third of delta, {plane} in two dimensions", 2 * cases(40));
    assert!(near >= cases(40) / 4 && plane >= cases(40) / 2);
}

/// A contribution, the values of the device and of its neighbour, and what the others may hold.
fn contribution(stream: &mut Stream) -> (Contribution, Point, Point, Vec<Point>) {
    match stream.whole(0, 5) {
        0 => {
            let max = stream.whole(1, 3);
            let top = [max as i64, 0];
            (Contribution::Numbers { max, length: 1 }, top, [0, 0], vec![[0, 0], top])
        }
        1 => (Contribution::Labels { most: 1 }, [1, 0], [0, 1], vec![[1, 0], [0, 1], [0, 0]]),
        2 => (Contribution::Labels { most: 2 }, [1, 1], [0, 0], vec![[1, 1], [0, 1], [0, 0]]),
        3 => (Contribution::Total { most: 2 }, [2, 0], [0, 2], vec![[2, 0], [0, 2], [1, 1]]),
        4 => {
            let numbers = Contribution::Numbers { max: 2, length: 2 };
            (numbers, [2, 2], [0, 0], vec![[2, 2], [0, 2], [0, 0]])
        }
        _ => {
            let norm = 5f64.sqrt();
            let vector = Contribution::Vector { norm, dimension: 2 };
            (vector, [2, 1], [-2, -1], vec![[-2, -1], [0, 0], [2, 1], [1, -2]])
        }
    }
}

/// Recipes with a server's noise hold for every population that is tried, whether presence or the
/// value is claimed, with as many dishonest contributions as are allowed, or none.
#[test]
fn recipes_with_noise_of_a_server_hold() {
    let mut stream = Stream::new(37);
    let (mut finite, mut near) = ([0; 2], [0; 2]);
    for case in 0..cases(40) {
        let (contribution, own, other, choice) = contribution(&mut stream);
        let plane = !matches!(contribution, Contribution::Numbers { length: 1, .. });
        let sigma = contribution.norm() * stream.between(1.0, 3.0);
        let sigma = if plane { sigma.min(3.0) } else { sigma };
        let side = case as usize % 2;
        // What protects presence needs a crowd in which not all send.
        let rate = if side == 0 { stream.spread(0.03, 0.3) } else { stream.spread(0.2, 0.9) };
        let (others, min_batch) = (stream.whole(5, 9), stream.whole(2, 8));
        let min_batch = if side == 0 { min_batch + 5 } else { min_batch };
        let dummy_rate = if stream.whole(0, 1) == 0 { 0.0 } else { stream.between(0.02, 0.3) };
        let delta = if side == 0 { stream.spread(3e-3, 0.1) } else { stream.spread(1e-4, 2e-2) };
        let adjacency = [Adjacency::AddRemove, Adjacency::Replace][side];
        let law = Law::ServerGaussian { sigma, contribution, adjacency };
        let terms = Terms { dummy_rate, ..Terms::new(law, rate, min_batch, 1) };
        let found = judge(&terms, Some(2 * others + 1), delta).unwrap();
        assert!(found.adjacency == adjacency && found.delta == delta);
        if !found.epsilon.is_finite() {
            continue;
        }
        finite[side] += 1;
        let mut worst = 0.0f64;
        for theirs in &choice {
            let crowd = vec![*theirs; others as usize];
            let with = |value: Point| sums(&[&crowd[..], &[value]].concat(), rate, dummy_rate);
            let neighbour = match adjacency {
                Adjacency::Replace => with(other),
                _ => sums(&crowd, rate, dummy_rate),
            };
            for dishonest in [0, min_batch / 2] {
                let least = min_batch - dishonest;
                let laws = [&with(own), &neighbour];
                let truth = divergence(laws, plane, sigma, least, found.epsilon);
                assert!(truth <= delta * (1.0 + SLACK), "{terms:?} {others}: {found:?} {truth:e}");
                worst = worst.max(truth / delta);
            }
        }
        near[side] += u32::from(worst > 0.01);
    }
    println!("{finite:?} finite, {near:?} use a hundredth of delta");
    assert!(
        finite.iter().chain(&near).all(|count| *count >= cases(40) / 10),
        "{finite:?} {near:?}"
    );
}

/// Devices that hold 0, the default, or 1: how many of each.
#[derive(Clone, Copy)]
struct Line {
    zeros: u64,
    ones: u64,
}

impl Line {
    /// Of `all` devices, `ones` hold 1.
    fn of(all: u64, ones: u64) -> Self {
        Self { zeros: all - ones, ones }
    }

    fn with(self, one: bool) -> Self {
        Self { zeros: self.zeros + u64::from(!one), ones: self.ones + u64::from(one) }
    }

    /// Those with 0 take part with the first probability, those with 1 with the second.
    fn sums(self, rates: (f64, f64), dummy_rate: f64) -> Sums {
        let size = (self.zeros + self.ones + 1) as usize;
        let mut law = vec![vec![0.0; size]; size];
        law[0][0] = 1.0;
        for device in 0..size - 1 {
            let is_one = (device as u64) < self.ones;
            let rate = if is_one { rates.1 } else { rates.0 };
            let (dummy, silent) = ((1.0 - rate) * dummy_rate, (1.0 - rate) * (1.0 - dummy_rate));
            for count in (0..=device + 1).rev() {
                for sum in (0..=count).rev() {
                    let before = |sum: usize| if count > 0 { law[count - 1][sum] } else { 0.0 };
                    let moved = match (is_one, sum) {
                        (true, 0) => 0.0,
                        (true, _) => before(sum - 1),
                        (false, _) => before(sum),
                    };
                    law[count][sum] = silent * law[count][sum] + dummy * before(sum) + rate * moved;
                }
            }
        }
        let rows = law.into_iter().enumerate();
        let points = rows.flat_map(|(count, row)| {
            let at = move |(sum, mass)| ((count as u64, [sum as i64, 0]), mass);
            row.into_iter().enumerate().map(at).filter(|(_, mass)| *mass > 1e-18)
        });
        points.collect()
    }
}

/// Where the rate depends on the value, the number of reports says something about it. Whatever the
/// others hold, and however many there are beside those that are certified, the recipe holds.
#[test]
fn recipes_with_two_rates_hold() {
    let mut stream = Stream::new(38);
    let (mut finite, mut near) = ([0; 2], [0; 2]);
    for case in 0..cases(32) {
        let side = case as usize % 2;
        let adjacency = [Adjacency::AddRemove, Adjacency::Replace][side];
        let rate = stream.between(0.1, 0.6);
        let default_rate = rate * stream.between(0.2, 0.98);
        let dummy_rate = if stream.whole(0, 1) == 0 { 0.0 } else { stream.between(0.02, 0.3) };
        let (sigma, honest) = (stream.between(1.0, 4.0), stream.whole(20, 150));
        let (min_batch, delta) = (stream.whole(2, 90), stream.spread(1e-4, 0.1));
        let contribution = Contribution::Labels { most: 1 };
        let law = Law::ServerGaussian { sigma, contribution, adjacency };
        let plain = Terms::new(law, rate, min_batch, 1);
        let terms = Terms { default_rate: Some(default_rate), dummy_rate, ..plain };
        let found = judge(&terms, Some(2 * honest + 1), delta).unwrap();
        assert_eq!(found.adjacency, adjacency);
        if !found.epsilon.is_finite() {
            continue;
        }
        finite[side] += 1;
        let mut worst = 0.0f64;
        for others in [honest, honest + 1, 2 * honest] {
            for ones in [0, others / 3, others] {
                let crowd = Line::of(others, ones);
                let law = |line: Line| line.sums((default_rate, rate), dummy_rate);
                let (zero, one) = (law(crowd.with(false)), law(crowd.with(true)));
                let pairs = match adjacency {
                    Adjacency::Replace => vec![(&one, zero)],
                    _ => vec![(&one, law(crowd)), (&zero, law(crowd))],
                };
                for (with, without) in &pairs {
                    for least in [min_batch, min_batch.div_ceil(2)] {
                        let laws = [*with, without];
                        let truth = divergence(laws, false, sigma, least, found.epsilon);
                        assert!(
                            truth <= delta * (1.0 + SLACK),
                            "{terms:?} {others} {ones}: {found:?} {truth:e}"
                        );
                        worst = worst.max(truth / delta);
                    }
                }
            }
        }
        near[side] += u32::from(worst > 0.03);
    }
    println!("{finite:?} of {} finite, {near:?} use a thirtieth of delta", cases(32));
    assert!(finite.iter().all(|count| *count >= cases(32) / 6), "{finite:?}");
    assert!(near.iter().all(|count| *count >= cases(32) / 30), "{near:?}");
}

/// Somebody who knows who sent something: the others are those that did, and there are not always
/// as many.
#[test]
fn recipes_hold_among_senders() {
    let mut stream = Stream::new(39);
    let (mut finite, mut near) = (0, 0);
    for case in 0..cases(12) {
        let (rate, senders) = (stream.between(0.1, 0.5), stream.between(0.2, 0.9));
        let default_rate = (case % 2 == 1).then(|| rate * stream.between(0.5, 0.98));
        let (sigma, honest) = (stream.between(1.0, 4.0), stream.whole(20, 60));
        let (min_batch, delta) = (stream.whole(2, 30), stream.spread(3e-3, 0.1));
        let contribution = Contribution::Numbers { max: 1, length: 1 };
        let law = Law::ServerGaussian { sigma, contribution, adjacency: Adjacency::AddRemove };
        let terms = Terms { default_rate, senders, ..Terms::new(law, rate, min_batch, 1) };
        let epsilon = judge(&terms, Some(2 * honest + 1), delta).unwrap().epsilon;
        if !epsilon.is_finite() {
            continue;
        }
        finite += 1;
        let rates = (default_rate.unwrap_or(rate), rate);
        let mut truth = 0.0;
        let mut of_number = (1.0 - senders).powi(honest as i32);
        for others in 0..=honest {
            let crowd = Line::of(others, 0);
            let laws = [&crowd.with(true).sums(rates, 0.0), &crowd.sums(rates, 0.0)];
            truth += of_number * divergence(laws, false, sigma, min_batch.div_ceil(2), epsilon);
            of_number *= (honest - others) as f64 / (others + 1) as f64 * senders / (1.0 - senders);
        }
        assert!(truth <= delta * (1.0 + SLACK), "{terms:?} {honest}: {epsilon} {truth:e}");
        let everybody = Terms { senders: 1.0, ..terms };
        let more = judge(&everybody, Some(2 * honest + 1), delta).unwrap().epsilon;
        assert!(more <= epsilon, "{terms:?}");
        near += u32::from(truth > 0.03 * delta);
    }
    println!("{finite} of {} finite, {near} use a thirtieth of delta", cases(12));
    assert!(finite >= cases(12) / 3 && near >= cases(12) / 6, "{finite} {near}");
}
