//! An empirical audit: the mechanisms as they are implemented, with coins, dummies, noise and count,
//! run on two neighbouring populations. No event may be likelier than is claimed ([`measured`]), and
//! each broken mechanism must be noticed: an audit that sees nothing is worth nothing.
//!
//! All devices are honest here, and one server. The rule allows for as many dishonest devices and
//! another server, whose reports and noise the adversary knows: so half of the minimum batch is
//! enough for a release, and the noise of one server is in the sum.
//!
//! Of many sums the adversary looks at those on which the likelihood depends. What a VDAF adds to
//! this is exact arithmetic, and other tests are about that.
//!
//! `cargo xtask campaign audit` runs it in full: `SOTTO_CASES` draws of each population with the
//! seed `SOTTO_SEED`.

mod measured;
mod subject;

use rand_chacha::ChaCha20Rng;
use sotto_dp::mechanism::randomized_response::RandomizedResponse;
use sotto_dp::mechanism::{Mechanism, Rates, Sampling, Value};
use sotto_dp::recipe::{Terms, judge};
use sotto_dp::sampler::{DiscreteGaussian, Rate, discrete_laplace};
use sotto_dp::uniform::uniform_below;
use sotto_dp::{Accountant, Adjacency, Event, Question, Shape, relay};

use super::simulated::*;

use measured::{Audit, Claim, View};
use subject::{ALONE, DELTAS, Setting, Subject, noise, sets};

/// Every mechanism, alone and in a crowd, sampled, with dummies, and twice.
#[test]
fn values_are_hidden_as_claimed() {
    let crowd = Setting { others: 7, min_batch: 16, ..ALONE };
    let sampled = Setting { others: 14, rates: Rates::all(0.5), min_batch: 14, ..ALONE };
    let with_dummies = Rates { dummy_rate: 0.3, ..Rates::all(0.5) };
    let dummies = Setting { rates: with_dummies, ..sampled };
    let twice = Setting { others: 3, rates: Rates::all(0.6), min_batch: 6, rounds: 2, ..ALONE };
    Audit::run(1, |audit| {
        for subject in Subject::all() {
            for (what, setting) in [
                ("alone", ALONE),
                ("in a crowd", crowd),
                ("in a crowd of the other value", Setting { holding: 1, ..crowd }),
                ("sampled", sampled),
                ("sampled, with dummies", dummies),
                ("two rounds", twice),
            ] {
                subject.compare(audit, what, Some(1), &setting);
            }
        }
    });
}

/// A device that is there or not, among devices of which half are certified to be honest.
#[test]
fn presence_is_hidden_as_claimed() {
    let of = |rate, dummy_rate| Rates { dummy_rate, ..Rates::all(rate) };
    let sampled =
        Setting { others: 40, rates: of(0.4, 0.0), min_batch: 60, certified: Some(81), ..ALONE };
    Audit::run(2, |audit| {
        for subject in Subject::noisy(Adjacency::AddRemove, 1) {
            for (what, setting) in [
                ("there or not", Setting { min_batch: 32, ..sampled }),
                ("there or not, among equals", Setting { holding: 0, min_batch: 32, ..sampled }),
                ("there or not, below the minimum", sampled),
                (
                    "there or not, dummies",
                    Setting { rates: of(0.2, 0.3), min_batch: 32, ..sampled },
                ),
                ("there or not, two rounds", Setting { min_batch: 32, rounds: 2, ..sampled }),
            ] {
                subject.compare(audit, what, None, &setting);
            }
        }
    });
}

