//! A device in a series: one charge for all rounds, each round once, in order; and the secret round
//! of a donation.

use std::collections::BTreeMap;

use rand_core::CryptoRng;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Check, Watch};
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{
    Change, DeviceState, DeviceStore, Host, Learner, MemoryState, Pass, StateError, pass,
};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::recipe::windows::RateRule;
use sotto_protocol::recipe::{Assessment, derive_task};
use sotto_testing::keys::rng;
use sotto_testing::log::{Files, at};
use sotto_testing::recipe::{DAY, HOUR, NOW, set_query};
use sotto_testing::world::{Plan, World};
use sotto_vdaf::Measurement;
use sotto_wire::EntryId;
use sotto_wire::recipe::{
    AttributeType, Discovery, Model, Noise, Participation, Probability, Query, Randomizer, Recipe,
    Round, Training, UPDATE, VectorQuery,
};

/// When rounds are published: far later than the header has to be.
pub(crate) const LATELY: u64 = NOW - 2 * HOUR;

pub(crate) const FIRST: Round = Round { index: 0, model: None };

const EACH: Participation = Participation::EachRound {};

pub(crate) fn model(index: u64, bytes: &[u8]) -> Round {
    Round { index, model: Some(EntryId::of(bytes)) }
}

/// The header of a training of ten weights, of which every device has tokens for all rounds.
pub(crate) fn training() -> Plan {
    let mut plan = Plan::new();
    plan.recipe.attributes.insert(UPDATE.parse().unwrap(), AttributeType::Vector(10));
    plan.recipe.sampling.rate = Probability::new(1, 10).unwrap();
    plan.recipe.randomizer = Randomizer::Gaussian { sigma_micro: 8_000_000 };
    let query = Query::VectorSum(VectorQuery {
        dimension: 10,
        clip_micro: 1_000_000,
        fraction_bits: 15,
        mapping: UPDATE.to_owned(),
        compression: None,
    });
    set_query(&mut plan.recipe, query);
    plan.in_series(3, EACH);
    plan.recipe.series.as_mut().unwrap().training = Some(Training {
        model: Model::Softmax { features: 5, classes: 2 },
        models: "https://models.example/".to_owned(),
        steps: 1,
        batch: None,
        learning_rate_micro: 1_000_000,
        vote_weight_micro: None,
        largest_loss_micro: None,
    });
    plan.reclaim();
    plan
}

fn considered(world: &World, store: &mut MemoryState, seed: u64) -> Vec<EntryId> {
    world.walk(store, seed).unwrap().considered
}

fn why(pass: &Pass, id: EntryId) -> Option<Check> {
    pass.silent.iter().find(|(silent, _)| *silent == id).map(|(_, silence)| silence.check)
}

/// As a restart does it.
fn restarted(store: &MemoryState) -> MemoryState {
    let text = serde_json::to_string(store.state()).unwrap();
    let state: DeviceState = serde_json::from_str(&text).unwrap();
    assert_eq!(&state, store.state());
    MemoryState::from(state)
}

#[test]
fn all_rounds_are_charged_once_over_restarts() {
    let mut plan = Plan::new();
    plan.in_series(3, EACH);
    let header = plan.recipe.id();
    let mut store = plan.build().device();
    assert_eq!(considered(&plan.build(), &mut store, 1), [], "nobody answers a header");
    let mut charged = None;
    for index in 0..3 {
        let round = plan.round(Round { index, model: None }, LATELY + index);
        assert_eq!(considered(&plan.build(), &mut store, index), [round]);
        store = restarted(&store);
        assert_eq!(considered(&plan.build(), &mut store, 7), [], "once");
        let spent = store.state().ledger().cloned();
        assert!(spent.is_some());
        assert_eq!(charged.get_or_insert(spent.clone()), &spent);
        let [line] = store.state().audit() else { panic!("{:?}", store.state().audit()) };
        assert_eq!((line.recipe, line.epsilon_micro), (header, Some(plan.recipe_micro())));
    }
}

