//! A leader that uses what it saw: its own token, the report id, the metadata and the helper's
//! sealed share. It never saw a token that the helper accepts.

use rand_chacha::rand_core::Rng;
use sotto_protocol::token::ReportTokens;
use sotto_wire::token::Token;
use sotto_wire::{
    AggregationJobInitReq, BatchMode, Decode, Encode, Report, ReportError, VerifyRespKind,
};

use super::issuing::{Asked, window};
use super::party::{BOTH_STORES, Kind};
use super::world::{World, once, refused};

const MODES: [BatchMode; 2] = [BatchMode::TimeInterval, BatchMode::LeaderSelected];

/// It drops devices' reports and sends its own under the same ids, to learn the one report that it
/// keeps.
#[test]
fn a_replaced_report_is_refused() {
    for kind in BOTH_STORES {
        for mode in MODES {
            let mut world = World::new(kind, mode, Asked::Both);
            let replaced = ["token_missing", "token_wrong_key", "token_forged", "token_malformed"];
            let mut reports = vec![world.honest(15)];
            for reason in replaced {
                let nonce = world.nonce();
                let seen = world.tokens(&nonce);
                reports.push(replacement(&mut world, &seen, reason));
            }
            world.aggregate(&reports);
            assert_eq!(world.counted(), once([15]));
            assert_eq!(world.leader.refused(), refused([("invalid_message", 4)]));
            assert_eq!(world.helper.refused(), refused(replaced.map(|reason| (reason, 1))));
        }
    }
}

/// The leader's own report, with what it can put into the helper's share instead of a token.
fn replacement(world: &mut World, seen: &ReportTokens, reason: &str) -> Vec<u8> {
    let mut own = seen.clone();
    own.helper = match reason {
        "token_missing" => None,
        "token_wrong_key" => Some(seen.leader.clone()),
        "token_malformed" => Some(seen.leader[..100].to_vec()),
        _ => {
            // The key id and the challenge are public; the signature cannot be obtained.
            let theirs = Token::from_bytes(seen.helper.as_ref().unwrap()).unwrap();
            let mut forged = Token::from_bytes(&seen.leader).unwrap();
            forged.token_key_id = theirs.token_key_id;
            forged.challenge_digest = theirs.challenge_digest;
            Some(forged.to_bytes())
        }
    };
    world.report(0, window(0), Some(&own))
}

/// It sends a report again, in another job and in another batch.
#[test]
fn a_replayed_report_is_refused() {
    for kind in BOTH_STORES {
        for mode in MODES {
            let mut world = World::new(kind, mode, Asked::Both);
            let (victim, honest) = (world.honest(0), world.honest(1));
            world.aggregate(std::slice::from_ref(&victim));
            // The same leader, as if nothing had happened.
            let mut again = World::new(Kind::Memory, mode, Asked::Both);
            again.rng.next_u64();
            again.upload(&[victim, honest]);
            again.form(usize::MAX);
            let leased = again.lease().unwrap();
            let job = again.request(&leased);
            let response = world.answer(&job.request);
            assert_eq!(verdicts(&response), [Some(ReportError::ReportReplayed), None]);
            assert_eq!(world.helper.refused(), refused([("report_replayed", 1)]));
        }
    }
}

/// It sends a report again under another timestamp, for a bucket that is not collected yet.
#[test]
fn a_replayed_report_with_another_time_does_not_open() {
    for kind in BOTH_STORES {
        let mut world = World::new(kind, BatchMode::TimeInterval, Asked::Both);
        let victim = world.honest(0);
        world.upload(&[victim]);
        world.form(usize::MAX);
        let leased = world.lease().unwrap();
        let job = world.request(&leased);
        let mut moved = AggregationJobInitReq::from_bytes(&job.request).unwrap();
        moved.verify_inits[0].report_share.report_metadata.time = window(-1);
        let response = world.answer(&moved.to_bytes());
        assert_eq!(verdicts(&response), [Some(ReportError::HpkeDecryptError)]);
        // The device's own report still counts.
        let response = world.answer(&job.request);
        world.commit(&leased, job, &response);
        assert_eq!(world.counted(), once([0]));
    }
}

/// It cannot pass off the helper's share of one device as another's: the AAD and the token bind the
/// id.
#[test]
fn a_share_does_not_move_to_another_report() {
    let mut world = World::new(Kind::Memory, BatchMode::TimeInterval, Asked::Both);
    let (a, b) = (world.honest(0), world.honest(1));
    let mut mixed = Report::from_bytes(&a).unwrap().into_owned();
    mixed.helper_encrypted_input_share =
        Report::from_bytes(&b).unwrap().into_owned().helper_encrypted_input_share;
    world.aggregate(&[mixed.to_bytes(), b]);
    assert_eq!(world.counted(), once([1]));
    assert_eq!(world.helper.refused(), refused([("hpke_decrypt_error", 1)]));
}

fn verdicts(response: &[u8]) -> Vec<Option<ReportError>> {
    let response = sotto_wire::AggregationJobResp::from_bytes(response).unwrap();
    let verdict = |kind: &VerifyRespKind<'_>| match kind {
        VerifyRespKind::Reject(error) => Some(*error),
        _ => None,
    };
    response.verify_resps.iter().map(|answer| verdict(&answer.kind)).collect()
}
