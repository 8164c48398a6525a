//! Closed forms against 40- and 60-digit reference values (`reference/`, origin in each file's
//! `tool`).

use serde_json::Value;
use sotto_dp::closed::{self, *};
use sotto_dp::{Bracket, Error};

const GAUSSIAN: &str = include_str!("reference/a_analytic_gaussian.json");
const CLOSED: &str = include_str!("reference/e_closed_forms.json");

fn cases(text: &str) -> Vec<Value> {
    serde_json::from_str::<Vec<Value>>(text).unwrap()
}

fn number(case: &Value, part: &str, name: &str) -> f64 {
    case[part][name].as_f64().unwrap_or_else(|| panic!("{part}.{name} of {case}"))
}

fn input(case: &Value, name: &str) -> f64 {
    number(case, "inputs", name)
}

fn close(found: f64, expected: f64, relative: f64) -> bool {
    (found - expected).abs() <= relative * expected.abs()
}

/// `(sigma, delta, epsilon)` from an 80-digit bisection (mpmath): the far corners.
const CORNERS: &[(f64, f64, f64)] = &[
    (0.001, 0.3, 500523.4007751495),
    (0.001, 0.001, 503089.2338484388),
    (0.001, 1.0e-10, 506360.34406997747),
    (0.001, 1.0e-50, 514932.3449282657),
    (0.001, 1.0e-300, 537046.1143780627),
    (0.02, 0.3, 1275.2253628472565),
    (0.02, 0.001, 1403.5414143388964),
    (0.02, 1.0e-10, 1567.1258274830273),
    (0.02, 1.0e-50, 1995.791927161171),
    (0.02, 1.0e-300, 3101.60657214131),
    (0.5, 0.3, 2.193464604743079),
    (0.5, 0.001, 7.581279924570114),
    (0.5, 1.0e-10, 14.274089645078005),
    (0.5, 1.0e-50, 31.580630419389276),
    (0.5, 1.0e-300, 75.93374995876414),
    (0.99, 0.3, 0.2903085939033622),
    (0.99, 0.001, 3.177946570057442),
    (0.99, 1.0e-10, 6.620552698831212),
    (0.99, 1.0e-50, 15.40762513365577),
    (0.99, 1.0e-300, 37.83248773103784),
    (1.01, 0.3, 0.26331764710001687),
    (1.01, 0.001, 3.1002887960543575),
    (1.01, 1.0e-10, 6.476844147946107),
    (1.01, 1.0e-50, 15.091374132483757),
    (1.01, 1.0e-300, 37.0729064764171),
    (3.0, 0.001, 0.8335281018044937),
    (3.0, 1.0e-10, 2.0181070204828795),
    (3.0, 1.0e-50, 4.947801321448806),
    (3.0, 1.0e-300, 12.362096966371473),
    (20.0, 0.001, 0.0840176626554241),
    (20.0, 1.0e-10, 0.28032683360095045),
    (20.0, 1.0e-50, 0.7287187598474009),
    (20.0, 1.0e-300, 1.8446742446974373),
    (1000.0, 1.0e-10, 0.004882455278973522),
    (1000.0, 1.0e-50, 0.01428127018355964),
    (1000.0, 1.0e-300, 0.03676291669948786),
    (1.0e+6, 1.0e-10, 3.363015762138005e-6),
    (1.0e+6, 1.0e-50, 1.3793543702581058e-5),
    (1.0e+6, 1.0e-300, 3.657431251424889e-5),
    (1.0e+9, 1.0e-10, 9.023463477559906e-10),
    (1.0e+9, 1.0e-50, 1.328883281327633e-8),
    (1.0e+9, 1.0e-300, 3.6385237039696415e-8),
];

