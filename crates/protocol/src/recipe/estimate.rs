//! From what a collector gets to what it says about the population. The estimators are in `sotto_dp::mechanism`.

use sotto_dp::Error;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::{Estimate, exact};
use sotto_wire::recipe::{Query, Randomizer, Recipe};

use super::symbols;

/// Estimates over the whole population, one for each number of the result, with intervals that hold with probability
/// `level`. `sums` and `reports` are what was collected.
pub fn estimates(
    recipe: &Recipe,
    sums: &[u128],
    reports: u64,
    level: f64,
) -> Result<Vec<Estimate>, Error> {
    let rate = recipe.sampling.rate.to_f64();
    let counts = || -> Result<Vec<u64>, Error> {
        let count = |sum: &u128| {
            u64::try_from(*sum).map_err(|_| Error::OutOfRange {
                name: "a count",
                value: *sum as f64,
                range: "at most 2^64 - 1",
            })
        };
        sums.iter().map(count).collect()
    };
    match (&recipe.query, &recipe.randomizer) {
        (query, Randomizer::RandomizedResponse { epsilon_micro }) => RandomizedResponse::new(
            *epsilon_micro,
            symbols(query),
        )?
        .estimate(&counts()?, reports, rate, level),
        (Query::Sum { max, .. }, Randomizer::None) => {
            sums.iter().map(|sum| exact::estimate_sum(*sum, *max, rate, level)).collect()
        }
        (Query::Count { .. }, Randomizer::None) => {
            sums.iter().map(|sum| exact::estimate_sum(*sum, 1, rate, level)).collect()
        }
        (Query::Histogram { .. }, Randomizer::None) => {
            exact::estimate(&counts()?, reports, rate, level)
        }
    }
}
