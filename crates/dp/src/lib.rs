//! The privacy accountant.
//!
//! *Events* say what happened ([`Event`]); *accountants* say what it cost. Every epsilon that
//! leaves this crate is an upper bound on the true one, for the adjacency that it names. Where a
//! method can also bound how far below it the true value may be, the answer is a [`Bracket`].
//! `docs/privacy-accounting.md` lists each theorem with its assumptions.
//!
//! *Mechanisms* ([`mechanism`]) are what a device does to its value, and how an analyst interprets
//! the sum. Each is one file, and names the event and the law by which it is accounted for.
//!
//! No I/O, no clock, and no randomness except what the caller passes in. All transcendental
//! functions come from the crate `libm`, so results do not depend on the platform.

// `!(a > b)` is intentional: NaN must fall on the side that claims less.
#![allow(clippy::neg_cmp_op_on_partial_ord)]

mod error;
mod event;
mod math;
mod notion;
mod pld;

pub mod account;
pub mod allocation;
pub mod calibrate;
pub mod closed;
pub mod crowd;
pub mod discrete;
pub mod filter;
pub mod mechanism;
pub mod number;
pub mod paper;
pub mod projection;
pub mod rdp;
pub mod recipe;
pub mod relay;
pub mod sampler;
pub mod shuffle;
pub mod uniform;

pub use account::{Accountant, Answer, Question, published};
pub use error::Error;
pub use event::Event;
pub use notion::{Adjacency, Bracket, Count, Shape};
