//! Laws on lattices, composed in stages, for one choice of tilt and grids.
//!
//! Long compositions proceed in stages of about 64: after each, the composed law is wider, so its
//! lattice may be coarser, and no transform becomes long. The lattice is fine for frequent steps
//! and coarse for rare ones: a step that is taken `t` times on a lattice of width `h` adds at most
//! `t h^2 / 4` to the variance of the whole, and every law of the last stage gets the same share.
//!
//! **Rare losses.** Where single losses are so rare and so large that no tilt suits both them and
//! the rest, those above a *cut* are taken out. For the upper end each step is replaced by two
//! independent ones: whether its loss is above the cut, and how large it is then; and a loss given
//! that it is not. That is at least as bad: anyone who sees both outcomes can forget the second
//! where the first is above the cut. Where it is not, the first outcome's loss `c = ln P/Q` of what
//! is below and the second's, smaller by `c`, add up to the original loss; so losses above the cut
//! are counted from `c`, and those below need not be shifted. For the lower end see [`Once`].

use super::convolve::Care;
use super::lattice::{Cells, Lattice};
use super::law::Law;
use super::pair::Pair;
use super::rare::{Once, Rare};
use super::tail::Tail;
use crate::math::{expm1, ln, log1p};

/// How much coarser the lattice of the lower end is.
const LOWER_FACTOR: i64 = 4;

/// How many more cells the lattice of the lower end may have beside a cut.
const FINER: f64 = 16.0;

/// More repetitions than this need the careful transform.
const MANY: u64 = 4_096;

/// How many laws are composed at once.
const GATHERED: usize = 16;

/// The cells of the bulk of a pair with jumps.
const BULK_CELLS: f64 = 8_192.0;

/// A pair, and the number of its releases.
pub(crate) type Part<'a> = (&'a dyn Pair, u64);

/// Which end of the bracket is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    Upper,
    Lower,
    /// A second lower end, with the bulk of each pair as one outcome: for rare jumps out of a
    /// narrow bulk, which the lattice of the first one cannot resolve.
    JumpsOnly,
}

/// The losses that are taken out.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    /// Those above this, a multiple of the last stage's step.
    pub(super) above: f64,
    /// The step of their lattice.
    pub(super) step: f64,
    /// A smaller tilt, for what is left of epsilon after a rare loss.
    pub(super) second_tilt: f64,
    /// From which parts.
    pub(super) open: Vec<bool>,
}

/// The grids and the tilt for one question.
pub(super) struct Plan<'a> {
    pub(super) parts: &'a [Part<'a>],
    pub(super) delta: f64,
    pub(super) tilt: f64,
    /// The standard deviation of the composed loss, tilted.
    pub(super) deviation: f64,
    /// The step of the last stage; earlier stages use this divided by a power of two.
    pub(super) step: f64,
    /// For each part, the losses that its lattice must hold.
    pub(super) ranges: Vec<(f64, f64)>,
    pub(super) cut: Option<Cut>,
    /// The most cells of one lattice.
    pub(super) most_cells: f64,
}

/// A law before tilting, how often it is composed, and how many times finer than the last its
/// lattice is, as a power of two.
type Stage = (Lattice, u64, u32);

/// What a pair becomes.
struct Prepared {
    stages: Vec<Stage>,
    /// The losses above the cut.
    rare: Option<RareLosses>,
    /// A loss that all releases together always have.
    offset: f64,
}

/// The losses of a pair above the cut.
pub(super) struct RareLosses {
    /// With the mass of the others as `still`.
    pub(super) lattice: Lattice,
    /// The number of releases.
    pub(super) times: u64,
    /// The mass of the others under Q, if their losses are counted from `offset`.
    pub(super) still_q: f64,
    pub(super) offset: f64,
}

/// Losses beyond this are not put on a lattice: such an epsilon is meaningless, and the Renyi
/// accountant has one too.
const LARGEST_LOSS: f64 = 500.0;

/// A bound on the error of a step's losses, to be multiplied by one plus the largest of them.
const LOSS_TRUST: f64 = 1e-15;