/// The bracket holds the truth (known to its own last digits), and is narrow.
fn holds(bracket: Bracket, truth: f64, relative: f64, absolute: f64) {
    let digits = 4.0 * f64::EPSILON * truth;
    assert!(bracket.lower <= truth + digits, "{bracket:?} {truth}");
    assert!(bracket.upper >= truth - digits, "{bracket:?} {truth}");
    assert!(bracket.upper - truth <= relative * truth + absolute, "{bracket:?} {truth}");
    assert!(truth - bracket.lower <= relative * truth + absolute, "{bracket:?} {truth}");
}

#[test]
fn the_analytic_gaussian_agrees_with_sixty_digits() {
    let mut seen = [0; 3];
    for case in cases(GAUSSIAN) {
        match case["inputs"]["kind"].as_str().unwrap() {
            "eps_from_sigma_delta" => {
                let found = gaussian_epsilon(input(&case, "sigma"), input(&case, "delta")).unwrap();
                let truth = number(&case, "expected", "epsilon");
                // The file asks for 1e-9 (1e-12 absolute below 1e-3).
                holds(found, truth, 1e-12, 1e-15);
                seen[0] += 1;
            }
            "sigma_from_eps_delta" => {
                let found = gaussian_sigma(input(&case, "epsilon"), input(&case, "delta")).unwrap();
                let truth = number(&case, "expected", "sigma");
                assert!(found >= truth * (1.0 - 1e-15) && close(found, truth, 1e-12), "{case}");
                seen[1] += 1;
            }
            "delta_from_sigma_eps" => {
                let (sigma, epsilon) = (input(&case, "sigma"), input(&case, "epsilon"));
                let truth = number(&case, "expected", "log_delta");
                let found = gaussian_ln_delta(sigma, epsilon).unwrap();
                assert!(found >= truth - 1e-14 && close(found, truth, 1e-12), "{found} {case}");
                let delta = gaussian_delta(sigma, epsilon).unwrap();
                assert!(close(delta, number(&case, "expected", "delta"), 1e-11), "{delta} {case}");
                seen[2] += 1;
            }
            other => panic!("unknown kind {other}"),
        }
    }
    assert_eq!(seen, [51, 53, 7]);
}

#[test]
fn the_analytic_gaussian_holds_in_the_corners() {
    for &(sigma, delta, epsilon) in CORNERS {
        let found = gaussian_epsilon(sigma, delta).unwrap();
        holds(found, epsilon, 1e-11, 0.0);
        let back = gaussian_sigma(epsilon, delta).unwrap();
        assert!(close(back, sigma, 1e-11), "{sigma} {delta} {back}");
        let ln_delta = gaussian_ln_delta(sigma, epsilon).unwrap();
        // Epsilon itself has 17 digits: at sigma = 1e-3 that moves ln delta.
        let moved = 4.0 * f64::EPSILON * epsilon * sigma * (1.0 + epsilon * sigma);
        assert!((ln_delta - delta.ln()).abs() <= 1e-11 * delta.ln().abs() + moved, "{ln_delta}");
    }
}

#[test]
fn epsilon_sigma_and_delta_invert_each_other() {
    for exponent in -30..=60 {
        let sigma = 10f64.powf(f64::from(exponent) / 10.0);
        for delta in [0.4, 1e-2, 1e-6, 1e-12, 1e-100, 1e-300] {
            let epsilon = gaussian_epsilon(sigma, delta).unwrap();
            assert!(epsilon.lower <= epsilon.upper);
            let width = epsilon.upper - epsilon.lower;
            assert!(width <= 1e-11 * epsilon.upper + 2e-13 / sigma, "{sigma} {delta}");
            if epsilon.upper == 0.0 {
                continue;
            }
            let back = gaussian_sigma(epsilon.upper, delta).unwrap();
            assert!(close(back, sigma, 1e-9), "{sigma} {delta} {epsilon:?} {back}");
            assert!(gaussian_ln_delta(sigma, epsilon.upper).unwrap() <= delta.ln() * (1.0 - 1e-10));
        }
    }
}

