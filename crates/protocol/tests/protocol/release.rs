//! The rules of release: neither aggregator releases a batch that covers more time than the recipe
//! allows, or holds more than twice the reports that its certified audience would send, in either
//! batch mode.

use std::time::Duration;

use sotto_protocol::helper::{consume_aggregate_share_req, parse_aggregate_share_req};
use sotto_protocol::leader::collect::{
    consume_collection_job_req, produce_aggregate_share_req, produce_collection_job_resp, too_early,
};
use sotto_protocol::recipe::crowd;
use sotto_protocol::recipe::windows::{RateRule, Span, expected_reports, least_share, releases};
use sotto_protocol::{BucketAggregate, BucketAggregates, Failure, Moment, ReleaseRules};
use sotto_testing::aggregators::{BATCH, NOW, PRECISION_S, Parties, interval, unit};
use sotto_testing::keys::rng;
use sotto_testing::recipe::recipe;
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::recipe::{Participation, Probability, Recipe, Round, Series, When};
use sotto_wire::{
    AggregateShareReq, BatchMode, BatchSelector, CollectionJobReq, Encode, ProblemType, Query,
};

const MODES: [BatchMode; 2] = [BatchMode::TimeInterval, BatchMode::LeaderSelected];

/// Parties whose releases may cover this many units.
fn parties(mode: BatchMode, units: u64) -> Parties {
    let mut parties = Parties::new(&VdafConfig::count(), mode);
    limit(&mut parties, Some(units * PRECISION_S));
    parties
}

fn limit(parties: &mut Parties, max_window_s: Option<u64>) {
    parties.leader.release.max_window_s = max_window_s;
    parties.helper.release.max_window_s = max_window_s;
}

/// A batch with one report at each of these units, as both aggregators hold it.
fn batch(parties: &mut Parties, units: &[i64]) -> (BucketAggregate, BucketAggregate) {
    let reports: Vec<_> =
        units.iter().map(|at| parties.report(&Measurement::Count(true), unit(*at))).collect();
    let (leader, helper) = parties.aggregate(&reports);
    let merge = |buckets: BucketAggregates| {
        let mut buckets = buckets.into_values();
        let mut merged = buckets.next().unwrap();
        buckets.for_each(|bucket| merged.merge(&bucket).unwrap());
        merged
    };
    (merge(leader.buckets), merge(helper.buckets))
}

fn request(mode: BatchMode) -> (CollectionJobReq, BatchSelector) {
    match mode {
        BatchMode::TimeInterval => {
            let interval = interval(-4, 5);
            let query = Query::TimeInterval(interval);
            (CollectionJobReq::new(query), BatchSelector::TimeInterval(interval))
        }
        BatchMode::LeaderSelected => {
            (CollectionJobReq::new(Query::LeaderSelected), BatchSelector::LeaderSelected(BATCH))
        }
    }
}

/// The helper's answer to the leader's request about a batch.
fn helper_says(parties: &Parties, batch: &BucketAggregate) -> Option<ProblemType> {
    helper_says_at(NOW, parties, batch)
}

fn helper_says_at(now: Moment, parties: &Parties, batch: &BucketAggregate) -> Option<ProblemType> {
    let (collection_job_req, batch_selector) = request(parties.mode());
    let (report_count, checksum) = (batch.count, batch.checksum);
    let request = AggregateShareReq { collection_job_req, batch_selector, report_count, checksum };
    let parsed = match parse_aggregate_share_req(&parties.helper, &request.to_bytes(), now) {
        Ok(parsed) => parsed,
        Err(abort) => return Some(abort.problem),
    };
    match consume_aggregate_share_req(&parties.helper, &parsed, Some(batch), false, &mut rng(8)) {
        Ok(_) => None,
        Err(Failure::Abort(abort)) => {
            assert_eq!(abort.task_id, Some(*parties.helper.task.id()));
            Some(abort.problem)
        }
        Err(Failure::Fault(fault)) => panic!("{fault}"),
    }
}

