//! A set of times, kept as intervals that neither overlap nor touch.

use std::collections::BTreeMap;

use sotto_wire::{Interval, Time};

/// The times of a task that no longer take reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalSet {
    /// Start to end (exclusive).
    intervals: BTreeMap<u64, u64>,
}

impl IntervalSet {
    pub(crate) fn insert(&mut self, interval: Interval) {
        if interval.is_empty() {
            return;
        }
        let mut start = interval.start().as_units();
        let mut end = interval.end().as_units();
        while let Some((&other_start, &other_end)) = self.intervals.range(..=end).next_back()
            && other_end >= start
        {
            self.intervals.remove(&other_start);
            start = start.min(other_start);
            end = end.max(other_end);
        }
        self.intervals.insert(start, end);
    }

    pub(crate) fn contains(&self, time: Time) -> bool {
        let time = time.as_units();
        self.intervals.range(..=time).next_back().is_some_and(|(_, end)| time < *end)
    }
}

impl FromIterator<Interval> for IntervalSet {
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Self {
        let mut set = Self::default();
        for interval in intervals {
            set.insert(interval);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use sotto_wire::Duration;

    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let interval = |start, len| Interval::new(Time::new(start), Duration::new(len)).unwrap();
        let parts = [(10, 2), (14, 2), (0, 3), (12, 1), (3, 0), (u64::MAX - 1, 1), (9, 4), (2, 3)];
        let set: IntervalSet = parts.iter().map(|(s, l)| interval(*s, *l)).collect();
        for time in (0..20).chain(u64::MAX - 3..=u64::MAX) {
            let expected = parts.iter().any(|(s, l)| interval(*s, *l).contains(Time::new(time)));
            assert_eq!(set.contains(Time::new(time)), expected, "{time}");
        }
        assert_eq!(set.intervals.len(), 4);
    }
}
