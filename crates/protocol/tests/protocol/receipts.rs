//! Receipts: what leader and helper say about a release, and what auditors conclude from it.

use sotto_protocol::receipt::Released;
use sotto_protocol::receipt::audit::{Finding, PATIENCE_S, Releases, Seen};
use sotto_protocol::recipe::windows::{GRACE_S, Span, release_of, releases};
use sotto_protocol::{BucketAggregate, BucketAggregates, Moment};
use sotto_testing::aggregators::{BATCH, NOW, PRECISION_S, Parties, interval, unit};
use sotto_testing::keys::{key, signer};
use sotto_testing::recipe::recipe;
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::recipe::{Participation, Recipe, Round, Series, When};
use sotto_wire::{BatchId, BatchMode, BatchSelector, Receipt, Role};

const MODES: [BatchMode; 2] = [BatchMode::TimeInterval, BatchMode::LeaderSelected];

/// Units are counted from six before now: reports are not from the future.
const LAST: i64 = 6;

/// From unit -4 to unit 6; released in intervals of four.
fn recipe_of(mode: BatchMode) -> Recipe {
    let mut recipe = recipe("receipts");
    let opens = at(-4);
    recipe.when = When {
        opens,
        closes: opens + 10 * PRECISION_S,
        window_s: PRECISION_S,
        max_window_s: 4 * PRECISION_S,
    };
    recipe.aggregation.batch_mode = mode;
    recipe.aggregation.min_batch = 3;
    recipe
}

fn parties(mode: BatchMode) -> Parties {
    let mut parties = Parties::new(&VdafConfig::count(), mode);
    for task in [&mut parties.leader, &mut parties.helper] {
        task.release.max_window_s = Some(4 * PRECISION_S);
        task.release.grace_s = Some(GRACE_S);
    }
    parties
}

/// A batch with one report at each of these units, as both aggregators hold it.
fn batch(parties: &mut Parties, units: &[i64]) -> [BucketAggregate; 2] {
    let reports: Vec<_> = units
        .iter()
        .map(|at| parties.report(&Measurement::Count(true), unit(*at - LAST)))
        .collect();
    let (leader, helper) = parties.aggregate(&reports);
    let merge = |buckets: BucketAggregates| {
        let mut buckets = buckets.into_values();
        let mut merged = buckets.next().unwrap();
        buckets.for_each(|bucket| merged.merge(&bucket).unwrap());
        merged
    };
    [merge(leader.buckets), merge(helper.buckets)]
}

fn at(units: i64) -> u64 {
    NOW.0.checked_add_signed((units - LAST) * PRECISION_S as i64).unwrap()
}

/// Both say the same, and no more than the interval of release and the rounded count.
#[test]
fn leader_and_helper_say_the_same_and_nothing_about_single_reports() {
    for mode in MODES {
        let (recipe, mut parties) = (recipe_of(mode), parties(mode));
        let selector = match mode {
            BatchMode::TimeInterval => BatchSelector::TimeInterval(interval(-4 - LAST, 4)),
            BatchMode::LeaderSelected => BatchSelector::LeaderSelected(BATCH),
        };
        // Other reports, at other times of the interval: the receipt is the same.
        for units in [&[-4, -2, -1, -1, -1][..], &[-3, -3, -3, -3], &[-2, -2, -2, -2, -2, -2, -2]] {
            let [leader, helper] = batch(&mut parties, units);
            let said = Released::new(&parties.leader, &recipe, &selector, &leader).unwrap();
            assert_eq!(
                said,
                Released::new(&parties.helper, &recipe, &selector, &helper).unwrap(),
                "{mode:?}"
            );
            let span = Span { start: at(-4), end: at(0) };
            let due = Moment(at(0) + GRACE_S);
            let batch = (mode == BatchMode::LeaderSelected).then_some(BATCH);
            assert_eq!(said, Released { recipe: recipe.id(), span, count: 4, batch, due });
        }
        let [few, _] = batch(&mut parties, &[-4, -4]);
        assert!(Released::new(&parties.leader, &recipe, &selector, &few).is_err(), "below B");
    }
}

