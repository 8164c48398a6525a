//! The search for a rung.

/// How far the first step is.
const STEP: u64 = 32;

/// What is wrong with a rung, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rung {
    /// Too much noise to be used.
    TooLow,
    /// It is within the budget.
    Meets,
    /// More epsilon than there is, or too little noise to be used.
    TooHigh,
}

/// The highest rung that meets, up to `last`. The search begins near `begin`.
pub(super) fn highest(last: u64, begin: u64, at: impl Fn(u64) -> Rung) -> Option<u64> {
    let begin = begin.clamp(1, last);
    let is_high = |rung: u64| at(rung) == Rung::TooHigh;
    let (mut low, mut high, mut step) = (0, last + 1, STEP);
    if is_high(begin) {
        high = begin;
        while high > 1 && low == 0 {
            let next = high.saturating_sub(step).max(1);
            *(if is_high(next) { &mut high } else { &mut low }) = next;
            step *= 2;
        }
    } else {
        low = begin;
        while low < last && high > last {
            let next = (low + step).min(last);
            *(if is_high(next) { &mut high } else { &mut low }) = next;
            step *= 2;
        }
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        *(if is_high(middle) { &mut high } else { &mut low }) = middle;
    }
    (low > 0 && at(low) == Rung::Meets).then_some(low)
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

    #[test]
    fn the_edge_is_found_from_anywhere() {
        for edge in [1, 2, 31, 33, 400, 799, 800] {
            for begin in [0, 1, 5, 400, 800, 5_000] {
                let at = |rung| if rung <= edge { Rung::Meets } else { Rung::TooHigh };
                assert_eq!(highest(800, begin, at), Some(edge));
            }
            assert_eq!(lowest(800, |rung| rung >= edge), Some(edge));
        }
        assert_eq!(highest(800, 400, |_| Rung::TooHigh), None);
        assert_eq!(lowest(800, |_| false), None);
        // Rungs that cannot be used, wherever the search begins.
        for begin in [1, 99, 100, 240, 700] {
            let usable = |least: u64| {
                move |rung: u64| match rung {
                    _ if rung < least => Rung::TooLow,
                    _ if rung <= 250 => Rung::Meets,
                    _ => Rung::TooHigh,
                }
            };
            assert_eq!(highest(800, begin, usable(100)), Some(250));
            assert_eq!(highest(800, begin, usable(260)), None);
        }
    }
}
