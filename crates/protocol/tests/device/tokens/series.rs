//! Tokens of a series: a pair for each participation, and what a round takes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};
use sotto_crypto::hpke;
use sotto_protocol::admission::{Admitted, Check, Silence};
use sotto_protocol::client::is_cover;
use sotto_protocol::device::tokens::{Snapshot, outstanding, plan, request, waiting, withheld};
use sotto_protocol::device::{
    Change, Consideration, DeviceState, DeviceStore, MemoryState, consider, follow, toss,
};
use sotto_protocol::recipe::{Assessment, derive_task};
use sotto_protocol::token::TokenTerms;
use sotto_testing::keys::{key, keypair_from, signer, token_key_text};
use sotto_testing::recipe::{ATTESTERS, HOUR, NOW};
use sotto_testing::tokens::{Authority, token_plan};
use sotto_testing::world::{Plan, World};
use sotto_wire::labels::input_share_info;
use sotto_wire::limits::MAX_PARTICIPATIONS;
use sotto_wire::recipe::{Participation, Privacy, Recipe, Round, Series};
use sotto_wire::{Decode, Encode, EntryId, InputShareAad, PlaintextInputShare, Report, Role};

use super::{always, round};

const MOST: u32 = 3;

/// A world whose recipe is the header of a series.
fn series_plan() -> Plan {
    plan_of(Participation::EachRound {})
}

fn plan_of(participation: Participation) -> Plan {
    let mut plan = token_plan();
    let rounds = MOST.into();
    plan.recipe.series = Some(Series {
        rounds,
        participation,
        length_s: None,
        training: None,
        discovery: None,
        round: None,
    });
    if let Privacy::Claim { rounds, .. } = &mut plan.recipe.privacy {
        *rounds = MOST.into();
    }
    plan.trust.budget.epsilon = 100.0;
    plan.trust.budget.lifetime_epsilon = 100.0;
    always(&mut plan);
    plan
}

fn round_of(header: &Recipe, index: u64) -> Recipe {
    header.with_round(Round { index, model: None }).unwrap()
}

/// A round as it is admitted: with the keys of its header.
fn admitted(world: &World, plan: &Plan, index: u64) -> Arc<Admitted> {
    let watch = world.watch().unwrap();
    let mut admitted = (**watch.recipes()[&plan.recipe.id()].as_ref().unwrap()).clone();
    admitted.assessment = Assessment::new(round_of(&plan.recipe, index)).unwrap().into();
    Arc::new(admitted)
}

/// What a device in this state decides about a round.
fn decide(
    world: &World,
    state: &DeviceState,
    round: &Arc<Admitted>,
    seed: u64,
) -> Result<Consideration, Silence> {
    let mut watch = world.watch().unwrap();
    let mut store = world.device();
    let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    consider(state, round, &view, &world.trust, &world.host(), world.now, &mut rng)
}

/// What a device that always answers sends.
fn sent(world: &World, considered: Consideration, seed: u64) -> Vec<u8> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    match toss(considered.ticket, &world.host(), &mut rng).unwrap() {
        Some(Change::Answered { pending, .. }) => pending.report,
        other => panic!("{other:?}"),
    }
}

/// The state with the stages of its slots changed, in the order of their names.
fn with_stages(state: &DeviceState, change: impl Fn(usize, &mut Value)) -> DeviceState {
    let mut json = serde_json::to_value(state).unwrap();
    let slots = json["tokens"].as_object_mut().unwrap().values_mut();
    slots.enumerate().for_each(|(index, slot)| change(index, &mut slot["stage"]));
    serde_json::from_value(json).unwrap()
}

fn spend(stage: &mut Value) {
    *stage = json!({ "kind": "spent" });
}

/// Both tokens of a report, opened and verified as each aggregator of the round does. Returns the
/// digest of the challenge, which is that of a participation.
fn participation_of(world: &World, round: &Recipe, report: &[u8]) -> u32 {
    let report = Report::from_bytes(report).unwrap();
    let task = derive_task(round).unwrap();
    let aad = InputShareAad {
        task_id: *task.id(),
        task_configuration: task.encoded_configuration(),
        report_metadata: &report.report_metadata,
        public_share: &report.public_share,
    }
    .to_bytes();
    let mut found = BTreeSet::new();
    for (role, seq, sealed) in [
        (Role::Leader, 5, &report.leader_encrypted_input_share),
        (Role::Helper, 7, &report.helper_encrypted_input_share),
    ] {
        let keys = keypair_from(1, seq);
        let opened = hpke::open(&keys, &input_share_info(role), &aad, sealed).unwrap();
        let share = PlaintextInputShare::from_bytes(&opened).unwrap();
        let extension = share.private_extensions.iter().next().unwrap().unwrap();
        let token = extension.extension_data;
        let terms = TokenTerms::of(round, role).unwrap().unwrap();
        let id = terms.verifier().unwrap().verify(&token, world.now);
        assert_eq!(id, Ok(report.report_metadata.report_id));
        let digest_at = 2 + 32;
        let header = TokenTerms::of(&round.header().unwrap(), role).unwrap().unwrap();
        let is_of = |number: &u32| {
            let terms = header.participation(*number).unwrap();
            token[digest_at..digest_at + 32] == terms.challenge_digest()[..]
        };
        found.extend((0..MOST).find(is_of));
    }
    assert_eq!(found.len(), 1, "both tokens are of one participation");
    found.into_iter().next().unwrap()
}