/// Who sees when a batch is full, and who has just sent something, would know who answered. So
/// nothing is released, or refused because of its size, before its interval is over and devices
/// that are late have sent their reports.
#[test]
fn nothing_is_released_before_its_time() {
    let (body, _) = request(BatchMode::TimeInterval);
    let mut parties = parties(BatchMode::TimeInterval, 5);
    let (_, helper) = batch(&mut parties, &[-4, -2, 0]);
    let early = |parties: &Parties, now| too_early(&parties.leader, &body.to_bytes(), now);
    assert_eq!(early(&parties, NOW), None, "a plain DAP task");
    let grace_s = ReleaseRules::of(&recipe("early"), None).grace_s;
    assert_eq!(grace_s, Some(12 * 3_600));
    (parties.leader.release.grace_s, parties.helper.release.grace_s) = (grace_s, grace_s);
    let end = NOW.0 / PRECISION_S * PRECISION_S + PRECISION_S;
    let from = end + 12 * 3_600;
    assert_eq!(early(&parties, Moment(end)), Some(Duration::from_secs(12 * 3_600)));
    assert_eq!(early(&parties, Moment(from - 1)), Some(Duration::from_secs(1)));
    assert_eq!(early(&parties, Moment(from)), None);
    // The helper allows for the leader's clock.
    let refused = Some(ProblemType::BatchInvalid);
    assert_eq!(helper_says_at(NOW, &parties, &helper), refused);
    assert_eq!(helper_says_at(Moment(from - 301), &parties, &helper), refused);
    assert_eq!(helper_says_at(Moment(from - 300), &parties, &helper), None);
    let selected = Parties::new(&VdafConfig::count(), BatchMode::LeaderSelected);
    let (body, _) = request(BatchMode::LeaderSelected);
    assert_eq!(too_early(&selected.leader, &body.to_bytes(), NOW), None, "it has no interval");
}

#[test]
fn the_leader_refuses_an_interval_that_is_too_long_at_once() {
    let (body, _) = request(BatchMode::TimeInterval);
    let body = body.to_bytes();
    for (units, refused) in [(4, true), (5, false), (6, false)] {
        let parties = parties(BatchMode::TimeInterval, units);
        let consumed = consume_collection_job_req(&parties.leader, &body);
        let problem = consumed.err().map(|abort| abort.problem);
        assert_eq!(problem, refused.then_some(ProblemType::BatchInvalid), "{units} units");
    }
    let unlimited = Parties::count();
    assert!(consume_collection_job_req(&unlimited.leader, &body).is_ok());
}

#[test]
fn the_leader_asks_for_no_share_of_a_batch_that_covers_too_much() {
    for mode in MODES {
        let mut parties = parties(mode, 5);
        let (leader, _) = batch(&mut parties, &[-4, -4, 0]);
        let (collection, selector) = request(mode);
        let ask = |parties: &Parties| {
            let request = collection.to_bytes();
            produce_aggregate_share_req(&parties.leader, &request, &selector, &leader)
        };
        assert!(ask(&parties).is_ok(), "five units are fine");
        limit(&mut parties, Some(5 * PRECISION_S - 1));
        let Err(Failure::Abort(abort)) = ask(&parties) else { panic!("{mode:?}") };
        assert_eq!(abort.problem, ProblemType::BatchInvalid);
        assert_eq!(abort.task_id, Some(*parties.leader.task.id()));
        // And forwards none.
        let respond = |parties: &Parties| {
            let request = collection.to_bytes();
            let (task, rng) = (&parties.leader, &mut rng(1));
            produce_collection_job_resp(task, &request, &selector, &leader, b"", rng)
        };
        let refused = respond(&parties).unwrap_err().to_string();
        assert!(refused.contains("covers"), "{refused}");
        limit(&mut parties, None);
        assert!(ask(&parties).is_ok());
        assert!(!respond(&parties).unwrap_err().to_string().contains("covers"));
    }
}

