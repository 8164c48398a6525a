//! Flips every byte that a device is shown: the result is rejected, or means the same.

use sotto_protocol::admission::{Admitted, Assessments, Evidence, Offer, Silence, View};
use sotto_testing::world::{Plan, World};
use sotto_wire::TlogProof;

fn targeted() -> World {
    let mut plan = Plan::new();
    plan.target();
    plan.build()
}

fn same(one: &Admitted, other: &Admitted) -> bool {
    one.assessment.id() == other.assessment.id()
        && one.leader_config() == other.leader_config()
        && one.helper_config() == other.helper_config()
}

/// Flips one bit of each byte. Counts what is still accepted, which must mean the same.
fn flip_all(bytes: &[u8], mut admit: impl FnMut(&[u8]) -> Option<bool>) -> usize {
    let mut accepted = 0;
    for place in 0..bytes.len() {
        let mut changed = bytes.to_vec();
        changed[place] ^= 1 << (place % 8);
        match admit(&changed) {
            None => {}
            Some(same) => {
                assert!(same, "byte {place} changes what is admitted");
                accepted += 1;
            }
        }
    }
    accepted
}

#[test]
fn a_flipped_bit_of_an_entry_or_a_proof_never_changes_what_is_admitted() {
    let world = targeted();
    let view = View::open(&world.log.view.to_bytes(), &world.trust).unwrap();
    let mut library = Assessments::default();
    let honest = world.offer();
    let admitted = library.admit(&honest, &view, &world.trust).unwrap();
    let parts: [fn(&mut Offer) -> &mut Evidence; 4] = [
        |offer| &mut offer.recipe,
        |offer| &mut offer.leader_keys,
        |offer| &mut offer.helper_keys,
        |offer| offer.certified.as_mut().unwrap(),
    ];
    let mut admit = |offer: &Offer| {
        let again: Result<Admitted, Silence> = library.admit(offer, &view, &world.trust);
        again.ok().map(|again| same(&again, &admitted))
    };
    for part in parts {
        let mut offer = honest.clone();
        let Evidence { entry, first, inclusion, .. } = part(&mut offer).clone();
        let accepted = flip_all(&entry, |bytes| {
            part(&mut offer).entry = bytes.to_vec();
            admit(&offer)
        });
        assert_eq!(accepted, 0, "the leaf hash covers every byte of an entry");
        part(&mut offer).entry = entry;
        // There is one witness more than the quorum, so one may be lost.
        flip_all(&first.to_bytes(), |bytes| {
            part(&mut offer).first = TlogProof::parse(bytes).ok()?;
            admit(&offer)
        });
        part(&mut offer).first = first;
        for place in 0..inclusion.len() * 32 {
            part(&mut offer).inclusion[place / 32].0[place % 32] ^= 1 << (place % 8);
            assert_eq!(admit(&offer), None);
            part(&mut offer).inclusion = inclusion.clone();
        }
        for index in 0..10 {
            part(&mut offer).index = index;
            assert!(admit(&offer).is_none_or(|same| same));
        }
    }
}

#[test]
fn a_flipped_bit_of_the_checkpoint_never_changes_what_is_seen() {
    let world = targeted();
    let bytes = world.log.view.to_bytes();
    let honest = View::open(&bytes, &world.trust).unwrap();
    let accepted =
        flip_all(&bytes, |bytes| View::open(bytes, &world.trust).ok().map(|view| view == honest));
    // Flips that turn one of three witnesses into a stranger.
    assert!(accepted < bytes.len() / 3, "{accepted} of {}", bytes.len());
}
