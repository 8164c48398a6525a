//! Mechanisms: what a device does to its value, what that costs, and how an analyst interprets the
//! sum.
//!
//! Each mechanism is one file here: its parameters, its randomizer R, the encoding that it sends,
//! its event and the law by which a recipe is judged, the guarantees that remain when parties
//! collude, its estimator, and its descriptions for people. It implements [`Method`], and has one
//! line in the list below, which makes it a variant of [`Mechanism`]. All other code uses
//! [`Mechanism`].
//!
//! Leaves to others: how a recipe spells the parameters (`sotto_wire::recipe::Randomizer`), and
//! which VDAF sums an [`Encoding`] (`sotto_protocol::recipe`).

mod collected;
mod collusion;
mod consistent;
mod difference;
mod estimate;
pub mod exact;
mod expected;
pub mod gaussian;
mod interval;
mod mean;
pub mod projective_geometry;
mod quantiles;
pub mod randomized_response;
pub mod rappor;
pub mod server_noise;
pub mod vector;
mod vectors;

use std::fmt::Debug;
use std::ops::Deref;

use rand_core::CryptoRng;

use crate::recipe::Law;
use crate::{Error, Event};

pub use collected::{Collected, Rates};
pub use collusion::{Colluding, Sampling};
pub use consistent::onto_simplex;
pub use difference::{Difference, Ranged, difference, holm};
pub use estimate::{Estimate, Spread};
pub use expected::{Entry, Population, Variance};
pub use mean::{Mean, mean};
pub use quantiles::{Quantile, quantiles};
pub use vectors::{Norm, VectorMean, norm, projected_back, vector_mean};

/// Makes [`Mechanism`] from a list of mechanisms, each with its kind as named in recipes.
macro_rules! mechanisms {
    ($($kind:literal: $module:ident::$name:ident,)+) => {
        /// A mechanism with its parameters. It is used through [`Method`], to which it
        /// dereferences.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mechanism {
            $(#[doc = concat!("`", $kind, "`: see [`", stringify!($module), "`].")]
            $name($module::$name),)+
        }

        impl Mechanism {
            /// All kinds, as a recipe spells them: `server_gaussian` in `noise.kind`, all others in
            /// `randomizer.kind`.
            pub const KINDS: &[&str] = &[$($kind),+];

            /// The kind, one of [`Self::KINDS`].
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $kind,)+
                }
            }
        }

        impl Deref for Mechanism {
            type Target = dyn Method;

            fn deref(&self) -> &(dyn Method + 'static) {
                match self {
                    $(Self::$name(method) => method,)+
                }
            }
        }

        $(impl From<$module::$name> for Mechanism {
            fn from(method: $module::$name) -> Self {
                Self::$name(method)
            }
        })+
    };
}

mechanisms! {
    "none": exact::Exact,
    "randomized_response": randomized_response::RandomizedResponse,
    "rappor": rappor::Rappor,
    "projective_geometry": projective_geometry::ProjectiveGeometry,
    "server_gaussian": server_noise::ServerNoise,
    "gaussian": gaussian::Gaussian,
}

/// The interface of every mechanism.
pub trait Method: Debug {
    /// How the sent values are summed.
    fn encoding(&self) -> Encoding;

    /// The device's side, R: the value that is sent for `value`.
    fn randomize(&self, value: Value, rng: &mut dyn CryptoRng) -> Value;

    /// The event of one report for the accountant; `None` if nothing bounds what it reveals.
    fn event(&self) -> Option<Event>;

    /// How a recipe with this mechanism is judged.
    fn law(&self) -> Law;

    /// The epsilon under replacement that holds even if everybody else is malicious, rounded up;
    /// `None` if there is none.
    fn local_epsilon(&self) -> Option<f64>;

    /// The guarantee that holds if both aggregators collude; `None` if there is none.
    fn colluding(&self, sampling: &Sampling, delta: f64) -> Result<Option<Colluding>, Error>;

    /// What a device sends that has nothing to say: R of nothing, noise included. `None` if the
    /// encoding has no such value.
    fn dummy(&self, rng: &mut dyn CryptoRng) -> Option<Value> {
        self.encoding().nothing().map(|nothing| self.randomize(nothing, rng))
    }