/// The attester counts each participation as an origin of its own: it sees other aliases and other
/// blinded requests, and withholds none.
#[test]
fn a_header_gets_a_pair_for_each_participation_and_a_round_none() {
    let plan_of = series_plan();
    let world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::of_series(MOST));
    let most = MOST as usize;
    assert_eq!(round(&world, &mut store, &mut authority, 1), 2 * most);
    assert_eq!(authority.granted(), 2 * most, "as many aliases of the issuers");
    let of = |attester: &str| {
        let came = authority.came.iter().filter(|came| came.attester == attester);
        came.cloned().collect::<Vec<_>>()
    };
    for came in ATTESTERS.map(of) {
        let keys: BTreeSet<_> = came.iter().map(|came| came.client_key).collect();
        let aliases: BTreeSet<_> = came.iter().map(|came| came.client_alias).collect();
        let blinds: BTreeSet<_> = came.iter().map(|came| came.request_blind).collect();
        let bodies: BTreeSet<_> = came.iter().map(|came| &came.body).collect();
        let lengths: BTreeSet<_> = came.iter().map(|came| came.body.len()).collect();
        assert_eq!((keys.len(), lengths.len()), (1, 1));
        assert_eq!((aliases.len(), blinds.len(), bodies.len()), (most, most, most));
    }
    assert_eq!(store.state().tokens().count(), most);
    assert_eq!(round(&world, &mut store, &mut authority, 2), 0, "nothing is asked twice");

    // The same header beside two of its rounds.
    let watch = world.watch().unwrap();
    let mut recipes: BTreeMap<EntryId, _> = watch.recipes().clone().into_iter().collect();
    for index in [0, 2] {
        let round = admitted(&world, &plan_of, index);
        recipes.insert(round.assessment.id(), Ok(round));
    }
    let mut watch = world.watch().unwrap();
    let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
    let snapshot = Snapshot { view: &view, recipes: &recipes, trust: &world.trust, now: world.now };
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    assert_eq!(plan(store.state(), &snapshot, &mut rng).unwrap(), None);
    assert_eq!(outstanding(store.state(), &snapshot), 0);
    let mut fresh = world.device();
    follow(&mut fresh, &mut watch, &world.trust, world.now).unwrap();
    assert_eq!(outstanding(fresh.state(), &snapshot), 2 * most, "those of the header");
}

/// The store holds sixteen of the longest series, and no author gets more than four of them.
#[test]
fn no_author_takes_the_tokens_of_another() {
    let mut plan_of = series_plan();
    let longest = MAX_PARTICIPATIONS;
    plan_of.recipe.series.as_mut().unwrap().rounds = longest;
    plan_of.recipe.privacy = Privacy::InsecureUnbounded;
    plan_of.trust.insecure_exact = true;
    let world = plan_of.build();
    let one = world.watch().unwrap().recipes()[&plan_of.recipe.id()].as_ref().unwrap().clone();
    let mut recipes = BTreeMap::new();
    let mut add = |name: String, author: &str| {
        let mut other = (*one).clone();
        let mut recipe = plan_of.recipe.clone();
        (recipe.name, recipe.author.key) = (name, signer(&key(author)).key);
        other.assessment = Assessment::new(recipe).unwrap().into();
        recipes.insert(other.assessment.id(), Ok(Arc::new(other)));
    };
    (0..16).for_each(|number| add(format!("greedy-{number}"), "greedy.example"));
    add("modest".to_owned(), "modest.example");
    let mut store = world.device();
    let mut watch = world.watch().unwrap();
    let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
    let snapshot = Snapshot { view: &view, recipes: &recipes, trust: &world.trust, now: world.now };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let planned = plan(store.state(), &snapshot, &mut rng).unwrap().unwrap();
    store.commit(planned).unwrap();
    assert_eq!(store.state().tokens().count() as u64, 5 * longest);
    assert_eq!(outstanding(store.state(), &snapshot) as u64, 2 * 5 * longest, "nothing else waits");
    assert_eq!(plan(store.state(), &snapshot, &mut rng).unwrap(), None);
}