#[test]
fn a_round_costs_less_than_a_recipe_of_its_own() {
    let mut three = Plan::new();
    three.in_series(3, EACH);
    let alone = Plan::new().recipe_epsilon();
    assert!(three.recipe_epsilon() > alone && three.recipe_epsilon() < 3.0 * alone);
}

#[test]
fn only_the_newest_round_is_open_and_numbers_increase() {
    let mut plan = training();
    let first = plan.round(model(0, b"first"), LATELY);
    let again = plan.round(model(0, b"again"), LATELY + 1);
    let pass = of_learner(&plan.build(), &mut plan.build().device(), &Fixed(true));
    assert_eq!(pass.considered, [first], "the first of two with one number: {:?}", pass.silent);
    assert_eq!(why(&pass, again), Some(Check::Round));
    let last = plan.round(model(2, b"last"), LATELY + 2);
    let late = plan.round(model(1, b"late"), LATELY + 3);
    let mut store = plan.build().device();
    let pass = of_learner(&plan.build(), &mut store, &Fixed(true));
    assert_eq!(pass.considered, [last]);
    assert_eq!((why(&pass, first), why(&pass, late)), (None, Some(Check::Round)));
}

/// A log that forks, or a catalogue that is wrong, cannot make a device answer a number twice.
#[test]
fn a_device_remembers_how_far_it_got() {
    let mut plan = Plan::new();
    plan.in_series(3, EACH);
    let round = plan.round(Round { index: 1, model: None }, LATELY);
    let world = plan.build();
    let mut store = world.device();
    assert_eq!(considered(&world, &mut store, 1), [round]);
    let mut state = serde_json::to_value(store.state()).unwrap();
    state["recipes"] = serde_json::json!({});
    let mut store = MemoryState::from(serde_json::from_value::<DeviceState>(state).unwrap());
    let pass = world.walk(&mut store, 1).unwrap();
    assert_eq!(
        (pass.considered, why(&world.walk(&mut store, 1).unwrap(), round)),
        (vec![], Some(Check::Round))
    );
}

/// Six rounds of a day each, of which the second one is open now.
fn daily() -> Plan {
    let mut plan = Plan::new();
    plan.in_series(6, EACH);
    plan.recipe.series.as_mut().unwrap().length_s = Some(DAY);
    plan.recipe.check().unwrap();
    plan
}

/// The times of a round follow from its number, whatever is published when.
#[test]
fn a_round_with_a_length_is_answered_in_its_own_time() {
    let opens = daily().recipe.when.opens;
    let considered_at = |index: u64, now: u64| {
        let mut plan = daily();
        let round = plan.round(Round { index, model: None }, LATELY);
        (plan.now, plan.view) = (now, at(now - 60));
        let world = plan.build();
        let pass = world.walk(&mut world.device(), 1).unwrap();
        match pass.considered == [round] {
            true => Ok(()),
            false => Err(why(&pass, round)),
        }
    };
    assert_eq!(considered_at(1, NOW), Ok(()));
    assert_eq!(considered_at(1, opens + 2 * DAY - 1), Ok(()));
    assert_eq!(considered_at(2, opens + 2 * DAY - 1), Err(Some(Check::Open)));
    assert_eq!(considered_at(2, opens + 2 * DAY + 120), Ok(()));
    assert_eq!(considered_at(5, NOW), Err(Some(Check::Open)), "not yet");
    // Over, by the device's clock and by that of the witnesses, which then do not even list it.
    assert_eq!(considered_at(1, opens + 2 * DAY), Err(Some(Check::Open)));
    assert_eq!(considered_at(1, opens + 2 * DAY + 120), Err(None));
    assert_eq!(considered_at(0, opens + DAY + 120), Err(None));
}

