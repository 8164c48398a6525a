//! The composition of pairs.
//!
//! Long compositions proceed in stages of about 64: after each, the composed law is wider, so its
//! lattice may be coarser, and no transform becomes long. The lattice is fine for frequent steps
//! and coarse for rare ones: a step that is taken `t` times on a lattice of width `h` adds at most
//! `t h^2 / 4` to the variance of the whole, and every law of the last stage gets the same share.

use super::convolve::Care;
use super::lattice::{Cells, Lattice};
use super::law::Law;
use super::pair::Pair;
use super::tilt;
use crate::Bracket;
use crate::math::search::crossing;
use crate::math::{exp, expm1, ln, log1p, sqrt, up};

/// How many lattice points one standard deviation of a step gets. The variance grows by a relative
/// `1 / (6 POINTS^2)` for each stage, epsilon by half of that. Chosen so that the transforms are
/// just below a power of two: 8,192.
const POINTS: f64 = 64.0;

/// The same when there is more than one stage before the last, and errors add up.
const MORE_POINTS: f64 = 124.0;

/// How much coarser the lattice of the lower end is.
const LOWER_FACTOR: i64 = 4;

/// A bound on the relative error of a step's masses: a few dozen roundings each.
const MASS_TRUST: f64 = 2e-14;

/// A bound on the error of a step's losses, to be multiplied by one plus the largest of them.
const LOSS_TRUST: f64 = 1e-15;

/// The part of delta that may be spent on losses above the lattice.
const TRUNCATION: f64 = 1e-6;

/// The most cells that one pair is cut into; see [`cells`] for costly pairs.
const MAX_CELLS: f64 = 16_384.0;

/// The most cells of a pair times the work per cell.
const MAX_WORK: f64 = 4e6;

/// The most cells that the jumps of a pair are cut into.
const JUMP_CELLS: f64 = 131_072.0;

/// More repetitions than this need the careful transform.
const MANY: u64 = 4_096;

/// With more laws than this in the last stage, errors grow.
const MOST_LAWS: u64 = 1_024;

/// The cells of the bulk of a pair with jumps.
const BULK_CELLS: f64 = 8_192.0;

/// A pair, and the number of its releases.
pub(crate) type Part<'a> = (&'a dyn Pair, u64);

/// Which end of the bracket is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Upper,
    Lower,
    /// A second lower end, with the bulk of each pair as one outcome: for rare jumps out of a
    /// narrow bulk, which the lattice of the first one cannot resolve.
    JumpsOnly,
}