#[test]
fn epsilon_is_zero_from_the_total_variation_distance_on() {
    for sigma in [0.1, 1.0, 5.1, 1e3, 1e6] {
        // erf(1/(sigma sqrt 8))
        let distance = erf(1.0 / (sigma * 8f64.sqrt()));
        let above = gaussian_epsilon(sigma, (distance * (1.0 + 1e-12)).min(1.0 - 1e-16)).unwrap();
        assert!(above.lower == 0.0 && above.upper <= 1e-11, "{above:?}");
        let below = gaussian_epsilon(sigma, distance * (1.0 - 1e-6)).unwrap();
        assert!(below.lower > 0.0);
        // (Near delta = 1, where sigma = 0.1 is, sigma hangs on the last digits of delta.)
        let sigma_at_zero = gaussian_sigma(0.0, distance * (1.0 - 1e-6)).unwrap();
        assert!(sigma_at_zero > sigma && close(sigma_at_zero, sigma, 0.05), "{sigma_at_zero}");
        let delta = gaussian_delta(sigma, 0.0).unwrap();
        assert!(delta >= distance * (1.0 - 1e-14) && close(delta, distance, 1e-12));
    }
    assert!(close(
        gaussian_sigma(0.0, 1e-300).unwrap(),
        1e300 / (2.0 * std::f64::consts::PI).sqrt(),
        1e-12
    ));
}

/// `erf` by its series of positive terms.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    (sum * (-x * x).exp() * 2.0 / std::f64::consts::PI.sqrt()).min(1.0)
}

#[test]
fn less_noise_or_a_smaller_delta_costs_more() {
    let mut last = f64::INFINITY;
    for step in 0..400 {
        let sigma = 10f64.powf(-3.0 + 0.025 * f64::from(step));
        let found = gaussian_epsilon(sigma, 1e-8).unwrap();
        assert!(found.upper < last || found.upper == 0.0, "{sigma}");
        last = found.upper;
    }
    let mut last = 0.0;
    let mut last_sigma = 0.0;
    for step in 1..300 {
        let delta = 10f64.powi(-step);
        let found = gaussian_epsilon(0.7, delta).unwrap().lower;
        let sigma = gaussian_sigma(0.7, delta).unwrap();
        assert!(found > last && sigma > last_sigma, "{delta}");
        (last, last_sigma) = (found, sigma);
    }
}

#[test]
fn the_classic_formula_is_looser_where_it_holds_and_refused_elsewhere() {
    for epsilon in [1e-3, 0.1, 0.5, 0.9, 1.0] {
        for delta in [0.9, 0.5, 1e-3, 1e-8, 1e-100] {
            let classic = classic_gaussian_sigma(epsilon, delta).unwrap();
            assert!(classic >= gaussian_sigma(epsilon, delta).unwrap(), "{epsilon} {delta}");
            let back = classic_gaussian_epsilon(classic * (1.0 + 1e-12), delta).unwrap();
            assert!(close(back, epsilon, 1e-11));
        }
    }
    // The paper's sigma = 7.
    assert!(close(classic_gaussian_epsilon(7.0, 1e-8).unwrap(), 0.8723, 1e-4));
    assert!(matches!(
        classic_gaussian_sigma(1.01, 1e-8),
        Err(Error::OutOfRange { name: "epsilon", .. })
    ));
    assert!(matches!(
        classic_gaussian_epsilon(5.1, 1e-8),
        Err(Error::OutOfRange { name: "sigma", .. })
    ));
}

