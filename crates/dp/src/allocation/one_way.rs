//! A schedule as a pair, in one of its two directions.

use std::rc::Rc;

use super::ends::Mean;
use crate::pld::pair::{Atoms, Cell, Pair};

/// How many points a sketch has, about.
const SKETCH: usize = 256;

/// One direction of a [`Mean`] as a pair: the schedule against absence, or reversed.
#[derive(Debug)]
pub(crate) struct OneWay {
    pub(super) mean: Rc<Mean>,
    pub(super) reversed: bool,
}

impl Pair for OneWay {
    fn cells(&self, bounds: &[f64]) -> Vec<Cell> {
        let mean = &self.mean;
        let (atoms, infinite) = mean.atoms((mean.moved, mean.scale), self.reversed);
        Atoms::new(atoms, infinite).cells(bounds)
    }

    fn hockey_stick(&self, epsilon: f64) -> (f64, f64) {
        let mean = &self.mean;
        let at = |epsilon: f64| {
            if self.reversed { mean.backward(epsilon) } else { mean.forward(epsilon) }
        };
        let value = at(epsilon - mean.side() * mean.loss_trust(epsilon));
        (value, value)
    }

    fn total_variation(&self) -> f64 {
        self.mean.moved
    }

    fn largest_loss(&self) -> f64 {
        let mean = &self.mean;
        let (atoms, infinite) = mean.atoms((mean.moved, mean.scale), self.reversed);
        Atoms::new(atoms, infinite).largest_loss().max(0.0)
    }

    fn sketch(&self, _outside: f64) -> Vec<(f64, f64)> {
        let mean = &self.mean;
        sketch(&mean.atoms((mean.moved, mean.scale), self.reversed).0, SKETCH)
    }
}

/// About `points` points that represent all, and the two ends.
pub(super) fn sketch(atoms: &[(f64, f64)], points: usize) -> Vec<(f64, f64)> {
    let merged = |run: &[(f64, f64)]| {
        let mass: f64 = run.iter().map(|(_, mass)| mass).sum();
        (run[run.len() / 2].0, mass)
    };
    let ends = atoms.first().into_iter().chain(atoms.last());
    let ends = ends.map(|(loss, _)| (*loss, f64::MIN_POSITIVE));
    ends.chain(atoms.chunks(atoms.len().div_ceil(points).max(1)).map(merged)).collect()
}
