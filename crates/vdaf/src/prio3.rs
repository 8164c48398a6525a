//! Prio3 (VDAF, section "Prio3") through the `prio` crate. Only this module uses its types.
//!
//! [`Instance`] is Prio3 for any number of aggregators, over bytes; test vectors run through it.
//! Tasks use [`Prio3Adapter`]: two aggregators, batches, accumulators.

mod adapter;
mod circuit;
mod instance;

pub(crate) use adapter::Prio3Adapter;
pub(crate) use circuit::Circuit;
pub(crate) use instance::{Instance, VerifyState};