#[test]
fn closed_forms_agree_with_forty_digits() {
    let mut seen = 0;
    for case in cases(CLOSED) {
        seen += 1;
        let expected = |name| number(&case, "expected", name);
        let input = |name| input(&case, name);
        match case["inputs"]["kind"].as_str().unwrap() {
            "advanced_composition_DRV10" => {
                let times = case["inputs"]["T"].as_u64().unwrap();
                let (epsilon, delta) = advanced_composition(
                    input("epsilon"),
                    input("delta"),
                    times,
                    input("delta_prime"),
                )
                .unwrap();
                assert!(close(epsilon, expected("epsilon"), 1e-12), "{case}");
                assert!(close(delta, expected("delta"), 1e-12), "{case}");
                assert!(epsilon >= expected("epsilon") && delta >= expected("delta"), "{case}");
            }
            "amplification_by_sampling" => {
                let (epsilon, delta) =
                    sampled(input("epsilon"), input("delta"), input("gamma")).unwrap();
                assert!(close(epsilon, expected("epsilon"), 1e-12), "{epsilon} {case}");
                assert!(close(delta, expected("delta"), 1e-12), "{case}");
                assert!(epsilon >= expected("epsilon") && delta >= expected("delta"), "{case}");
            }
            "rdp_to_dp_CKS20" => {
                let found = rdp_to_epsilon(input("alpha"), input("rdp"), input("delta")).unwrap();
                assert!(close(found, expected("epsilon"), 1e-12), "{found} {case}");
                assert!(found >= expected("epsilon"), "{case}");
            }
            "pure_dp_to_rdp" => {
                let found = pure_to_rdp_simple(input("epsilon"), input("alpha")).unwrap();
                assert!(close(found, expected("rdp"), 1e-14), "{case}");
                let tight = pure_to_rdp(input("epsilon"), input("alpha")).unwrap();
                assert!(tight <= found && tight <= input("epsilon"), "{case}");
            }
            "classic_gaussian_sigma" => {
                let found = classic_gaussian_sigma(input("epsilon"), input("delta")).unwrap();
                assert!(close(found, expected("sigma"), 1e-13), "{case}");
                assert!(found >= expected("sigma"), "{case}");
            }
            other => panic!("unknown kind {other}"),
        }
    }
    assert_eq!(seen, 39);
}

/// The Rényi divergence of binary randomized response, from its two terms.
fn randomized_response(epsilon: f64, order: f64) -> f64 {
    let p = 1.0 / (1.0 + (-epsilon).exp());
    let sum =
        p.powf(order) * (1.0 - p).powf(1.0 - order) + (1.0 - p).powf(order) * p.powf(1.0 - order);
    sum.ln() / (order - 1.0)
}

#[test]
fn pure_dp_to_rdp_is_randomized_response_and_stable_outside_its_comfort() {
    for epsilon in [0.1, 0.5, 1.0, 3.0, 8.0] {
        for order in [1.5, 2.0, 7.3, 30.0] {
            let expected = randomized_response(epsilon, order);
            assert!(close(pure_to_rdp(epsilon, order).unwrap(), expected, 1e-10));
        }
    }
    // Tiny epsilon: order epsilon^2/2. Large ones: epsilon. Order next to 1: epsilon
    // tanh(epsilon/2).
    assert!(close(pure_to_rdp(1e-9, 5.0).unwrap(), 2.5e-18, 1e-12));
    assert!(close(pure_to_rdp(1e-100, 5.0).unwrap(), 2.5e-200, 1e-12));
    assert_eq!(pure_to_rdp(1e5, 1.5).unwrap(), 1e5);
    assert!(close(pure_to_rdp(30.0, 1e6).unwrap(), 30.0, 1e-12));
    assert!(close(pure_to_rdp(2.0, 1.0 + 1e-12).unwrap(), 2.0 * 1f64.tanh(), 1e-11));
    assert_eq!(pure_to_rdp(0.0, 2.0).unwrap(), 0.0);
    // The two branches meet.
    let (below, above) = (pure_to_rdp(5.0, 119.999).unwrap(), pure_to_rdp(5.0, 120.001).unwrap());
    assert!(below < above && close(below, above, 1e-6));
}