/// What is derived from a round has its times, and what is judged is what all rounds together cost.
#[test]
fn the_task_of_a_round_with_a_length_has_its_interval() {
    let (plan, mut longer) = (daily(), Plan::new());
    longer.in_series(6, EACH);
    assert_eq!(plan.recipe_micro(), longer.recipe_micro());
    let interval = |index| {
        let round = plan.recipe.with_round(Round { index, model: None }).unwrap();
        let task = derive_task(&round).unwrap();
        let configuration = task.configuration();
        let precision = configuration.time_precision();
        let interval = configuration.task_interval().unwrap();
        let start = interval.start().start_seconds(precision);
        (start, interval.duration().as_seconds(precision))
    };
    for index in 0..6 {
        assert_eq!(interval(index), (plan.recipe.when.opens + index * DAY, DAY));
    }
}

/// A header lasts as long as all of its rounds, and a late round follows an earlier one that is over.
#[test]
fn rounds_with_a_length_follow_each_other() {
    let mut plan = daily();
    let opens = plan.recipe.when.opens;
    let mut store = plan.build().device();
    for index in [0, 1, 4] {
        let open = opens + index * DAY + HOUR;
        let round = plan.round(Round { index, model: None }, open - 600);
        plan.view = at(open - 300);
        let mut world = plan.build();
        world.now = Moment(open);
        assert_eq!(considered(&world, &mut store, index), [round], "{index}");
        assert_eq!(considered(&world, &mut store, 7), [], "once");
    }
    assert_eq!(store.state().audit().len(), 1, "one charge");
}

/// A host with a model, or without one.
#[derive(Debug)]
struct Fixed(bool);

impl Learner for Fixed {
    fn is_ready(&self, _round: &Recipe) -> bool {
        self.0
    }

    fn update(&self, _round: &Recipe, _rng: &mut dyn CryptoRng) -> Option<Vec<f64>> {
        Some(vec![0.1; 10])
    }

    fn bucket(&self, _round: &Recipe, _: &[String], _rng: &mut dyn CryptoRng) -> Option<u32> {
        Some(1)
    }
}

fn of_learner(world: &World, store: &mut MemoryState, learner: &dyn Learner) -> Pass {
    let host = Host { learner: Some(learner), ..world.host() };
    let mut watch = world.watch().unwrap();
    pass(store, &mut watch, &world.trust, &host, world.now, &mut rng(1)).unwrap()
}

#[test]
fn a_model_that_is_not_at_hand_means_silence_without_a_charge() {
    let mut plan = training();
    let round = plan.round(model(0, b"a model"), LATELY);
    let world = plan.build();
    let mut store = world.device();
    let pass = of_learner(&world, &mut store, &Fixed(false));
    assert_eq!(
        (pass.considered, why(&of_learner(&world, &mut store, &Fixed(false)), round)),
        (vec![], Some(Check::Model))
    );
    assert_eq!((store.state().ledger(), store.state().pending().count()), (None, 0));
    assert_eq!(of_learner(&world, &mut store, &Fixed(true)).considered, [round]);
}

