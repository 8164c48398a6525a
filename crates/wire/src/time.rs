//! Times, durations and intervals (DAP "Basic Type Definitions").
//!
//! On the wire a time is a number of `time_precision` units, never seconds. The caller reads the
//! clock.

use crate::codec::{BoundsError, Decode, DecodeError, Encode, Reader, Sink};

/// The unit of a task's times: a number of seconds, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimePrecision(u64);

impl TimePrecision {
    /// A unit of `seconds`; zero is rejected.
    pub const fn from_seconds(seconds: u64) -> Result<Self, BoundsError> {
        if seconds == 0 { Err(BoundsError::ZeroTimePrecision) } else { Ok(Self(seconds)) }
    }

    /// The unit in seconds.
    pub const fn as_seconds(self) -> u64 {
        self.0
    }
}

/// A point in time: the unit of the task's precision that contains it, counted from the POSIX
/// epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The time `units` units after the epoch.
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// The unit that contains a POSIX time (rounded down).
    pub const fn from_posix_seconds(seconds: u64, precision: TimePrecision) -> Self {
        Self(seconds / precision.0)
    }

    /// The number of units.
    pub const fn as_units(self) -> u64 {
        self.0
    }

    /// The POSIX second at which this unit starts.
    ///
    /// Saturates: a time from the network may be past the last second that fits 64 bits, and must
    /// still compare as far in the future.
    pub const fn start_seconds(self, precision: TimePrecision) -> u64 {
        self.0.saturating_mul(precision.0)
    }
}

/// A length of time in units of the task's precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Duration {
    /// A length of `units` units.
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// The number of units.
    pub const fn as_units(self) -> u64 {
        self.0
    }

    /// The length in seconds; saturates.
    pub const fn as_seconds(self, precision: TimePrecision) -> u64 {
        self.0.saturating_mul(precision.0)
    }
}

/// The half-open interval `[start, start + duration)`; its end is a representable [`Time`].
///
/// It may be empty. Where a message requires a non-empty interval, its receiver checks
/// [`is_empty`](Self::is_empty).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interval {
    start: Time,
    duration: Duration,
}

impl Interval {
    /// The length of the encoding.
    pub const LEN: usize = 16;

    /// The interval of `duration` from `start`; rejected if its end is past the last time.
    pub const fn new(start: Time, duration: Duration) -> Result<Self, BoundsError> {
        match start.0.checked_add(duration.0) {
            Some(_) => Ok(Self { start, duration }),
            None => Err(BoundsError::IntervalOverflow),
        }
    }

    /// The interval of one unit that contains `time`: the bucket of such a report in time-interval
    /// mode.
    pub const fn bucket(time: Time) -> Result<Self, BoundsError> {
        Self::new(time, Duration(1))
    }

    /// The first unit inside.
    pub const fn start(&self) -> Time {
        self.start
    }

    /// The number of units inside.
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The first unit after the interval.
    pub const fn end(&self) -> Time {
        Time(self.start.0 + self.duration.0)
    }

    /// Whether the interval contains no time.
    pub const fn is_empty(&self) -> bool {
        self.duration.0 == 0
    }

    /// Whether `time` is inside.
    pub const fn contains(&self, time: Time) -> bool {
        self.start.0 <= time.0 && time.0 < self.end().0
    }

    /// Whether all of `other` is inside.
    pub const fn contains_interval(&self, other: &Self) -> bool {
        self.start.0 <= other.start.0 && other.end().0 <= self.end().0
    }

    /// Whether the intervals have a time in common.
    pub const fn overlaps(&self, other: &Self) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.start.0 < other.end().0
            && other.start.0 < self.end().0
    }

    /// The smallest interval that covers both. An empty interval needs no cover.
    pub fn merge(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        let start = self.start.min(other.start);
        let end = self.end().max(other.end());
        Self { start, duration: Duration(end.0 - start.0) }
    }
}

impl Encode for Time {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl Decode<'_> for Time {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u64().map(Self)
    }
}

impl Encode for Interval {
    fn encode(&self, out: &mut impl Sink) {
        out.extend_from_slice(&self.start.0.to_be_bytes());
        out.extend_from_slice(&self.duration.0.to_be_bytes());
    }
}

impl Decode<'_> for Interval {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = Time(reader.u64()?);
        let duration = Duration(reader.u64()?);
        Ok(Self::new(start, duration)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: u64, duration: u64) -> Interval {
        Interval::new(Time(start), Duration(duration)).unwrap()
    }

    #[test]
    fn times_round_down() {
        let precision = TimePrecision::from_seconds(60).unwrap();
        assert_eq!(Time::from_posix_seconds(119, precision), Time(1));
        assert_eq!(Time::from_posix_seconds(120, precision), Time(2));
        assert_eq!(Time(2).start_seconds(precision), 120);
        assert_eq!(Time(u64::MAX).start_seconds(precision), u64::MAX);
        assert_eq!(TimePrecision::from_seconds(0), Err(BoundsError::ZeroTimePrecision));
    }

    #[test]
    fn intervals_are_half_open() {
        let day = interval(10, 2);
        assert_eq!(day.end(), Time(12));
        assert!(!day.contains(Time(9)));
        assert!(day.contains(Time(10)));
        assert!(day.contains(Time(11)));
        assert!(!day.contains(Time(12)));
        assert!(!interval(10, 0).contains(Time(10)));
        assert!(day.contains_interval(&interval(11, 1)));
        assert!(!day.contains_interval(&interval(11, 2)));
        assert!(day.overlaps(&interval(11, 5)));
        assert!(!day.overlaps(&interval(12, 5)));
        assert!(!day.overlaps(&interval(11, 0)));
    }

    #[test]
    fn an_interval_never_overflows() {
        assert_eq!(interval(u64::MAX, 0).end(), Time(u64::MAX));
        assert_eq!(Interval::new(Time(u64::MAX), Duration(1)), Err(BoundsError::IntervalOverflow));
        assert!(Interval::bucket(Time(u64::MAX)).is_err());
        let mut bytes = [0xff; 16];
        assert!(Interval::from_bytes(&bytes).is_err());
        bytes[8..].fill(0);
        assert!(Interval::from_bytes(&bytes).is_ok());
    }

    #[test]
    fn merge_covers_both() {
        assert_eq!(interval(3, 1).merge(interval(9, 2)), interval(3, 8));
        assert_eq!(interval(9, 2).merge(interval(3, 1)), interval(3, 8));
        assert_eq!(interval(0, 0).merge(interval(9, 2)), interval(9, 2));
        assert_eq!(interval(9, 2).merge(interval(0, 0)), interval(9, 2));
    }
}