#[test]
fn the_interval_is_that_of_the_recipe() {
    let (ti, ls) = (BatchMode::TimeInterval, BatchMode::LeaderSelected);
    let said = |mode, selector, units: &[i64], early: bool| {
        let mut parties = parties(mode);
        parties.leader.release.grace_s.take_if(|_| early);
        let [leader, _] = batch(&mut parties, units);
        let said = Released::new(&parties.leader, &recipe_of(mode), &selector, &leader).unwrap();
        (said.span.start, said.span.end, said.due.0)
    };
    let of = |start, units| BatchSelector::TimeInterval(interval(start - LAST, units));
    assert_eq!(said(ti, of(-3, 2), &[-2, -2, -2], false), (at(-3), at(-1), at(-1) + GRACE_S));
    // What was collected before the recipe opened, or after it closed, holds no reports.
    assert_eq!(said(ti, of(-7, 4), &[-4, -4, -4], true), (at(-4), at(-3), 0));
    assert_eq!(said(ti, of(4, 4), &[4, 4, 4], true), (at(4), at(6), 0));
    let selected = BatchSelector::LeaderSelected(BATCH);
    assert_eq!(said(ls, selected, &[0, 3, 3], false), (at(0), at(4), at(4) + GRACE_S));
    assert_eq!(said(ls, selected, &[5, 5, 5], true), (at(4), at(6), 0), "the last one is shorter");
    // Another leader's batch, from two of them: what it covers.
    assert_eq!(said(ls, selected, &[-1, 1, 0], true), (at(-1), at(2), 0));
    let when = recipe_of(ls).when;
    for release in releases(&when) {
        assert_eq!(release_of(&when, release), Some(release));
    }
    assert_eq!(release_of(&when, Span { start: at(-5), end: at(-4) }), None);
}

/// Where rounds have a length, a release outside of the time of its round is found.
#[test]
fn receipts_of_a_round_are_about_its_own_time() {
    let mode = BatchMode::TimeInterval;
    let mut header = recipe_of(mode);
    header.when.closes = header.when.opens + 12 * PRECISION_S;
    header.series = Some(Series {
        rounds: 3,
        participation: Participation::EachRound {},
        length_s: Some(4 * PRECISION_S),
        training: None,
        discovery: None,
        round: None,
    });
    let round = |index| {
        let mut recipe = header.clone();
        recipe.series.as_mut().unwrap().round = Some(Round { index, model: None });
        recipe
    };
    let mut parties = parties(mode);
    let [leader, _] = batch(&mut parties, &[0, 1, 1]);
    let selector = BatchSelector::TimeInterval(interval(-2 - LAST, 4));
    let said = Released::new(&parties.leader, &round(1), &selector, &leader).unwrap();
    assert_eq!(said.span, Span { start: at(0), end: at(2) });
    let first = || seen(Role::Leader, 7, mode);
    assert_eq!(Releases::default().add(&round(0), first()), []);
    assert_eq!(Releases::default().add(&round(1), first()), [Finding::Outside]);
}

/// A receipt of the whole first interval, with the count 4, public when it is due.
fn seen(role: Role, index: u64, mode: BatchMode) -> Seen {
    let released = Released {
        recipe: recipe_of(mode).id(),
        span: Span { start: at(-4), end: at(0) },
        count: 4,
        batch: (mode == BatchMode::LeaderSelected).then_some(BATCH),
        due: Moment(0),
    };
    let operator = signer(&key(&format!("{}.example", role.as_str())));
    let receipt = released.receipt(1, role, operator);
    Seen { index, public_s: at(0) + GRACE_S, receipt, reported: false }
}

#[test]
fn honest_operators_are_never_accused() {
    for mode in MODES {
        let (recipe, mut releases) = (recipe_of(mode), Releases::default());
        for (index, start) in [(0, -4), (2, 0), (4, 4)] {
            for role in [Role::Leader, Role::Helper] {
                let mut seen = seen(role, index, mode);
                (seen.receipt.start, seen.receipt.end) = (at(start), at((start + 4).min(6)));
                seen.receipt.batch = seen.receipt.batch.map(|_| BatchId::new([index as u8; 32]));
                seen.public_s += 10 * PRECISION_S;
                assert_eq!(releases.add(&recipe, seen), [], "{mode:?}");
            }
        }
        assert_eq!(releases.missing(u64::MAX), []);
    }
    // Several batches of one window are allowed if the leader selects them.
    let mode = BatchMode::LeaderSelected;
    let (recipe, mut releases) = (recipe_of(mode), Releases::default());
    for byte in 1..4 {
        let mut seen = seen(Role::Leader, u64::from(byte), mode);
        seen.receipt.batch = Some(BatchId::new([byte; 32]));
        assert_eq!(releases.add(&recipe, seen), []);
    }
}