/// Words are looked for instead: the list must be at hand, and the mapping must give words.
#[test]
fn a_discovery_asks_the_host_for_a_bucket() {
    let mut plan = Plan::new();
    plan.recipe.randomizer = Randomizer::None;
    plan.recipe.noise = Some(Noise::ServerGaussian { sigma_micro: 200_000_000 });
    plan.recipe.sampling.rate = Probability::ONE;
    plan.trust.floors.max_rate = Probability::ONE;
    let query = |mapping: &str| Query::Histogram {
        buckets: 5,
        labels: None,
        mapping: mapping.to_owned(),
        fallback: 0,
    };
    set_query(&mut plan.recipe, query("tier"));
    plan.in_series(3, EACH);
    plan.recipe.series.as_mut().unwrap().discovery =
        Some(Discovery { lists: "https://lists.example".to_owned(), list_len: 256 });
    let mut number = plan.recipe.clone();
    set_query(&mut number, query("1"));
    let refused = Assessment::new(number).unwrap_err();
    assert!(refused.reason.contains("the mapping gives int, not string or list"), "{refused}");
    let assessed = Assessment::new(plan.recipe.clone()).unwrap();
    let mut attributes = Attributes::new();
    attributes.insert("tier".parse().unwrap(), Value::String("a word".to_owned()));
    assert_eq!(assessed.words(&attributes), ["a word"]);
    assert_eq!(assessed.words(&Attributes::new()), Vec::<String>::new());
    // A bucket that there is, one that there is not, and none.
    for (bucket, sent) in [(Some(4), 4), (Some(5), 0), (None, 0)] {
        let measurement = assessed.randomized_bucket(bucket, &mut rng(1));
        assert_eq!(measurement, Measurement::Histogram(sent));
    }
    let round = plan.round(model(0, b"a list"), LATELY);
    let world = plan.build();
    let mut store = world.device();
    let pass = of_learner(&world, &mut store, &Fixed(false));
    assert_eq!(pass.considered, []);
    assert_eq!(why(&of_learner(&world, &mut store, &Fixed(false)), round), Some(Check::Model));
    assert_eq!(store.state().pending().count(), 0);
    assert_eq!(of_learner(&world, &mut store, &Fixed(true)).considered, [round]);
    let (_, pending) = store.state().pending().next().unwrap();
    assert!(!is_cover(&pending.report));
}

/// The world after a round, and the log as it is read there.
struct After(World, Watch<Files>);

impl After {
    /// Considers the round. Whether it is answered.
    fn consider(&mut self, store: &mut MemoryState, seed: u64) -> bool {
        let Self(world, watch) = self;
        let before: Vec<EntryId> = store.state().pending().map(|(id, _)| id).collect();
        let host = world.host();
        let done = pass(store, watch, &world.trust, &host, world.now, &mut rng(seed)).unwrap();
        assert_eq!(done.considered.len(), 1);
        let mut new = store.state().pending().filter(|(id, _)| !before.contains(id));
        new.next().is_some_and(|(_, pending)| !is_cover(&pending.report))
    }
}

/// Whether each round was answered, by a device with these coins.
fn answers(rounds: &mut [After], seed: u64) -> Vec<bool> {
    let mut store = rounds[0].0.device();
    let mut is_answered = Vec::new();
    for (number, round) in rounds.iter_mut().enumerate() {
        is_answered.push(round.consider(&mut store, 1_000 * seed + number as u64));
        store = restarted(&store);
    }
    is_answered
}

/// The worlds after each of three rounds.
fn rounds(participation: Participation, rate: Probability) -> Vec<After> {
    let mut plan = Plan::new();
    plan.trust.floors.max_rate = Probability::ONE;
    plan.trust.budget.epsilon = 100.0;
    plan.trust.budget.lifetime_epsilon = 100.0;
    plan.recipe.sampling.rate = rate;
    plan.in_series(3, participation);
    let mut built = Vec::new();
    for index in 0..3 {
        plan.round(Round { index, model: None }, LATELY + index);
        let world = plan.build();
        let watch = world.watch().unwrap();
        built.push(After(world, watch));
    }
    built
}

