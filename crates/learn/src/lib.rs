//! Private federated learning, as arithmetic.
//!
//! - [`model`]: what a model is; softmax regression and a small network.
//! - [`local`]: what a device does with its own examples, and [`clipping`]: a clip that follows a
//!   quantile of the devices' norms.
//! - [`optimizer`]: what the server does with the noisy mean.
//! - [`plan`]: the rounds of a training, of which devices and server each compute their half.
//! - [`evaluation`]: how good a model is on what devices know, from bounded sums.
//! - [`discovery`]: words that nobody lists beforehand, from histograms over prefixes.
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
//!
//! ```
//! use std::num::NonZero;
//!
//! use sotto_learn::clipping::Clipping;
//! use sotto_learn::coins::Coins;
//! use sotto_learn::data::{Preparation, Users, digits};
//! use sotto_learn::fast::{Fast, Noise};
//! use sotto_learn::local::LocalTraining;
//! use sotto_learn::model::{Softmax, evaluate};
//! use sotto_learn::optimizer::Optimizer;
//! use sotto_learn::plan::Plan;
//!
//! let (training, test) = digits()?.split_every(6);
//! let preparation = Preparation::new(&training, Some(0.3));
//! let users = Users::one_each(preparation.apply(&training)?);
//! let model = Softmax::new(preparation.features(), 10)?;
//! let rate = 0.2;
//! let fast = Fast {
//!     model: &model,
//!     users: &users,
//!     plan: Plan {
//!         training: LocalTraining::ONE_STEP,
//!         clipping: Clipping::Fixed { clip: 0.5 },
//!         fraction_bits: 15,
//!         expected: rate * users.len() as f64,
//!         optimizer: Optimizer::Sgd { rate: 20.0 },
//!     },
//!     rate,
//!     noise: Noise::Central { sigma_micro: 2_000_000 },
//!     coins: Coins::from_number(1),
//!     threads: NonZero::<usize>::MIN,
//! };
//! let mut progress = fast.start()?;
//! while progress.rounds() < 10 {
//!     fast.round(&mut progress)?;
//! }
//! let found = evaluate(&model, progress.weights(), &preparation.apply(&test)?);
//! assert!(found.accuracy > 0.8);
//! # Ok::<(), sotto_learn::Error>(())
//! ```

mod error;
mod math;

pub mod clipping;
pub mod coins;
pub mod data;
pub mod discovery;
pub mod evaluation;
pub mod fast;
pub mod local;
pub mod model;
pub mod optimizer;
pub mod plan;

pub use error::Error;
