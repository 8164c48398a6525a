//! Which suite a device seals with: the hybrid one wherever it is offered, and no other unless its
//! owner allows it.

use sotto_crypto::hpke::Suite;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Admitted, Assessments, Check, Silence, View};
use sotto_protocol::device::{Change, DeviceStore, SeenGateway, SeenKeySet, log_gateway_keys};
use sotto_protocol::trust::Trust;
use sotto_testing::keys::{gateway_key, key, keypair, signer};
use sotto_testing::recipe::{DAY, LOG_OPERATOR, NOW, trust_file};
use sotto_testing::world::Plan;
use sotto_wire::{EntryId, HpkeConfig, Role};

use crate::device::rows::parties::x25519;

/// Every list of keys in the plan, with the operator whose keys they are.
fn lists(plan: &mut Plan) -> Vec<(&'static str, &mut Vec<String>)> {
    let [a, b] = plan.issuer_sets.as_mut().unwrap();
    vec![
        ("leader.example: no HPKE", &mut plan.leader_set.hpke_configs),
        ("leader.example: no gateway key", plan.leader_set.gateway_configs.as_mut().unwrap()),
        ("helper.example: no HPKE", &mut plan.helper_set.hpke_configs),
        ("issuer-a.example: no encap", a.encapsulation_configs.as_mut().unwrap()),
        ("issuer-b.example: no encap", b.encapsulation_configs.as_mut().unwrap()),
    ]
}

fn plan() -> Plan {
    let mut plan = Plan::new();
    plan.with_tokens();
    plan
}

fn admit(plan: &Plan) -> Result<Admitted, Silence> {
    let world = plan.build();
    let view = View::open(&world.log.view.to_bytes(), &world.trust).unwrap();
    Assessments::default().admit(&world.offer(), &view, &world.trust)
}

/// The suites of the five keys.
fn suites(plan: &Plan) -> Vec<Suite> {
    let admitted = admit(plan).unwrap();
    let keys: [&HpkeConfig; 5] = [
        admitted.leader_config(),
        admitted.gateway_config().unwrap(),
        admitted.helper_config(),
        admitted.encapsulation(Role::Leader).unwrap(),
        admitted.encapsulation(Role::Helper).unwrap(),
    ];
    keys.iter().map(|key| Suite::of(key).unwrap()).collect()
}

#[test]
fn the_hybrid_key_is_taken_wherever_it_is_in_the_list() {
    for required in [true, false] {
        for last in [true, false] {
            let mut plan = plan();
            plan.trust.require_post_quantum = required;
            for (_, list) in lists(&mut plan) {
                list.insert(if last { 0 } else { list.len() }, x25519());
            }
            assert_eq!(suites(&plan), [Suite::Hybrid; 5]);
        }
    }
}

/// A new device with an old server.
#[test]
fn one_party_without_a_hybrid_key_is_enough_for_silence() {
    for party in 0..5 {
        let mut plan = plan();
        let expected = {
            let (words, list) = lists(&mut plan).swap_remove(party);
            *list = vec![x25519()];
            words
        };
        let silence = admit(&plan).unwrap_err();
        assert_eq!(silence.check, Check::KeySets);
        assert!(silence.reason.starts_with(expected), "{}", silence.reason);
        assert!(silence.reason.contains("require_post_quantum"), "{}", silence.reason);

        plan.trust.require_post_quantum = false;
        let mut mixed = [Suite::Hybrid; 5];
        mixed[party] = Suite::X25519;
        assert_eq!(suites(&plan), mixed, "the others stay hybrid");
    }
}

/// An aggregator also serves devices that do not require the hybrid suite.
#[test]
fn an_aggregator_joins_whatever_the_suites() {
    let mut plan = plan();
    lists(&mut plan).into_iter().for_each(|(_, list)| *list = vec![x25519()]);
    let world = plan.build();
    let trust = world.trust.clone().with_any_suite();
    let view = View::open(&world.log.view.to_bytes(), &trust).unwrap();
    Assessments::default().admit(&world.offer(), &view, &trust).unwrap();
    assert!(admit(&plan).is_err());
}

/// A device that read the log before it required the hybrid suite.
#[test]
fn an_older_key_of_the_logs_gateway_is_not_used_any_more() {
    let mut store = Plan::new().build().device();
    let (operator, config) = (signer(&key(LOG_OPERATOR)), keypair(9).config().clone());
    let remembered = Change::LogGateway {
        set: SeenKeySet { seq: 7, id: EntryId::of(b"seven"), not_before: NOW - DAY },
        gateway: SeenGateway { operator, not_after: NOW + DAY, config },
    };
    store.commit(remembered).unwrap();
    let pinned = gateway_key(0).config().clone();
    let keys = |required| {
        let mut file = trust_file();
        file.require_post_quantum = required;
        log_gateway_keys(store.state(), &Trust::try_from(file).unwrap(), Moment(NOW))
    };
    assert_eq!(keys(true), std::slice::from_ref(&pinned));
    assert_eq!(keys(false), [keypair(9).config().clone(), pinned]);
}