impl Plan<'_> {
    /// The upper end; infinite where there is none.
    pub(super) fn upper(&self) -> f64 {
        self.epsilon(End::Upper).unwrap_or(f64::INFINITY).max(0.0)
    }

    /// Either end; `None` if there is none.
    pub(super) fn epsilon(&self, end: End) -> Option<f64> {
        let moderate = |(low, high): &(f64, f64)| *low > -LARGEST_LOSS && *high < LARGEST_LOSS;
        if !self.ranges.iter().all(moderate) {
            return None;
        }
        let total: f64 = self.parts.iter().map(|(_, times)| *times as f64).sum();
        let (mut stages, mut rare) = (Vec::new(), Vec::new());
        let (mut ln_finite, mut offset) = (0.0, 0.0);
        for (j, ((pair, times), range)) in self.parts.iter().zip(&self.ranges).enumerate() {
            let cut = self.cut.as_ref().filter(|cut| cut.open[j] && cut.above < range.1);
            let prepared = match end {
                End::Upper => self.pessimistic(*pair, *times, *range, cut)?,
                End::Lower | End::JumpsOnly => self.optimistic(*pair, *times, *range, cut, end)?,
            };
            offset += prepared.offset;
            let lattices = prepared.stages.iter().map(|(lattice, times, _)| (lattice, times));
            let above = prepared.rare.iter().map(|rare| (&rare.lattice, &rare.times));
            ln_finite += lattices
                .chain(above)
                .map(|(lattice, times)| *times as f64 * log1p(-lattice.infinite.min(1.0)))
                .sum::<f64>();
            stages.extend(prepared.stages);
            rare.extend(prepared.rare);
        }
        let tail =
            |tilt: f64| Some(Tail::new(self.composed(&stages, tilt, end)?, tilt, total, end));
        let delta = self.delta + expm1(ln_finite);
        let loss_trust: f64 = self
            .parts
            .iter()
            .zip(&self.ranges)
            .map(|((_, times), (low, high))| LOSS_TRUST * *times as f64 * (1.0 + high.max(-low)))
            .sum();
        let body = tail(self.tilt)?;
        let epsilon = match (self.cut.as_ref().filter(|_| !rare.is_empty()), end) {
            (Some(cut), End::Upper) => {
                let bodies = [body, tail(cut.second_tilt)?];
                Rare::compose(&rare, self.delta)?.epsilon(&bodies, delta)?
            }
            (Some(cut), End::Lower | End::JumpsOnly) => {
                let bodies = [body, tail(cut.second_tilt)?];
                Once::of(&rare, masses(&stages))?.epsilon(&bodies, delta)?
            }
            (None, _) => body.epsilon(delta)?,
        };
        let epsilon = if end == End::Upper { epsilon + loss_trust } else { epsilon - loss_trust };
        (!epsilon.is_nan()).then_some(epsilon + offset)
    }

    /// The law of all stages.
    fn composed(&self, stages: &[Stage], tilt: f64, end: End) -> Option<Law> {
        let mut ready: Vec<(Law, u64)> = Vec::new();
        for (lattice, times, halvings) in stages {
            staged(Law::new(lattice, tilt)?, (*times, *halvings), tilt, end, &mut ready)?;
        }
        let compose = |laws: &[(Law, u64)]| {
            let parts: Vec<_> = laws.iter().map(|(law, times)| (law, *times)).collect();
            Law::compose(&parts, Care::Usual)
        };
        // Many short laws in groups: a transform is as long as what comes out.
        while ready.len() > GATHERED {
            let together = |laws: &[(Law, u64)]| Some((compose(laws)?, 1));
            ready = ready.chunks(GATHERED).map(together).collect::<Option<_>>()?;
        }
        compose(&ready)
    }

    /// The law that is at least as bad as the pair's. If its lattice would be too long, the step is
    /// split once more, as at a cut: into *jumps*, losses far from the bulk, on the coarse lattice
    /// of the last stage, and the bulk, given that it is the bulk, on the fine one.
    fn pessimistic(
        &self,
        pair: &dyn Pair,
        times: u64,
        (low, high): (f64, f64),
        cut: Option<&Cut>,
    ) -> Option<Prepared> {
        let halvings = halvings(times);
        let fine = self.step / f64::from(1u32 << halvings);
        let (mut rare, mut below, mut top) = (None, 1.0, high);
        if let Some(cut) = cut {
            let kept = pair.cells(&[cut.above]).into_iter().next()?;
            let above = (f64::MIN, cut.above);
            let range = (cut.above - cut.step, high.max(cut.above + cut.step));
            let c = ln(kept.p / kept.q);
            let mut lattice = Cells::cut_without(pair, (cut.step, c), range, above)?.pessimistic();
            lattice.still = kept.p;
            rare = Some(RareLosses { lattice, times, still_q: kept.q, offset: 0.0 });
            (below, top) = (kept.p, cut.above);
        }
        if (top - low) / fine <= self.most_cells {
            let mut cells = Cells::cut(pair, fine, 0.0, low, top)?;
            if rare.is_some() {
                cells.keep_below();
            }
            let stages = vec![(cells.pessimistic().divided(below), times, halvings)];
            return Some(Prepared { stages, rare, offset: 0.0 });
        }
        let reach = 0.5 * BULK_CELLS.min(self.most_cells) * fine;
        let mut bulk = Cells::cut(pair, fine, 0.0, low.max(-reach), top.min(reach))?;
        let (p, q, ends) = bulk.keep_inside();
        let c = ln(p / q);
        // Jumps are rare: the lattice of the last stage is fine enough for them right away.
        let range = (low.min(c - self.step), top.max(c + self.step));
        let mut jumps = Cells::cut_without(pair, (self.step, c), range, ends)?;
        if rare.is_some() {
            jumps.keep_below();
        }
        let mut jumps = jumps.pessimistic().divided(below);
        jumps.still = p / below;
        let bulk = bulk.pessimistic().divided(p);
        let stages = vec![(bulk, times, halvings), (jumps, times, 0)];
        Some(Prepared { stages, rare, offset: 0.0 })
    }

    /// The law that is at most as bad as the pair's.
    fn optimistic(
        &self,
        pair: &dyn Pair,
        times: u64,
        (low, high): (f64, f64),
        cut: Option<&Cut>,
        end: End,
    ) -> Option<Prepared> {
        let top = cut.map_or(high, |cut| cut.above);
        let (below, halvings, c) = if end == End::JumpsOnly {
            let (lattice, c) = self.jumps_only(pair, (low, top), cut.is_some())?;
            (lattice, 0, c)
        } else {
            let (lattice, halvings) = self.merged(pair, times, (low, top), cut.is_some())?;
            (lattice, halvings, 0.0)
        };
        let Some(cut) = cut else {
            let stages = vec![(below, times, halvings)];
            return Some(Prepared { stages, rare: None, offset: c * times as f64 });
        };
        let range = (cut.above - cut.step, high.max(cut.above + cut.step));
        let above = Cells::cut_without(pair, (cut.step, 0.0), range, (f64::MIN, cut.above))?;
        let mut lattice = above.optimistic(1);
        lattice.still = below.masses().0;
        let (_, still_q) = below.masses();
        // One step is left over for a rare loss.
        let rest = times - 1;
        let stages = if rest > 0 { vec![(below, rest, halvings)] } else { Vec::new() };
        let rare = Some(RareLosses { lattice, times, still_q, offset: c });
        Some(Prepared { stages, rare, offset: c * rest as f64 })
    }

    /// Neighbouring losses merged, on a lattice as fine as it may be; if `cut`, without those above
    /// the top.
    fn merged(
        &self,
        pair: &dyn Pair,
        times: u64,
        (low, top): (f64, f64),
        cut: bool,
    ) -> Option<(Lattice, u32)> {
        let most = self.most_cells * if cut { FINER } else { 1.0 };
        let mut halvings = halvings(times);
        while halvings > 0 && (top - low) / self.step * f64::from(1u32 << halvings) > most {
            halvings -= 1;
        }
        let step = self.step / f64::from(1u32 << halvings);
        let mut cells = Cells::cut(pair, step, 0.0, low, top.min(low + most * step))?;
        if cut {
            cells.keep_below();
        }
        Some((cells.optimistic(LOWER_FACTOR), halvings))
    }

    /// The law of the jumps alone, counted from the loss of the bulk as one outcome (merging
    /// outcomes is post-processing), and that loss.
    fn jumps_only(
        &self,
        pair: &dyn Pair,
        (low, top): (f64, f64),
        cut: bool,
    ) -> Option<(Lattice, f64)> {
        let step = self.step;
        let mut bulk = Cells::cut(pair, 4.0 * step, 0.0, -8.0 * step, 8.0 * step)?;
        let (p, q, ends) = bulk.keep_inside();
        let c = ln(p / q);
        let range = (low.min(c - step), top.max(c + step));
        let mut jumps = Cells::cut_without(pair, (step, c), range, ends)?;
        if cut {
            jumps.keep_below();
        }
        let mut jumps = jumps.optimistic(LOWER_FACTOR);
        jumps.still = p;
        Some((jumps, c))
    }
}