#[test]
fn laplace_is_exact() {
    // By quadrature of max(0, p - e^epsilon q), scale 1, distance 2.
    let (distance, epsilon) = (2.0f64, 0.7f64);
    let steps = 400_000;
    let width = 80.0 / f64::from(steps);
    let (mut stick, mut renyi) = (0.0, 0.0);
    for i in 0..steps {
        let x = -40.0 + width * (f64::from(i) + 0.5);
        let (p, q) = (0.5 * (-x.abs()).exp(), 0.5 * (-(x - distance).abs()).exp());
        stick += width * (p - epsilon.exp() * q).max(0.0);
        renyi += width * p.powf(3.5) * q.powf(-2.5);
    }
    assert!(close(laplace_delta(1.0, distance, epsilon).unwrap(), stick, 1e-7));
    assert!((laplace_epsilon(1.0, distance, stick).unwrap() - epsilon).abs() < 1e-7);
    assert!(close(laplace_rdp(0.5, 3.5).unwrap(), renyi.ln() / 2.5, 1e-7));
    assert!(close(laplace_epsilon(2.0, 3.0, 0.0).unwrap(), 1.5, 1e-14));
    assert_eq!(laplace_epsilon(2.0, 3.0, 0.9).unwrap(), 0.0);
    // Tiny: order t^2/2. Huge: t. Never above that of pure DP.
    assert!(close(laplace_rdp(1e6, 4.0).unwrap(), 2e-12, 1e-5));
    assert!(close(laplace_rdp(1e-4, 4.0).unwrap(), 1e4, 1e-3));
    for scale in [1e-3, 0.1, 1.0, 30.0] {
        for order in [1.0 + 1e-9, 1.1, 2.0, 64.0, 1e6, 1e300] {
            let (laplace, pure) = (laplace_rdp(scale, order), pure_to_rdp(1.0 / scale, order));
            assert!(
                laplace.clone().unwrap() <= pure.clone().unwrap() * (1.0 + 1e-9),
                "{scale} {order}"
            );
        }
    }
}

#[test]
fn sampling_at_the_ends() {
    assert_eq!(sampled(1.0, 1e-6, 1.0).unwrap().0, 1.0);
    assert_eq!(sampled(1.0, 1e-6, 0.0).unwrap(), (0.0, 0.0));
    assert_eq!(sampled(1e300, 0.0, 1.0).unwrap().0, 1e300);
    assert!(close(sampled(1e4, 0.0, 1e-3).unwrap().0, 1e4 - 1000f64.ln(), 1e-13));
    assert!(sampled(1.0, 1e-300, 1e-300).unwrap().1 > 0.0);
}

