//! Crafted reports that only one aggregator would reject, end to end through the messages.
//!
//! If every encoded element is one, the zero proof holds whatever the joint randomness. A device
//! can then lie about a joint-randomness part in the public share, and the proof still verifies:
//! with the VDAF as specified, the helper accepts and the leader rejects afterwards, and the batch
//! mismatches permanently.

use prio::codec::{Decode, Encode as _};
use prio::field::{Field128, FieldElement};
use prio::vdaf::xof::{IntoFieldVec, Xof, XofTurboShake128};
use sotto_protocol::Rejection;
use sotto_testing::aggregators::{Craft, Parties, assert_same_books, unit};
use sotto_vdaf::{Measurement, VdafConfig};
use sotto_wire::labels::vdaf_context;
use sotto_wire::{BatchMode, Encode as _};

const LENGTH: usize = 12;

fn parties() -> Parties {
    Parties::new(&VdafConfig::sum_vec(LENGTH as u32, 1), BatchMode::TimeInterval)
}

/// All values at the maximum, with a proof of zeros: the leader's proof share is the helper's,
/// negated.
fn zero_proof_report(parties: &mut Parties) -> Craft {
    let mut craft = Craft::new(parties, &Measurement::SumVec(vec![1; LENGTH]));
    let context = vdaf_context(parties.leader.task.id());
    // The leader's share: the measurement, the proof, and a blind of 32 bytes.
    let (start, end) = (LENGTH * 16, craft.leader_share.len() - 32);
    let seed: &[u8; 32] = craft.helper_share.first_chunk().unwrap();
    let tag = [18, 0, 0, 0, 0, 3, 0, 2];
    let helper_proof: Vec<Field128> =
        XofTurboShake128::seed_stream(seed, &[&tag, &context], &[&[1, 1]])
            .into_field_vec((end - start) / 16);
    let mut proof = Vec::new();
    for element in helper_proof {
        (Field128::zero() - element).encode(&mut proof).unwrap();
    }
    // The honest proof is not already zero.
    let honest: Vec<_> = craft.leader_share[start..end].to_vec();
    assert!(honest.chunks(16).all(|bytes| Field128::get_decoded(bytes).is_ok()));
    assert_ne!(honest, proof);
    craft.leader_share[start..end].copy_from_slice(&proof);
    craft
}

/// Runs a crafted report alongside an honest one, to see who drops it.
fn fate(alter: fn(&mut Craft)) -> Fate {
    let mut parties = parties();
    let honest = parties.report(&Measurement::SumVec(vec![0; LENGTH]), unit(0));
    let mut craft = zero_proof_report(&mut parties);
    alter(&mut craft);
    let crafted = craft.seal(&mut parties).to_bytes();
    let rejected_first = parties.produce(&[honest.clone(), crafted.clone()]).rejected().to_vec();
    let (leader, helper) = parties.aggregate(&[honest, crafted]);
    let count = assert_same_books(&leader.buckets, &helper.buckets);
    let reasons: Vec<_> = leader.rejections.iter().collect();
    match (&rejected_first[..], &reasons[..], count) {
        ([], [], 2) => Fate::Counted,
        ([(1, Rejection::VdafVerifyError)], [(Rejection::VdafVerifyError, 1)], 1) => {
            assert_eq!(helper.rejections.total(), 0, "the helper never saw it");
            Fate::DroppedByLeader
        }
        ([], [(Rejection::VdafVerifyError, 1)], 1) => {
            assert_eq!(helper.rejections.total(), 1);
            Fate::DroppedByHelper
        }
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, PartialEq)]
enum Fate {
    Counted,
    DroppedByLeader,
    DroppedByHelper,
}

#[test]
fn the_zero_proof_alone_is_unusual_but_valid() {
    assert_eq!(fate(|_| {}), Fate::Counted);
}

#[test]
fn a_wrong_helper_part_is_dropped_by_the_helper() {
    assert_eq!(fate(|craft| craft.public_share[32] ^= 1), Fate::DroppedByHelper);
}

#[test]
fn a_wrong_leader_part_is_dropped_by_the_leader_before_it_speaks() {
    assert_eq!(fate(|craft| craft.public_share[0] ^= 1), Fate::DroppedByLeader);
}

#[test]
fn swapped_parts_are_dropped_by_the_leader_before_it_speaks() {
    assert_eq!(fate(|craft| craft.public_share.rotate_left(32)), Fate::DroppedByLeader);
}