/// The logarithms of the masses of all stages together, under P and under Q.
fn masses(stages: &[Stage]) -> (f64, f64) {
    let of = |(lattice, times, _): &Stage| {
        let (p, q) = lattice.masses();
        (*times as f64 * ln(p), *times as f64 * ln(q))
    };
    stages.iter().map(of).fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Composes one part until its lattice is that of the last stage.
fn staged(
    mut law: Law,
    (mut times, mut halvings): (u64, u32),
    tilt: f64,
    end: End,
    ready: &mut Vec<(Law, u64)>,
) -> Option<()> {
    let coarser = |law: &Law, factor: u32| match end {
        End::Upper => law.spread(1 << factor, tilt),
        End::Lower | End::JumpsOnly => law.merge(1 << factor, tilt),
    };
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

/// How many are composed at once, about `usual`: a divisor of `times` if there is one, because a
/// remainder costs its own transform.
fn group(times: u64, usual: u64) -> u64 {
    let near = (usual..=usual + usual / 2).chain((usual * 3 / 4..usual).rev());
    near.into_iter().find(|g| times.is_multiple_of(*g)).unwrap_or(usual)
}

/// How often the lattice of a part that is released `times` times is halved: once for each factor
/// of four above 64.
pub(super) fn halvings(times: u64) -> u32 {
    let mut halvings = 0;
    let mut left = times;
    while left > 64 {
        left = left.div_ceil(4);
        halvings += 1;
    }
    halvings
}
