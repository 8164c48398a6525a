//! Words from a domain that nobody lists beforehand: a series of histograms over prefixes.
//!
//! A word is encoded as bits ([`code`]). In each round the devices count themselves under the
//! candidate that is a prefix of their word ([`candidates`]). The candidates that are counted often
//! enough survive; those that are whole words are found, and the others are made longer and become
//! the candidates of the next round ([`search`]). [`fast`] is a population without cryptography.
//!
//! The sums are noisy before anybody sees them, and everything here but the device's bucket is
//! computed from the sums alone. So what is found costs no more privacy than the sums.
//!
//! Left to others: recipes, the noise and its epsilon, files, and what an estimate is.

pub mod candidates;
pub mod code;
pub mod fast;
pub mod search;

pub use candidates::Candidates;
pub use code::{Bits, normalised};
pub use search::{Found, Rule, Search, Step};
