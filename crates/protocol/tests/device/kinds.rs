//! What each kind of query makes of a device's data, with what probability it is sent, and what a
//! claim about it costs.

use std::sync::Arc;

use sotto_dp::mechanism::Value as Answer;
use sotto_dp::recipe::{Terms, judge};
use sotto_protocol::admission::{Admitted, Assessments, Check, View};
use sotto_protocol::client::is_cover;
use sotto_protocol::device::{Change, DeviceStore, advance, consider, toss};
use sotto_protocol::expression::{Attributes, Value};
use sotto_protocol::recipe::windows::RateRule;
use sotto_protocol::recipe::{
    Assessment, check_mapping, colluding, judgement_of, mechanism, recipe_vdaf, sending_epsilon,
    sides,
};
use sotto_testing::keys::rng;
use sotto_testing::recipe::{recipe, set_query};
use sotto_testing::world::{Plan, World};
use sotto_vdaf::Measurement;
use sotto_wire::recipe::{
    Adjacency, AttributeType, Compression, Noise, Privacy, Probability, Query, Randomizer, Recipe,
    RecipeVdaf, VectorQuery,
};

fn part(num: u64, den: u64) -> Probability {
    Probability::new(num, den).unwrap()
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// A recipe without a claim that asks this.
fn asking(query: Query, randomizer: Randomizer) -> Recipe {
    let mut recipe = recipe("kinds");
    recipe.attributes.insert("apps".parse().unwrap(), AttributeType::Strings);
    recipe.attributes.insert("trace".parse().unwrap(), AttributeType::Vector(3));
    recipe.randomizer = randomizer;
    recipe.privacy = Privacy::InsecureUnbounded;
    set_query(&mut recipe, query);
    recipe
}

fn mean(mapping: &str) -> Query {
    Query::Mean { max: 9, mapping: mapping.to_owned(), fallback: 4 }
}

fn ages() -> Query {
    let (boundaries, mapping) = (vec![-5, 18, 65], "region".to_owned());
    Query::Quantiles { boundaries, quantiles: Query::quartiles(), mapping, fallback: 20 }
}

fn vectors(compression: Option<Compression>) -> VectorQuery {
    let mapping = "trace".to_owned();
    VectorQuery { dimension: 3, clip_micro: 2_000_000, fraction_bits: 4, mapping, compression }
}

fn trace(numbers: &[f64]) -> Attributes {
    [("trace".to_owned(), Value::Vector(numbers.to_vec().into()))].into()
}

fn apps(mapping: &str) -> Query {
    Query::MultiHistogram {
        buckets: 4,
        labels: Some(["maps", "mail", "chess", "none"].map(str::to_owned).into()),
        most: 2,
        mapping: mapping.to_owned(),
        fallback: vec![3],
    }
}

fn sparse() -> Query {
    Query::SparseHistogram { buckets: 4, labels: None, mapping: "region".to_owned(), default: 1 }
}

/// Halves; a device without a vector has a bucket of its own.
fn nearest() -> Query {
    Query::Nearest {
        candidates: vec![vec![2, 0, 0], vec![0, 2, 0], vec![-2, 0, 1]],
        fraction_bits: 1,
        labels: None,
        mapping: "trace".to_owned(),
        fallback: 3,
    }
}

fn region(number: i64) -> Attributes {
    [("region".to_owned(), Value::Int(number))].into()
}

fn having(apps: &[&str]) -> Attributes {
    [("apps".to_owned(), Value::List(apps.iter().map(|app| text(app)).collect()))].into()
}

fn bits(bits: [u8; 4]) -> Measurement {
    Measurement::MultihotCountVec(bits.map(|bit| bit == 1).into())
}

/// Every device has an answer, whatever it knows about itself.
#[test]
fn every_kind_has_an_answer_for_every_device() {
    let labels = |labels: &[u32]| Answer::Labels(labels.to_vec());
    for (query, attributes, answer) in [
        (mean("region"), region(9), Answer::Number(9)),
        (mean("region"), region(10), Answer::Number(4)),
        (mean("region"), Attributes::new(), Answer::Number(4)),
        (ages(), region(i64::MIN), Answer::OneHot(0)),
        (ages(), region(-6), Answer::OneHot(0)),
        (ages(), region(-5), Answer::OneHot(1)),
        (ages(), region(17), Answer::OneHot(1)),
        (ages(), region(18), Answer::OneHot(2)),
        (ages(), region(i64::MAX), Answer::OneHot(3)),
        (ages(), Attributes::new(), Answer::OneHot(2)),
        (sparse(), region(3), Answer::OneHot(3)),
        (sparse(), region(4), Answer::OneHot(1)),
        (sparse(), Attributes::new(), Answer::OneHot(1)),
        (nearest(), trace(&[0.9, 0.1, 0.0]), Answer::OneHot(0)),
        (nearest(), trace(&[-0.1, 0.8, 0.3]), Answer::OneHot(1)),
        (nearest(), trace(&[-7.0, 0.0, 5.0]), Answer::OneHot(2)),
        // Of equally close ones the first.
        (nearest(), trace(&[0.5, 0.5, 0.0]), Answer::OneHot(0)),
        (nearest(), trace(&[0.5, 0.5]), Answer::OneHot(3)),
        (nearest(), trace(&[0.5, f64::NAN, 0.0]), Answer::OneHot(3)),
        (nearest(), trace(&[0.5, f64::INFINITY, 0.0]), Answer::OneHot(3)),
        (nearest(), trace(&[0.5, 1e200, 0.0]), Answer::OneHot(3)),
        (nearest(), Attributes::new(), Answer::OneHot(3)),
        (apps("apps"), having(&["chess", "maps"]), labels(&[0, 2])),
        (apps("apps"), having(&[]), labels(&[])),
        // What is unknown does not count, and nothing counts twice.
        (apps("apps"), having(&["x", "mail", "mail", "none"]), labels(&[1, 3])),
        // The first two.
        (apps("apps"), having(&["none", "chess", "maps"]), labels(&[2, 3])),
        (apps("apps"), Attributes::new(), labels(&[3])),
        (apps("[region, 'mail', region / 0]"), region(2), labels(&[3])),
        (apps("[region, 'mail', 0]"), region(2), labels(&[1, 2])),
        (apps("region > 1 ? ['maps'] : []"), region(1), labels(&[])),
    ] {
        let assessment = Assessment::new(asking(query.clone(), Randomizer::None)).unwrap();
        assert_eq!(assessment.answer(&attributes), answer, "{query:?} {attributes:?}");
    }
}

#[test]
fn exact_answers_are_sent_as_the_vdaf_takes_them() {
    let sent = |query: &Query, dummy_rate, attributes: &Attributes| {
        let mut recipe = asking(query.clone(), Randomizer::None);
        recipe.sampling.dummy_rate = dummy_rate;
        set_query(&mut recipe, query.clone());
        let assessment = Assessment::new(recipe.clone()).unwrap();
        let mut rng = rng(1);
        let sent = assessment.randomized(attributes, &mut rng);
        (recipe.aggregation.vdaf, sent, assessment.dummy(&mut rng))
    };
    let (never, some) = (Probability::ZERO, part(1, 4));
    let histogram = |length| RecipeVdaf::Prio3Histogram { length, chunk_length: 2 };
    let several =
        |max_weight| RecipeVdaf::Prio3MultihotCountVec { length: 4, chunk_length: 2, max_weight };
    let one_hot = (histogram(4), Measurement::Histogram(2), None);
    assert_eq!(sent(&ages(), never, &region(20)), one_hot);
    // A dummy is in no bucket, so devices with an answer may be in none either.
    let nothing = || Some(bits([0; 4]));
    let chosen = (several(1), bits([0, 0, 1, 0]), nothing());
    assert_eq!(sent(&ages(), some, &region(20)), chosen);
    assert_eq!(sent(&sparse(), never, &region(2)), chosen);
    assert_eq!(sent(&sparse(), never, &region(1)), (several(1), bits([0; 4]), nothing()));
    let two = (several(2), bits([1, 0, 1, 0]), nothing());
    assert_eq!(sent(&apps("apps"), never, &having(&["chess", "maps"])), two);
    let number = (
        RecipeVdaf::Prio3Sum { max_measurement: 9 },
        Measurement::Sum(7),
        Some(Measurement::Sum(0)),
    );
    assert_eq!(sent(&mean("region"), some, &region(7)), number);
}

/// The default is a point like the others where a report names a point, and nothing elsewhere.
#[test]
fn the_default_of_needles_is_randomized_like_the_others() {
    let epsilon_micro = 60_000_000;
    let mut rng = rng(2);
    let rappor = Assessment::new(asking(sparse(), Randomizer::Rappor { epsilon_micro })).unwrap();
    // With this epsilon hardly anything is random: a flip has a probability of e^-60.
    assert_eq!(rappor.randomized(&region(1), &mut rng), bits([0; 4]));
    assert_eq!(rappor.randomized(&region(3), &mut rng), bits([0, 0, 0, 1]));
    assert_eq!(rappor.dummy(&mut rng), Some(bits([0; 4])));
    let geometry = asking(sparse(), Randomizer::ProjectiveGeometry { epsilon_micro: 1_000_000 });
    assert!(matches!(geometry.aggregation.vdaf, RecipeVdaf::Prio3Histogram { .. }));
    let geometry = Assessment::new(geometry).unwrap();
    assert!(matches!(geometry.randomized(&region(1), &mut rng), Measurement::Histogram(_)));
    assert_eq!(geometry.dummy(&mut rng), None);
}

#[test]
fn constants_of_every_kind_must_be_counted_somewhere() {
    let attributes = [
        ("region".parse().unwrap(), AttributeType::Int),
        ("apps".parse().unwrap(), AttributeType::Strings),
    ]
    .into();
    let check = |query: Query| check_mapping(&query, &attributes);
    for good in [apps("['maps', 3, region]"), apps("region > 1 ? apps : [0]"), mean("9"), ages()] {
        check(good).unwrap();
    }
    for (bad, part) in [
        (apps("['maps', 'x']"), "it can give \"x\", which is counted nowhere"),
        (apps("[4]"), "column 2: it can give 4"),
        (apps("region"), "the mapping gives int, not list: write it in brackets: `[value]`"),
        (mean("10"), "write a number from 0 to 9"),
        (mean("apps"), "the mapping gives list, not int"),
        (sparse_at("region > 1 ? 4 : 0"), "write a bucket from 0 to 3"),
    ] {
        let reason = check(bad).unwrap_err();
        assert!(reason.contains(part), "{reason}");
    }
}

fn sparse_at(mapping: &str) -> Query {
    Query::SparseHistogram { buckets: 4, labels: None, mapping: mapping.to_owned(), default: 1 }
}

/// A world whose recipe has dummies, needles and half-hearted cover.
fn needles() -> Plan {
    let mut plan = Plan::new();
    plan.recipe.randomizer = Randomizer::None;
    plan.recipe.privacy = Privacy::InsecureUnbounded;
    plan.trust.insecure_exact = true;
    plan.trust.floors.max_sending_epsilon = 10.0;
    let sampling = &mut plan.recipe.sampling;
    (sampling.default_rate, sampling.rate) = (Some(part(1, 8)), part(1, 2));
    (sampling.dummy_rate, sampling.cover) = (part(1, 4), part(1, 3));
    set_query(&mut plan.recipe, sparse());
    plan
}

fn admitted(world: &World) -> (Arc<Admitted>, View) {
    let view = View::open(&world.log.view.to_bytes(), &world.trust).unwrap();
    let admitted = Assessments::default().admit(&world.offer(), &view, &world.trust).unwrap();
    (Arc::new(admitted), view)
}

const TOSSES: u32 = 3_000;
/// Ten frequencies: one is further away than this from its probability in one of 10^9 runs
/// (Hoeffding, `2 exp(-2 n x^2) = 1e-10`).
const FAR: f64 = 0.063;

/// The parts of all devices that send a report, cover, and nothing.
fn frequencies(plan: &Plan, seed: u64) -> [f64; 2] {
    let world = plan.build();
    let (admitted, view) = admitted(&world);
    let mut store = world.device();
    let mut reader = sotto_protocol::log::Reader::new(world.log.files.clone());
    let (old, new) = (store.state().log_size(&view.checkpoint().origin).unwrap(), &view);
    let proof = reader.consistency(old, new.checkpoint().size).unwrap();
    let seen = advance(store.state(), &view, &proof, &world.trust, world.now).unwrap();
    store.commit(seen.unwrap()).unwrap();
    let (host, mut rng) = (world.host(), rng(seed));
    let mut counts = [0; 2];
    for _ in 0..TOSSES {
        let step =
            consider(store.state(), &admitted, &view, &world.trust, &host, world.now, &mut rng);
        match toss(step.unwrap().ticket, &host, &mut rng).unwrap() {
            Some(Change::Answered { pending, .. }) => {
                counts[usize::from(is_cover(&pending.report))] += 1;
            }
            None => {}
            Some(other) => panic!("{other:?}"),
        }
    }
    counts.map(|count| f64::from(count) / f64::from(TOSSES))
}

#[test]
fn rates_dummies_and_cover_are_tossed_with_their_probabilities() {
    let mut plan = needles();
    for (number, rate) in [(1, 0.125), (3, 0.5), (99, 0.125)] {
        plan.attributes.insert("region".to_owned(), Value::Int(number));
        let [report, cover] = frequencies(&plan, number as u64);
        let expected = rate + (1.0 - rate) * 0.25;
        assert!((report - expected).abs() < FAR, "{number}: {report} is not {expected}");
        let expected = (1.0 - rate) * 0.75 / 3.0;
        assert!((cover - expected).abs() < FAR, "{number}: cover {cover} is not {expected}");
    }
    // A device outside of the audience sends as often, and only cover.
    plan.target();
    plan.attributes.insert("region".to_owned(), Value::Int(3));
    plan.attributes.insert("tier".to_owned(), text("silver"));
    let [report, cover] = frequencies(&plan, 7);
    assert_eq!(report, 0.0);
    let expected = 0.5 + 0.5 * 0.5;
    assert!((cover - expected).abs() < FAR, "{cover} is not {expected}");
}

/// The relay sees who sends. The device refuses to let it learn much from that.
#[test]
fn what_sending_tells_is_capped() {
    let mut plan = needles();
    let exact = (0.75_f64 / 0.5625).ln().max((0.4375_f64 / 0.25).ln());
    let found = sending_epsilon(&plan.recipe, true).unwrap();
    assert!(found >= exact && found < exact + 1e-12, "{found} {exact}");
    let refused = |plan: &Plan| {
        let world = plan.build();
        world.decide(&mut world.device(), &world.offer()).err()
    };
    assert!(refused(&plan).is_none());
    plan.trust.floors.max_sending_epsilon = exact - 1e-9;
    let silence = refused(&plan).unwrap();
    assert_eq!(silence.check, Check::Floors);
    assert!(silence.reason.contains("with sampling.cover 1 it learns nothing"), "{silence}");
    // Nothing is learnt where everybody sends, or all rates are the same.
    plan.trust.floors.max_sending_epsilon = 0.0;
    plan.recipe.sampling.cover = Probability::ONE;
    assert!(refused(&plan).is_none());
    plan.recipe.sampling.cover = Probability::ZERO;
    assert!(refused(&plan).is_some());
    plan.recipe.sampling.default_rate = None;
    assert!(refused(&plan).is_none());
}

/// A recipe with a claim, for 100,000 reports and more.
fn claiming(query: Query, adjacency: Adjacency, sigma: u64) -> Recipe {
    let mut recipe = asking(query, Randomizer::None);
    recipe.noise = Some(Noise::ServerGaussian { sigma_micro: sigma * 1_000_000 });
    recipe.aggregation.min_batch = 100_000;
    recipe.privacy = Privacy::Claim {
        epsilon_micro: 1,
        delta: part(1, 100_000_000),
        adjacency,
        accountant: sotto_wire::recipe::Accountant::Best,
        rounds: 1,
    };
    recipe
}

fn epsilon(recipe: &Recipe, certified: Option<u64>) -> f64 {
    judgement_of(recipe, certified).unwrap().unwrap().epsilon
}

#[test]
fn noise_of_the_aggregators_is_judged_by_what_the_claim_protects() {
    for query in [mean("region"), ages(), apps("apps"), sparse()] {
        let replace = claiming(query.clone(), Adjacency::Replace, 100);
        let found = judgement_of(&replace, None).unwrap().unwrap();
        assert_eq!(found.adjacency, sotto_dp::Adjacency::Replace);
        assert!(found.epsilon > 0.0 && found.epsilon < 1.0, "{query:?}: {}", found.epsilon);
        assert_eq!(epsilon(&replace, Some(1 << 30)), found.epsilon);
        let present = claiming(query, Adjacency::AddRemove, 100);
        assert_eq!(judgement_of(&present, None).unwrap().unwrap().epsilon, f64::INFINITY);
        let certified = judgement_of(&present, Some(1_000_000)).unwrap().unwrap();
        assert_eq!(certified.adjacency, sotto_dp::Adjacency::AddRemove);
        assert!(certified.epsilon < 1.0, "{}", certified.epsilon);
        // More noise costs less.
        let less = claiming(present.query.clone(), Adjacency::AddRemove, 200);
        assert!(epsilon(&less, Some(1_000_000)) < certified.epsilon);
    }
}

/// A claim that protects presence: without an audience that somebody certified, the device says what
/// to do. With one it is charged.
#[test]
fn presence_is_protected_in_a_certified_audience_alone() {
    let mut plan = Plan::new();
    let mut recipe = claiming(mean("region"), Adjacency::AddRemove, 100);
    recipe.aggregation.min_batch = 5_000;
    let refused = |recipe: &Recipe, certified| {
        Assessment::certified(recipe.clone(), certified).expect_err("it must be refused")
    };
    let silence = refused(&recipe, None);
    assert_eq!(silence.check, Check::Claim);
    assert!(
        silence.reason.contains("Claim adjacency \"replace\", or ask an audience"),
        "{silence}"
    );
    let silence = refused(&recipe, Some(1));
    assert!(silence.reason.contains("The certified audience is too small"), "{silence}");
    plan.result.population = 50_000;
    recipe.attributes.remove("apps");
    plan.recipe = recipe;
    plan.target();
    let implied = (epsilon(&plan.recipe, Some(50_000)) * 1e6).ceil() as u64;
    for (claimed, accepted) in [(implied, true), (implied - 1, false)] {
        let Privacy::Claim { epsilon_micro, .. } = &mut plan.recipe.privacy else { unreachable!() };
        *epsilon_micro = claimed;
        let world = plan.build();
        let decided = world.decide(&mut world.device(), &world.offer());
        assert_eq!(decided.is_ok(), accepted, "{claimed}: {:?}", decided.err());
        // The author is to blame only if no audience is large enough.
        assert_eq!(Assessment::at_best(plan.recipe.clone()).is_ok(), accepted);
        assert!(Assessment::new(plan.recipe.clone()).is_err());
    }
}

#[test]
fn dummies_count_for_epsilon_and_for_the_size_of_batches() {
    let with = |dummy_rate| {
        let mut recipe = claiming(mean("region"), Adjacency::AddRemove, 100);
        recipe.sampling.rate = part(1, 100);
        recipe.sampling.dummy_rate = dummy_rate;
        recipe
    };
    let (without, some) = (with(Probability::ZERO), with(part(1, 4)));
    let law = mechanism(&some).unwrap().law();
    let exact = Terms { dummy_rate: 0.25, ..Terms::new(law, 0.01_f64.next_up(), 100_000, 1) };
    let judged = judge(&exact, Some(1 << 28), 1e-8_f64.next_down()).unwrap().epsilon;
    assert_eq!(epsilon(&some, Some(1 << 28)), judged);
    assert_ne!(epsilon(&without, Some(1 << 28)), judged);
    // 2 (q + (1 - q) q') of the audience, over the whole life of five days and in one.
    let most = |recipe: &Recipe| RateRule::new(recipe, 3_000).most_in(recipe.when.max_window_s);
    let share = |recipe: &Recipe, all: u64| {
        all * recipe.when.max_window_s / (recipe.when.closes - recipe.when.opens)
    };
    assert_eq!(most(&without), share(&without, 60));
    assert_eq!(most(&some), share(&some, 60 + 1_485));
}

/// With less cover the relay knows more about who took part, and dummies are among those who sent.
#[test]
fn senders_are_judged_with_their_dummies() {
    let mut recipe = claiming(mean("region"), Adjacency::Replace, 100);
    (recipe.sampling.rate, recipe.sampling.dummy_rate) = (part(1, 8), part(1, 4));
    let covered = epsilon(&recipe, None);
    recipe.sampling.cover = part(1, 2);
    let half_covered = epsilon(&recipe, None);
    recipe.sampling.cover = Probability::ZERO;
    let uncovered = epsilon(&recipe, None);
    assert!(covered < half_covered && half_covered < uncovered);
    // Among those who sent, one in 2.75 took part, and the others are dummies: as if those were
    // the rates of a recipe with cover.
    (recipe.sampling.rate, recipe.sampling.dummy_rate) = (part(4, 11), Probability::ONE);
    recipe.sampling.cover = Probability::ONE;
    let senders = epsilon(&recipe, None);
    assert!((uncovered / senders - 1.0).abs() < 1e-6, "{uncovered} {senders}");
}

/// Where the rate depends on the answer, the number of reports says something about it: the claim
/// needs a certified audience, whatever it protects.
#[test]
fn rates_that_depend_on_the_answer_need_an_audience() {
    for adjacency in [Adjacency::Replace, Adjacency::AddRemove] {
        let mut recipe = claiming(sparse(), adjacency, 30);
        recipe.sampling.rate = part(1, 10);
        let one_rate = epsilon(&recipe, Some(1_000_000));
        recipe.sampling.default_rate = Some(part(1, 10));
        assert_eq!(epsilon(&recipe, Some(1_000_000)), one_rate, "they are the same");
        recipe.sampling.default_rate = Some(part(1, 50));
        assert_eq!(epsilon(&recipe, None), f64::INFINITY);
        assert_eq!(colluding(&recipe, None).unwrap(), None);
        let found = judgement_of(&recipe, Some(1_000_000)).unwrap().unwrap();
        assert!(found.epsilon > 0.9 * one_rate && found.epsilon < 0.1, "{found:?} {one_rate}");
        let mechanism_law = mechanism(&recipe).unwrap().law();
        let plain = Terms::new(mechanism_law, 0.1_f64.next_up(), 100_000, 1);
        let terms = Terms { default_rate: Some(0.02_f64.next_down()), ..plain };
        let exact = judge(&terms, Some(1_000_000), 1e-8_f64.next_down()).unwrap();
        assert_eq!(found.epsilon, exact.epsilon);
        // Whoever sees who sends learns something from that, and more about who took part.
        recipe.sampling.cover = part(1, 2);
        let seen = epsilon(&recipe, Some(1_000_000));
        let sending = sending_epsilon(&recipe, true).unwrap();
        assert!(sending > 0.08 && seen > sending + found.epsilon, "{seen} {sending}");
        let silence = Assessment::new(recipe).expect_err("nobody certified the audience");
        let hint = match adjacency {
            Adjacency::Replace => "Give all devices one rate",
            Adjacency::AddRemove => "ask an audience whose size a logged result certifies",
        };
        assert!(silence.reason.contains(hint), "{silence}");
    }
    let mut recipe = claiming(sparse(), Adjacency::Replace, 30);
    (recipe.noise, recipe.randomizer) = (None, Randomizer::Rappor { epsilon_micro: 1_000_000 });
    recipe.sampling.rate = part(1, 10);
    let one_rate = epsilon(&recipe, None);
    recipe.sampling.default_rate = Some(part(1, 50));
    assert_eq!(epsilon(&recipe, None), f64::INFINITY);
    let found = epsilon(&recipe, Some(1_000_000));
    assert!(found > one_rate && found < 0.1, "{found} {one_rate}");
    // A report is five times as likely with another value.
    let alone = judgement_of(&recipe, None).unwrap().unwrap().local_epsilon.unwrap();
    assert!((alone - (2.0 + 5f64.ln())).abs() < 1e-6, "{alone}");
}

#[test]
fn every_randomizer_has_its_mechanism_and_its_vdaf() {
    let epsilon_micro = 2_000_000;
    let rappor = Randomizer::Rappor { epsilon_micro };
    let geometry = Randomizer::ProjectiveGeometry { epsilon_micro };
    let response = Randomizer::RandomizedResponse { epsilon_micro };
    for (query, randomizer, kind) in [
        (ages(), rappor, "rappor"),
        (apps("apps"), rappor, "rappor"),
        (sparse(), geometry, "projective_geometry"),
        (ages(), response, "randomized_response"),
    ] {
        let recipe = asking(query, randomizer);
        assert_eq!(mechanism(&recipe).unwrap().kind(), kind);
        Assessment::new(recipe).unwrap();
    }
    for named in [geometry, response] {
        let mut recipe = asking(ages(), named);
        recipe.sampling.dummy_rate = part(1, 2);
        assert!(recipe_vdaf(&recipe).is_err(), "{named:?} has no dummies");
    }
}

/// Rounded to sixteenths, at most 2 long; zero where there is no vector of this length.
#[test]
fn a_vector_is_clipped_and_rounded_and_anything_else_is_zero() {
    let assessment =
        Assessment::new(asking(Query::VectorMean(vectors(None)), Randomizer::None)).unwrap();
    let answer = |attributes: &Attributes| assessment.answer(attributes);
    let vector = |numbers: [i64; 3]| Answer::Vector(numbers.into());
    assert_eq!(answer(&trace(&[0.5, -0.25, 0.03])), vector([8, -4, 0]));
    // Ties go to the even number: 2.5 and 3.5 sixteenths.
    assert_eq!(answer(&trace(&[2.5 / 16.0, 3.5 / 16.0, 0.0])), vector([2, 4, 0]));
    // Twice as long as it may be, and far longer.
    assert_eq!(answer(&trace(&[4.0, 0.0, 0.0])), vector([32, 0, 0]));
    assert_eq!(answer(&trace(&[0.0, -1e300, 0.0])), vector([0, -32, 0]));
    let Answer::Vector(long) = answer(&trace(&[3.0, 3.0, 3.0])) else { panic!() };
    assert!(long.iter().map(|one| one * one).sum::<i64>() <= 32 * 32, "{long:?}");
    let missing = Attributes::new();
    let number = [("trace".to_owned(), Value::Int(3))].into();
    for (attributes, reason) in [
        (trace(&[1.0, 1.0]), "trace"),
        (trace(&[1.0; 4]), "trace"),
        (trace(&[]), "trace"),
        (trace(&[1.0, f64::NAN, 0.0]), "counted nowhere"),
        (trace(&[f64::INFINITY, 0.0, 0.0]), "counted nowhere"),
        (missing, "trace"),
        (number, "trace"),
    ] {
        assert_eq!(answer(&attributes), vector([0; 3]), "{attributes:?}");
        let said = assessment.fallback_reason(&attributes).unwrap();
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(assessment.fallback_reason(&trace(&[1.0, 1.0, 1.0])), None);
    let stated = assessment.recipe().aggregation.vdaf;
    assert!(
        matches!(stated, RecipeVdaf::Pine64 { dimension: 3, norm_bound: 32, .. }),
        "{stated:?}"
    );
}

#[test]
fn the_mapping_of_a_vector_is_an_attribute_of_its_length() {
    let attributes = [
        ("trace".parse().unwrap(), AttributeType::Vector(3)),
        ("other".parse().unwrap(), AttributeType::Vector(3)),
        ("short".parse().unwrap(), AttributeType::Vector(2)),
        ("region".parse().unwrap(), AttributeType::Int),
    ]
    .into();
    let of = |mapping: &str| {
        let vectors = VectorQuery { mapping: mapping.to_owned(), ..vectors(None) };
        check_mapping(&Query::VectorSum(vectors), &attributes).map(drop)
    };
    assert_eq!(of("trace"), Ok(()));
    assert_eq!(of("region > 3 ? trace : other"), Ok(()));
    for (mapping, reason) in [
        ("short", "the mapping gives vector(2), not vector(3)"),
        ("region", "the mapping gives int, not vector(3): write the name of an attribute"),
        ("region > 3 ? trace : short", "one type only"),
        ("trace == other", "compares two values of one type"),
        ("[trace]", "the elements of a list are ints or strings, not vector(3)"),
        ("trace[0]", "an index"),
        ("absent", "declared are: other, region, short, trace"),
    ] {
        let found = of(mapping).unwrap_err();
        assert!(found.contains(reason), "{mapping}: {found}");
    }
    let number = Query::Sum { max: 3, mapping: "trace".to_owned(), fallback: 0 };
    let found = check_mapping(&number, &attributes).map(drop).unwrap_err();
    assert!(found.contains("only a query of vectors can use one"), "{found}");
}

/// The same randomness gives the same bytes of numbers, on every device and at any time.
#[test]
fn noise_on_a_vector_depends_on_the_seed_alone() {
    let noisy = |compression| {
        let query = Query::VectorSum(vectors(compression));
        let mut recipe = asking(query, Randomizer::Gaussian { sigma_micro: 50_000_000 });
        recipe.aggregation.min_batch = 100;
        recipe.aggregation.vdaf = recipe_vdaf(&recipe).unwrap();
        Assessment::new(recipe).unwrap()
    };
    let compression = Compression { dimension: 2, seed: 5 };
    for compression in [None, Some(compression)] {
        let (one, other) = (noisy(compression), noisy(compression));
        let length = compression.map_or(3, |compression| compression.dimension as usize);
        let sent = |assessment: &Assessment, numbers: &[f64], seed| {
            let sent = assessment.randomized(&trace(numbers), &mut rng(seed));
            let Measurement::Vector(sent) = sent else { panic!("{sent:?}") };
            assert_eq!(sent.len(), length);
            sent
        };
        assert_eq!(sent(&one, &[0.5, 0.5, 0.5], 7), sent(&other, &[0.5, 0.5, 0.5], 7));
        assert_ne!(sent(&one, &[0.5, 0.5, 0.5], 7), sent(&one, &[0.5, 0.5, 0.5], 8));
        // The noise is the same, whatever it is added to: nothing else is drawn.
        let exact = |numbers: &[f64]| match one.answer(&trace(numbers)) {
            Answer::Vector(exact) => exact,
            other => panic!("{other:?}"),
        };
        let noise = |numbers: &[f64]| {
            let (sent, exact) = (sent(&one, numbers, 7), exact(numbers));
            sent.iter().zip(&exact).map(|(sent, exact)| sent - exact).collect::<Vec<_>>()
        };
        assert_eq!(noise(&[0.5, 0.5, 0.5]), noise(&[-1.0, 0.0, 0.25]));
        let Some(Measurement::Vector(dummy)) = one.dummy(&mut rng(7)) else { panic!() };
        assert_eq!(dummy, noise(&[0.0; 3]), "the zero vector with full noise");
        assert!(dummy.iter().any(|number| *number != 0));
    }
    // A seed is another projection.
    let answer = |seed| {
        let other = noisy(Some(Compression { dimension: 2, seed }));
        other.answer(&trace(&[0.5, 0.25, -1.0]))
    };
    let answers: Vec<_> = (0..8).map(answer).collect();
    assert!(answers.iter().any(|one| *one != answers[0]), "{answers:?}");
}

/// How much noise is needed depends on the claim, so the claim comes first, and is enough.
#[test]
fn a_claim_about_vectors_holds_for_its_own_parameters() {
    for (randomizer, noise) in [
        (Randomizer::Gaussian { sigma_micro: 20_000_000 }, None),
        (Randomizer::None, Some(Noise::ServerGaussian { sigma_micro: 20_000_000 })),
    ] {
        let mut recipe = recipe("kinds");
        recipe.attributes.insert("trace".parse().unwrap(), AttributeType::Vector(3));
        (recipe.randomizer, recipe.noise) = (randomizer, noise);
        recipe.aggregation.min_batch = 2_000;
        let wide = VectorQuery { fraction_bits: 15, ..vectors(None) };
        set_query(&mut recipe, Query::VectorSum(wide));
        let claimed = sotto_testing::recipe::reclaim(&mut recipe);
        let assessment = Assessment::new(recipe.clone()).unwrap();
        assert_eq!(assessment.cost().unwrap().epsilon_micro, claimed);
        assert!((10_000..20_000_000).contains(&claimed), "{claimed}");
        let sides = sides(&recipe).unwrap().unwrap();
        assert_eq!(sides.aggregators.rho, 1.0);
        assert!(sides.devices.rho > 1.0 && sides.devices.addition > sides.aggregators.addition);
        // An author who claims less is refused.
        sotto_protocol::recipe::set_claim(&mut recipe, claimed - claimed / 100).unwrap();
        let refused = Assessment::new(recipe).unwrap_err();
        assert_eq!(refused.check, Check::Claim, "{refused}");
    }
}
