//! The composition of pairs: the choice of tilt and grids, which [`super::plan`] carries out. Every
//! choice is valid; a good one gives tight bounds.

use super::pair::Pair;
pub(crate) use super::plan::Part;
use super::plan::{Cut, End, Plan, halvings};
use super::tilt;
use crate::Bracket;
use crate::math::{sqrt, up};

/// How many lattice points one standard deviation of a step gets. The variance grows by a relative
/// `1 / (6 POINTS^2)` for each stage, epsilon by half of that. Chosen so that the transforms are
/// just below a power of two: 8,192.
const POINTS: f64 = 64.0;

/// The same when there is more than one stage before the last, and errors add up.
const MORE_POINTS: f64 = 124.0;

/// The part of delta that may be spent on losses above the lattice.
const TRUNCATION: f64 = 1e-6;

/// The most cells that one pair is cut into.
const MAX_CELLS: f64 = 16_384.0;

/// The most cells of all pairs together.
const MAX_CELLS_IN_ALL: f64 = 2e6;

/// The most cells that the jumps of a pair are cut into.
const JUMP_CELLS: f64 = 131_072.0;

/// The same for rare losses.
const RARE_CELLS: f64 = 16_384.0;

/// With more laws than this in the last stage, errors grow.
const MOST_LAWS: u64 = 1_024;

/// A law is regular if the largest loss of a step times the tilt is at most this.
const REGULAR: f64 = 6.0;

/// A part may be cut if one of its steps has at most this part of the variance of all.
const STEPS: f64 = 1_024.0;

/// The most rare losses that are expected in all.
const MOST_RARE: f64 = 0.5;

/// With fewer releases than this a cut competes with the search without one.
const FEW: f64 = 4_096.0;

/// The most points of all sketches together, about.
const SKETCHED: usize = 8_192;

