//! Tokens of a device: when it requests them, for what, and how it uses them.

mod series;
mod shown;

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_core::CryptoRng;
use sotto_crypto::hpke;
use sotto_protocol::Moment;
use sotto_protocol::admission::Check;
use sotto_protocol::device::tokens::{
    Snapshot, attester_request, granted, outstanding, plan, renew, request, waiting, withheld,
};
use sotto_protocol::device::{DeviceStore, MemoryState, follow};
use sotto_protocol::token::TokenTerms;
use sotto_testing::keys::{key, keypair_from, token_key_text};
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{ATTESTERS, DAY, HOUR, ISSUERS, NOW, issuer_set, key_set_entry};
use sotto_testing::tokens::{Authority, Came, add_recipe, token_plan};
use sotto_testing::world::{Plan, World, endorsed};
use sotto_wire::labels::input_share_info;
use sotto_wire::recipe::Probability;
use sotto_wire::token::{TOKEN_EXTENSION, WITHHELD_PROBLEM};
use sotto_wire::{Decode, Encode, InputShareAad, PlaintextInputShare, Report, Role};

/// A round of requests, as a host makes it. Returns how many requests were sent.
fn round(world: &World, store: &mut MemoryState, authority: &mut Authority, seed: u64) -> usize {
    round_with(world, store, authority, &mut ChaCha20Rng::seed_from_u64(seed))
}

fn round_with(
    world: &World,
    store: &mut MemoryState,
    authority: &mut Authority,
    rng: &mut dyn CryptoRng,
) -> usize {
    let mut watch = world.watch().unwrap();
    let view = follow(store, &mut watch, &world.trust, world.now).unwrap();
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
    if let Some(planned) = plan(store.state(), &snapshot, rng).unwrap() {
        store.commit(planned).unwrap();
    }
    if let Some(asked) = request(store.state(), &snapshot, rng).unwrap() {
        store.commit(asked).unwrap();
    }
    let sent = waiting(store.state(), &snapshot, rng);
    for next in &sent {
        let sent = attester_request(store.state(), &snapshot, next).unwrap();
        let change = match authority.answer(Came::new(&sent)) {
            Ok(response) => granted(store.state(), &snapshot, next, &response, rng).unwrap(),
            Err((429, WITHHELD_PROBLEM)) => withheld(next),
            Err(refused) => panic!("{refused:?}"),
        };
        store.commit(change).unwrap();
    }
    sent.len()
}

/// Every device answers.
fn always(plan: &mut Plan) {
    plan.trust.floors.max_rate = Probability::ONE;
    plan.recipe.sampling.rate = Probability::ONE;
    plan.reclaim();
}

