//! The leader: takes uploads, drives aggregation, answers the collector.
//!
//! [`upload`] judges arriving reports; [`aggregate`] forms jobs, speaks with the helper and sums;
//! [`collect`] serves collection jobs. What is durable when is the store's part.

pub mod aggregate;
pub mod collect;
pub mod upload;
