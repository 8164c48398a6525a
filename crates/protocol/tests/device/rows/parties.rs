//! Operators and their keys.

use sotto_protocol::admission::Check;
use sotto_protocol::trust::PinnedOperator;
use sotto_testing::keys::{key, key_of, keypair, signer};
use sotto_testing::log::{Batch, at};
use sotto_testing::recipe::{DAY, HOUR, LOG_OPERATOR, NOW, key_set_entry, leader_set};
use sotto_testing::world::Plan;
use sotto_wire::recipe::KeySet;
use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

use super::{newer_keys, veteran};
use crate::device::checks::{Row, Walk};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = key_sets();
    rows.extend(newer());
    rows.extend(operators());
    rows
}

fn key_sets() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::KeySets, words, change);
    vec![
        row("keys that the log does not hold", &|_| {}).offer(|_, offer| {
            let set = leader_set(&key("leader.example"), 6, NOW - 41 * DAY);
            offer.leader_keys.entry = key_set_entry(&set, &key("leader.example"));
        }),
        row("a key set with a foreign signature", &|plan| {
            plan.leader_signer = key_of("mallory", "leader.example");
        }),
        row("a key set of somebody with the operator's name", &|plan| {
            plan.leader_signer = key_of("mallory", "leader.example");
            plan.leader_set.operator = signer(&plan.leader_signer);
        }),
        row("another operator's key set", &|plan| plan.places.leader = 3).walk(Walk::Offered),
        row("no key set at all", &|plan| plan.places.helper = 0).walk(Walk::Offered),
        row("an expired key set", &|plan| plan.helper_set.not_after = NOW),
        row("a key set that is not in force yet", &|plan| plan.helper_set.not_before = NOW + 1),
        row("a key set that began before it had been public for long enough", &|plan| {
            plan.leader_set.not_before = NOW - 39 * DAY - 301;
        }),
        row("a key set that is too young", &|plan| plan.keys_times = at(NOW - 2 * HOUR)),
        row("a young key set that one witness back-dates", &|plan| {
            plan.keys_times = [Some(NOW - 2 * HOUR), Some(5), Some(NOW - 2 * HOUR)];
        }),
        row("a key of a suite that nobody knows", &|plan| {
            plan.leader_set.hpke_configs = vec![unknown_suite()];
        }),
        row("a leader with X25519 keys alone", &|plan| {
            plan.leader_set.hpke_configs = vec![x25519()];
        }),
        row("a helper with X25519 keys alone", &|plan| {
            plan.helper_set.hpke_configs = vec![x25519()];
        }),
        row("a gateway with X25519 keys alone", &|plan| {
            plan.leader_set.gateway_configs = Some(vec![x25519()]);
        }),
        row("a leader without a gateway", &|plan| plan.leader_set.gateway_configs = None),
        row("a gateway key of a suite that nobody knows", &|plan| {
            plan.leader_set.gateway_configs = Some(vec![unknown_suite()]);
        }),
        row("a leader with a gateway's keys and none for shares", &|plan| {
            plan.leader_set.hpke_configs.clear();
        }),
        row("a helper with a gateway's keys and none for shares", &|plan| {
            plan.helper_set.gateway_configs =
                Some(std::mem::take(&mut plan.helper_set.hpke_configs));
        }),
        row("the leader at a URL that its operator did not sign", &|plan| {
            plan.recipe.parties.leader.url = "https://mallory.example/".to_owned();
        }),
        row("the helper at a URL that its operator did not sign", &|plan| {
            plan.recipe.parties.helper.url = "https://mallory.example/".to_owned();
        }),
        row("the helper at another spelling of its URL", &|plan| {
            plan.recipe.parties.helper.url = "https://helper.example".to_owned();
        }),
        row("a helper whose operator signed no URL", &|plan| plan.helper_set.url = None),
        row("a leader whose operator signed no URL", &|plan| plan.leader_set.url = None),
        row("a helper that has moved", &|plan| {
            plan.helper_set.url = Some("https://new.example/".to_owned());
        }),
        row("a leader with a gateway's keys and none for shares, asked directly", &|plan| {
            plan.leader_set.hpke_configs.clear();
            plan.trust.insecure_direct = true;
        }),
    ]
}

/// A key that a device uses only if it does not require the hybrid suite.
pub(crate) fn x25519() -> String {
    KeySet::config_text(keypair(8).config())
}

/// A key that no device can seal to.
pub(crate) fn unknown_suite() -> String {
    let config = HpkeConfig::new(
        HpkeConfigId::new(9),
        HpkeKemId::new(0xfff0),
        HpkeKdfId::HKDF_SHA256,
        HpkeAeadId::AES_128_GCM,
        vec![7; 32],
    );
    KeySet::config_text(&config.unwrap())
}

/// After the device has used the leader's key set 5.
fn newer() -> Vec<Row> {
    let row = |words, change: fn(&mut KeySet)| {
        Row::new(Check::KeySets, words, |plan| newer_keys(plan, change)).device(veteran)
    };
    vec![
        row("a key set with a lower number", |set| set.seq = 4).walk(Walk::Offered),
        row("the same number with other keys", |set| set.seq = 5).walk(Walk::Offered),
        Row::new(Check::KeySets, "a key set too soon after the last", |plan| {
            newer_keys(plan, |set| set.not_before = NOW - 39 * DAY + DAY - 1);
            plan.later[0] = Batch { times: at(NOW - 40 * DAY), ..plan.later[0].clone() };
        })
        .device(veteran)
        .walk(Walk::Offered),
    ]
}

fn operators() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| Row::new(Check::Operators, words, change);
    vec![
        row("an operator who is not pinned", &|plan| {
            plan.recipe.parties.helper.operator = "mallory.example".parse().unwrap();
        }),
        row("leader and helper are one operator under two names", &|plan| {
            let second = key_of("leader.example", "helper.example");
            plan.trust.operators[1] = PinnedOperator { key: second.verifier().to_string() };
            plan.helper_set.operator = signer(&second);
            plan.helper_signer = second;
        }),
        row("relay and leader are one operator", &|plan| {
            plan.trust.relays[0].operator = "leader.example".to_owned();
        }),
        row("relay and helper are one operator", &|plan| {
            plan.trust.relays[0].operator = "helper.example".to_owned();
        }),
        row("relay and leader are one operator under two names, by the relay's key", &|plan| {
            let second = key_of("leader.example", "relay.example");
            plan.trust.relays[0].key = Some(second.verifier().to_string());
        }),
        row("relay and helper are one operator under two names, both pinned", &|plan| {
            let second = key_of("helper.example", "relay.example");
            plan.trust.operators.push(PinnedOperator { key: second.verifier().to_string() });
        }),
        row("the leader runs the gateway of the log under another name", &|plan| {
            let second = key_of("leader.example", LOG_OPERATOR);
            plan.trust.operators[3] = PinnedOperator { key: second.verifier().to_string() };
        }),
        row("no relay", &|plan| {
            plan.trust.relays.clear();
            plan.trust.log_gateway = None;
        }),
    ]
}
