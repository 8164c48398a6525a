//! How a recipe is proved: its position in the log, age, keys, parties and derivation.
//!
//! Nothing here depends on a device's own state, so devices and aggregators share this code. Each
//! reads every entry of the log once, whatever it says, so that nobody can see which recipe a
//! reader is interested in.
//!
//! ```text
//! Watch::refresh       the newest checkpoint, every new entry, a verdict on each open recipe
//!   View::open           the checkpoint: pinned log key, witness quorum
//!   Catalogue            open recipes, key sets and results; an Offer is a recipe with all proofs
//!   Assessments::admit   checks an Offer                                          -> Admitted
//! ```
//!
//! Leaves to others: reading the log's files ([`crate::log`]), what a recipe means
//! ([`crate::recipe`]), what is pinned ([`crate::trust`]), and everything that depends on one
//! device ([`crate::device`], which this module must not import).

mod assessments;
mod catalogue;
mod check;
mod evidence;
mod watch;

pub use self::assessments::Assessments;
pub use self::check::{Check, Silence};
pub(crate) use self::evidence::ProvedKeySet;
pub use self::evidence::{Admitted, Evidence, Offer, View, check_url};
pub use self::watch::{Watch, WatchError};
