//! Random allocation and donation time: against the reference, closed forms and brute force.

use serde_json::{Value, json};
use sotto_dp::allocation::{donation, gaussian};
use sotto_dp::{Accountant, Adjacency, Bracket, Error, Event, Question, Shape, closed};

fn event(value: Value) -> Event {
    serde_json::from_value(value).unwrap()
}

fn ask(event: &Event, adjacency: Adjacency, delta: f64) -> Result<Bracket, Error> {
    let (shape, accountant) = (Shape::Vector, Accountant::Best);
    Question { event, adjacency, shape, accountant }.epsilon(delta).map(|found| found.epsilon)
}

fn found(value: Value, delta: f64) -> Bracket {
    ask(&event(value), Adjacency::AddRemove, delta).unwrap()
}

/// P(Z > x).
fn tail(x: f64) -> f64 {
    0.5 * erfc(x / 2f64.sqrt())
}

/// The complementary error function, by Simpson's rule on
/// `2/sqrt(pi) e^(-x^2) \int_0^inf e^(-t^2 - 2xt) dt` for `x >= 0`: nothing is shared with the
/// crate.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let (n, end) = (600, 6.5 / (1.0 + x / 3.0));
    let f = |t: f64| (-t * t - 2.0 * x * t).exp();
    let h = end / f64::from(n);
    let sum: f64 = (0..=n)
        .map(|j| {
            let weight = if j == 0 || j == n {
                1.0
            } else if j % 2 == 1 {
                4.0
            } else {
                2.0
            };
            weight * f(f64::from(j) * h)
        })
        .sum();
    2.0 / std::f64::consts::PI.sqrt() * (-x * x).exp() * sum * h / 3.0
}