/// Vectors, of which each device brings a part of the noise. Half of the batch is all there is.
#[test]
fn vectors_are_hidden_as_claimed() {
    let crowd = Setting { others: 7, min_batch: 16, ..ALONE };
    let sampled = Setting { others: 14, rates: Rates::all(0.5), min_batch: 14, ..ALONE };
    let with_dummies = Rates { dummy_rate: 0.3, ..Rates::all(0.5) };
    let rates = Rates { default_rate: 0.3, ..Rates::all(0.5) };
    let rare = Setting { others: 60, rates, min_batch: 36, certified: Some(121), ..ALONE };
    let presence = Setting { rates: Rates::all(0.4), min_batch: 32, ..ALONE };
    let presence = Setting { others: 40, certified: Some(81), ..presence };
    Audit::run(8, |audit| {
        for (what, setting) in [
            ("alone", ALONE),
            ("in a crowd", crowd),
            ("in a crowd of the other value", Setting { holding: 1, ..crowd }),
            ("sampled", sampled),
            ("sampled, with dummies", Setting { rates: with_dummies, ..sampled }),
            ("two rounds", Setting { rounds: 2, ..crowd }),
            ("two rates", Setting { holding: 1, ..rare }),
        ] {
            let subject = Subject::vectors(Adjacency::Replace, 1.0, &setting);
            subject.compare(audit, what, Some(1), &setting);
        }
        for (what, setting) in [
            ("there or not", presence),
            ("there or not, among equals", Setting { holding: 0, ..presence }),
            ("there or not, among opposites", Setting { holding: 1, ..presence }),
            ("there or not, below the minimum", Setting { min_batch: 60, ..presence }),
        ] {
            let subject = Subject::vectors(Adjacency::AddRemove, 1.0, &setting);
            subject.compare(audit, what, None, &setting);
        }

        let [right, half] =
            [1.0, 0.5].map(|times| Subject::vectors(Adjacency::Replace, times, &crowd));
        let [one, other] = half.laws(Some(1), &crowd);
        audit.caught("vectors, half the noise", &right.claims(&crowd), [&one, &other]);
        // As if all 16 contributions of the smallest batch were honest.
        let terms = Terms::new(right.mechanism.law(), 1.0, crowd.min_batch, 1);
        let all = DELTAS.map(|delta| (judge(&terms, None, delta).unwrap().paper_epsilon, delta));
        let [one, other] = right.laws(Some(1), &crowd);
        audit.caught("vectors, the noise of liars is counted", &all, [&one, &other]);
    });
}

/// Rates that depend on the value: the count tells something about the device.
#[test]
fn rare_values_are_hidden_as_claimed() {
    let rates = |dummy_rate| Rates { rate: 0.5, default_rate: 0.3, dummy_rate, default: None };
    let rare =
        Setting { others: 60, rates: rates(0.0), min_batch: 36, certified: Some(121), ..ALONE };
    let values = [vec![0], vec![], vec![1]].map(Value::Labels);
    let noisy = |adjacency| noise(labels(3, 1), 2_000_000, adjacency);
    let [replace, present] = [Adjacency::Replace, Adjacency::AddRemove].map(noisy);
    Audit::run(7, |audit| {
        for (name, mechanism, second) in [
            ("noise 2", replace, Some(1)),
            ("noise 2, there or not", present, None),
            ("RAPPOR of 3, 0.8", rappor(800_000, labels(3, 1)), Some(1)),
            ("RAPPOR of 20, 2", rappor(2_000_000, labels(20, 1)), Some(1)),
        ] {
            let subject = Subject::new(name, mechanism, values.clone());
            for (what, setting) in [
                ("two rates", Setting { holding: 1, ..rare }),
                ("two rates, among rare values", rare),
                ("two rates, below the minimum", Setting { holding: 1, min_batch: 80, ..rare }),
                ("two rates, dummies", Setting { holding: 1, rates: rates(0.2), ..rare }),
            ] {
                subject.compare(audit, what, second, &setting);
            }
        }
        // Nearly the same rates are said, and a device with a rare value all but names itself.
        let of = |rate, default_rate| Rates { rate, default_rate, ..rates(0.0) };
        let [said, loud] =
            [of(0.5, 0.45), of(0.98, 0.02)].map(|rates| Setting { rates, holding: 1, ..rare });
        let subject = Subject::new("", replace, values.clone());
        let claims = subject.claims(&said);
        let [one, other] = subject.laws(Some(1), &loud);
        audit.caught("another rate than is said", &claims, [&one, &other]);
    });
}