/// 300 devices with a rate of 3/4 and three rounds: the first round is chosen with probability
/// 3/4 1/3, the second with 3/4 2/9, the third with 3/4 4/27, none with the rest. The statistic of
/// chi-square with three degrees of freedom is above 30.7 in one of 10^6 runs.
#[test]
fn a_donation_is_answered_at_most_once_in_a_secret_round() {
    let mut rounds = rounds(Participation::Donation {}, Probability::new(3, 4).unwrap());
    let mut counts: BTreeMap<Option<usize>, f64> = BTreeMap::new();
    const DEVICES: u64 = 300;
    for seed in 0..DEVICES {
        let answers = answers(&mut rounds, seed);
        assert!(answers.iter().filter(|answered| **answered).count() <= 1, "{answers:?}");
        *counts.entry(answers.iter().position(|answered| *answered)).or_default() += 1.0;
    }
    let chosen = [1.0 / 3.0, 2.0 / 9.0, 4.0 / 27.0].map(|part| 0.75 * part);
    let none = 1.0 - chosen.iter().sum::<f64>();
    let laws = chosen.iter().enumerate().map(|(round, part)| (Some(round), *part));
    let statistic: f64 = laws
        .chain([(None, none)])
        .map(|(round, part)| {
            let expected = part * DEVICES as f64;
            (counts.get(&round).copied().unwrap_or(0.0) - expected).powi(2) / expected
        })
        .sum();
    assert!(statistic < 30.7, "{statistic}: {counts:?}");
}

/// A device that comes late to a donation has drawn its round all the same.
#[test]
fn a_donation_is_not_made_up_for() {
    let mut last = rounds(Participation::Donation {}, Probability::ONE).pop().unwrap();
    let mut late = |seed| last.consider(&mut last.0.device(), seed);
    let count = (0..200).filter(|seed| late(*seed)).count();
    // 4/27 of 200 are 30, with a standard deviation of 5: outside in one of 10^6 runs.
    assert!((4..=56).contains(&count), "{count}");
}

#[test]
fn every_round_has_a_coin_of_its_own() {
    let mut rounds = rounds(EACH, Probability::new(1, 2).unwrap());
    let mut seen: BTreeMap<Vec<bool>, usize> = BTreeMap::new();
    for seed in 0..120 {
        *seen.entry(answers(&mut rounds, seed)).or_default() += 1;
    }
    // Each of eight outcomes 15 times; one of them is missing in one of 10^6 runs.
    assert_eq!(seen.len(), 8, "{seen:?}");
}

/// A crash after the decision and before the report loses the round, and spends no second charge.
#[test]
fn a_crash_loses_a_round_and_nothing_else() {
    #[derive(Clone)]
    struct Dying(MemoryState);
    impl DeviceStore for Dying {
        fn state(&self) -> &DeviceState {
            self.0.state()
        }
        fn commit(&mut self, change: Change) -> Result<(), StateError> {
            match change {
                Change::Answered { .. } => Err(StateError::Locked),
                other => self.0.commit(other),
            }
        }
    }
    let worlds: Vec<World> =
        rounds(EACH, Probability::ONE).into_iter().map(|After(world, _)| world).collect();
    let mut store = Dying(worlds[0].device());
    assert!(worlds[0].walk(&mut store, 1).is_err());
    let mut store = restarted(&store.0);
    let spent = store.state().ledger().cloned();
    assert!(spent.is_some() && store.state().pending().count() == 0);
    assert_eq!(considered(&worlds[0], &mut store, 2), [], "there is no second coin");
    assert_eq!(considered(&worlds[1], &mut store, 2).len(), 1);
    assert_eq!((store.state().ledger().cloned(), store.state().pending().count()), (spent, 1));
}

/// All devices are asked in each round, not in a part of the life of the series.
#[test]
fn an_honest_round_is_within_the_rate_rule() {
    let mut plan = Plan::new();
    plan.in_series(30, EACH);
    let recipe = &mut plan.recipe;
    recipe.sampling.rate = Probability::new(1, 50).unwrap();
    (recipe.when.closes, recipe.when.max_window_s) = (recipe.when.opens + 30 * HOUR, HOUR);
    assert_eq!(RateRule::new(recipe, 100_000).most_in(HOUR), 4_000, "2,000 are expected");
    recipe.series.as_mut().unwrap().participation = Participation::Donation {};
    assert_eq!(RateRule::new(recipe, 100_000).most_in(HOUR), 134, "67 in the first round");
}
