//! A slice of the campaign of the errors of estimates; `cargo xtask campaign error` runs it at full
//! length.

use sotto_tests::squared_error::{Scale, run};
use sotto_wire::recipe::Probability;

/// The sum of the squares of 100 errors is below 0.4 or above 2 of its mean in one of ten million
/// cases, if they are independent and normal. (Those of projective geometry response are not
/// independent. But only the noise of the aggregators has no seed.)
#[test]
fn squared_errors_are_as_predicted() {
    let rate = Probability::new(1, 20).unwrap();
    for outcome in run(Scale { devices: 3_000, rate, buckets: 100 }, 1).unwrap() {
        for (name, errors) in [("total", outcome.total), ("noise", outcome.noise)] {
            let ratio = errors.ratio();
            println!("{}, {name}: {ratio}", outcome.mechanism);
            assert!((0.4..=2.0).contains(&ratio), "{}, {name}: {ratio}", outcome.mechanism);
        }
    }
}