#[test]
fn the_helper_gives_no_share_of_a_batch_that_covers_too_much() {
    for mode in MODES {
        let mut parties = parties(mode, 5);
        let (_, helper) = batch(&mut parties, &[-4, -2, 0]);
        assert_eq!(helper_says(&parties, &helper), None, "five units are fine");
        limit(&mut parties, Some(4 * PRECISION_S));
        assert_eq!(helper_says(&parties, &helper), Some(ProblemType::BatchInvalid), "{mode:?}");
        limit(&mut parties, None);
        assert_eq!(helper_says(&parties, &helper), None);
    }
}

/// Below the minimum nothing that depends on the reports leaves, not even how much time they cover.
#[test]
fn a_small_batch_is_told_apart_first() {
    let mut parties = parties(BatchMode::LeaderSelected, 2);
    let (_, small) = batch(&mut parties, &[-4, 0]);
    assert_eq!(helper_says(&parties, &small), Some(ProblemType::InvalidBatchSize));
}

/// A recipe that is open for ten units and asks half of the devices.
fn ten_units() -> Recipe {
    let mut recipe = recipe("release");
    let window_s = PRECISION_S;
    recipe.when = When { opens: 0, closes: 10 * window_s, window_s, max_window_s: window_s };
    recipe.sampling.rate = Probability::new(1, 2).unwrap();
    recipe
}

/// The rate rule of that recipe alone.
fn rate_rule(audience: u64) -> ReleaseRules {
    let rate = ReleaseRules::of(&ten_units(), Some(audience)).rate;
    ReleaseRules { rate, ..ReleaseRules::default() }
}

#[test]
fn the_most_reports_follow_from_the_audience_and_the_time() {
    // 200 devices: 100 reports are expected in all, 10 in a unit.
    let rule = RateRule::new(&ten_units(), 200);
    for (units, most) in [(1, 20), (2, 40), (3, 60), (10, 200), (11, 200), (1_000, 200)] {
        assert_eq!(rule.most_in(units * PRECISION_S), most, "{units} units");
    }
    // A batch shorter than the longest window may hold as many as one of that length.
    let mut burst = ten_units();
    burst.when.max_window_s = 3 * PRECISION_S;
    let rule = RateRule::new(&burst, 200);
    assert_eq!([1, 3, 4].map(|units| rule.most_in(units * PRECISION_S)), [60, 60, 80]);
    // Rounded down.
    assert_eq!(RateRule::new(&ten_units(), 201).most_in(PRECISION_S), 20);
    assert_eq!(RateRule::new(&ten_units(), 9).most_in(PRECISION_S), 0);
    // The largest numbers that a recipe can hold.
    let mut recipe = ten_units();
    let largest = (1 << 53) - 1;
    recipe.sampling.rate = Probability::new(largest - 1, largest).unwrap();
    recipe.when.closes = largest;
    assert_eq!(RateRule::new(&recipe, u64::MAX).most_in(u64::MAX), u64::MAX);
    assert_eq!(RateRule::new(&recipe, largest).most_in(largest), 2 * largest - 2);
    // Without a certified audience there is no such rule.
    assert_eq!(ReleaseRules::of(&ten_units(), None).rate, None);
}