#[test]
fn every_broken_rule_is_found() {
    let mode = BatchMode::TimeInterval;
    type Change = fn(&mut Receipt);
    let cases: [(Change, &[Finding]); 9] = [
        (|_| {}, &[]),
        (|r| r.start -= PRECISION_S, &[Finding::Outside, Finding::TooLong]),
        (|r| r.start += 1, &[Finding::Outside]),
        (|r| r.end -= 1, &[Finding::Outside]),
        (|r| (r.start, r.end) = (at(5), at(7)), &[Finding::Outside, Finding::Early]),
        (|r| r.end += PRECISION_S, &[Finding::TooLong]),
        (|r| r.count = 1, &[Finding::BelowMinimum]),
        // Two or three reports: the recipe asks for three. Nothing is proved.
        (|r| r.count = 2, &[]),
        (|r| r.batch = Some(BATCH), &[Finding::OtherMode]),
    ];
    for (change, expected) in cases {
        let mut seen = seen(Role::Helper, 7, mode);
        seen.public_s += PRECISION_S;
        change(&mut seen.receipt);
        assert_eq!(Releases::default().add(&recipe_of(mode), seen), expected);
    }
    let early = Seen { public_s: at(0) + GRACE_S - 301, ..seen(Role::Helper, 7, mode) };
    assert_eq!(Releases::default().add(&recipe_of(mode), early.clone()), [Finding::Early]);
    let skewed = Seen { public_s: early.public_s + 1, ..early };
    assert_eq!(Releases::default().add(&recipe_of(mode), skewed), []);
    let unnamed = Seen { ..seen(Role::Leader, 7, mode) };
    let recipe = recipe_of(BatchMode::LeaderSelected);
    assert_eq!(Releases::default().add(&recipe, unnamed), [Finding::OtherMode]);
}

#[test]
fn contradictions_name_the_entry_that_they_contradict() {
    for mode in MODES {
        let mut releases = Releases::default();
        let mut add = |role, index, change: fn(&mut Receipt)| {
            let mut seen = seen(role, index, mode);
            change(&mut seen.receipt);
            releases.add(&recipe_of(mode), seen)
        };
        assert_eq!(add(Role::Leader, 3, |_| {}), []);
        assert_eq!(add(Role::Helper, 4, |r| r.count = 8), [Finding::Differs(3)], "{mode:?}");
        let (again, differs) = (Finding::Again(4), Finding::Differs(3));
        assert_eq!(add(Role::Helper, 5, |r| r.end -= PRECISION_S), [differs, again], "{mode:?}");
        // Of another batch, so it contradicts nothing; in time, half of the interval again.
        let other = add(Role::Leader, 6, |r| match &mut r.batch {
            Some(batch) => *batch = BatchId::new([1; 32]),
            None => r.start += 2 * PRECISION_S,
        });
        match mode {
            BatchMode::LeaderSelected => assert_eq!(other, []),
            BatchMode::TimeInterval => {
                let differs = [4, 5].map(Finding::Differs);
                assert_eq!(other, [&[Finding::Again(3)][..], &differs].concat());
            }
        }
    }
}

#[test]
fn a_missing_receipt_is_reported_once_and_in_time() {
    let mode = BatchMode::LeaderSelected;
    let mut releases = Releases::default();
    let alone = seen(Role::Helper, 1, mode);
    assert_eq!(releases.add(&recipe_of(mode), alone.clone()), []);
    let late = alone.public_s + PATIENCE_S;
    assert_eq!(releases.missing(late - 1), []);
    assert!(releases.any_by(Role::Helper) && !releases.any_by(Role::Leader));
    let text = serde_json::to_string(&releases).unwrap();
    let mut restored: Releases = serde_json::from_str(&text).unwrap();
    assert_eq!(restored.missing(late), [Seen { reported: true, ..alone }]);
    assert_eq!(restored.missing(late + PATIENCE_S), []);
    let text = serde_json::to_string(&restored).unwrap();
    assert_eq!(serde_json::from_str::<Releases>(&text).unwrap().missing(late), []);
    // It comes in time.
    releases.add(&recipe_of(mode), seen(Role::Leader, 2, mode));
    assert_eq!(releases.missing(u64::MAX), []);
}