/// What holds without trust in anybody else, and what holds if both servers collude.
#[test]
fn local_guarantees_hold() {
    Audit::run(3, |audit| {
        for subject in Subject::all() {
            let mechanism = &subject.mechanism;
            let Some(local) = mechanism.local_epsilon() else { continue };
            let seen = |sent: &Value| {
                let mut batch = Batch {
                    sums: vec![0; mechanism.encoding().numbers() as usize],
                    reports: 1,
                    taking_part: Vec::new(),
                };
                add(&mut batch.sums, sent);
                let mut view = View::new();
                subject.see(&batch, 0, &mut view);
                view
            };
            let report = &|index: usize, rng: &mut ChaCha20Rng| {
                seen(&mechanism.randomize(subject.values[index].clone(), rng))
            };
            let [one, other] = [0, 1].map(|index| move |rng: &mut ChaCha20Rng| report(index, rng));
            let name = format!("{}: the report alone", subject.name);
            audit.below(&name, &[(local, 1e-6)], [&one, &other]);
            let name = format!("{}, sold for half of epsilon", subject.name);
            audit.caught(&name, &[(0.5 * local, 1e-6)], [&one, &other]);

            // Against a law that does not depend on the value.
            let deletion = mechanism.words().parameters[0].micro as f64 / 1e6;
            let name = format!("{}: deletion", subject.name);
            match mechanism {
                Mechanism::Rappor(_) => {
                    let most = match &subject.values[0] {
                        Value::Labels(labels) => labels.len(),
                        _ => 1,
                    };
                    let claims = [(deletion * most as f64, 1e-6)];
                    let without = |rng: &mut ChaCha20Rng| seen(&mechanism.dummy(rng).unwrap());
                    audit.below(&name, &claims, [&one, &without]);
                }
                Mechanism::ProjectiveGeometry(geometry) => {
                    let messages = geometry.messages().into();
                    let without = |rng: &mut ChaCha20Rng| {
                        seen(&Value::OneHot(uniform_below(messages, rng) as u32))
                    };
                    audit.below(&name, &[(deletion, 1e-6)], [&one, &without]);
                }
                _ => {}
            }

            // The population says how many others there are: half of 15, and the device.
            let rate = 0.5;
            let sampling = Sampling { population: 16, rate_low: rate, rate_high: rate };
            let claims = DELTAS.map(|delta| {
                (mechanism.colluding(&sampling, delta).unwrap().unwrap().epsilon, delta)
            });
            let shuffled = |index: usize, rng: &mut ChaCha20Rng| {
                let mut reports: Vec<View> = Vec::new();
                for index in std::iter::once(index).chain([2; 7]) {
                    if coin(rate, rng) {
                        reports.push(report(index, rng));
                    }
                }
                reports.sort_unstable();
                reports.concat()
            };
            let name = format!("{}: both servers collude", subject.name);
            audit.below(&name, &claims, [&|rng| shuffled(0, rng), &|rng| shuffled(1, rng)]);
        }
    });
}

/// Numbers with exact noise, as the accountant judges them.
#[test]
fn samplers_hide_what_they_should() {
    Audit::run(4, |audit| {
        for (num, den) in [(1, 3), (2, 1)] {
            let x = Rate::new(num, den).unwrap();
            let of = |number: i64, rng: &mut ChaCha20Rng| vec![number + discrete_laplace(x, rng)];
            let name = format!("discrete Laplace noise, {num}/{den}");
            audit.below(&name, &[(x.to_f64(), 1e-6)], [&|rng| of(0, rng), &|rng| of(1, rng)]);

            let noise = DiscreteGaussian::new(x);
            let event = Event::DiscreteGaussian { sigma: x.to_f64(), sensitivity: 1 };
            let question = Question {
                event: &event,
                adjacency: Adjacency::AddRemove,
                shape: Shape::Number,
                accountant: Accountant::Best,
            };
            let claims = DELTAS.map(|delta| (question.epsilon_upper(delta).unwrap(), delta));
            let of = |number: i64, rng: &mut ChaCha20Rng| vec![number + noise.sample(rng)];
            let name = format!("discrete Gaussian noise, {num}/{den}");
            audit.below(&name, &claims, [&|rng| of(0, rng), &|rng| of(1, rng)]);
        }
    });
}

/// A relay sees who sends something. It may also see the result.
#[test]
fn a_relay_learns_what_is_claimed() {
    let values = [Value::Labels(vec![0]), Value::Labels(vec![1]), Value::Labels(Vec::new())];
    let noisy = noise(labels(3, 1), 1_500_000, Adjacency::Replace);
    let response = RandomizedResponse::new(1_500_000, 3).unwrap().into();
    Audit::run(5, |audit| {
        // The rate depends on the value.
        let rates = Rates { rate: 0.6, default_rate: 0.2, dummy_rate: 0.3, default: None };
        let sends = |group: Group| {
            move |rng: &mut ChaCha20Rng| {
                vec![collect(&noisy, std::slice::from_ref(&group), &rates, rng).reports as i64]
            }
        };
        let value = sends(group(values[0].clone(), 1));
        let default = sends(by_default(values[2].clone(), 1));
        let of = |delta| relay::epsilon_of_sending((0.2, 0.6), 0.3, 0.0, delta).unwrap();
        let claims = [1e-6, 0.05, 0.2].map(|delta| (of(delta), delta));
        audit.below("rates that depend on the value: who sends", &claims, [&value, &default]);
        let lies = claims.map(|(epsilon, delta)| (0.5 * epsilon, delta));
        audit.caught("who sends, sold for half of epsilon", &lies, [&value, &default]);

        // Some of those who do not take part send cover, which is no report.
        let (rate, cover) = (0.4, 0.5);
        let among = relay::rate_among_senders(rate, cover).unwrap();
        for subject in [
            Subject::new("randomized response", response, [0, 1, 2].map(Value::OneHot)),
            Subject::new("noise of the servers", noisy, values.clone()),
        ] {
            let setting = Setting { others: 9, rates: Rates::all(rate), min_batch: 8, ..ALONE };
            let view = |device: usize, rng: &mut ChaCha20Rng| {
                let mechanism = &subject.mechanism;
                let [device, others] = [(device, 1), (setting.holding, setting.others)]
                    .map(|(index, devices)| [group(subject.values[index].clone(), devices)]);
                let own = collect_with(mechanism, &device, &setting.rates, 0, rng);
                let mut all = collect_with(mechanism, &others, &setting.rates, 1, rng);
                let silent = [1 - own.reports, setting.others - all.reports];
                let covers =
                    silent.map(|devices| (0..devices).filter(|_| coin(cover, rng)).count());
                let mut view = vec![
                    covers[0] as i64 + own.reports as i64,
                    covers[1] as i64 + all.reports as i64,
                ];
                all.reports += own.reports;
                all.sums.iter_mut().zip(own.sums).for_each(|(sum, own)| *sum += own);
                subject.see(&all, setting.min_batch, &mut view);
                view
            };
            let claims = subject.claims(&Setting { rates: Rates::all(among), ..setting });
            let name = format!("{}: who sends, and the result", subject.name);
            audit.below(&name, &claims, [&|rng| view(0, rng), &|rng| view(1, rng)]);
        }
    });
}