/// A round of a header that is open for ten times as long is judged as a recipe of its own: the
/// certified audience may answer within it, and not twice as many.
#[test]
fn a_round_with_a_length_is_released_like_a_recipe_of_that_length() {
    let alone = {
        let mut recipe = ten_units();
        recipe.when.closes = recipe.when.max_window_s;
        recipe
    };
    let mut header = ten_units();
    header.series = Some(Series {
        rounds: 10,
        participation: Participation::EachRound {},
        length_s: Some(PRECISION_S),
        training: None,
        discovery: None,
        round: None,
    });
    let rules = ReleaseRules::of(&alone, Some(38));
    for index in [None, Some(0), Some(9)] {
        let mut recipe = header.clone();
        recipe.series.as_mut().unwrap().round = index.map(|index| Round { index, model: None });
        assert_eq!(ReleaseRules::of(&recipe, Some(38)), rules, "{index:?}");
        assert_eq!(least_share(&recipe.answer_times()), 1.0);
        let [found, wanted] =
            [&recipe, &alone].map(|recipe| crowd(recipe, None).expected_per_release);
        assert_eq!(found, wanted);
        let start = index.unwrap_or(0) * PRECISION_S;
        let span = Span { start, end: start + PRECISION_S };
        assert_eq!(releases(&recipe.answer_times()).collect::<Vec<_>>(), [span]);
        assert_eq!(expected_reports(&recipe, span), recipe.who.population as f64 / 2.0);
    }
    // 19 answers are expected of 38 devices, in any part of the round.
    for (reports, released) in [(38, true), (39, false)] {
        let mut parties = Parties::new(&VdafConfig::count(), BatchMode::LeaderSelected);
        let rules = ReleaseRules { grace_s: None, ..rules.clone() };
        (parties.leader.release, parties.helper.release) = (rules.clone(), rules);
        let (leader, helper) = batch(&mut parties, &vec![0; reports]);
        let (collection, selector) = request(BatchMode::LeaderSelected);
        let body = collection.to_bytes();
        let asked = produce_aggregate_share_req(&parties.leader, &body, &selector, &leader);
        assert_eq!((asked.is_ok(), helper_says(&parties, &helper).is_none()), (released, released));
    }
}

/// Each aggregator decides by itself, in both batch modes: with ten reports expected in a unit of
/// time, 19 are released and 21 are not.
#[test]
fn no_batch_of_more_than_twice_the_expected_size_is_released() {
    for mode in MODES {
        for (units, reports, released) in
            [(1, 19, true), (1, 20, true), (1, 21, false), (2, 38, true), (2, 42, false)]
        {
            let mut parties = Parties::new(&VdafConfig::count(), mode);
            let times: Vec<i64> = (0..reports).map(|at| -(at % units)).collect();
            let (leader, helper) = batch(&mut parties, &times);
            let (collection, selector) = request(mode);
            let leader_says = |parties: &Parties| {
                let request = collection.to_bytes();
                let asked =
                    produce_aggregate_share_req(&parties.leader, &request, &selector, &leader);
                match asked {
                    Ok(_) => None,
                    Err(Failure::Abort(abort)) => Some(abort.problem),
                    Err(Failure::Fault(fault)) => panic!("{fault}"),
                }
            };
            let refused = (!released).then_some(ProblemType::BatchInvalid);
            let rules = rate_rule(200);
            // One alone has the rule: the other would release.
            parties.leader.release = rules.clone();
            let says = (leader_says(&parties), helper_says(&parties, &helper));
            assert_eq!(says, (refused, None), "{mode:?}: {reports} in {units} units");
            parties.leader.release = ReleaseRules::default();
            parties.helper.release = rules;
            let says = (leader_says(&parties), helper_says(&parties, &helper));
            assert_eq!(says, (None, refused), "{mode:?}: {reports} in {units} units");
        }
    }
}

/// Below the minimum batch nothing says that there are too many reports.
#[test]
fn a_small_batch_is_never_too_large() {
    for mode in MODES {
        let mut parties = Parties::new(&VdafConfig::count(), mode);
        parties.helper.release = rate_rule(1);
        let (_, small) = batch(&mut parties, &[0, 0]);
        assert_eq!(helper_says(&parties, &small), Some(ProblemType::InvalidBatchSize));
        let (_, enough) = batch(&mut parties, &[0, 0, 0]);
        assert_eq!(helper_says(&parties, &enough), Some(ProblemType::BatchInvalid));
    }
}
