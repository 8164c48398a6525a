//! Closed forms: answers that need no accountant.
//!
//! Each names the theorem that it rests on. Results are rounded towards more epsilon (more sigma,
//! more delta): the margins are a few units in the last place, stated with each function.

mod composition;
mod gaussian;
mod laplace;
mod renyi;

pub use composition::{advanced_composition, sampled};
pub use gaussian::{
    classic_gaussian_epsilon, classic_gaussian_sigma, gaussian_delta, gaussian_epsilon,
    gaussian_ln_delta, gaussian_sigma,
};
pub use laplace::{laplace_delta, laplace_epsilon, laplace_rdp};
pub use renyi::{
    pure_to_rdp, pure_to_rdp_simple, rdp_to_epsilon, zcdp_epsilon, zcdp_epsilon_simple,
};

pub(crate) use gaussian::{mean_decay, ratio};

/// Four units in the last place: what a handful of correctly rounded operations can lose.
pub(crate) const ROUNDING: f64 = 4.0 * f64::EPSILON;
