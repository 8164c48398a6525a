//! The validity circuits of `prio`, with conversions from and to plain numbers.

use prio::field::{Field64, Field128};
use prio::flp::Type;
use prio::flp::gadgets::{Mul, ParallelSum};
use prio::flp::types::{Count, Histogram, L1BoundSum, MultihotCountVec, Sum, SumVec};

use crate::aggregate_share::ShareField;
use crate::{AggregateResult, Measurement};

/// A validity circuit that [`Instance`](super::Instance) can run.
///
/// `measurement` returns `None` for a measurement of another kind. Values are checked beforehand by
/// [`Measurement::check`], because not all of `prio`'s encoders check them.
pub(crate) trait Circuit: Type<Field: ShareField> + Send + Sync + 'static {
    fn measurement(measurement: &Measurement) -> Option<Self::Measurement>;
    /// `signed` says which number an element of the field stands for.
    fn result(result: Self::AggregateResult, signed: impl Fn(u128) -> i128) -> AggregateResult;
}

type Gadget<F> = ParallelSum<F, Mul>;

impl Circuit for Count<Field64> {
    fn measurement(measurement: &Measurement) -> Option<bool> {
        match measurement {
            Measurement::Count(value) => Some(*value),
            _ => None,
        }
    }

    fn result(result: u64, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Scalar(signed(result.into()))
    }
}

impl Circuit for Sum<Field64> {
    fn measurement(measurement: &Measurement) -> Option<u64> {
        match measurement {
            Measurement::Sum(value) => Some(*value),
            _ => None,
        }
    }

    fn result(result: u64, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Scalar(signed(result.into()))
    }
}

impl<F: ShareField> Circuit for SumVec<F, Gadget<F>> {
    fn measurement(measurement: &Measurement) -> Option<Vec<F::Integer>> {
        match measurement {
            Measurement::SumVec(values) => Some(values.iter().map(|v| (*v).into()).collect()),
            _ => None,
        }
    }

    fn result(result: Vec<F::Integer>, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Vector(result.into_iter().map(|sum| signed(sum.into())).collect())
    }
}

impl Circuit for Histogram<Field128, Gadget<Field128>> {
    fn measurement(measurement: &Measurement) -> Option<usize> {
        match measurement {
            Measurement::Histogram(index) => Some(*index as usize),
            _ => None,
        }
    }

    fn result(result: Vec<u128>, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Vector(result.into_iter().map(signed).collect())
    }
}

impl Circuit for MultihotCountVec<Field128, Gadget<Field128>> {
    fn measurement(measurement: &Measurement) -> Option<Vec<bool>> {
        match measurement {
            Measurement::MultihotCountVec(values) => Some(values.clone()),
            _ => None,
        }
    }

    fn result(result: Vec<u128>, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Vector(result.into_iter().map(signed).collect())
    }
}

impl Circuit for L1BoundSum<Field128, Gadget<Field128>> {
    fn measurement(measurement: &Measurement) -> Option<Vec<u128>> {
        match measurement {
            Measurement::L1BoundSum(values) => Some(values.iter().map(|v| (*v).into()).collect()),
            _ => None,
        }
    }

    fn result(result: Vec<u128>, signed: impl Fn(u128) -> i128) -> AggregateResult {
        AggregateResult::Vector(result.into_iter().map(signed).collect())
    }
}