#[test]
fn a_recipe_is_considered_with_its_tokens_and_without_them_not_even_charged() {
    let mut plan = token_plan();
    always(&mut plan);
    let world = plan.build();
    let mut store = world.device();
    let done = world.walk(&mut store, 1).unwrap();
    let (id, silence) = &done.silent[0];
    assert_eq!((*id, silence.check), (plan.recipe.id(), Check::Token));
    assert!(store.state().ledger().is_none(), "not charged");
    assert!(!store.state().is_considered(id), "not considered");

    let mut authority = Authority::new();
    assert_eq!(round(&world, &mut store, &mut authority, 2), 2);
    assert_eq!(authority.granted(), 2);
    let done = world.walk(&mut store, 1).unwrap();
    assert_eq!(done.considered, [*id]);
    assert!(store.state().ledger().is_some());
    // Never again: neither the recipe nor its tokens, nor another request for them.
    let text = serde_json::to_string(store.state()).unwrap();
    assert!(text.contains(r#""kind":"spent""#) && !text.contains(r#""kind":"granted""#), "{text}");
    assert_eq!(round(&world, &mut store, &mut authority, 3), 0);
    assert_eq!(world.walk(&mut store, 1).unwrap().silent[0].1.check, Check::Once);
    assert_eq!(authority.came.len(), 2);
}

#[test]
fn one_token_of_two_is_none() {
    let world = token_plan().build();
    for missing in [Role::Leader, Role::Helper] {
        let mut store = world.device();
        let mut watch = world.watch().unwrap();
        let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
        let (view, recipes) = (&view, watch.recipes());
        let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let planned = plan(store.state(), &snapshot, &mut rng).unwrap().unwrap();
        store.commit(planned).unwrap();
        let asked = request(store.state(), &snapshot, &mut rng).unwrap();
        store.commit(asked.unwrap()).unwrap();
        let mut authority = Authority::new();
        for next in waiting(store.state(), &snapshot, &mut rng) {
            if next.role == missing {
                store.commit(withheld(&next)).unwrap();
                continue;
            }
            let sent = attester_request(store.state(), &snapshot, &next).unwrap();
            let response = authority.answer(Came::new(&sent)).unwrap();
            // A response that was changed on the way is not a token.
            let mut forged = response.clone();
            forged[40] ^= 1;
            let mut open =
                |response: &[u8]| granted(store.state(), &snapshot, &next, response, &mut rng);
            assert!(open(&forged).is_err());
            let change = open(&response).unwrap();
            store.commit(change).unwrap();
        }
        assert_eq!(outstanding(store.state(), &snapshot), 0);
        let done = world.walk(&mut store, 1).unwrap();
        assert_eq!(done.silent[0].1.check, Check::Token, "{missing:?}");
        assert!(store.state().ledger().is_none());
    }
}

#[test]
fn each_token_is_in_its_own_share_alone_and_the_nonce_is_the_report_id() {
    let mut plan = token_plan();
    always(&mut plan);
    let world = plan.build();
    let mut store = world.device();
    round(&world, &mut store, &mut Authority::new(), 2);
    world.walk(&mut store, 1).unwrap();
    let pending = store.state().pending().next().unwrap().1.clone();
    let report = Report::from_bytes(&pending.report).unwrap();
    assert!(report.report_metadata.public_extensions.is_empty());
    let task = sotto_protocol::recipe::derive_task(&plan.recipe).unwrap();
    let aad = InputShareAad {
        task_id: *task.id(),
        task_configuration: task.encoded_configuration(),
        report_metadata: &report.report_metadata,
        public_share: &report.public_share,
    }
    .to_bytes();
    for (role, seq, sealed) in [
        (Role::Leader, 5, &report.leader_encrypted_input_share),
        (Role::Helper, 7, &report.helper_encrypted_input_share),
    ] {
        let keys = keypair_from(1, seq);
        let opened = hpke::open(&keys, &input_share_info(role), &aad, sealed).unwrap();
        let share = PlaintextInputShare::from_bytes(&opened).unwrap();
        let extensions: Vec<_> = share.private_extensions.iter().map(Result::unwrap).collect();
        assert_eq!(extensions.len(), 1);
        assert_eq!(extensions[0].extension_type, TOKEN_EXTENSION);
        let token = &extensions[0].extension_data;
        let verifier = |role| {
            let terms = TokenTerms::of(&plan.recipe, role).unwrap().unwrap();
            terms.verifier().unwrap()
        };
        let id = verifier(role).verify(token, world.now);
        assert_eq!(id, Ok(report.report_metadata.report_id));
        let other = if role == Role::Leader { Role::Helper } else { Role::Leader };
        assert!(verifier(other).verify(token, world.now).is_err());
    }
}

#[test]
fn times_are_uniform_over_the_spread_and_within_the_first_half_of_the_recipe() {
    let mut spread = token_plan();
    spread.trust.tokens.as_mut().unwrap().spread_s = 12 * HOUR;
    // The other one has two and a half days left: half of that is less than a spread of two days.
    let mut halved = token_plan();
    halved.trust.tokens.as_mut().unwrap().spread_s = 30 * DAY;
    let left = halved.recipe.when.closes - NOW;
    for (plan_of, most) in [(spread, 12 * HOUR), (halved, left / 2)] {
        let world = plan_of.build();
        let mut watch = world.watch().unwrap();
        let mut base = world.device();
        let view = follow(&mut base, &mut watch, &world.trust, world.now).unwrap();
        let (view, recipes) = (&view, watch.recipes());
        let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
        let mut thirds = [0u32; 3];
        let (mut least, mut last) = (u64::MAX, 0);
        for seed in 0..3_000 {
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            let mut store = base.clone();
            let planned = plan(store.state(), &snapshot, &mut rng);
            store.commit(planned.unwrap().unwrap()).unwrap();
            let again = plan(store.state(), &snapshot, &mut rng).unwrap();
            assert!(again.is_none(), "a time is drawn once");
            let after = due(&store) - NOW;
            assert!(after <= most);
            (least, last) = (least.min(after), last.max(after));
            thirds[(after * 3 / (most + 1)) as usize] += 1;
        }
        // 5 sigma of a binomial around 1,000.
        assert!(thirds.iter().all(|count| count.abs_diff(1_000) < 130), "{thirds:?}");
        assert!(least < most / 300 && last > most - most / 300);
    }
}

/// The nonce of the first recipe's tokens, from the state's text.
fn nonce(store: &MemoryState) -> String {
    let text = serde_json::to_value(store.state()).unwrap();
    let tokens = text["tokens"].as_object().unwrap().values().next().unwrap().clone();
    tokens["stage"]["nonce"].as_str().unwrap().to_owned()
}

/// When the first recipe's tokens are due, from the state's text.
fn due(store: &MemoryState) -> u64 {
    let text = serde_json::to_value(store.state()).unwrap();
    let tokens = text["tokens"].as_object().unwrap().values().next().unwrap().clone();
    assert_eq!(tokens["stage"]["kind"], "due");
    tokens["stage"]["at"].as_u64().unwrap()
}

#[test]
fn nothing_is_asked_before_its_time() {
    let mut plan_of = token_plan();
    plan_of.trust.tokens.as_mut().unwrap().spread_s = 12 * HOUR;
    let when = plan_of.recipe.when;
    let mut world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::new());
    assert_eq!(round(&world, &mut store, &mut authority, 5), 0);
    let due = due(&store);
    assert!(due > NOW + 2);
    world.now = Moment(due - 1);
    assert_eq!(round(&world, &mut store, &mut authority, 6), 0);
    world.now = Moment(due);
    assert_eq!(round(&world, &mut store, &mut authority, 7), 2);

    // Nor is a token used when it arrives: a report right after it would be linked to it.
    let text = serde_json::to_value(store.state()).unwrap();
    let stage = text["tokens"].as_object().unwrap().values().next().unwrap()["stage"].clone();
    let from = ["leader", "helper"].map(|role| stage[role]["from"].as_u64().unwrap());
    assert_eq!(from[0], from[1], "one time for both");
    let from = from[0];
    assert!(from > due + 12 * HOUR && from < when.closes, "{due} {from}");
    // It is decided a little before it is sent.
    let day = 24 * HOUR;
    for (now, considered) in [(due, 0), (from - day - 1, 0), (from - day, 1)] {
        world.now = Moment(now);
        let done = world.walk(&mut store, 8).unwrap();
        assert_eq!(done.considered.len(), considered, "{:?}", done.silent);
        if considered == 0 {
            assert_eq!(done.silent[0].1.check, Check::Token);
        }
    }
    let (_, pending) = store.state().pending().next().unwrap();
    assert_eq!(pending.from, from);
    let due = |now| store.state().due(Moment(now)).count();
    assert_eq!((due(from - 1), due(from), due(when.closes + 12 * HOUR)), (0, 1, 0));
}

#[test]
fn tokens_are_forgotten_when_their_recipe_closes_and_are_not_asked_for_a_closed_one() {
    let plan_of = token_plan();
    let mut world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::new());
    round(&world, &mut store, &mut authority, 1);
    assert_eq!(store.state().tokens().count(), 1);
    world.now = Moment(plan_of.recipe.when.closes);
    assert_eq!(round(&world, &mut store, &mut authority, 2), 0);
    let mut later = token_plan();
    later.view = at(plan_of.recipe.when.closes);
    later.now = plan_of.recipe.when.closes;
    let later = later.build();
    round(&later, &mut store, &mut authority, 3);
    assert_eq!(store.state().tokens().count(), 0);
    let mut fresh = later.device();
    assert_eq!(round(&later, &mut fresh, &mut authority, 4), 0);
}

