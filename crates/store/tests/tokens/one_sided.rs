//! Recipes that do not require tokens at both aggregators, and say so.

use sotto_protocol::ReplayScope;
use sotto_wire::BatchMode;

use super::issuing::{Asked, window};
use super::party::BOTH_STORES;
use super::world::{World, once, refused};

/// A standard helper does not know tokens: it gets none and counts by report id, per bucket.
#[test]
fn a_standard_helper_works_with_a_leader_that_asks() {
    for kind in BOTH_STORES {
        for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
            let mut world = World::new(kind, mode, Asked::LeaderOnly);
            assert_eq!(world.leader.task.replay_scope(), ReplayScope::Task);
            let nonce = world.nonce();
            let tokens = world.tokens(&nonce);
            assert_eq!(tokens.helper, None);
            let reports = [
                world.report(0, window(0), Some(&tokens)),
                // The same token in another bucket, and none at all.
                world.report(1, window(-1), Some(&tokens)),
                world.report(2, window(0), None),
                world.honest(15),
            ];
            for report in reports {
                world.aggregate(&[report]);
            }
            assert_eq!(world.counted(), once([0, 15]));
            let expected = refused([("report_replayed", 1), ("token_missing", 1)]);
            assert_eq!(world.leader.refused(), expected);
            assert_eq!(world.helper.refused(), refused([]));
        }
    }
}

/// In DAP an extension that an aggregator does not know is an error. A token is such an extension
/// where none is required.
#[test]
fn a_token_that_nobody_asked_for_is_refused() {
    for kind in BOTH_STORES {
        let mut asked = World::new(kind, BatchMode::TimeInterval, Asked::Both);
        let nonce = asked.nonce();
        let tokens = asked.tokens(&nonce);

        let mut world = World::new(kind, BatchMode::TimeInterval, Asked::LeaderOnly);
        let mut extra = world.tokens(&nonce);
        extra.helper = tokens.helper.clone();
        let reports = [world.report(0, window(0), Some(&extra)), world.honest(15)];
        world.aggregate(&reports);
        assert_eq!(world.counted(), once([15]));
        assert_eq!(world.helper.refused(), refused([("invalid_message", 1)]));

        let mut world = World::new(kind, BatchMode::TimeInterval, Asked::None);
        assert_eq!(world.helper.task.replay_scope(), ReplayScope::Bucket);
        let reports =
            [world.report(0, window(0), Some(&tokens)), world.report(15, window(0), None)];
        world.aggregate(&reports);
        assert_eq!(world.counted(), once([15]));
        assert_eq!(world.leader.refused(), refused([("invalid_message", 1)]));
    }
}
