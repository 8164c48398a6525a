//! Two devices that share one leader token, each with its own helper token: both aggregators must
//! count the same one of them, or the batch would never be released.
//!
//! The leader learns that the tokens are equal only when both shares are open, and it does not
//! decide which one comes first at the helper. The report id, which the tokens' nonce gives,
//! decides before that.

use sotto_wire::{BatchMode, BatchSelector, Duration, Interval, Time};

use super::issuing::{Asked, window};
use super::party::{BOTH_STORES, Kind};
use super::world::{World, once, refused};

const MODES: [BatchMode; 2] = [BatchMode::TimeInterval, BatchMode::LeaderSelected];

/// Runs a case in a new world of every kind, with the two reports in either order: the honest
/// device's report in cell 15, then those of cells 0 and 1.
fn in_every_world(times: [Time; 2], case: impl Fn(&mut World, [Vec<u8>; 2])) {
    for kind in BOTH_STORES {
        for mode in MODES {
            for first in [0, 1] {
                let mut world = World::new(kind, mode, Asked::Both);
                let honest = world.honest(15);
                world.aggregate(&[honest]);
                let [a, b] = sharing(&mut world, times);
                case(&mut world, if first == 0 { [a, b] } else { [b, a] });
                let expected = once([first, 15]);
                assert_eq!(world.counted(), expected, "{kind:?} {mode:?}");
                assert_eq!(world.leader.refused(), refused([("report_replayed", 1)]));
                assert_eq!(world.helper.refused(), refused([]));
            }
        }
    }
}

/// Reports of cells 0 and 1 that share a leader token and have their own helper tokens.
fn sharing(world: &mut World, times: [Time; 2]) -> [Vec<u8>; 2] {
    let nonce = world.nonce();
    let (a, mut b) = (world.tokens(&nonce), world.tokens(&nonce));
    assert_ne!(a.helper, b.helper);
    b.leader = a.leader.clone();
    [world.report(0, times[0], Some(&a)), world.report(1, times[1], Some(&b))]
}

#[test]
fn in_one_job() {
    in_every_world([window(0); 2], |world, reports| world.aggregate(&reports));
}

#[test]
fn in_two_jobs_fixed_at_once() {
    in_every_world([window(0); 2], |world, reports| {
        world.upload(&reports);
        world.form(1);
        world.work();
    });
}

#[test]
fn in_two_jobs_one_after_the_other() {
    in_every_world([window(0); 2], |world, [first, second]| {
        world.aggregate(&[first]);
        world.aggregate(&[second]);
    });
}

/// The first to arrive counts, although its bucket sorts after the other's.
#[test]
fn in_two_buckets() {
    for times in [[window(-1), window(0)], [window(0), window(-1)]] {
        in_every_world(times, |world, reports| world.aggregate(&reports));
        in_every_world(times, |world, [first, second]| {
            world.aggregate(&[first]);
            world.aggregate(&[second]);
        });
    }
}

/// The second arrives while the first one's job is at the helper, and is in the next job when the
/// leader fails.
#[test]
fn while_the_leader_crashes_between_fixing_and_committing() {
    for crash in 0..4 {
        in_every_world([window(0), window(-1)], |world, [first, second]| {
            world.upload(&[first]);
            world.form(usize::MAX);
            let restart = |world: &mut World, at: usize| {
                if crash == at {
                    world.leader.restart();
                }
                crash == at
            };
            if !restart(world, 0) {
                let leased = world.lease().unwrap();
                let job = world.request(&leased);
                if !restart(world, 1) {
                    // The helper has committed, but the leader does not know it.
                    world.answer(&job.request);
                    if crash == 2 {
                        world.helper.restart();
                    }
                    world.leader.restart();
                }
            }
            world.upload(&[second]);
            world.form(usize::MAX);
            world.work();
        });
    }
}

#[test]
fn after_the_first_ones_bucket_was_collected() {
    for kind in BOTH_STORES {
        let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
        let [first, second] = sharing(&mut world, [window(-2), window(0)]);
        let honest = world.honest(15);
        world.aggregate(&[first, honest]);
        world.collect(Interval::new(window(-2), Duration::new(1)).unwrap());
        world.aggregate(&[second]);
        assert_eq!(world.counted(), once([15]));
        assert_eq!(world.leader.refused(), refused([("report_replayed", 1)]));
    }
}

/// The helper saw the second one first, from a leader that has since lost its state: the helper's
/// verdict stands at both.
#[test]
fn the_helper_saw_the_other_one_before() {
    for kind in BOTH_STORES {
        for times in [[window(0); 2], [window(-1), window(0)]] {
            let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
            let [first, second] = sharing(&mut world, times);
            let mut forgetful = World::new(Kind::Memory, BatchMode::TimeInterval, Asked::Both);
            forgetful.upload(&[second]);
            forgetful.form(usize::MAX);
            let leased = forgetful.lease().unwrap();
            let job = forgetful.request(&leased);
            let response = world.answer(&job.request);
            let honest = world.honest(15);
            world.aggregate(&[first, honest]);
            assert_eq!(world.leader.refused(), refused([("report_replayed", 1)]));
            assert_eq!(world.helper.refused(), refused([("report_replayed", 1)]));
            // Together, the leader's two lives hold what the helper holds.
            forgetful.commit(&leased, job, &response);
            let life = BatchSelector::TimeInterval(world.task().interval().unwrap());
            let mut leader = world.leader.batch(life).aggregate.unwrap();
            leader.merge(&forgetful.leader.batch(life).aggregate.unwrap()).unwrap();
            let helper = world.helper.batch(life).aggregate.unwrap();
            assert_eq!((leader.count, leader.checksum), (helper.count, helper.checksum));
        }
    }
}

/// Helper tokens with another nonce do not help: the report has only one id.
#[test]
fn with_a_helper_token_of_another_nonce() {
    for kind in BOTH_STORES {
        for mode in MODES {
            let mut world = World::new(kind, mode, Asked::Both);
            let (nonce, other) = (world.nonce(), world.nonce());
            let (a, own) = (world.tokens(&nonce), world.tokens(&other));
            let mut b = world.tokens(&nonce);
            b.helper = own.helper.clone();
            // Its id is that of the leader token, or of the helper token.
            let mut c = own.clone();
            c.leader = a.leader.clone();
            let reports = [
                world.report(2, window(0), Some(&c)),
                world.report(1, window(0), Some(&b)),
                world.honest(15),
            ];
            world.aggregate(&reports);
            assert_eq!(world.counted(), once([15]));
            let leader = refused([("token_other_report", 1), ("invalid_message", 1)]);
            assert_eq!(world.leader.refused(), leader);
            assert_eq!(world.helper.refused(), refused([("token_other_report", 1)]));
        }
    }
}