#[test]
fn a_recipe_that_has_not_opened_counts_and_one_without_tokens_does_not() {
    let mut plan_of = token_plan();
    plan_of.trust.insecure_no_tokens = true;
    let soon = add_recipe(&mut plan_of, 1, |recipe| {
        recipe.when.opens += 4 * DAY;
        recipe.when.closes += 4 * DAY;
    });
    let mut without = sotto_testing::recipe::recipe("without");
    sotto_testing::recipe::reclaim(&mut without);
    let entries = vec![sotto_testing::recipe::recipe_entry(&without)];
    plan_of.later.push(Batch { entries, times: at(NOW - 2 * DAY) });
    let world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::new());
    assert_eq!(round(&world, &mut store, &mut authority, 1), 4);
    let mut asked: Vec<_> = store.state().tokens().copied().collect();
    asked.sort();
    let mut expected = vec![plan_of.recipe.id(), soon];
    expected.sort();
    assert_eq!(asked, expected);
    assert!(world.walk(&mut store, 1).unwrap().considered.contains(&without.id()));
}

#[test]
fn only_a_refusal_and_newer_keys_make_another_request_with_the_same_nonce() {
    let mut rotated = token_plan();
    // Of the leader's tokens alone: the other issuer's keys stay.
    let issuer = key(ISSUERS[0]);
    let mut set = issuer_set(0, &issuer, 4, NOW - 2 * DAY);
    let new_key = keypair_from(9, 4_000);
    set.encapsulation_configs =
        Some(vec![sotto_wire::recipe::KeySet::config_text(new_key.config())]);
    let entries = vec![key_set_entry(&set, &issuer)];
    rotated.later.push(Batch { entries, times: at(NOW - 3 * DAY) });
    let (before, after) = (token_plan().build(), rotated.build());
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut store = before.device();
    let mut watch = before.watch().unwrap();
    let view = follow(&mut store, &mut watch, &before.trust, before.now).unwrap();
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &before.trust, now: before.now };
    store.commit(plan(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
    let asked = request(store.state(), &snapshot, &mut rng).unwrap();
    store.commit(asked.unwrap()).unwrap();
    let sent = waiting(store.state(), &snapshot, &mut rng);
    let of = |role| *sent.iter().find(|next| next.role == role).unwrap();
    let (next, other) = (of(Role::Leader), of(Role::Helper));
    let body = |store: &MemoryState, snapshot: &Snapshot<'_>| {
        let sent = attester_request(store.state(), snapshot, &next).unwrap();
        sent.attempt.request.clone()
    };
    let old = body(&store, &snapshot);
    let nonce = nonce(&store);
    let again = renew(store.state(), &snapshot, &next, &mut rng);
    assert!(again.is_none(), "the keys are the same");

    let mut watch = after.watch().unwrap();
    let view = follow(&mut store, &mut watch, &before.trust, before.now).unwrap();
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &before.trust, now: before.now };
    let asked = request(store.state(), &snapshot, &mut rng).unwrap();
    assert!(asked.is_none(), "newer keys alone are no reason");
    assert_eq!(body(&store, &snapshot), old);
    let renewed = renew(store.state(), &snapshot, &next, &mut rng);
    store.commit(renewed.unwrap()).unwrap();
    assert_ne!(body(&store, &snapshot), old);
    assert_eq!(self::nonce(&store), nonce);
    assert!(renew(store.state(), &snapshot, &next, &mut rng).is_none());
    assert!(renew(store.state(), &snapshot, &other, &mut rng).is_none(), "another issuer's");
}