/// The epsilon at `delta` of the composition of all `parts`, in the one direction that the pairs
/// stand for.
pub(crate) fn epsilon(parts: &[Part<'_>], delta: f64) -> Bracket {
    let question = Question::new(parts, delta, 1.0);
    let (upper, tilt) = question.upper();
    let plan = question.plan(tilt);
    let mut lower = plan.epsilon(End::Lower).unwrap_or(0.0).max(0.0);
    if lower < 0.99 * upper {
        lower = lower.max(plan.epsilon(End::JumpsOnly).unwrap_or(0.0));
    }
    Bracket { lower, upper }
}

/// Only the lower end.
pub(crate) fn epsilon_lower(parts: &[Part<'_>], delta: f64) -> f64 {
    let question = Question::new(parts, delta, 1.0);
    let plan = question.plan(question.upper().1);
    let found = plan.epsilon(End::Lower).unwrap_or(0.0).max(0.0);
    found.max(plan.epsilon(End::JumpsOnly).unwrap_or(0.0))
}

/// Only the upper end, in half the time.
pub(crate) fn epsilon_upper(parts: &[Part<'_>], delta: f64) -> f64 {
    Question::new(parts, delta, 1.0).upper().0
}

/// An upper end that is either at most `known` or as sharp as [`epsilon_upper`]: a lattice of half
/// the resolution may already show that the other direction is the worse one.
pub(crate) fn epsilon_upper_beside(known: f64, parts: &[Part<'_>], delta: f64) -> f64 {
    let pure = pure_bound(parts);
    if pure <= known {
        return pure;
    }
    let rough = Question::new(parts, delta, 0.48).upper().0;
    if rough <= known { rough } else { rough.min(epsilon_upper(parts, delta)) }
}

/// The sum of the largest losses: the bound that needs no delta.
fn pure_bound(parts: &[Part<'_>]) -> f64 {
    let sum: f64 = parts.iter().map(|(pair, times)| pair.largest_loss() * *times as f64).sum();
    if sum.is_nan() { f64::INFINITY } else { up(sum, 1e-12) }
}

/// Whether nothing can be told apart except with probability `delta`.
fn hidden(parts: &[Part<'_>], delta: f64) -> bool {
    let sum: f64 = parts.iter().map(|(pair, times)| pair.total_variation() * *times as f64).sum();
    up(sum, 1e-12) <= delta
}

/// The question, with rough sketches of the parts.
struct Question<'a> {
    parts: &'a [Part<'a>],
    sketches: Vec<tilt::Sketch>,
    delta: f64,
    /// The mass of each part that may lie above its lattice.
    outside: f64,
    /// Lattice points relative to the usual number.
    resolution: f64,
}

impl<'a> Question<'a> {
    fn new(parts: &'a [Part<'a>], delta: f64, resolution: f64) -> Self {
        let total: f64 = parts.iter().map(|(_, times)| *times as f64).sum();
        let outside = TRUNCATION * delta / total.max(1.0);
        let sketches =
            parts.iter().map(|(pair, times)| (pair.sketch(outside), *times as f64)).collect();
        Self { parts, sketches, delta, outside, resolution }
    }

    /// The best upper end, and the tilt that gave it.
    fn upper(&self) -> (f64, f64) {
        let mut tilt = tilt::saddle(&self.sketches, self.delta);
        if hidden(self.parts, self.delta) {
            return (0.0, tilt);
        }
        let pure = pure_bound(self.parts);
        if tilt >= tilt::LARGEST {
            // No saddle point: epsilon lies near the largest possible loss (but for infinite ones),
            // and this tilt resolves everything below it.
            let most = if pure.is_finite() { pure } else { self.farthest() };
            tilt = (40.0 / most.max(1e-300)).min(tilt::LARGEST);
        }
        let plan = self.plan(tilt);
        let (mut best, mut best_tilt) = (plan.upper().min(pure), tilt);
        // With rare large jumps the tilted law is not one bulk near epsilon, but a bulk and a far
        // tail. A smaller tilt then gives a finer lattice. Every tilt is valid, so the best answer
        // is too.
        let mut deviation = plan.deviation;
        let mut irregular = false;
        for _ in 0..8 {
            let regular = deviation < 0.4 * best && best.is_finite();
            if regular || tilt * deviation < 4.0 || best < 1e-12 {
                break;
            }
            irregular = true;
            tilt *= 0.5;
            let plan = self.plan(tilt);
            deviation = plan.deviation;
            let next = plan.upper();
            if next < best {
                let enough = next > best * (1.0 - 1e-4);
                (best, best_tilt) = (next, tilt);
                if enough {
                    break;
                }
            }
        }
        if irregular {
            for factor in [1.5, 1.2] {
                let tilt = best_tilt * factor;
                let next = self.plan(tilt).upper();
                if next < best {
                    (best, best_tilt) = (next, tilt);
                }
            }
        }
        (best, best_tilt)
    }

    /// About the sum of the largest finite losses.
    fn farthest(&self) -> f64 {
        let largest = |(sketch, times): &tilt::Sketch| {
            let losses = sketch.iter().map(|point| point.0).filter(|loss| loss.is_finite());
            losses.fold(0.0, f64::max) * times
        };
        self.sketches.iter().map(largest).sum()
    }

    fn plan(&self, tilt: f64) -> Plan<'a> {
        let deviation = sqrt(tilt::variance(&self.sketches, tilt));
        let most = self.parts.iter().map(|(_, times)| *times).max().unwrap_or(1);
        let points = if halvings(most) > 3 { MORE_POINTS } else { POINTS };
        // Laws of the last stage, all with the same cost.
        let laws: u64 = self.parts.iter().map(|(_, times)| (*times).min(64)).sum();
        let laws = laws.clamp(1, MOST_LAWS) as f64;
        let mut step = deviation / (self.resolution * points * sqrt(laws));
        let ranges: Vec<_> =
            self.sketches.iter().map(|(s, _)| tilt::range(s, self.outside, tilt)).collect();
        // Nothing to tell apart, or only black boxes: any lattice will do.
        let widest = ranges.iter().map(|(low, high)| high - low).fold(0.0, f64::max);
        let work = self.parts.iter().map(|(pair, _)| pair.work()).fold(1.0, f64::max);
        step = step.max(widest / JUMP_CELLS.min(MAX_WORK / work));
        if !(step > 0.0) {
            step = 1e-6;
        }
        Plan { parts: self.parts, delta: self.delta, tilt, deviation, step, ranges }
    }
}

/// The grids and the tilt for one question.
struct Plan<'a> {
    parts: &'a [Part<'a>],
    delta: f64,
    tilt: f64,
    /// The standard deviation of the composed loss, tilted.
    deviation: f64,
    /// The step of the last stage; earlier stages use this divided by a power of two.
    step: f64,
    /// For each part, the losses that its lattice must hold.
    ranges: Vec<(f64, f64)>,
}

