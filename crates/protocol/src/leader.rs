//! The leader: takes uploads, drives aggregation, answers the collector.
//!
//! [`upload`] judges arriving reports; [`aggregate`] forms jobs, talks to the helper and sums;
//! [`collect`] serves collection jobs. The store decides what becomes durable, and when.
//!
//! The other modules make decisions for the loops that drive jobs: [`intake`] and [`forming`] when
//! to form jobs and how many, [`room`] whose reports are stored, [`pacing`] when a helper may be called, [`unfinished`] what happens to a
//! job that could not be finished, [`waits`] how long a collection waits for its batch. Time is an
//! argument: monotonic, from an arbitrary start. The host only loads, calls, commits and sleeps.

pub mod aggregate;
pub mod collect;
pub mod forming;
mod helper_error;
pub mod intake;
pub mod pacing;
pub mod room;
pub mod unfinished;
pub mod upload;
pub mod waits;

pub use helper_error::HelperError;