/// Each token comes through its own attester and issuer. The attesters share no identifier of the
/// device: neither its key nor a name for an origin, and its key is the same for every recipe.
#[test]
fn each_chain_knows_the_device_by_a_key_of_its_own() {
    let mut plan_of = token_plan();
    add_recipe(&mut plan_of, 1, |_| {});
    let world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::new());
    assert_eq!(round(&world, &mut store, &mut authority, 1), 4);
    let keys = |attester: &str| -> BTreeSet<[u8; 32]> {
        let came = authority.came.iter().filter(|came| came.attester == attester);
        came.map(|came| came.client_key).collect()
    };
    let [a, b] = ATTESTERS.map(keys);
    assert_eq!((a.len(), b.len()), (1, 1), "one key for all recipes");
    assert!(a.is_disjoint(&b));
    let aliases: BTreeSet<_> = authority.came.iter().map(|came| came.client_alias).collect();
    let blinds: BTreeSet<_> = authority.came.iter().map(|came| came.request_blind).collect();
    assert_eq!((aliases.len(), blinds.len()), (4, 4));
    // Two requests went to each.
    for attester in ATTESTERS {
        let sent = authority.came.iter().filter(|came| came.attester == attester);
        assert_eq!(sent.count(), 2, "{attester}");
    }
    // With one attester for both, which grants one key per device, there is one key.
    plan_of.trust.insecure_single_attester = true;
    let tokens = plan_of.trust.tokens.as_mut().unwrap();
    tokens.helper.attester = tokens.leader.attester.clone();
    let single = plan_of.build();
    let mut store = single.device();
    let mut watch = single.watch().unwrap();
    let view = follow(&mut store, &mut watch, &single.trust, single.now).unwrap();
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &single.trust, now: single.now };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    store.commit(plan(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
    store.commit(request(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
    let sent = waiting(store.state(), &snapshot, &mut rng);
    let keys: BTreeSet<_> = sent
        .iter()
        .map(|next| attester_request(store.state(), &snapshot, next).unwrap().client_key)
        .collect();
    assert_eq!((sent.len(), keys.len()), (4, 1));
}

/// A device gets one token per key. So the second recipe that uses a key is nobody's recipe, whoever
/// else is refused with it.
#[test]
fn token_keys_are_for_one_recipe() {
    let mut plan_of = token_plan();
    let later = add_recipe(&mut plan_of, 1, |_| {});
    let honest = plan_of.build().watch().unwrap();
    assert!(honest.recipes().values().all(Result::is_ok), "a control");
    let again = |plan_of: &Plan, leader: usize, helper: usize| {
        let mut again = sotto_testing::recipe::recipe("again");
        sotto_testing::recipe::reclaim(&mut again);
        let (leader, helper) = (token_key_text(leader), token_key_text(helper));
        again.parties.tokens = endorsed(&plan_of.issuer_signers, &again, &leader, Some(&helper));
        again
    };
    for (leader, helper) in [(0, 1), (0, 5), (4, 1), (4, 3)] {
        let mut reused = token_plan();
        add_recipe(&mut reused, 1, |_| {});
        let again = again(&reused, leader, helper);
        let entries = vec![sotto_testing::recipe::recipe_entry(&again)];
        reused.later.push(Batch { entries, times: at(NOW - 2 * DAY) });
        let watch = reused.build().watch().unwrap();
        let verdict = |id| watch.recipes()[&id].as_ref().map(|_| ());
        let refused = verdict(again.id()).unwrap_err();
        assert_eq!(refused.check, Check::TokenKeys);
        assert!(refused.reason.contains("belong to the recipe"), "{}", refused.reason);
        assert_eq!((verdict(reused.recipe.id()), verdict(later)), (Ok(()), Ok(())));
    }
}