#[test]
fn nonsense_is_refused_by_name() {
    let name = |error: Error| match error {
        Error::OutOfRange { name, .. } | Error::Unreachable { name, .. } => name,
        Error::Unsupported { what, .. } => what,
        Error::NotAnswered { mechanism, .. } => mechanism,
    };
    for bad in [f64::NAN, -1.0, f64::INFINITY] {
        assert_eq!(name(gaussian_epsilon(bad, 1e-6).unwrap_err()), "sigma");
        assert_eq!(name(gaussian_delta(bad, 1.0).unwrap_err()), "sigma");
        assert_eq!(name(gaussian_delta(1.0, bad).unwrap_err()), "epsilon");
        assert_eq!(name(gaussian_sigma(bad, 1e-6).unwrap_err()), "epsilon");
        assert_eq!(name(classic_gaussian_sigma(bad, 1e-6).unwrap_err()), "epsilon");
        assert_eq!(name(classic_gaussian_epsilon(bad, 1e-6).unwrap_err()), "sigma");
        assert_eq!(name(sampled(bad, 0.0, 0.5).unwrap_err()), "epsilon");
        assert_eq!(name(sampled(1.0, bad, 0.5).unwrap_err()), "delta");
        assert_eq!(name(sampled(1.0, 0.0, bad).unwrap_err()), "rate");
        assert_eq!(name(advanced_composition(bad, 0.0, 1, 0.1).unwrap_err()), "epsilon");
        assert_eq!(name(advanced_composition(1.0, 0.0, 1, bad).unwrap_err()), "slack");
        assert_eq!(name(rdp_to_epsilon(bad, 1.0, 1e-6).unwrap_err()), "order");
        assert_eq!(name(pure_to_rdp(bad, 2.0).unwrap_err()), "epsilon");
        assert_eq!(name(pure_to_rdp(1.0, bad).unwrap_err()), "order");
        assert_eq!(name(zcdp_epsilon(bad, 1e-6).unwrap_err()), "rho");
        assert_eq!(name(laplace_epsilon(bad, 1.0, 1e-6).unwrap_err()), "scale");
        assert_eq!(name(laplace_epsilon(1.0, bad, 1e-6).unwrap_err()), "sensitivity");
    }
    for bad in [f64::NAN, -0.1, 0.0, 1.0, 2.0] {
        assert_eq!(name(gaussian_epsilon(1.0, bad).unwrap_err()), "delta");
        assert_eq!(name(gaussian_sigma(1.0, bad).unwrap_err()), "delta");
        assert_eq!(name(classic_gaussian_sigma(1.0, bad).unwrap_err()), "delta");
        assert_eq!(name(zcdp_epsilon(1.0, bad).unwrap_err()), "delta");
    }
    assert_eq!(name(gaussian_epsilon(0.0, 1e-6).unwrap_err()), "sigma");
    assert_eq!(name(sampled(1.0, 0.0, 1.5).unwrap_err()), "rate");
    assert_eq!(name(advanced_composition(1.0, 0.0, 0, 0.1).unwrap_err()), "times");
    assert_eq!(name(advanced_composition(1e4, 0.0, 1, 0.1).unwrap_err()), "epsilon");
    assert_eq!(name(rdp_to_epsilon(1.0, 1.0, 1e-6).unwrap_err()), "order");
    assert_eq!(name(rdp_to_epsilon(2.0, f64::NAN, 1e-6).unwrap_err()), "rdp");
    assert_eq!(name(rdp_to_epsilon(2.0, 1.0, 0.0).unwrap_err()), "delta");
    assert_eq!(name(gaussian_sigma(0.0, 1e-310).unwrap_err()), "sigma");
}

#[test]
fn extreme_numbers_give_numbers() {
    let extremes = [1e-150, 1e-20, 1e-3, 1.0, 1e3, 1e20, 1e150, 1e299];
    for sigma in extremes {
        for delta in [5e-324, 1e-300, 1e-9, 0.5, 1.0 - 1e-9, 1.0 - 1.2e-16] {
            let found = gaussian_epsilon(sigma, delta).unwrap();
            assert!(found.lower >= 0.0 && found.lower <= found.upper && found.upper.is_finite());
            let epsilon = sigma;
            let back = closed::gaussian_sigma(epsilon, delta).unwrap();
            assert!(back > 0.0 && back.is_finite(), "{epsilon} {delta} {back}");
            assert!(zcdp_epsilon(sigma, delta).unwrap().is_finite());
        }
        for epsilon in [0.0, 5e-324, 1e-9, 1.0, 1e9, 1e100, f64::MAX] {
            let delta = gaussian_delta(sigma, epsilon).unwrap();
            assert!(delta > 0.0 && delta <= 1.0, "{sigma} {epsilon} {delta}");
            assert!(gaussian_ln_delta(sigma, epsilon).unwrap() <= 0.0);
            for order in [1.0 + 1e-15, 2.0, f64::MAX] {
                assert!(!pure_to_rdp(epsilon, order).unwrap().is_nan());
                assert!(!rdp_to_epsilon(order, epsilon, 1e-300).unwrap().is_nan());
                assert!(!laplace_rdp(sigma, order).unwrap().is_nan(), "{sigma} {order}");
            }
        }
    }
}