/// A law before tilting, how often it is composed, and how many times finer than the last its
/// lattice is, as a power of two.
type Stage = (Lattice, u64, u32);

/// What a pair becomes: its stages, and a loss that each of its releases always has.
struct Prepared {
    stages: Vec<Stage>,
    offset: f64,
}

/// Losses beyond this are not put on a lattice: such an epsilon is meaningless, and the Renyi
/// accountant has one too.
const LARGEST_LOSS: f64 = 500.0;

impl Plan<'_> {
    /// The upper end; infinite where there is none.
    fn upper(&self) -> f64 {
        self.epsilon(End::Upper).unwrap_or(f64::INFINITY).max(0.0)
    }

    fn epsilon(&self, end: End) -> Option<f64> {
        let moderate = |(low, high): &(f64, f64)| *low > -LARGEST_LOSS && *high < LARGEST_LOSS;
        if !self.ranges.iter().all(moderate) {
            return None;
        }
        let total: f64 = self.parts.iter().map(|(_, times)| *times as f64).sum();
        let mut ready: Vec<(Law, u64)> = Vec::new();
        let (mut ln_finite, mut offset) = (0.0, 0.0);
        for ((pair, times), range) in self.parts.iter().zip(&self.ranges) {
            let prepared = match end {
                End::Upper => self.pessimistic(*pair, *times, *range)?,
                End::Lower => self.optimistic(*pair, *times, *range)?,
                End::JumpsOnly => self.jumps_only(*pair, *times, *range)?,
            };
            offset += prepared.offset * *times as f64;
            for (lattice, times, halvings) in prepared.stages {
                ln_finite += times as f64 * log1p(-lattice.infinite.min(1.0));
                self.stages(&lattice, times, halvings, end, &mut ready)?;
            }
        }
        let infinite = -expm1(ln_finite);
        let parts: Vec<_> = ready.iter().map(|(law, times)| (law, *times)).collect();
        let law = Law::compose(&parts, Care::Usual)?;
        let loss_trust: f64 = self
            .parts
            .iter()
            .zip(&self.ranges)
            .map(|((_, times), (low, high))| LOSS_TRUST * *times as f64 * (1.0 + high.max(-low)))
            .sum();
        let epsilon = match end {
            End::Upper => self.solve(&law, infinite, total, end)? + loss_trust,
            End::Lower | End::JumpsOnly => self.solve(&law, infinite, total, end)? - loss_trust,
        };
        (!epsilon.is_nan()).then_some(epsilon + offset)
    }

    /// The law that is at least as bad as the pair's. If its lattice would be too long, the step is
    /// split into two independent ones: the *jumps*, losses far from the bulk, on the coarse
    /// lattice of the last stage (with all of the bulk as one outcome), and the bulk, given that it
    /// is the bulk, on the fine one.
    ///
    /// That is at least as bad: anyone who sees both outcomes can forget the second where the first
    /// is a jump. Where it is not, the first outcome's loss `c = ln P(bulk)/Q(bulk)` and the
    /// second's, smaller by `c`, add up to the original loss; so jumps are counted from `c` and the
    /// bulk's losses need not be shifted.
    fn pessimistic(
        &self,
        pair: &dyn Pair,
        times: u64,
        (low, high): (f64, f64),
    ) -> Option<Prepared> {
        let halvings = halvings(times);
        let fine = self.step / f64::from(1u32 << halvings);
        if (high - low) / fine <= cells(pair) {
            let lattice = Cells::cut(pair, fine, 0.0, low, high)?.pessimistic();
            return Some(Prepared { stages: vec![(lattice, times, halvings)], offset: 0.0 });
        }
        let reach = 0.5 * BULK_CELLS.min(cells(pair)) * fine;
        let mut bulk = Cells::cut(pair, fine, 0.0, low.max(-reach), high.min(reach))?;
        let (p, q, ends) = bulk.keep_inside();
        let c = ln(p / q);
        // Jumps are rare: the lattice of the last stage is fine enough for them right away.
        let range = (low.min(c - self.step), high.max(c + self.step));
        let mut jumps = Cells::cut_without(pair, (self.step, c), range, ends)?.pessimistic();
        jumps.still = p;
        let bulk = bulk.pessimistic().divided(p);
        Some(Prepared { stages: vec![(bulk, times, halvings), (jumps, times, 0)], offset: 0.0 })
    }

    /// The law that is at most as bad as the pair's.
    fn optimistic(&self, pair: &dyn Pair, times: u64, (low, high): (f64, f64)) -> Option<Prepared> {
        let mut halvings = halvings(times);
        while halvings > 0 && (high - low) / self.step * f64::from(1u32 << halvings) > cells(pair) {
            halvings -= 1;
        }
        let step = self.step / f64::from(1u32 << halvings);
        let cells = Cells::cut(pair, step, 0.0, low, high.min(low + cells(pair) * step))?;
        let stages = vec![(cells.optimistic(LOWER_FACTOR), times, halvings)];
        Some(Prepared { stages, offset: 0.0 })
    }

    /// The law of the jumps alone, counted from the loss of the bulk as one outcome (merging
    /// outcomes is post-processing).
    fn jumps_only(&self, pair: &dyn Pair, times: u64, (low, high): (f64, f64)) -> Option<Prepared> {
        let step = self.step;
        let mut bulk = Cells::cut(pair, 4.0 * step, 0.0, -8.0 * step, 8.0 * step)?;
        let (p, q, ends) = bulk.keep_inside();
        let c = ln(p / q);
        let range = (low.min(c - step), high.max(c + step));
        let mut jumps = Cells::cut_without(pair, (step, c), range, ends)?.optimistic(LOWER_FACTOR);
        jumps.still = p;
        Some(Prepared { stages: vec![(jumps, times, 0)], offset: c })
    }

    /// Composes one part until its lattice is that of the last stage.
    fn stages(
        &self,
        lattice: &Lattice,
        mut times: u64,
        mut halvings: u32,
        end: End,
        ready: &mut Vec<(Law, u64)>,
    ) -> Option<()> {
        let coarser = |law: &Law, factor: u32| match end {
            End::Upper => law.spread(1 << factor, self.tilt),
            End::Lower | End::JumpsOnly => law.merge(1 << factor, self.tilt),
        };
        let mut law = Law::new(lattice, self.tilt)?;
        while halvings > 0 {
            let up = halvings.min(3);
            let group = group(times, 1 << (2 * up));
            let rest = times % group;
            let care = if times > MANY { Care::Direct } else { Care::Usual };
            if rest > 0 {
                let left = Law::compose(&[(&law, rest)], care)?;
                ready.push((coarser(&left, halvings)?, 1));
            }
            law = coarser(&Law::compose(&[(&law, group)], care)?, up)?;
            times /= group;
            halvings -= up;
        }
        if times > 0 {
            ready.push((law, times));
        }
        Some(())
    }

    /// The smallest epsilon whose delta under this law is at most the target.
    fn solve(&self, law: &Law, infinite: f64, total: f64, end: End) -> Option<f64> {
        let delta = self.delta - infinite;
        if !(delta > 0.0) {
            return Some(f64::INFINITY);
        }
        let sign = if end == End::Upper { 1.0 } else { -1.0 };
        let (scale_trust, error) = (sign * MASS_TRUST * total, sign * law.error);
        let tilt = self.tilt;
        let length = law.mass.len();
        // Sums over the losses from l_j on, of the masses times e^(-tilt (l - l_j)) and of the same
        // times e^-(l - l_j).
        let (mut above, mut shrunk) = (vec![0.0; length], vec![0.0; length]);
        let (decay, faster) = (exp(-tilt * law.step), exp(-(tilt + 1.0) * law.step));
        let (mut a, mut b) = (0.0, 0.0);
        for j in (0..length).rev() {
            a = law.mass[j] + a * decay;
            b = law.mass[j] + b * faster;
            (above[j], shrunk[j]) = (a, b);
        }
        let ln_scale = law.ln_scale + scale_trust - ln(delta);
        // An error of the law moves delta by the largest value of e^(-tilt y) (1 - e^-y).
        let kernel = exp(tilt * ln(tilt / (1.0 + tilt))) / (1.0 + tilt);
        let excess = |epsilon: f64| {
            let next = ((epsilon / law.step).floor() as i64).saturating_add(1 - law.first);
            let j = next.clamp(0, length as i64) as usize;
            let (sum, at) = if j < length {
                let at = law.loss(j);
                let sum = above[j] - shrunk[j] * exp(epsilon - at);
                (sum + error * kernel * exp(tilt * (at - epsilon)), at)
            } else {
                (error * kernel, epsilon)
            };
            match end {
                // Overflow far from the saddle point says nothing: choose the side that claims
                // less.
                End::Upper if sum.is_nan() => f64::MAX,
                End::Lower | End::JumpsOnly if !(sum > 0.0 && sum.is_finite()) => f64::MIN,
                _ if sum <= 0.0 => f64::MIN,
                _ => ln_scale - tilt * at + ln(sum),
            }
        };
        let top = law.loss(length - 1).max(law.step);
        match end {
            End::Upper => solve_upper(excess, top),
            End::Lower | End::JumpsOnly => solve_lower(excess, law.loss(0), top),
        }
    }
}