/// The epsilon at `delta` of the composition of all `parts`, in the one direction that the pairs
/// stand for.
pub(crate) fn epsilon(parts: &[Part<'_>], delta: f64) -> Bracket {
    let (upper, plans) = Question::new(parts, delta, 1.0).upper();
    Bracket { lower: lower(&plans, upper), upper }
}

/// Only the lower end.
pub(crate) fn epsilon_lower(parts: &[Part<'_>], delta: f64) -> f64 {
    let (upper, plans) = Question::new(parts, delta, 1.0).upper();
    lower(&plans, upper)
}

/// The best lower end of several plans, until it is close to the upper end.
fn lower(plans: &[Plan<'_>], upper: f64) -> f64 {
    let ends = plans.iter().flat_map(|plan| [End::Lower, End::JumpsOnly].map(|end| (plan, end)));
    let mut best: f64 = 0.0;
    for (plan, end) in ends {
        if best < 0.99 * upper {
            best = best.max(plan.epsilon(end).unwrap_or(0.0));
        }
    }
    best
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
        let most = (SKETCHED / parts.len().max(1)).max(16);
        let sketch = |pair: &dyn Pair| tilt::thinned(pair.sketch(outside), most);
        let sketches = parts.iter().map(|(pair, times)| (sketch(*pair), *times as f64)).collect();
        Self { parts, sketches, delta, outside, resolution }
    }

    /// The best upper end, and the plans that are worth trying for the lower one.
    fn upper(&self) -> (f64, Vec<Plan<'a>>) {
        let mut tilt = tilt::saddle(&self.sketches, self.delta);
        if hidden(self.parts, self.delta) {
            return (0.0, Vec::new());
        }
        let pure = pure_bound(self.parts);
        if tilt >= tilt::LARGEST {
            // No saddle point: epsilon lies near the largest possible loss (but for infinite ones),
            // and this tilt resolves everything below it.
            let most = if pure.is_finite() { pure } else { self.farthest() };
            tilt = (40.0 / most.max(1e-300)).min(tilt::LARGEST);
        }
        let cut = self.plan_with_cut(tilt);
        let mut best = cut.as_ref().map_or(pure, |plan| plan.upper().min(pure));
        let mut plans: Vec<_> = cut.into_iter().collect();
        // A cut counts a step too many after each rare loss, which shows where steps are few.
        if !best.is_finite() || plans.is_empty() || self.total() < FEW {
            let (upper, plan) = self.without_cut(tilt);
            best = best.min(upper);
            plans.push(plan);
        } else {
            plans.push(self.plan(tilt));
        }
        (best, plans)
    }

    /// The best upper end without a cut, and its plan.
    fn without_cut(&self, mut tilt: f64) -> (f64, Plan<'a>) {
        let plan = self.plan(tilt);
        let mut best = (plan.upper(), plan);
        // With rare large jumps the tilted law is not one bulk near epsilon, but a bulk and a far
        // tail. A smaller tilt then gives a finer lattice. Every tilt is valid, so the best answer
        // is too.
        let mut deviation = best.1.deviation;
        let mut irregular = false;
        for _ in 0..8 {
            let regular = deviation < 0.4 * best.0 && best.0.is_finite();
            if regular || tilt * deviation < 4.0 || best.0 < 1e-12 {
                break;
            }
            irregular = true;
            tilt *= 0.5;
            let plan = self.plan(tilt);
            deviation = plan.deviation;
            let next = plan.upper();
            let (better, enough) = (next < best.0, next > best.0 * (1.0 - 1e-4));
            if better {
                best = (next, plan);
            }
            if better && enough {
                break;
            }
        }
        for factor in [1.5, 1.2] {
            if irregular {
                let plan = self.plan(best.1.tilt * factor);
                let next = plan.upper();
                if next < best.0 {
                    best = (next, plan);
                }
            }
        }
        best
    }

    fn total(&self) -> f64 {
        self.parts.iter().map(|(_, times)| *times as f64).sum()
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
        let ranges: Vec<_> =
            self.sketches.iter().map(|(s, _)| tilt::range(s, self.outside, tilt)).collect();
        let widest = ranges.iter().map(|(low, high)| high - low).fold(0.0, f64::max);
        let deviation = sqrt(tilt::variance(&self.sketches, tilt));
        let step = self.step(deviation, widest);
        Plan {
            parts: self.parts,
            delta: self.delta,
            tilt,
            deviation,
            step,
            ranges,
            cut: None,
            most_cells: MAX_CELLS.min(self.most_cells()),
        }
    }

    /// The step of the last stage.
    fn step(&self, deviation: f64, widest: f64) -> f64 {
        let most = self.parts.iter().map(|(_, times)| *times).max().unwrap_or(1);
        let points = if halvings(most) > 3 { MORE_POINTS } else { POINTS };
        // Laws of the last stage, all with the same cost.
        let laws: u64 = self.parts.iter().map(|(_, times)| (*times).min(64)).sum();
        let laws = laws.clamp(1, MOST_LAWS) as f64;
        let step = deviation / (self.resolution * points * sqrt(laws));
        let step = step.max(widest / self.most_cells());
        // Nothing to tell apart, or only black boxes: any lattice will do.
        if step > 0.0 { step } else { 1e-6 }
    }

    /// The most cells that a pair may be cut into.
    fn most_cells(&self) -> f64 {
        JUMP_CELLS.min(MAX_CELLS_IN_ALL / self.parts.len() as f64)
    }

    /// The plan that takes rare large losses out, if that makes the rest regular: so that the tilt
    /// that suits the rest does not suit its largest losses better.
    fn plan_with_cut(&self, tilt: f64) -> Option<Plan<'a>> {
        let open: Vec<bool> = self.open();
        let cut_at = |cut: f64| -> Vec<tilt::Sketch> {
            let below = |(sketch, times): &tilt::Sketch, open: bool| {
                let kept = sketch.iter().copied().filter(|(l, _)| !open || *l <= cut);
                (kept.collect::<Vec<_>>(), *times)
            };
            self.sketches.iter().zip(&open).map(|(sketch, open)| below(sketch, *open)).collect()
        };
        // The losses that may be taken out, from the largest on, and how many are expected so far.
        let sketches = self.sketches.iter().zip(&open).filter(|(_, open)| **open);
        let mut losses: Vec<(f64, f64)> = sketches
            .flat_map(|((sketch, times), _)| sketch.iter().map(move |(l, p)| (*l, p * times)))
            .filter(|(l, p)| *l > 0.0 && *p > 0.0)
            .collect();
        losses.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut expected = 0.0;
        for loss in &mut losses {
            expected += loss.1;
            loss.1 = expected;
        }
        if tilt * losses.first()?.0 <= REGULAR {
            return None;
        }
        let candidates = losses.partition_point(|loss| loss.1 <= MOST_RARE);
        let regular = |cut: f64| tilt::saddle(&cut_at(cut), self.delta) * cut <= REGULAR;
        // The largest cut that will do. (A smaller one is as regular.)
        let (mut low, mut high) = (1, candidates);
        while low < high {
            let middle = low.midpoint(high);
            if regular(losses[middle].0) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let above = losses.get(low).filter(|_| low < candidates)?.0;
        let kept = cut_at(above);
        let tilt = tilt::saddle(&kept, self.delta);
        let second_tilt = tilt / 8.0;
        let range = |all: &[(f64, f64)], kept: &[(f64, f64)]| {
            let high = tilt::range(all, self.outside, 0.0).1;
            (tilt::range(kept, self.outside, second_tilt).0.min(high), high)
        };
        let sketches = self.sketches.iter().zip(&kept);
        let ranges: Vec<_> = sketches.map(|(all, kept)| range(&all.0, &kept.0)).collect();
        let deviation = sqrt(tilt::variance(&kept, tilt));
        let width = |((low, high), open): (&(f64, f64), &bool)| {
            (if *open { high.min(above) } else { *high }) - low
        };
        let step = self.step(deviation, ranges.iter().zip(&open).map(width).fold(0.0, f64::max));
        let above = (above / step).ceil() * step;
        let rare = ranges.iter().zip(&open).filter(|(_, open)| **open);
        let reach = rare.map(|((_, high), _)| high - above).fold(0.0, f64::max);
        let coarse = reach / self.most_cells().min(RARE_CELLS);
        let coarse = coarse.max(deviation / (self.resolution * POINTS)).max(step);
        let cut = Some(Cut { above, step: coarse, second_tilt, open });
        let most_cells = MAX_CELLS.min(self.most_cells());
        let (parts, delta) = (self.parts, self.delta);
        Some(Plan { parts, delta, tilt, deviation, step, ranges, cut, most_cells })
    }

    /// Which parts may be cut: those of which one step more or less does not matter.
    fn open(&self) -> Vec<bool> {
        let variances: Vec<f64> = self
            .sketches
            .iter()
            .map(|(sketch, _)| tilt::variance(&[(sketch.clone(), 1.0)], 0.0))
            .collect();
        let sum: f64 = variances.iter().zip(&self.sketches).map(|(v, (_, times))| v * times).sum();
        variances.iter().map(|v| v * STEPS <= sum).collect()
    }
}
