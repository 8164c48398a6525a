//! Private federated learning, as arithmetic.
//!
//! - [`model`]: what a model is; softmax regression and a small network.
//! - [`local`]: what a device does with its own examples, and [`clipping`]: a clip that follows a
//!   quantile of the devices' norms.
//! - [`optimizer`]: what the server does with the noisy mean.
//! - [`plan`]: the rounds of a training, of which devices and server each compute their half.
//! - [`data`]: data sets, prepared and split by user.
//! - [`fast`]: rounds without cryptography and without servers, with the same mechanism code, for
//!   research with many devices. [`coins`] are its randomness.
//!
//! Left to others: recipes, rounds between real parties, files, downloads, and every epsilon (the
//! crate `sotto-dp`).
//!
//! No I/O, no clock, and no randomness except what the caller passes in. Everything is computed from
//! additions, subtractions, multiplications, divisions and square roots of `f64`, in a fixed order,
//! and from functions of the crate `libm`: the same seed gives the same bits on every platform and
//! with every number of threads.

mod error;
mod math;

pub mod clipping;
pub mod coins;
pub mod data;
pub mod fast;
pub mod local;
pub mod model;
pub mod optimizer;
pub mod plan;

pub use error::Error;
