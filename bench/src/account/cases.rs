//! What is measured: the same questions with the same numbers, for ours and for the peer.

use std::cell::RefCell;

use anyhow::Result;
use serde_json::{Value, json};
use sotto_dp::account::{Accountant, Question};
use sotto_dp::calibrate::{self, Target};
use sotto_dp::recipe::{Law, Memo, Terms, judge};
use sotto_dp::{Adjacency, Event, Shape};

/// The running example: 2,500 rounds at a rate of 2 %.
const RATE: f64 = 0.02;
const SIGMA: f64 = 5.1;
const ROUNDS: u64 = 2_500;
const MANY_ROUNDS: u64 = 1_000_000;
const DELTA: f64 = 1e-8;
/// Of the recipes: the population is large enough for the count to be seen at no cost.
const CERTIFIED: Option<u64> = Some(1_000_000);
/// The target of the calibration of sigma, and the relative accuracy that ours guarantees.
const EPSILON: f64 = 1.0;
const CALIBRATED_TO: f64 = 1e-4;

/// The example of shuffling.
const SHUFFLED: u64 = 1_000_000;
const LOCAL_EPSILON: f64 = 4.0;
const SHUFFLE_DELTA: f64 = 1e-10;

/// The recipe that a device checks.
const MIN_BATCH: u64 = 10_000;
const SYMBOLS: u64 = 256;

/// The goal of a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    /// This many times faster than the peer.
    Faster(f64),
    /// This many times faster, and the value not above the peer's.
    FasterNoLooser(f64),
    /// In less than this many seconds.
    Below(f64),
    /// Printed only, without a goal.
    Shown,
}

/// The result of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// The guarantee: an upper bound, or the sigma that meets one.
    pub(super) value: f64,
    /// The certified lower end, where both are computed.
    pub(super) lower: Option<f64>,
}

/// One measured operation of ours.
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) goal: Goal,
    pub(super) ours: Box<dyn Fn() -> Result<Found>>,
}

/// Lines that are compared with the same question to the peer.
pub(super) struct Case {
    pub(super) peer: Option<Value>,
    pub(super) lines: Vec<Line>,
}

/// All of them.
pub(super) fn all() -> Vec<Case> {
    let mut cases = epsilons();
    cases.extend(calibrations());
    cases.push(shuffling());
    cases.push(device());
    cases
}

fn epsilons() -> Vec<Case> {
    let rdp = upper("RDP epsilon, T = 2,500", Goal::Faster(100.0), Accountant::Rdp, ROUNDS);
    let faster = Goal::FasterNoLooser(10.0);
    let few = vec![
        upper("PLD epsilon, T = 2,500", faster, Accountant::Pld, ROUNDS),
        bracket("PLD epsilon, T = 2,500, both ends", ROUNDS),
    ];
    let many = vec![
        upper("PLD epsilon, T = 1,000,000", faster, Accountant::Pld, MANY_ROUNDS),
        bracket("PLD epsilon, T = 1,000,000, both ends", MANY_ROUNDS),
    ];
    let ask = |accountant: &str, steps: u64| {
        Some(json!({
            "task": "epsilon", "accountant": accountant,
            "rate": RATE, "sigma": SIGMA, "steps": steps, "delta": DELTA,
        }))
    };
    vec![
        Case { peer: ask("rdp", ROUNDS), lines: vec![rdp] },
        Case { peer: ask("pld", ROUNDS), lines: few },
        Case { peer: ask("pld", MANY_ROUNDS), lines: many },
    ]
}

fn calibrations() -> Vec<Case> {
    let ask = |accountant: &str, tolerance: Option<f64>| {
        Some(json!({
            "task": "sigma", "accountant": accountant,
            "rate": RATE, "steps": ROUNDS, "epsilon": EPSILON, "delta": DELTA,
            "tolerance": tolerance,
        }))
    };
    // The peer's tolerance is absolute.
    let same = Some(CALIBRATED_TO * SIGMA);
    let goal = Goal::Faster(50.0);
    vec![
        Case { peer: ask("rdp", None), lines: vec![sigma("RDP sigma", goal, Accountant::Rdp)] },
        Case {
            peer: ask("rdp", same),
            lines: vec![sigma("RDP sigma, the peer, too, to 1e-4", Goal::Shown, Accountant::Rdp)],
        },
        Case { peer: ask("pld", None), lines: vec![sigma("PLD sigma", goal, Accountant::Pld)] },
        Case {
            peer: ask("pld", same),
            lines: vec![sigma("PLD sigma, the peer, too, to 1e-4", Goal::Shown, Accountant::Pld)],
        },
    ]
}

