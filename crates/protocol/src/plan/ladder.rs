//! The search for a rung.

/// How far the first step is.
const STEP: u64 = 32;

/// Where a rung stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rung {
    /// Too much noise to be used.
    TooLow,
    /// It needs so many times what there is to spend; infinitely much if it is too little noise to be
    /// used.
    Needs(f64),
}

impl Rung {
    /// Whether it is within the budget.
    pub(super) fn meets(self) -> bool {
        matches!(self, Self::Needs(times) if times <= 1.0)
    }

    /// The logarithm of what it needs: infinite if that is not known.
    fn log(self) -> f64 {
        match self {
            Self::TooLow => f64::NEG_INFINITY,
            Self::Needs(times) => times.ln(),
        }
    }
}

/// The highest rung that meets, up to `last`. The search begins near `begin`, and looks where a
/// straight line through what it knows says, as each look takes long.
pub(super) fn highest(last: u64, begin: u64, at: impl Fn(u64) -> Rung) -> Option<u64> {
    let (mut low, mut high) = ((0, f64::NEG_INFINITY), (last + 1, f64::INFINITY));
    let (mut next, mut step, mut meets) = (begin.clamp(1, last), STEP, false);
    for look in 1_u64.. {
        let found = at(next);
        let log = found.log();
        if log > 0.0 {
            high = (next, log);
        } else {
            (low, meets) = ((next, log), found.meets());
        }
        if high.0 - low.0 <= 1 {
            break;
        }
        next = if low.0 == 0 {
            high.0.saturating_sub(step)
        } else if high.0 > last {
            low.0 + step
        } else if low.1.is_finite() && high.1.is_finite() && !look.is_multiple_of(3) {
            let part = low.1 / (low.1 - high.1);
            low.0 + (part * (high.0 - low.0) as f64) as u64
        } else {
            low.0.midpoint(high.0)
        };
        step *= 2;
        next = next.clamp(low.0 + 1, high.0 - 1);
    }
    meets.then_some(low.0)
}

/// The first rung above this one, up to `last`, where something else holds than here. What changes
/// and soon changes back may be missed.
pub(super) fn next_change<T: PartialEq>(
    rung: u64,
    last: u64,
    of: impl Fn(u64) -> T,
) -> Option<u64> {
    let here = of(rung);
    let (mut low, mut high, mut step) = (rung, rung, 1);
    while high == low {
        if low >= last {
            return None;
        }
        high = (low + step).min(last);
        if of(high) == here {
            low = high;
        }
        step *= 2;
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        *(if of(middle) == here { &mut low } else { &mut high }) = middle;
    }
    Some(high)
}

/// The lowest rung that holds, up to `last`, given that all above do.
pub(super) fn lowest(last: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    if !holds(last) {
        return None;
    }
    let (mut low, mut high) = (0, last);
    while high - low > 1 {
        let middle = low.midpoint(high);
        *(if holds(middle) { &mut high } else { &mut low }) = middle;
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a rung needs grows like a power, or not smoothly at all.
    #[test]
    fn the_edge_is_found_from_anywhere() {
        for edge in [1_u64, 2, 31, 33, 400, 799, 800] {
            for begin in [0, 1, 5, 400, 800, 5_000] {
                let power = |power: f64| {
                    let most = edge as f64 + 0.5;
                    move |rung: u64| Rung::Needs((rung as f64 / most).powf(power))
                };
                assert_eq!(highest(800, begin, power(1.0)), Some(edge));
                assert_eq!(highest(800, begin, power(0.1)), Some(edge));
                assert_eq!(highest(800, begin, power(20.0)), Some(edge));
                let jumps = |rung| Rung::Needs(if rung <= edge { 1.0 } else { f64::INFINITY });
                assert_eq!(highest(800, begin, jumps), Some(edge));
            }
            assert_eq!(lowest(800, |rung| rung >= edge), Some(edge));
        }
        assert_eq!(highest(800, 400, |_| Rung::Needs(1.1)), None);
        assert_eq!(lowest(800, |_| false), None);
        // Rungs that cannot be used, wherever the search begins.
        for begin in [1, 99, 100, 240, 700] {
            let usable = |least: u64| {
                move |rung: u64| match rung {
                    _ if rung < least => Rung::TooLow,
                    _ => Rung::Needs(rung as f64 / 250.0),
                }
            };
            assert_eq!(highest(800, begin, usable(100)), Some(250));
            assert_eq!(highest(800, begin, usable(260)), None);
        }
    }

    #[test]
    fn few_rungs_are_looked_at() {
        for (edge, begin) in [(170_u64, 400), (400, 400), (1_900, 400), (3_000, 5_000)] {
            let looks = std::cell::Cell::new(0);
            let at = |rung: u64| {
                looks.set(looks.get() + 1);
                Rung::Needs((rung as f64 / (edge as f64 + 0.5)).powi(3))
            };
            assert_eq!(highest(8_000, begin, at), Some(edge));
            assert!(looks.get() <= 12, "{edge} from {begin}: {}", looks.get());
        }
    }

    #[test]
    fn the_next_change_is_found() {
        let of = |rung: u64| rung / 100;
        for (rung, found) in [(1, Some(100)), (99, Some(100)), (100, Some(200)), (700, None)] {
            assert_eq!(next_change(rung, 799, of), found);
        }
        assert_eq!(next_change(3, 800, |_| 0), None);
    }
}