    /// The analyst's side: estimates over the whole population, one for each collected number.
    fn estimates(&self, collected: &Collected<'_>) -> Result<Vec<Estimate>, Error>;

    /// The standard errors of a weighted sum of the estimates of counts, where each device holds at
    /// most one symbol.
    fn spread(&self, weights: &[f64], collected: &Collected<'_>) -> Result<Spread, Error> {
        Ok(estimate::independent(weights, &self.estimates(collected)?))
    }

    /// The largest norm (L2) of a value, before R, where values are vectors.
    fn clip(&self) -> Option<u64> {
        match self.encoding() {
            Encoding::Vector { norm_bound, .. } => Some(norm_bound),
            _ => None,
        }
    }

    /// The variance of the noise of an estimate for those who took part, by what is estimated, if
    /// there are so many reports.
    fn variance(&self, reports: f64) -> Result<Variance, Error>;

    /// How many labels there are, where labels are counted.
    fn labels(&self) -> u32 {
        self.encoding().numbers()
    }

    /// How far one report can move an estimate for those who took part, whatever its device does:
    /// the servers accept no more. In units of the estimate.
    fn reach(&self) -> f64;

    /// The variance of the noise in each collected number that does not depend on any value, if
    /// there are so many reports.
    fn added_variance(&self, _reports: u64) -> Result<f64, Error> {
        Ok(0.0)
    }

    /// The probability that a value is sent unchanged, for mechanisms that have one.
    fn keep_probability(&self) -> Option<f64> {
        None
    }

    /// Its descriptions for people.
    fn words(&self) -> Words;
}

/// The values that a contribution can have, which determine how it is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Yes or no.
    Bit,
    /// A number from 0 to `max`.
    Number {
        /// The largest number.
        max: u64,
    },
    /// One of `length` symbols; each is counted.
    OneHot {
        /// The number of symbols.
        length: u32,
    },
    /// Up to `most` of `length` labels, possibly none; each is counted.
    Labels {
        /// The number of labels.
        length: u32,
        /// How many of them one contribution has at most.
        most: u32,
    },
    /// A vector of signed whole numbers, which are summed one by one.
    Vector {
        /// How many numbers it has.
        length: u32,
        /// Its largest norm (L2), in units of the sum.
        norm_bound: u64,
    },
}

/// One value of an [`Encoding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Yes or no.
    Bit(bool),
    /// A number.
    Number(u64),
    /// The index of a symbol.
    OneHot(u32),
    /// The indices of labels, each larger than the one before.
    Labels(Vec<u32>),
    /// The numbers of a vector.
    Vector(Vec<i64>),
}

impl Encoding {
    /// The value that adds nothing to the sum; `None` if every value adds something.
    pub fn nothing(self) -> Option<Value> {
        match self {
            Self::Bit => Some(Value::Bit(false)),
            Self::Number { .. } => Some(Value::Number(0)),
            Self::OneHot { .. } => None,
            Self::Labels { .. } => Some(Value::Labels(Vec::new())),
            Self::Vector { length, .. } => Some(Value::Vector(vec![0; length as usize])),
        }
    }

    /// How much one contribution adds to one of the sums at most.
    fn largest(self) -> f64 {
        match self {
            Self::Bit | Self::OneHot { .. } | Self::Labels { .. } => 1.0,
            Self::Number { max } => max as f64,
            Self::Vector { norm_bound, .. } => norm_bound as f64,
        }
    }

    /// How many numbers are collected.
    pub fn numbers(self) -> u32 {
        match self {
            Self::Bit | Self::Number { .. } => 1,
            Self::OneHot { length } | Self::Labels { length, .. } | Self::Vector { length, .. } => {
                length
            }
        }
    }
}

impl Value {
    /// The value as one of this encoding, where that counts symbols or sums vectors.
    fn of(self, encoding: Encoding) -> Self {
        match encoding {
            Encoding::Bit | Encoding::Number { .. } => self,
            Encoding::OneHot { length } => Self::OneHot(self.symbol(length)),
            Encoding::Labels { length, most } => Self::Labels(self.labels(length, most)),
            Encoding::Vector { length, norm_bound } => {
                Self::Vector(self.vector(length, norm_bound))
            }
        }
    }

    /// The vector, of so many numbers and at most so long. Whatever a caller passes, it is one.
    fn vector(self, length: u32, norm_bound: u64) -> Vec<i64> {
        match self {
            Self::Vector(vector) if vector.len() == length as usize => {
                vector::shortened(vector, norm_bound)
            }
            _ => vec![0; length as usize],
        }
    }

    /// The symbol, below `length`. Whatever a caller passes, it is a symbol.
    fn symbol(self, length: u32) -> u32 {
        let symbol = match self {
            Self::Bit(bit) => u32::from(bit),
            Self::Number(number) => u32::try_from(number).unwrap_or(u32::MAX),
            Self::OneHot(symbol) => symbol,
            Self::Labels(labels) => labels.first().copied().unwrap_or(u32::MAX),
            Self::Vector(_) => u32::MAX,
        };
        symbol.min(length.saturating_sub(1))
    }

    /// The labels, at most `most` of them, all below `length`, in order. Whatever a caller passes,
    /// they are labels.
    fn labels(self, length: u32, most: u32) -> Vec<u32> {
        let mut labels = match self {
            Self::Labels(labels) => labels,
            other => vec![other.symbol(length)],
        };
        labels.retain(|label| *label < length);
        labels.sort_unstable();
        labels.dedup();
        labels.truncate(most as usize);
        labels
    }
}

/// Descriptions of a mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, in the order of the recipe.
    pub parameters: Vec<Parameter>,
    /// What is sent, for the device's owner. Without jargon.
    pub explanation: String,
    /// What happens to a value, for the author, like `kept with probability 0.9`.
    pub effect: String,
}

/// A parameter of a mechanism, as a recipe holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The field of the recipe.
    pub field: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The value, in millionths.
    pub micro: u64,
    /// Whether a larger value is less private; if not, a smaller one is.
    pub more_is_weaker: bool,
}
