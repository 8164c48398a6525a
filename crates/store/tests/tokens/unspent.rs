//! What a rejected report leaves at the leader: nothing, unless it showed a good token. Anyone can
//! upload, and uploads without a token must neither fill the store nor keep others out.

use sotto_crypto::hpke;
use sotto_protocol::token::ReportTokens;
use sotto_wire::labels::input_share_info;
use sotto_wire::{
    BatchMode, Decode, Encode, HpkeCiphertext, InputShareAad, PlaintextInputShare, Report, Role,
};

use super::issuing::{Asked, window};
use super::party::BOTH_STORES;
use super::world::{World, once, refused};

const MODES: [BatchMode; 2] = [BatchMode::TimeInterval, BatchMode::LeaderSelected];

/// Runs a case in a new world of every kind in which the leader requires tokens.
fn in_every_world(case: impl Fn(&mut World)) {
    for kind in BOTH_STORES {
        for mode in MODES {
            for asked in [Asked::Both, Asked::LeaderOnly] {
                case(&mut World::new(kind, mode, asked));
            }
        }
    }
}

/// A report with the id of these tokens that the leader cannot open.
fn sealed_for_nobody(world: &mut World, tokens: &ReportTokens) -> Vec<u8> {
    let bytes = world.report(1, window(0), Some(tokens));
    let mut report = Report::from_bytes(&bytes).unwrap();
    let sealed = &report.leader_encrypted_input_share;
    let mut payload = sealed.payload().to_vec();
    payload[0] ^= 1;
    report.leader_encrypted_input_share =
        HpkeCiphertext::new(sealed.config_id(), sealed.enc().to_vec(), payload).unwrap();
    report.to_bytes()
}

/// A report with the id of these tokens, but without a good one.
fn without_token(world: &mut World, tokens: &ReportTokens) -> Vec<u8> {
    let mut junk = tokens.clone();
    junk.leader = vec![0; 354];
    world.report(1, window(0), Some(&junk))
}

/// A report with good tokens whose measurement is invalid, as the leader can tell alone.
fn with_an_invalid_share(world: &mut World, tokens: &ReportTokens) -> Vec<u8> {
    let bytes = world.report(1, window(0), Some(tokens));
    let mut report = Report::from_bytes(&bytes).unwrap();
    let aad = InputShareAad {
        task_id: *world.task().id(),
        task_configuration: world.task().encoded_configuration(),
        report_metadata: &report.report_metadata,
        public_share: &report.public_share,
    }
    .to_bytes();
    let (pair, info) = (&world.leader.pair, input_share_info(Role::Leader));
    let mut plaintext =
        hpke::open(pair, &info, &aad, &report.leader_encrypted_input_share).unwrap().to_vec();
    // The payload is the last field.
    let len = PlaintextInputShare::from_bytes(&plaintext).unwrap().payload.len();
    let start = plaintext.len() - len;
    plaintext[start] ^= 1;
    report.leader_encrypted_input_share =
        hpke::seal(pair.config(), &info, &aad, &plaintext, &mut world.rng).unwrap();
    report.to_bytes()
}

#[test]
fn junk_leaves_nothing() {
    in_every_world(|world| {
        let mut junk = vec![world.report(1, window(0), None), world.report(1, window(-1), None)];
        for make in [sealed_for_nobody, without_token] {
            let nonce = world.nonce();
            let tokens = world.tokens(&nonce);
            junk.push(make(world, &tokens));
        }
        let honest = world.honest(15);
        // Again after the job: it was rejected, not remembered.
        for round in 1..=2 {
            world.aggregate(&junk);
            let names = [("token_missing", 2), ("hpke_decrypt_error", 1), ("token_malformed", 1)];
            assert_eq!(world.leader.refused(), refused(names.map(|(why, n)| (why, n * round))));
            assert!(junk.iter().all(|report| !world.leader.has_id_of(report)));
            world.leader.restart();
            assert!(junk.iter().all(|report| !world.leader.has_id_of(report)));
        }
        // In one job with reports that count.
        let mut reports = junk.clone();
        reports.insert(2, honest.clone());
        world.aggregate(&reports);
        assert_eq!(world.counted(), once([15]));
        assert!(junk.iter().all(|report| !world.leader.has_id_of(report)));
        assert!(world.leader.has_id_of(&honest));
    });
}

/// Only the device knows its report's id before the report arrives. This test shows what an
/// attacker would gain otherwise.
#[test]
fn junk_does_not_keep_a_report_out() {
    in_every_world(|world| {
        for (cell, make) in [(3, sealed_for_nobody as fn(&mut _, &_) -> _), (4, without_token)] {
            let nonce = world.nonce();
            let tokens = world.tokens(&nonce);
            let junk = make(world, &tokens);
            world.aggregate(&[junk]);
            let victim = [world.report(cell, window(0), Some(&tokens))];
            world.aggregate(&victim);
            // From now on the id is spent.
            world.aggregate(&victim);
        }
        assert_eq!(world.counted(), once([3, 4]));
        let names = [("hpke_decrypt_error", 1), ("token_malformed", 1), ("report_replayed", 2)];
        assert_eq!(world.leader.refused(), refused(names));
        assert_eq!(world.helper.refused(), refused([]));
    });
}

#[test]
fn a_token_is_spent_on_a_report_that_the_vdaf_refuses() {
    in_every_world(|world| {
        let nonce = world.nonce();
        let tokens = world.tokens(&nonce);
        let invalid = with_an_invalid_share(world, &tokens);
        let honest = world.honest(15);
        world.aggregate(&[invalid.clone(), honest]);
        assert_eq!(world.leader.refused(), refused([("vdaf_verify_error", 1)]));
        assert_eq!(world.helper.refused(), refused([]), "the leader saw it alone");
        assert!(world.leader.has_id_of(&invalid));
        world.leader.restart();
        let second = world.report(3, window(0), Some(&tokens));
        world.aggregate(&[second]);
        assert_eq!(world.counted(), once([15]));
        let names = [("vdaf_verify_error", 1), ("report_replayed", 1)];
        assert_eq!(world.leader.refused(), refused(names));
    });
}