/// Two slots: the larger of the two divergences at epsilon, by conditioning on the first ratio.
fn two_slots(sigma: f64, epsilon: f64) -> f64 {
    let a = epsilon.exp();
    // E(Y - k)_+ and E(k - Y)_+ of one lognormal ratio.
    let call = |k: f64| {
        if k <= 0.0 {
            return 1.0 - k;
        }
        let z = k.ln() * sigma + 0.5 / sigma;
        tail(z - 1.0 / sigma) - k * tail(z)
    };
    let put = |k: f64| {
        if k <= 0.0 {
            return 0.0;
        }
        let z = k.ln() * sigma + 0.5 / sigma;
        k * tail(-z) - tail(1.0 / sigma - z)
    };
    let (low, high, n) = (-9.0, 9.0 + 1.0 / sigma, 3_000);
    let h = (high - low) / f64::from(n);
    let (mut forth, mut back) = (0.0, 0.0);
    for j in 0..=n {
        let z = low + f64::from(j) * h;
        let weight = if j == 0 || j == n { 0.5 } else { 1.0 } * h;
        let density = (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let y = ((z - 0.5 / sigma) / sigma).exp();
        forth += weight * density * 0.5 * call(2.0 * a - y);
        back += weight * density * 0.5 * a * put(2.0 / a - y);
    }
    forth.max(back)
}

#[test]
fn two_slots_by_quadrature_lie_inside() {
    for (sigma, delta) in
        [(5.0, 1e-5), (2.0, 1e-8), (1.0, 1e-4), (0.6, 1e-7), (0.4, 1e-2), (30.0, 1e-3)]
    {
        let found = gaussian(2, sigma, delta).unwrap();
        let (below, above) = (two_slots(sigma, found.lower), two_slots(sigma, found.upper));
        // The quadrature is good to 1e-9 or so; the bracket is far wider.
        assert!(
            below >= delta * (1.0 - 1e-7),
            "{sigma} {delta}: {below} at the lower end {found:?}"
        );
        assert!(
            above <= delta * (1.0 + 1e-7),
            "{sigma} {delta}: {above} at the upper end {found:?}"
        );
        assert!(found.upper <= found.lower * (1.0 + 1e-3), "{sigma} {delta}: {found:?}");
    }
}

fn number(row: &Value, part: &str, key: &str) -> Option<f64> {
    row[part][key].as_f64()
}

fn close(found: f64, expected: f64, relative: f64) -> bool {
    (found - expected).abs() <= relative * expected.abs()
}

#[test]
fn donation_times_are_those_of_the_reference() {
    let text = include_str!("reference/g_donation_time.json");
    let rows: Vec<Value> = serde_json::from_str(text).unwrap();
    assert_eq!(rows.len(), 32);
    let mut allocations = 0;
    for row in &rows {
        let input = |key| number(row, "inputs", key).unwrap();
        let expected = |key| number(row, "expected", key);
        let (epsilon, delta, m) = (input("epsilon"), input("delta"), input("m"));
        let found = donation(epsilon, delta, m as u64, 1.0).unwrap();
        let case = format!("epsilon {epsilon}, delta {delta:e}, m {m}: {found:?}");
        assert!(close(found.formula, expected("eps_paper").unwrap(), 1e-12), "{case}");
        assert!(close(found.formula_delta, expected("delta_paper").unwrap(), 1e-12), "{case}");
        assert!(close(found.delta, expected("delta_tight").unwrap(), 1e-12), "{case}");
        assert!(
            close(found.participation, expected("participation_prob").unwrap(), 1e-12),
            "{case}"
        );
        assert!(close(found.sigma, expected("gaussian_sigma_for_round").unwrap(), 1e-10), "{case}");
        if let Some(renyi) = expected("eps_numeric_rdp_poisson_1_over_m") {
            assert!(found.poisson.upper <= renyi * (1.0 + 1e-6), "{case}");
        }
        if let Some(pld) = expected("eps_numeric_pld_poisson_1_over_m") {
            // An upper bound with an additive error of 1e-3, except where its lattice was too
            // coarse.
            let tolerance = 1e-3 + 5e-3 * pld;
            assert!(found.poisson.upper <= pld + tolerance, "{case}");
            let coarse = pld < 0.1 && m >= 1000.0;
            assert!(coarse || found.poisson.upper >= pld - tolerance, "{case}");
        }
        let allocation = found.random_allocation;
        assert!(allocation.lower <= allocation.upper, "{case}");
        if let Some(upper) = expected("eps_random_allocation_upper") {
            let lower = expected("eps_random_allocation_lower").unwrap();
            assert!(allocation.upper >= lower && allocation.lower <= upper, "{case}");
            assert!(allocation.upper <= upper * (1.0 + 1e-3), "{case}");
            allocations += 1;
        }
        assert!(found.best.lower <= found.best.upper, "{case}");
        for bound in [found.formula, found.poisson.upper, allocation.upper] {
            assert!(found.best.upper <= bound, "{case}");
        }
    }
    assert_eq!(allocations, 17);
}

#[test]
fn the_paper_s_example_is_a_fifth_of_no_amplification() {
    let found = donation(1.0, 1e-8, 10, 1.0).unwrap();
    assert!(found.best.lower > 0.2097 && found.best.upper < 0.2100, "{found:?}");
    let allocation = found.random_allocation;
    assert!(allocation.lower > 0.287 && allocation.upper < 0.301, "{found:?}");
    assert_eq!(found.method, "exact law of the donation");
}

/// What a donation really costs, where random allocation was the bound: 1.05 to 1.56 times as much.
#[test]
fn a_donation_s_own_law_is_below_both_bounds() {
    for (epsilon, slots, ratio) in [
        (0.1, 3, 1.35),
        (1.0, 3, 1.21),
        (4.0, 3, 1.04),
        (0.1, 100, 1.54),
        (1.0, 100, 1.51),
        (4.0, 100, 1.31),
        (1.0, 1_000, 1.53),
    ] {
        let found = donation(epsilon, 1e-8, slots, 1.0).unwrap();
        let bound = found.random_allocation.lower.min(found.poisson.lower);
        assert!(bound > ratio * found.best.upper, "{epsilon} {slots}: {found:?}");
        assert!(found.best.upper < 1.003 * found.best.lower, "{epsilon} {slots}: {found:?}");
    }
}

/// One coin for the series: less than a series without, and never better than the closed form.
#[test]
fn a_coin_for_the_series_amplifies_the_donation() {
    for (slots, rate) in [(1, 0.2), (3, 0.5), (100, 0.02), (1_000, 1e-3)] {
        let (one, all) =
            (donation(1.0, 1e-8, slots, rate).unwrap(), donation(1.0, 1e-8, slots, 1.0).unwrap());
        assert!(one.best.upper < all.best.lower, "{slots} {rate}: {one:?}");
        assert!((one.participation - rate * all.participation).abs() < 1e-15);
        // Amplification by sampling: the device leaves.
        let own = sotto_dp::closed::gaussian_epsilon(one.sigma, 2e-8 / rate).unwrap();
        let most = (rate * own.upper.exp_m1()).ln_1p();
        assert!(one.best.upper <= most * (1.0 + 1e-9), "{slots} {rate}: {one:?} {most}");
        let noise = json!({"event": "gaussian", "sigma": one.sigma});
        let series =
            json!({"event": "random_allocation", "slots": slots, "donation": true, "of": noise});
        let sampled = json!({"event": "poisson_sampled", "rate": rate, "of": series});
        let event = found(sampled, 2e-8);
        assert!(close(event.upper, one.best.upper, 1e-6), "{event:?} {one:?}");
    }
    assert!(donation(1.0, 1e-8, 3, 0.0).is_err() && donation(1.0, 1e-8, 3, 1.5).is_err());
}

/// PLD_accounting 2.0 (Feldman, Shenfeld), its own upper and lower bounds.
#[test]
fn random_allocation_is_inside_the_reference_s_bracket() {
    let text = include_str!("reference/k_random_allocation.json");
    let rows: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(rows.len() >= 50);
    let (mut ours, mut theirs) = (0.0, 0.0);
    for row in &rows {
        let whole = |key: &str| row["inputs"][key].as_u64().unwrap();
        let input = |key| number(row, "inputs", key).unwrap();
        let expected = |key| number(row, "expected", key).unwrap();
        let noise = json!({"event": "gaussian", "sigma": input("sigma")});
        let one = json!({
            "event": "random_allocation",
            "slots": whole("slots"),
            "selected": whole("selected"),
            "of": noise,
        });
        let event = event(json!({"event": "repeated", "times": whole("epochs"), "of": one}));
        let start = std::time::Instant::now();
        let found = ask(&event, Adjacency::AddRemove, input("delta")).unwrap();
        let seconds = start.elapsed().as_secs_f64();
        (ours, theirs) = (ours + seconds, theirs + row["cpu_s"].as_f64().unwrap());
        println!("{} {found:?} {:.2} ms", row["inputs"], 1e3 * seconds);
        let (lower, upper) = (expected("eps_lower"), expected("eps_upper"));
        assert!(lower <= found.upper && found.upper <= upper, "{row} {found:?}");
        if whole("selected") == 1 {
            // For several slots the reference's lower end is that of the blocks, not of the event.
            assert!(lower <= found.lower, "{row} {found:?}");
            assert!(found.upper <= 1.003 * found.lower, "{row} {found:?}");
        } else {
            assert!(found.lower >= 0.5 * found.upper, "{row} {found:?}");
        }
    }
    println!("{} cases in {ours:.3} s; the reference took {theirs:.1} s of CPU time", rows.len());
}

/// A composition of allocations is much better than of black boxes, and its two ends meet.
#[test]
fn epochs_compose_by_their_own_law() {
    let noise = json!({"event": "gaussian", "sigma": 2.0});
    for (slots, epochs, most) in [(10, 20, 3.6), (100, 50, 1.7), (1_000, 1_000, 2.5)] {
        let one = json!({"event": "random_allocation", "slots": slots, "of": noise});
        let all = found(json!({"event": "repeated", "times": epochs, "of": one}), 1e-6);
        assert!(all.upper < 1.01 * all.lower && all.upper < most, "{slots} {epochs}: {all:?}");
        // Poisson sampling at the same rate: nearly the same, and here a little worse.
        let rate = 1.0 / f64::from(slots);
        let step = json!({"event": "poisson_sampled", "rate": rate, "of": noise});
        let times = slots * epochs;
        let poisson = found(json!({"event": "repeated", "times": times, "of": step}), 1e-6);
        assert!(
            all.lower < poisson.upper && poisson.upper < 1.2 * all.upper,
            "{all:?} {poisson:?}"
        );
    }
}

#[test]
fn several_slots_are_between_one_and_all_of_them() {
    for noise in [
        json!({"event": "gaussian", "sigma": 2.0}),
        json!({"event": "laplace", "scale": 3.0}),
        json!({"event": "discrete_gaussian", "sigma": 2.0}),
        json!({"event": "poisson_sampled", "rate": 0.5, "of": {"event": "gaussian", "sigma": 1.0}}),
    ] {
        let of = |selected: u64| json!({"event": "random_allocation", "slots": 12, "selected": selected, "of": noise});
        let all: Vec<Bracket> = [1, 2, 5, 12].map(|k| found(of(k), 1e-6)).to_vec();
        for pair in all.windows(2) {
            assert!(
                pair[0].upper < pair[1].upper && pair[0].lower < pair[1].lower,
                "{noise} {all:?}"
            );
        }
        // All of them is a plain composition.
        let plain = found(json!({"event": "repeated", "times": 12, "of": noise}), 1e-6);
        let all = all[3];
        assert!(all.lower <= plain.upper && plain.lower <= all.upper, "{noise} {all:?} {plain:?}");
        assert!(all.upper <= 1.003 * plain.upper, "{noise} {all:?} {plain:?}");
    }
}

/// The counts seen cost something, less and less with a larger crowd in each slot.
#[test]
fn a_larger_crowd_hides_the_counts_of_the_slots() {
    let noise = json!({"event": "gaussian", "sigma": 3.0});
    let of = |population: Value| {
        let one = json!({"event": "random_allocation", "slots": 10, "population": population, "of": noise});
        json!({"event": "poisson_sampled", "rate": 0.3, "of": one})
    };
    let hidden = found(of(Value::Null), 1e-6);
    let mut before = f64::INFINITY;
    for population in [100u64, 1_000, 100_000, 10_000_000, 1_000_000_000_000] {
        let seen = found(of(json!(population)), 1e-6);
        // Of so many others that their counts cannot be looked at one by one, only a part is used.
        assert!(seen.lower > hidden.upper || population > 1 << 39, "{population}: {seen:?}");
        assert!(seen.upper > hidden.upper && seen.upper < before, "{population}: {seen:?}");
        before = seen.upper;
    }
    // In the end only the replacement distance, twice the norm, remains.
    let twice = json!({"event": "gaussian", "sigma": 1.5});
    let one = json!({"event": "random_allocation", "slots": 10, "of": twice});
    let limit = found(json!({"event": "poisson_sampled", "rate": 0.3, "of": one}), 1e-6);
    assert!(close(before, limit.upper, 0.01), "{before} {limit:?}");
    // It composes.
    let rounds = found(json!({"event": "repeated", "times": 10, "of": of(json!(100_000))}), 1e-6);
    assert!(rounds.upper < 1.05 * rounds.lower, "{rounds:?}");
}

#[test]
fn what_is_not_proved_is_refused() {
    let noise = json!({"event": "gaussian", "sigma": 2.0});
    let claim = json!({"event": "pure_dp", "epsilon": 1.0});
    let shuffled = json!({"event": "shuffled", "n": 100, "of": claim});
    let of = |fields: Value| {
        let mut event = json!({"event": "random_allocation", "slots": 4});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        event
    };
    let sampled = |of: Value| json!({"event": "poisson_sampled", "rate": 0.5, "of": of});
    let (add, zero, replace) = (Adjacency::AddRemove, Adjacency::ZeroOut, Adjacency::Replace);
    for (value, adjacency) in [
        (of(json!({"of": noise})), replace),
        (of(json!({"of": claim})), zero),
        (of(json!({"of": shuffled})), add),
        (of(json!({"of": shuffled, "selected": 2})), replace),
        (of(json!({"of": {"event": "zcdp", "rho": 0.1}})), add),
        (of(json!({"of": of(json!({"of": noise}))})), add),
        (of(json!({"of": noise, "selected": 2, "donation": true})), add),
        (sampled(of(json!({"of": noise, "selected": 2}))), add),
        // Without a coin the total shows whether the device is there.
        (of(json!({"of": noise, "population": 100})), add),
        (sampled(of(json!({"of": noise, "population": 100}))), zero),
        (sampled(of(json!({"of": noise, "population": 100}))), replace),
        (sampled(of(json!({"of": noise, "population": 100, "donation": true}))), add),
        (sampled(of(json!({"of": claim, "population": 100}))), add),
    ] {
        for event in
            [event(value.clone()), event(json!({"event": "repeated", "times": 3, "of": value}))]
        {
            let found = ask(&event, adjacency, 1e-6);
            assert!(
                matches!(found, Err(Error::Unsupported { .. })),
                "{event:?} {adjacency} {found:?}"
            );
        }
    }
    for fields in [json!({"selected": 5}), json!({"selected": 0}), json!({"population": 0})] {
        let mut value = of(json!({"of": noise}));
        value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        assert!(event(value).check().is_err(), "{fields}");
    }
}

/// Reports in slots that everybody chooses at random are one shuffle of all of them.
#[test]
fn shuffled_slots_are_one_shuffle() {
    for local in [
        json!({"event": "pure_dp", "epsilon": 4.0}),
        json!({"event": "randomized_response", "epsilon0": 2.0, "k": 5}),
    ] {
        let one = json!({"event": "shuffled", "n": 10_000, "of": local});
        let slots = json!({"event": "random_allocation", "slots": 7, "of": one});
        for times in [1, 5] {
            let of =
                |value: &Value| event(json!({"event": "repeated", "times": times, "of": value}));
            let (one, slots) = (of(&one), of(&slots));
            let found = [one, slots].map(|event| ask(&event, Adjacency::Replace, 1e-8).unwrap());
            assert_eq!(found[0], found[1]);
        }
    }
}

#[test]
fn one_slot_is_the_plain_gaussian() {
    for (sigma, delta) in [(5.1, 1e-8), (0.3, 1e-5), (0.01, 1e-3), (1e6, 1e-9), (3.0, 1e-290)] {
        assert_eq!(gaussian(1, sigma, delta), closed::gaussian_epsilon(sigma, delta));
    }
    let one = donation(1.0, 1e-8, 1, 1.0).unwrap();
    let plain = closed::gaussian_epsilon(one.sigma, 2e-8).unwrap();
    assert_eq!((one.best, one.poisson, one.participation), (plain, plain, 1.0));
}

/// A bracket's ends may wobble with the grid, but no lower end may be above the upper end of
/// something worse.
#[test]
fn more_noise_more_slots_and_more_delta_are_better() {
    for slots in [2, 17, 4_095] {
        for (sigma, delta) in [(0.5, 1e-6), (1.0, 1e-8), (40.0, 1e-7)] {
            let here = gaussian(slots, sigma, delta).unwrap();
            let better = [
                gaussian(slots, sigma * 1.05, delta).unwrap(),
                gaussian(slots, sigma, delta * 1.5).unwrap(),
                gaussian(slots + slots.div_ceil(20), sigma, delta).unwrap(),
            ];
            for other in better {
                assert!(other.lower < here.upper, "{slots} {sigma} {delta}: {here:?} {other:?}");
                assert!(other.upper < here.upper, "{slots} {sigma} {delta}: {here:?} {other:?}");
                assert!(other.lower < here.lower, "{slots} {sigma} {delta}: {here:?} {other:?}");
            }
            assert!(here.upper <= here.lower * 1.01, "{slots} {sigma} {delta}: {here:?}");
            let plain = closed::gaussian_epsilon(sigma, delta).unwrap();
            assert!(here.upper < plain.upper, "{slots} {sigma} {delta}");
        }
    }
}

/// For many slots the mean ratio is nearly normal with variance `(e^(1/sigma^2) - 1)/slots`: one
/// Gaussian release.
#[test]
fn many_slots_are_nearly_one_gaussian() {
    for (slots, sigma) in [(1_000_000u64, 5.1f64), (1_000_000, 20.0), (1 << 30, 3.0)] {
        let delta = 1e-8;
        let limit = ((slots as f64) / (sigma.powi(-2)).exp_m1()).sqrt();
        let expected = closed::gaussian_epsilon(limit, delta).unwrap().upper;
        let found = gaussian(slots, sigma, delta).unwrap();
        assert!(close(found.upper, expected, 0.02), "{slots} {sigma}: {found:?} {expected}");
    }
}

/// The Poisson bound and the allocation bound are both above the schedule's own lower end.
#[test]
fn the_schedule_s_lower_end_is_below_all_bounds() {
    for (epsilon, slots) in [(1.0, 2), (1.0, 50), (4.0, 10), (8.0, 100)] {
        let found = donation(epsilon, 1e-7, slots, 1.0).unwrap();
        assert!(found.best.lower > 0.2 * found.best.upper, "{found:?}");
        assert!(found.best.lower <= found.poisson.upper, "{found:?}");
    }
}

#[test]
fn nothing_breaks_at_the_ends_of_the_ranges() {
    for slots in [2, 1_000, u64::MAX] {
        for sigma in [1e-150, 1e-3, 0.05, 1.0, 1e9, 1e300] {
            for delta in [5e-324, 1e-100, 1e-12, 1.0 - 1e-16] {
                let found = gaussian(slots, sigma, delta).unwrap();
                let sound = 0.0 <= found.lower && found.lower <= found.upper;
                assert!(sound, "{slots} {sigma} {delta}: {found:?}");
            }
        }
    }
    for (epsilon, delta, slots) in [(1e-9, 1e-6, 100), (700.0, 1e-300, u64::MAX), (1e300, 1e-8, 5)]
    {
        let found = donation(epsilon, delta, slots, 1.0).unwrap();
        assert!(found.best.lower <= found.best.upper && found.best.upper <= epsilon, "{found:?}");
    }
    assert!(gaussian(0, 1.0, 1e-6).is_err());
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(gaussian(3, bad, 1e-6).is_err());
        assert!(gaussian(3, 1.0, bad).is_err());
        assert!(donation(bad, 1e-6, 3, 1.0).is_err());
        assert!(donation(1.0, bad, 3, 1.0).is_err());
    }
    assert!(donation(1.0, 0.5, 3, 1.0).is_err());
    assert!(donation(1.0, 1e-6, 0, 1.0).is_err());
}