/// An issuer that made the key for fewer participations knows no others.
#[test]
fn a_participation_beyond_those_of_the_key_is_no_origin() {
    let plan_of = series_plan();
    let world = plan_of.build();
    for (mut authority, known) in [(Authority::of_series(2), 4), (Authority::new(), 0)] {
        let mut store = world.device();
        let mut watch = world.watch().unwrap();
        let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
        let (view, recipes) = (&view, watch.recipes());
        let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        store.commit(plan(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
        store.commit(request(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
        let mut refused = Vec::new();
        for next in waiting(store.state(), &snapshot, &mut rng) {
            let state = store.state();
            let sent = super::attester_request(state, &snapshot, &next).unwrap();
            if authority.answer(super::Came::new(&sent)).is_err() {
                refused.push(next.participation);
            }
        }
        assert_eq!(refused.len(), 6 - known);
        assert!(known == 0 || refused.iter().all(|number| *number == Some(2)), "{refused:?}");
    }
}

#[test]
fn requests_are_spread_and_tokens_may_be_used_when_they_arrive() {
    let mut plan_of = series_plan();
    plan_of.trust.tokens.as_mut().unwrap().spread_s = 12 * HOUR;
    let mut world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::of_series(MOST));
    assert_eq!(round(&world, &mut store, &mut authority, 1), 0);
    let stages = |store: &MemoryState| -> Vec<Value> {
        let state = serde_json::to_value(store.state()).unwrap();
        let slots = state["tokens"].as_object().unwrap().values();
        slots.map(|slot| slot["stage"].clone()).collect()
    };
    let due = |stage: &Value| stage["at"].as_u64().unwrap();
    let times: BTreeSet<_> = stages(&store).iter().map(due).collect();
    assert_eq!(times.len(), MOST as usize, "each has a time of its own");
    for (asked, at) in times.into_iter().enumerate() {
        assert!((NOW..=NOW + 12 * HOUR).contains(&at));
        world.now = sotto_protocol::Moment(at);
        assert_eq!(round(&world, &mut store, &mut authority, asked as u64), 2);
        let granted: Vec<_> = stages(&store)
            .iter()
            .filter(|stage| stage["kind"] == "asked")
            .flat_map(|stage| ["leader", "helper"].map(|role| stage[role]["from"].clone()))
            .collect();
        assert_eq!(granted.len(), 2 * (asked + 1));
        assert_eq!(granted.iter().filter(|from| **from == at).count(), 2, "{granted:?}");
    }
    let round = admitted(&world, &plan_of, 0);
    let considered = decide(&world, store.state(), &round, 1).unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let Some(Change::Answered { pending, .. }) =
        toss(considered.ticket, &world.host(), &mut rng).unwrap()
    else {
        panic!("no answer")
    };
    assert_eq!(pending.from, world.now.0, "a round is answered at once");
}

#[test]
fn a_round_is_considered_with_its_own_pair_and_not_without() {
    let plan_of = series_plan();
    let world = plan_of.build();
    let rounds = [0, 1, 2].map(|index| admitted(&world, &plan_of, index));
    let silent = |state: &DeviceState, index: usize| {
        decide(&world, state, &rounds[index], 1).err().map(|silence| silence.check)
    };
    let (mut store, mut watch) = (world.device(), world.watch().unwrap());
    let view = follow(&mut store, &mut watch, &world.trust, world.now).unwrap();
    assert_eq!(silent(store.state(), 0), Some(Check::Token), "nothing is planned");
    let (view, recipes) = (&view, watch.recipes());
    let snapshot = Snapshot { view, recipes, trust: &world.trust, now: world.now };
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    store.commit(plan(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
    assert_eq!(silent(store.state(), 0), Some(Check::Token), "all are due");
    store.commit(request(store.state(), &snapshot, &mut rng).unwrap().unwrap()).unwrap();
    let mut authority = Authority::of_series(MOST);
    for next in waiting(store.state(), &snapshot, &mut rng) {
        if next.participation == Some(2) {
            // One of the two is enough to be without a pair.
            if next.role == Role::Helper {
                store.commit(withheld(&next)).unwrap();
            }
            continue;
        }
        assert_eq!(silent(store.state(), 2), Some(Check::Token));
        let sent = super::attester_request(store.state(), &snapshot, &next).unwrap();
        let response = authority.answer(super::Came::new(&sent)).unwrap();
        let change = super::granted(store.state(), &snapshot, &next, &response, &mut rng);
        store.commit(change.unwrap()).unwrap();
    }
    assert_eq!(
        [0, 1, 2].map(|index| silent(store.state(), index)),
        [None, None, Some(Check::Token)]
    );
}

/// A device with all its tokens.
fn supplied(world: &World) -> MemoryState {
    let mut store = world.device();
    round(world, &mut store, &mut Authority::of_series(MOST), 2);
    store
}

/// So a device can put one report into a batch, whoever it is. The pair is spent with the decision,
/// whatever the coin says: the state does not tell which rounds were answered.
#[test]
fn a_round_takes_the_pair_with_its_number_and_spends_it() {
    let plan_of = series_plan();
    let world = plan_of.build();
    let mut store = supplied(&world);
    for index in [1, 0, 2] {
        let round = admitted(&world, &plan_of, index);
        let considered = decide(&world, store.state(), &round, index).unwrap();
        let mut after = store.clone();
        after.commit(considered.change.clone()).unwrap();
        let spent = |state: &DeviceState| {
            let json = serde_json::to_value(state).unwrap();
            let slots = json["tokens"].as_object().unwrap().values();
            slots.filter(|slot| slot["stage"]["kind"] == "spent").count()
        };
        assert_eq!((spent(store.state()), spent(after.state())), (0, 1));
        let report = sent(&world, considered, index);
        assert_eq!(u64::from(participation_of(&world, round.assessment.recipe(), &report)), index);
    }
    // A device whose pair is spent has none for this round.
    let all = with_stages(store.state(), |_, stage| spend(stage));
    store = MemoryState::from(all);
    let round = admitted(&world, &plan_of, 0);
    let silence = decide(&world, store.state(), &round, 1).err().unwrap();
    assert_eq!(silence.check, Check::Token);
}

/// One pair for whichever round is the secret one. It stays when the round is over: what is left of
/// the state does not tell whether it was used.
#[test]
fn a_donation_has_one_pair() {
    let plan_of = plan_of(Participation::Donation {});
    let world = plan_of.build();
    let (mut store, mut authority) = (world.device(), Authority::of_series(1));
    assert_eq!(round(&world, &mut store, &mut authority, 1), 2);
    let mut answered = 0;
    for seed in 0..40 {
        let one = admitted(&world, &plan_of, seed % 3);
        let mut device = store.clone();
        let considered = decide(&world, device.state(), &one, seed).unwrap();
        device.commit(considered.change.clone()).unwrap();
        let left = serde_json::to_value(device.state()).unwrap();
        assert_eq!(left["tokens"], serde_json::to_value(store.state()).unwrap()["tokens"]);
        let sent = sent(&world, considered, seed);
        if !is_cover(&sent) {
            answered += 1;
            assert_eq!(participation_of(&world, one.assessment.recipe(), &sent), 0);
            assert_eq!(
                left["series"].as_object().unwrap().values().next().unwrap().get("slot"),
                None
            );
        }
    }
    // A quarter of them, on average; none or all of them in one of 10^5 runs.
    assert!((1..40).contains(&answered), "{answered}");
}

/// The verifier of a round takes the participation with its number, and no other token.
#[test]
fn a_round_takes_no_token_of_another_series_and_none_of_a_plain_recipe() {
    let header = series_plan().recipe;
    let round = round_of(&header, 1);
    let terms = |recipe: &Recipe| TokenTerms::of(recipe, Role::Leader).unwrap().unwrap();
    let digests = |recipe: &Recipe| -> BTreeSet<[u8; 32]> {
        let terms = terms(recipe);
        let of = |number| *terms.participation(number).unwrap().challenge_digest();
        (0..MOST).map(of).collect()
    };
    assert_eq!(terms(&header).participations(), Some(MOST));
    let of_round = *terms(&header).participation(1).unwrap().challenge_digest();
    assert_eq!(terms(&round).challenge_digest(), &of_round);
    assert_eq!(terms(&round).challenge().redemption_context(), Some(header.id().as_bytes()));
    assert_eq!(terms(&round).participations(), None);
    let mut other = header.clone();
    other.name = "another-series".to_owned();
    assert!(digests(&other).is_disjoint(&digests(&header)));
    let plain = token_plan().recipe;
    assert_eq!(terms(&plain).participations(), None);
    assert_eq!(terms(&plain).challenge().redemption_context(), Some(plain.id().as_bytes()));
    let origin = terms(&plain).key().origin_name();
    assert_eq!(terms(&plain).challenge().origin_info(), origin);
    assert_ne!(terms(&round).challenge().origin_info(), origin);
    assert_eq!(plain.parties.tokens.key(Role::Leader).unwrap().public_key, token_key_text(0));
}
