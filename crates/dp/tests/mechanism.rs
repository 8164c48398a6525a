//! Mechanisms: the law of what a device reports, and what an analyst may say about the population.
//!
//! Statistical tests have fixed seeds: they pass or fail for good. The false-alarm rates say how
//! improbable it was that a right mechanism would fail when the seed was chosen.

mod answers;
mod audit;
mod clipping;
mod coverage;
mod errors;
mod estimates;
mod expected;
mod gaussian;
mod law;
mod simulated;
mod vectors;