fn shuffling() -> Case {
    let event = || {
        let of = Box::new(Event::PureDp { epsilon: LOCAL_EPSILON });
        Event::Shuffled { n: SHUFFLED, of }
    };
    let (a, b) = (event(), event());
    let upper = move || Ok(only(replaced(&a).epsilon_upper(SHUFFLE_DELTA)?));
    let both = move || {
        let found = replaced(&b).epsilon(SHUFFLE_DELTA)?.epsilon;
        Ok(Found { value: found.upper, lower: Some(found.lower) })
    };
    Case {
        peer: Some(json!({
            "task": "shuffle", "epsilon0": LOCAL_EPSILON, "n": SHUFFLED, "delta": SHUFFLE_DELTA,
        })),
        lines: vec![
            line("shuffle epsilon, n = 1,000,000", Goal::Below(2e-3), upper),
            line("shuffle epsilon, n = 1,000,000, both ends", Goal::Shown, both),
        ],
    }
}

/// The whole privacy check of a recipe, as a device does it.
fn device() -> Case {
    let gaussian = |shape| Law::Gaussian { sigma: SIGMA, shape };
    let response = Law::RandomizedResponse { epsilon0: LOCAL_EPSILON, k: SYMBOLS };
    let (new, known) = (Goal::Below(20e-3), Goal::Below(10e-6));
    let one_hot = gaussian(Shape::OneHot);
    let lines = vec![
        judged("new recipe, Gaussian, one-hot", new, one_hot, 1),
        judged("new recipe, Gaussian, vector", new, gaussian(Shape::Vector), 1),
        judged("new recipe, randomized response", new, response, 1),
        remembered("known recipe, Gaussian", known, one_hot),
        remembered("known recipe, randomized response", known, response),
        judged("2,500 rounds, Gaussian, one-hot", Goal::Shown, one_hot, ROUNDS),
        judged("2,500 rounds, Gaussian, vector", Goal::Shown, gaussian(Shape::Vector), ROUNDS),
        judged("2,500 rounds, randomized response", Goal::Shown, response, ROUNDS),
    ];
    Case { peer: None, lines }
}

fn upper(name: &'static str, goal: Goal, accountant: Accountant, times: u64) -> Line {
    let event = sampled(SIGMA, times);
    line(name, goal, move || Ok(only(question(&event, accountant).epsilon_upper(DELTA)?)))
}

fn bracket(name: &'static str, times: u64) -> Line {
    let event = sampled(SIGMA, times);
    line(name, Goal::Shown, move || {
        let found = question(&event, Accountant::Pld).epsilon(DELTA)?.epsilon;
        Ok(Found { value: found.upper, lower: Some(found.lower) })
    })
}

fn sigma(name: &'static str, goal: Goal, accountant: Accountant) -> Line {
    let (adjacency, shape) = (Adjacency::AddRemove, Shape::Vector);
    let target = Target { epsilon: EPSILON, delta: DELTA, adjacency, shape, accountant };
    line(name, goal, move || Ok(only(calibrate::sigma(target, |sigma| sampled(sigma, ROUNDS))?)))
}

fn judged(name: &'static str, goal: Goal, law: Law, rounds: u64) -> Line {
    let terms = terms(law, rounds);
    line(name, goal, move || Ok(only(judge(&terms, CERTIFIED, DELTA)?.epsilon)))
}

fn remembered(name: &'static str, goal: Goal, law: Law) -> Line {
    let (terms, memo) = (terms(law, 1), RefCell::new(Memo::default()));
    line(name, goal, move || Ok(only(memo.borrow_mut().judge(&terms, CERTIFIED, DELTA)?.epsilon)))
}

fn line(name: &'static str, goal: Goal, ours: impl Fn() -> Result<Found> + 'static) -> Line {
    Line { name, goal, ours: Box::new(ours) }
}

fn only(value: f64) -> Found {
    Found { value, lower: None }
}

fn sampled(sigma: f64, times: u64) -> Event {
    let of = Box::new(Event::Gaussian { sigma, sensitivity: 1.0 });
    Event::Repeated { times, of: Box::new(Event::PoissonSampled { rate: RATE, of }) }
}

/// Add/remove is also the peer's default.
fn question(event: &Event, accountant: Accountant) -> Question<'_> {
    Question { event, adjacency: Adjacency::AddRemove, shape: Shape::Vector, accountant }
}

fn replaced(event: &Event) -> Question<'_> {
    let (adjacency, shape) = (Adjacency::Replace, Shape::OneHot);
    Question { event, adjacency, shape, accountant: Accountant::Best }
}

fn terms(law: Law, rounds: u64) -> Terms {
    Terms::new(law, RATE, MIN_BATCH, rounds)
}
