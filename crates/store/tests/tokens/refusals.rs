//! Every way in which a token can be bad. The aggregator that sees it rejects it under its own
//! reason, the other one gets only a generic error, and the honest reports of the same job are
//! unaffected.

use rand_chacha::rand_core::Rng;
use sotto_protocol::Moment;
use sotto_testing::keys::token_key;
use sotto_wire::token::Token;
use sotto_wire::{
    AggregationJobResp, BatchMode, Decode, Encode, ReportError, Role, VerifyRespKind,
};

use super::issuing::{
    Asked, EXPIRES, HELPER_KEY, LEADER_KEY, OTHER_KEY, recipe, signed, token, window,
};
use super::party::{BOTH_STORES, Kind};
use super::world::{World, once, refused};

/// A bad token for an aggregator, with the reason under which it is counted.
type Spoil = fn(&mut World, Role, &[u8; 32]) -> Option<Vec<u8>>;

const SPOILS: [(&str, Spoil); 9] = [
    ("token_missing", |_, _, _| None),
    ("token_malformed", |world, role, nonce| {
        let mut bytes = good(world, role, nonce).to_bytes();
        bytes.pop();
        Some(bytes)
    }),
    ("token_malformed", |world, role, nonce| {
        let mut token = good(world, role, nonce);
        token.token_type = 2;
        Some(token.to_bytes())
    }),
    // The other aggregator's token.
    ("token_wrong_key", |world, role, nonce| {
        let other = if role == Role::Leader { Role::Helper } else { Role::Leader };
        Some(good(world, other, nonce).to_bytes())
    }),
    // A token of a key that an attacker made.
    ("token_wrong_key", |world, role, nonce| {
        let digest = good(world, role, nonce).challenge_digest;
        let id = *token_key(OTHER_KEY).token_key().id();
        Some(signed(token_key(OTHER_KEY), &id, nonce, &digest, &mut world.rng).to_bytes())
    }),
    ("token_wrong_recipe", |world, role, nonce| {
        let other = recipe(BatchMode::TimeInterval, Asked::Both, "another");
        assert_ne!(other.id(), world.recipe.id());
        Some(token(&other, role, nonce, &mut world.rng).to_bytes())
    }),
    // A signature by another key, under the right key's id.
    ("token_forged", |world, role, nonce| {
        let good = good(world, role, nonce);
        let id = good.token_key_id;
        let forged = signed_as(&id, nonce, &good.challenge_digest, world);
        Some(forged.to_bytes())
    }),
    // A good signature, moved to another nonce.
    ("token_forged", |world, role, nonce| {
        let elsewhere = world.nonce();
        let mut token = good(world, role, &elsewhere);
        token.nonce = *nonce;
        Some(token.to_bytes())
    }),
    ("token_other_report", |world, role, _| {
        let elsewhere = world.nonce();
        Some(good(world, role, &elsewhere).to_bytes())
    }),
];

fn good(world: &mut World, role: Role, nonce: &[u8; 32]) -> Token {
    token(&world.recipe, role, nonce, &mut world.rng)
}

/// A token with this key id that another key signed.
fn signed_as(key_id: &[u8; 32], nonce: &[u8; 32], digest: &[u8; 32], world: &mut World) -> Token {
    let own = token_key(OTHER_KEY).token_key().id();
    let mut token = signed(token_key(OTHER_KEY), own, nonce, digest, &mut world.rng);
    token.token_key_id = *key_id;
    token
}

/// A report whose share for `role` contains this instead of its token.
fn spoiled(world: &mut World, role: Role, spoil: Spoil) -> Vec<u8> {
    let nonce = world.nonce();
    let mut tokens = world.tokens(&nonce);
    let bad = spoil(world, role, &nonce);
    match (role, bad) {
        (Role::Leader, Some(bad)) => tokens.leader = bad,
        // A device that does not know about tokens.
        (Role::Leader, None) => return world.report(1, window(0), None),
        (_, bad) => tokens.helper = bad,
    }
    world.report(1, window(0), Some(&tokens))
}

#[test]
fn a_bad_token_is_counted_under_its_own_name_and_nothing_else_suffers() {
    for kind in BOTH_STORES {
        for role in [Role::Leader, Role::Helper] {
            for (reason, spoil) in SPOILS {
                let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
                let bad = spoiled(&mut world, role, spoil);
                let (before, after) = (world.honest(3), world.honest(4));
                world.aggregate(&[before.clone(), bad.clone(), after]);
                assert_eq!(world.counted(), once([3, 4]), "{role:?} {reason}");
                let (leader, helper) = match role {
                    Role::Leader => (refused([(reason, 1)]), refused([])),
                    _ => (refused([("invalid_message", 1)]), refused([(reason, 1)])),
                };
                assert_eq!(world.leader.refused(), leader, "{role:?} {reason}");
                assert_eq!(world.helper.refused(), helper, "{role:?} {reason}");
                // A report that spent nothing at the leader leaves nothing there.
                assert_eq!(world.leader.has_id_of(&bad), role == Role::Helper, "{role:?} {reason}");
                assert!(world.leader.has_id_of(&before) && !world.helper.has_id_of(&bad));
            }
        }
    }
}

