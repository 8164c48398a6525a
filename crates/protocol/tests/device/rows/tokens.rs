//! Token keys: whose they are, and which parties must differ.

use sotto_crypto::note::NoteKey;
use sotto_protocol::admission::Check;
use sotto_protocol::trust::PinnedOperator;
use sotto_testing::arbitrary::TOKEN_KEYS;
use sotto_testing::keys::{key, key_of, signer};
use sotto_testing::recipe::{ATTESTERS, DAY, ISSUERS, NOW, issuer_set, key_set_entry};
use sotto_testing::world::Plan;
use sotto_wire::recipe::{EndorsedKey, Tokens};

use super::parties::{unknown_suite, x25519};
use crate::device::checks::{Row, Walk};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = endorsements();
    rows.extend(terms());
    rows.extend(key_sets());
    rows.extend(operators());
    rows.push(row(Check::Token, "a device that has no tokens for the recipe", |_| {}));
    rows
}

/// A plan with tokens, and a change to it.
fn row(check: Check, words: &'static str, change: impl FnOnce(&mut Plan)) -> Row {
    Row::new(check, words, |plan| {
        plan.with_tokens();
        change(plan);
    })
}

fn keys(plan: &mut Plan) -> [&mut EndorsedKey; 2] {
    match &mut plan.recipe.parties.tokens {
        Tokens::RateLimited { leader, helper, .. } => [leader, helper],
        _ => panic!("no tokens"),
    }
}

/// Endorses the keys for a changed recipe, and uses that endorsement in the original recipe.
fn endorsed_for(plan: &mut Plan, change: impl FnOnce(&mut Plan)) {
    let recipe = plan.recipe.clone();
    change(plan);
    plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
    let tokens = std::mem::replace(&mut plan.recipe, recipe).parties.tokens;
    plan.recipe.parties.tokens = tokens;
}

/// Somebody else endorses the key of this chain, under the name of its issuer.
fn endorsed_by(plan: &mut Plan, chain: usize, signer: NoteKey) {
    let own = std::mem::replace(&mut plan.issuer_signers[chain], signer);
    plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
    plan.issuer_signers[chain] = own;
    keys(plan)[chain].issuer = ISSUERS[chain].parse().unwrap();
}

fn endorsements() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::TokenKeys, words, change);
    vec![
        row("a key of the author's own, with another key's endorsement", &|plan| {
            let [leader, _] = keys(plan);
            leader.public_key = EndorsedKey::key_text(&[7; 342]);
        }),
        row("a leader's key of the author's own, which he endorses himself", &|plan| {
            endorsed_by(plan, 0, key_of("author.example", ISSUERS[0]));
        }),
        row("a helper's key of the author's own, which he endorses himself", &|plan| {
            endorsed_by(plan, 1, key_of("author.example", ISSUERS[1]));
        }),
        row("a helper's key that the issuer of the leader's tokens endorsed", &|plan| {
            endorsed_by(plan, 1, key(ISSUERS[0]));
        }),
        row("endorsed for the other role", &|plan| {
            let [leader, helper] = keys(plan);
            std::mem::swap(&mut leader.public_key, &mut helper.public_key);
            std::mem::swap(&mut leader.endorsement, &mut helper.endorsement);
        }),
        row("the issuers swapped", &|plan| {
            plan.issuer_signers.swap(0, 1);
            plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
            plan.issuer_signers.swap(0, 1);
        }),
        row("endorsed for another aggregator", &|plan| {
            endorsed_for(plan, |plan| {
                plan.recipe.parties.helper.operator = "other.example".parse().unwrap();
            });
        }),
        row("endorsed for another author", &|plan| {
            endorsed_for(plan, |plan| plan.recipe.author = signer(&key("other.example")));
        }),
        row("endorsed until another time", &|plan| keys(plan)[0].expires += 1),
        row("endorsed by an operator who is pinned, but is no issuer", &|plan| {
            endorsed_by(plan, 0, key("leader.example"));
        }),
        row("endorsed, but no key for tokens", &|plan| {
            plan.endorse(&EndorsedKey::key_text(&[7; 342]), Some(TOKEN_KEYS[1]));
        }),
    ]
}

fn terms() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::TokenKeys, words, change);
    vec![
        row("no tokens, where the owner wants them", &|plan| {
            plan.recipe.parties.tokens = Tokens::InsecureNone;
        }),
        row("tokens for the leader alone, where the owner wants both", &|plan| {
            plan.endorse(TOKEN_KEYS[0], None);
        }),
        row("an issuer, where none is pinned", &|plan| plan.trust.tokens = None),
        row(
            "tokens for the leader alone, which is allowed, of an issuer who is not pinned",
            &|plan| {
                plan.endorse(TOKEN_KEYS[0], None);
                plan.trust.insecure_no_tokens = true;
                plan.trust.tokens = None;
            },
        ),
        row("another issuer than the pinned one for the leader", &|plan| other_issuer(plan, 0))
            .walk(Walk::Same),
        row("another issuer than the pinned one for the helper", &|plan| other_issuer(plan, 1))
            .walk(Walk::Same),
    ]
}

