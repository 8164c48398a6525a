//! How values of the protocol look in the database.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use sotto_protocol::{Bucket, Rejection, Rejections};
use sotto_wire::{BatchSelector, Interval, ReportId, Time};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::connect::Failure;

/// Into how many rows the sum of a bucket, or a counter, is divided.
pub(super) const SHARDS: u8 = 8;

/// The code under which aggregated reports are counted; no rejection has it.
pub(super) const AGGREGATED: i16 = 0;

/// A report id, as a `uuid`: 16 bytes without a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Id(pub(super) [u8; 16]);

impl From<&ReportId> for Id {
    fn from(id: &ReportId) -> Self {
        Self(*id.as_bytes())
    }
}

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }
}

/// An unsigned number in the order of signed ones.
pub(super) fn ordered(value: u64) -> i64 {
    (value ^ (1 << 63)) as i64
}

pub(super) fn unordered(stored: i64) -> u64 {
    stored as u64 ^ (1 << 63)
}

/// The name of a bucket: its kind, then a time, big-endian, or a batch id. Times compare as their
/// numbers do, and never with batch ids.
pub(super) fn bucket_key(bucket: &Bucket) -> Vec<u8> {
    match bucket {
        Bucket::Time(time) => [&[0][..], &time.as_units().to_be_bytes()].concat(),
        Bucket::Batch(batch_id) => [&[1][..], batch_id.as_bytes()].concat(),
    }
}

/// The first and the last name of the buckets in a batch. An empty interval has none.
pub(super) fn bucket_keys(selector: &BatchSelector) -> (Vec<u8>, Vec<u8>) {
    match selector {
        BatchSelector::TimeInterval(interval) => {
            let (first, last) = span(*interval);
            let key = |stored| bucket_key(&Bucket::Time(Time::new(unordered(stored))));
            (key(first), key(last))
        }
        BatchSelector::LeaderSelected(batch_id) => {
            let key = bucket_key(&Bucket::Batch(*batch_id));
            (key.clone(), key)
        }
    }
}

/// The first and the last time of an interval, as stored. The last is before the first if the
/// interval is empty.
pub(super) fn span(interval: Interval) -> (i64, i64) {
    if interval.is_empty() {
        return (ordered(1), ordered(0));
    }
    (ordered(interval.start().as_units()), ordered(interval.end().as_units().saturating_sub(1)))
}

/// The interval of a span.
pub(super) fn interval_of(first: i64, last: i64) -> Option<Interval> {
    let (first, last) = (unordered(first), unordered(last));
    let length = last.checked_add(1)?.checked_sub(first)?;
    Interval::new(Time::new(first), sotto_wire::Duration::new(length)).ok()
}

/// The codes and numbers of what is counted.
pub(super) fn tallies(aggregated: u64, rejections: &Rejections) -> (Vec<i16>, Vec<i64>) {
    let refused = rejections.iter().map(|(reason, count)| (i16::from(reason.code()), count as i64));
    let counted = (aggregated > 0).then_some((AGGREGATED, aggregated as i64));
    counted.into_iter().chain(refused).unzip()
}

/// The reason that a code stands for.
pub(super) fn reason(code: i16) -> Result<Rejection, Failure> {
    let reason = u8::try_from(code).ok().and_then(Rejection::from_code);
    reason.ok_or_else(|| Failure::broken(format!("rejection code {code} is unknown")))
}

/// A column of exactly so many bytes.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Failure> {
    bytes.try_into().map_err(|_| Failure::broken(format!("a column has {} bytes", bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_order_and_come_back() {
        let times = [0, 1, 7, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];
        assert!(times.iter().map(|time| ordered(*time)).is_sorted());
        assert!(times.iter().all(|time| unordered(ordered(*time)) == *time));
        let interval = |start, length| {
            Interval::new(Time::new(start), sotto_wire::Duration::new(length)).unwrap()
        };
        for (start, length) in [(0, 1), (5, 3), (i64::MAX as u64, 2), (0, u64::MAX)] {
            let (first, last) = span(interval(start, length));
            assert_eq!(interval_of(first, last), Some(interval(start, length)));
        }
        let (first, last) = span(interval(9, 0));
        assert!(first > last);
    }
}