/// The helper's answer for a report is the same bytes, whatever is wrong with its token.
#[test]
fn the_other_side_is_told_nothing_that_links() {
    for (reason, spoil) in SPOILS {
        let mut world = World::new(Kind::Memory, BatchMode::TimeInterval, Asked::Both);
        let bad = spoiled(&mut world, Role::Helper, spoil);
        world.upload(&[bad]);
        world.form(usize::MAX);
        let leased = world.lease().unwrap();
        let job = world.request(&leased);
        let response = world.answer(&job.request);
        let answers = AggregationJobResp::from_bytes(&response).unwrap().verify_resps;
        let [answer] = &answers[..] else { panic!("{} answers", answers.len()) };
        let expected = VerifyRespKind::Reject(ReportError::InvalidMessage);
        assert_eq!(answer.kind, expected, "{reason}");
    }
}

/// The leader checks by the clock that was fixed with the set, the helper by its own; both agree.
#[test]
fn a_token_of_an_expired_key() {
    for kind in BOTH_STORES {
        for (now, expired) in [(EXPIRES - 1, 0), (EXPIRES, 1), (u64::MAX, 1)] {
            let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
            let honest = world.honest(3);
            world.upload(&[honest]);
            world.form(usize::MAX);
            let leased = world.lease().unwrap();
            let job = world.request(&leased);
            let response = world.answer_at(&job.request, Moment(now));
            world.commit(&leased, job, &response);
            let counted = if expired == 0 { once([3]) } else { once([]) };
            assert_eq!(world.counted(), counted);
            let names = refused([("token_expired", 1)].into_iter().filter(|_| expired == 1));
            assert_eq!(world.helper.refused(), names);
        }
    }
}

#[test]
fn the_leader_refuses_an_expired_key_by_the_clock_of_the_job() {
    let mut world = World::new(Kind::Memory, BatchMode::TimeInterval, Asked::Both);
    let honest = world.honest(3);
    world.upload(&[honest]);
    world.form(usize::MAX);
    let mut leased = world.lease().unwrap();
    leased.now = Moment(EXPIRES);
    let job = world.request(&leased);
    assert!(job.is_empty());
    world.commit(&leased, job, &[]);
    assert_eq!(world.leader.refused(), refused([("token_expired", 1)]));
    assert_eq!(world.counted(), once([]));
}

/// A retry, in another process, sends the same bytes, for good and bad tokens.
#[test]
fn a_retry_judges_tokens_as_before() {
    for kind in BOTH_STORES {
        let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
        let mut reports: Vec<_> =
            SPOILS.iter().map(|(_, spoil)| spoiled(&mut world, Role::Leader, *spoil)).collect();
        reports.push(world.honest(3));
        world.upload(&reports);
        world.form(usize::MAX);
        let leased = world.lease().unwrap();
        let first = world.request(&leased);
        world.leader.restart();
        let leased = world.lease().unwrap();
        assert_eq!(leased.request_digest, Some(first.digest));
        assert_eq!(world.request(&leased).request, first.request);
    }
}

/// A second token, with another nonce, for a report id that was counted. The id is only the second
/// half of the nonce, so the first half may differ, but the id is spent anyway.
#[test]
fn two_nonces_of_one_report_id_are_one_token() {
    for kind in BOTH_STORES {
        let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
        let nonce = world.nonce();
        let mut other = nonce;
        world.rng.fill_bytes(&mut other[..16]);
        let (first, second) = (world.tokens(&nonce), world.tokens(&other));
        assert_eq!(first.report_id, second.report_id);
        let reports =
            [world.report(0, window(0), Some(&first)), world.report(1, window(-1), Some(&second))];
        for report in reports {
            world.aggregate(&[report]);
        }
        assert_eq!(world.counted(), once([0]));
        assert_eq!(world.leader.refused(), refused([("report_replayed", 1)]));
    }
}

/// The keys differ; otherwise the wrong-aggregator cases above would prove nothing.
#[test]
fn the_keys_of_the_tests_differ() {
    let ids = [LEADER_KEY, HELPER_KEY, OTHER_KEY].map(|key| *token_key(key).token_key().id());
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
}