/// A point at which `excess` is not above 0, near the smallest one.
fn solve_upper(excess: impl Fn(f64) -> f64, top: f64) -> Option<f64> {
    if excess(0.0) <= 0.0 {
        return Some(0.0);
    }
    // Beyond the law only the error term keeps delta above 0; it shrinks like e^(-tilt epsilon).
    let mut high = top;
    for _ in 0..40 {
        if excess(high) <= 0.0 {
            return Some(crossing(excess, (0.0, 1.0), (high, -1.0), 1e-11, 1e-13).high);
        }
        high *= 1.5;
    }
    None
}

/// A point at which `excess` is above 0, near the largest one; `None` if none was found. Far below
/// the saddle point the error term hides everything, so the search starts from above.
fn solve_lower(excess: impl Fn(f64) -> f64, bottom: f64, top: f64) -> Option<f64> {
    const PARTS: u32 = 200;
    let point = |j: u32| top - (top - bottom) * f64::from(j) / f64::from(PARTS);
    let found = (0..=PARTS).find(|j| excess(point(*j)) > 0.0)?;
    if found == 0 {
        return Some(top);
    }
    let (low, high) = ((point(found), 1.0), (point(found - 1), -1.0));
    Some(crossing(excess, low, high, 1e-11, 1e-13).low)
}

/// How many are composed at once, about `usual`: a divisor of `times` if there is one, because a
/// remainder costs its own transform.
fn group(times: u64, usual: u64) -> u64 {
    let near = (usual..=usual + usual / 2).chain((usual * 3 / 4..usual).rev());
    near.into_iter().find(|g| times.is_multiple_of(*g)).unwrap_or(usual)
}

/// The number of cells that a pair may be cut into.
fn cells(pair: &dyn Pair) -> f64 {
    MAX_CELLS.min(MAX_WORK / pair.work())
}

/// How often the lattice of a part that is released `times` times is halved: once for each factor
/// of four above 64.
fn halvings(times: u64) -> u32 {
    let mut halvings = 0;
    let mut left = times;
    while left > 64 {
        left = left.div_ceil(4);
        halvings += 1;
    }
    halvings
}
