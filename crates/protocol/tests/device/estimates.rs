//! What a result says about the population, for every kind of recipe.

use sotto_dp::mechanism::Estimate;
use sotto_protocol::recipe::estimates;
use sotto_testing::recipe::recipe;
use sotto_wire::recipe::{Privacy, Probability, Query, Randomizer, Recipe};

/// Half of the width of a 95 % interval, in standard deviations.
const Z: f64 = 1.959_963_984_540_054;

fn close(one: f64, other: f64) {
    assert!((one - other).abs() <= 1e-6 * other.abs().max(1.0), "{one} is not {other}");
}

/// A recipe without a randomizer that samples a quarter of the devices.
fn exact(query: Query) -> Recipe {
    let mut recipe = recipe("exact");
    recipe.query = query;
    recipe.randomizer = Randomizer::None;
    recipe.privacy = Privacy::InsecureUnbounded;
    recipe.sampling.rate = Probability::new(1, 4).unwrap();
    recipe
}

fn histogram() -> Query {
    Query::Histogram { buckets: 4, labels: None, mapping: "region".to_owned(), fallback: 0 }
}

fn count() -> Query {
    Query::Count { mapping: "region == 1".to_owned(), fallback: false }
}

fn sum() -> Query {
    Query::Sum { max: 10, mapping: "region".to_owned(), fallback: 0 }
}

/// Without noise everything is known about the participants: the interval from noise is a point,
/// and the error is that of sampling.
fn check_exact(estimate: &Estimate, collected: f64, unit: f64) {
    close(estimate.value, collected * 4.0);
    assert_eq!(estimate.noise_error, 0.0);
    assert_eq!((estimate.noise_low, estimate.noise_high), (estimate.value, estimate.value));
    close(estimate.total_error, 4.0 * (0.75 * unit * collected).sqrt());
    assert!(estimate.total_low <= estimate.value && estimate.value < estimate.total_high);
}

#[test]
fn exact_results_are_scaled_by_the_rate() {
    let found = estimates(&exact(histogram()), &[100, 50, 0, 250], 400, 0.95).unwrap();
    assert_eq!(found.len(), 4);
    for (estimate, collected) in found.iter().zip([100.0, 50.0, 0.0, 250.0]) {
        check_exact(estimate, collected, 1.0);
    }
    let found = estimates(&exact(count()), &[37], 400, 0.95).unwrap();
    check_exact(&found[0], 37.0, 1.0);
    let found = estimates(&exact(sum()), &[1_234], 400, 0.95).unwrap();
    check_exact(&found[0], 1_234.0, 10.0);
    // Sums are not bounded by 64 bits.
    let found = estimates(&exact(sum()), &[1 << 80], 400, 0.95).unwrap();
    close(found[0].value, 2.0_f64.powi(82));
}

#[test]
fn randomized_responses_are_corrected_for_their_noise() {
    let recipe = recipe("noisy");
    let (e, rate) = (1.0_f64.exp(), 0.5);
    let (p, s) = (e / (e + 3.0), 1.0 / (e + 3.0));
    let counts = [4_000_i128, 3_000, 2_000, 1_000];
    let found = estimates(&recipe, &counts, 10_000, 0.95).unwrap();
    assert_eq!(found.len(), 4);
    for (estimate, count) in found.iter().zip(counts) {
        let taken = (count as f64 - 10_000.0 * s) / (p - s);
        close(estimate.value, taken / rate);
        let noise = 10_000.0 * s * (1.0 - s) / (p - s).powi(2);
        let slope = (1.0 - p - s) / (p - s);
        close(estimate.noise_error, (noise + slope * taken).sqrt() / rate);
        close(estimate.total_error, (noise + (slope + 1.0 - rate) * taken).sqrt() / rate);
        // Both ends are at the right distance from the estimate: the score equation holds there.
        for end in [estimate.total_low, estimate.total_high] {
            let x = end * rate;
            let spread = Z * (noise + (slope + 1.0 - rate) * x).sqrt();
            close((x - taken).abs(), spread);
        }
    }
    let all: f64 = found.iter().map(|estimate| estimate.value).sum();
    close(all, 20_000.0);
}

#[test]
fn results_that_no_recipe_can_have_are_errors() {
    let noisy = recipe("noisy");
    let refused = |recipe: &Recipe, sums: &[i128], reports, level| {
        assert!(estimates(recipe, sums, reports, level).is_err(), "{sums:?} {reports} {level}");
    };
    for recipe in [&noisy, &exact(histogram())] {
        refused(recipe, &[1, 2, 3, 4], 11, 0.95);
        refused(recipe, &[1 << 64, 0, 0, 0], 10, 0.95);
        refused(recipe, &[-1, 3, 4, 4], 10, 0.95);
        refused(recipe, &[], 0, 0.95);
        refused(recipe, &[1, 2, 3, 4], 10, 1.0);
        refused(recipe, &[1, 2, 3, 4], 10, 0.0);
    }
    refused(&noisy, &[3, 7], 10, 0.95);
    refused(&exact(sum()), &[3], 10, f64::NAN);
}
