//! What an epsilon refers to: which inputs are neighbours, what the adversary sees, how precise the
//! number is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which pairs of inputs must be hard to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Adjacency {
    /// A device is present or not.
    AddRemove,
    /// A device holds one value or another.
    Replace,
    /// A device contributes its value or the null value (the zero vector), and is present in both
    /// cases.
    ZeroOut,
}

impl fmt::Display for Adjacency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddRemove => "add-remove",
            Self::Replace => "replace",
            Self::ZeroOut => "zero-out",
        })
    }
}

/// The shape of one contribution, which decides how far apart two of them can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// One coordinate is 1 (times the clip), the others 0; or any vector without negative entries.
    OneHot,
    /// Any vector within the clip norm.
    #[default]
    Vector,
    /// Numbers that are not negative, of which all can be the largest at once: one number from 0 to
    /// the clip, or a list of them.
    Number,
}

impl Shape {
    /// How far apart two contributions of norm 1 or less can be.
    pub fn replacement_distance(self) -> f64 {
        match self {
            Self::OneHot => std::f64::consts::SQRT_2,
            Self::Vector => 2.0,
            Self::Number => 1.0,
        }
    }

    /// How far one device can move the sum, in units of the clip, under `adjacency`.
    pub fn distance(self, adjacency: Adjacency) -> f64 {
        match adjacency {
            Adjacency::AddRemove | Adjacency::ZeroOut => 1.0,
            Adjacency::Replace => self.replacement_distance(),
        }
    }
}

/// Whether the adversary sees how many devices took part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// Only the sum is seen: the paper's model.
    Hidden,
    /// The exact number of contributions is seen, as an aggregator does.
    Seen,
}

/// An epsilon with both of its ends: the true value is not below `lower` and not above `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bracket {
    /// No smaller epsilon is possible.
    pub lower: f64,
    /// This epsilon holds.
    pub upper: f64,
}

impl Bracket {
    /// The intersection of two brackets: each end is the better of the two.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.min(other.upper) }
    }

    /// The bracket of the larger of two epsilons (two directions, two cases of which one holds).
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { lower: self.lower.max(other.lower), upper: self.upper.max(other.upper) }
    }
}