/// The recipe has a pinned operator as an issuer, but not the pinned issuer.
fn other_issuer(plan: &mut Plan, chain: usize) {
    plan.issuer_signers[chain] = key("helper-of-mallory.example");
    plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
    let pinned = plan.issuer_signers[chain].verifier().to_string();
    plan.trust.operators.push(PinnedOperator { key: pinned });
}

fn key_sets() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::KeySets, words, change);
    vec![
        row("an issuer without an encapsulation key in its set", &|plan| {
            let [set, _] = plan.issuer_sets.as_mut().unwrap();
            set.hpke_configs = set.encapsulation_configs.take().unwrap();
        }),
        row("the helper's issuer without an encapsulation key in its set", &|plan| {
            let [_, set] = plan.issuer_sets.as_mut().unwrap();
            set.hpke_configs = set.encapsulation_configs.take().unwrap();
        }),
        row("an encapsulation key of a suite that nobody knows", &|plan| {
            let [_, set] = plan.issuer_sets.as_mut().unwrap();
            set.encapsulation_configs = Some(vec![unknown_suite()]);
        }),
        row("an issuer with X25519 keys alone", &|plan| {
            let [set, _] = plan.issuer_sets.as_mut().unwrap();
            set.encapsulation_configs = Some(vec![x25519()]);
        }),
        row("the helper's issuer with X25519 keys alone", &|plan| {
            let [_, set] = plan.issuer_sets.as_mut().unwrap();
            set.encapsulation_configs = Some(vec![x25519()]);
        }),
        row("an issuer's key set with a foreign signature", &|plan| {
            plan.issuer_signers[0] = key_of("mallory", ISSUERS[0]);
        }),
        row("the helper's issuer's key set with a foreign signature", &|plan| {
            plan.issuer_signers[1] = key_of("mallory", ISSUERS[1]);
        }),
        row("issuers without key sets in the log", &|plan| {
            plan.issuer_sets = None;
            plan.places.issuers = None;
        }),
        row("keys of the issuer that the log does not hold", &|_| {}).offer(|_, offer| {
            let signer = key(ISSUERS[0]);
            let set = issuer_set(0, &signer, 4, NOW - 41 * DAY);
            let evidence = offer.leader_issuer_keys.as_mut().unwrap();
            evidence.entry = key_set_entry(&set, &signer);
        }),
        row("an offer without the keys of the helper's issuer", &|_| {})
            .offer(|_, offer| offer.helper_issuer_keys = None),
        row("an offer with one issuer's keys for both", &|_| {})
            .offer(|_, offer| offer.helper_issuer_keys = offer.leader_issuer_keys.clone()),
    ]
}

fn operators() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::Operators, words, change);
    let attester = |plan: &mut Plan, name: &str| {
        let tokens = plan.trust.tokens.as_mut().unwrap();
        tokens.leader.attester.as_mut().unwrap().operator = name.to_owned();
    };
    let other_attester = |plan: &mut Plan, name: &str| {
        let tokens = plan.trust.tokens.as_mut().unwrap();
        tokens.helper.attester.as_mut().unwrap().operator = name.to_owned();
    };
    vec![
        row("leader and issuer are one operator under two names", &|plan| {
            plan.issuer_signers[0] = key_of("leader.example", ISSUERS[0]);
            reissue(plan);
        }),
        row("helper and its own issuer are one operator under two names", &|plan| {
            plan.issuer_signers[1] = key_of("helper.example", ISSUERS[1]);
            reissue(plan);
        }),
        row("helper and the leader's issuer are one operator under two names", &|plan| {
            plan.issuer_signers[0] = key_of("helper.example", ISSUERS[0]);
            reissue(plan);
        }),
        row("attester and leader are one operator", &|plan| attester(plan, "leader.example")),
        row("attester and helper are one operator", &|plan| attester(plan, "helper.example")),
        row("the helper's attester and the leader are one operator", &|plan| {
            other_attester(plan, "leader.example");
        }),
        row("the helper's attester and the helper are one operator", &|plan| {
            other_attester(plan, "helper.example");
        }),
        row("relay and attester are one operator", &|plan| {
            plan.trust.relays[0].operator = ATTESTERS[0].to_owned();
        }),
        row("relay and the helper's attester are one operator", &|plan| {
            plan.trust.relays[0].operator = ATTESTERS[1].to_owned();
        }),
        row("relay and issuer are one operator", &|plan| {
            plan.trust.relays[0].operator = ISSUERS[0].to_owned();
        }),
        row("relay and the helper's issuer are one operator", &|plan| {
            plan.trust.relays[0].operator = ISSUERS[1].to_owned();
        }),
    ]
}

/// The issuers with other keys: pinned, in the log, and on the endorsements.
fn reissue(plan: &mut Plan) {
    let pinned = plan.trust.operators.len() - plan.issuer_signers.len();
    plan.trust.operators.truncate(pinned);
    plan.with_tokens();
}