/// Each of these is sold with the claims of the right one. There are two kinds of coins.
#[test]
fn broken_mechanisms_are_caught() {
    let crowd = Setting { others: 7, min_batch: 8, ..ALONE };
    let subject = |mechanism| Subject::new("", mechanism, sets(1));
    let noisy = |sigma| subject(noise(labels(3, 1), sigma, Adjacency::Replace));
    let right = noisy(3_000_000);
    Audit::run(6, |audit| {
        let mut sold = |what: &str, claims: &[Claim], subject: &Subject, setting: &Setting| {
            let [one, other] = subject.laws(Some(1), setting);
            audit.caught(what, claims, [&one, &other]);
        };
        let [all, halves] = [2, 1].map(|times| Subject::noisy(Adjacency::Replace, times));
        for (right, half) in all.iter().zip(&halves) {
            sold(&format!("half the noise: {}", half.name), &right.claims(&crowd), half, &crowd);
        }

        let [rare, often] = [0.1, 0.2].map(|rate| Setting { rates: Rates::all(rate), ..ALONE });
        let loud = subject(rappor(6_000_000, one_hot(3)));
        sold("a biased coin: who takes part", &loud.claims(&rare), &loud, &often);
        // The flips of epsilon 1.86 are half as many as those of 1.
        let [one, more] = [1_000_000, 1_860_000].map(|micro| subject(rappor(micro, one_hot(3))));
        sold("a biased coin: flips", &one.claims(&ALONE), &more, &ALONE);

        // Devices with one value take part more often, and nobody said so.
        let sampled = Setting { rates: Rates::all(0.1), ..crowd };
        let leaking = Setting { rates: Rates { rate: 0.9, ..sampled.rates }, ..crowd };
        let others = by_default(right.values[2].clone(), crowd.others);
        let [one, other] =
            [group(right.values[0].clone(), 1), by_default(right.values[1].clone(), 1)].map(
                |device| {
                    let (population, right) = ([device, others.clone()], &right);
                    move |rng: &mut ChaCha20Rng| right.view(&population, &leaking, rng)
                },
            );
        audit.caught("a count that leaks", &right.claims(&sampled), [&one, &other]);

        let claims = right.claims(&crowd);
        // The same sum with new noise for everybody who asks: two of them add up what they got.
        let [one, other] = right.laws(Some(1), &crowd).map(|law| {
            move |rng: &mut ChaCha20Rng| {
                let (first, second) = (law(rng), law(rng));
                vec![first[0], first[1] + second[1]]
            }
        });
        audit.caught("noise drawn twice", &claims, [&one, &other]);

        // Noise on a coarser grid than the values: an even number. One of the sums shows it.
        let fine = Subject { weights: vec![vec![1.0, 0.0, 0.0]], ..noisy(1_500_000) };
        let [one, other] = fine.laws(Some(1), &crowd);
        let coarse = |law: &dyn Fn(&mut ChaCha20Rng) -> View, exact: i64, rng: &mut ChaCha20Rng| {
            let seen = law(rng);
            vec![seen[0], exact + 2 * (seen[1] - exact)]
        };
        audit.caught(
            "a rounding that is not exact",
            &claims,
            [&|rng| coarse(&one, 1, rng), &|rng| coarse(&other, 0, rng)],
        );
    });
}
