//! The device that decides for itself: what it checks, what it charges, when it answers.
//!
//! A host fetches, stores and sends. Every decision is made here, by pure functions over a
//! [`DeviceState`]. What is the same for every device is proved in [`crate::admission`]:
//!
//! ```text
//! Watch::refresh      the newest view of the log, its recipes admitted or not
//! follow              never behind the stored checkpoint         -> commit Change::Seen
//!                     a newer key of the log's gateway           -> commit Change::LogGateway
//! tokens              requested at random times, for every recipe -> commit Change::Tokens
//! consider            what this device adds, and the ledger      -> commit Change::Considered
//! toss                the coin, once; the exact bytes to send    -> commit Change::Answered
//!                     send them, at most [`MAX_SENDS`] times     -> commit Change::Sending
//!                     they are taken, refused or given up        -> commit Change::Delivered
//! ```
//!
//! Each change is durable before the next step. After a crash, a recipe that was considered but has
//! no report bytes is not answered: a second toss would raise the rate. [`toss`] consumes the
//! [`Ticket`] that only [`consider()`] gives, so a host cannot toss twice either.
//! `sotto_client::Participant` runs all steps in this order.
//!
//! A failed check is [`Silence`](crate::admission::Silence): nothing is sent, not even an error.
//! The reason is for the person in front of the device and for tests.

mod consider;
mod gateway;
mod learner;
mod ledger;
mod pass;
mod schedule;
mod state;
pub mod tokens;

pub use self::consider::{Consideration, Host, Ticket, advance, consider, toss};
pub use self::gateway::log_gateway_keys;
pub use self::learner::Learner;
pub use self::pass::{Pass, PassError, follow, pass};
pub use self::schedule::{Errand, next_pass, next_pass_after_round};
pub use self::state::{
    AuditLine, Change, DeviceState, DeviceStore, MAX_SENDS, MemoryState, Pending, Route,
    SeenGateway, SeenKeySet, StateError,
};
