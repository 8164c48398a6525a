//! Token keys: whose they are, and which parties must differ.

use sotto_protocol::admission::Check;
use sotto_protocol::trust::PinnedOperator;
use sotto_testing::arbitrary::TOKEN_KEYS;
use sotto_testing::keys::{key, key_of, signer};
use sotto_testing::recipe::{ATTESTER, DAY, ISSUER, NOW, issuer_set, key_set_entry};
use sotto_testing::world::Plan;
use sotto_wire::recipe::{EndorsedKey, Tokens};

use super::parties::unknown_suite;
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

fn endorsements() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::TokenKeys, words, change);
    vec![
        row("a key of the author's own, with another key's endorsement", &|plan| {
            let [leader, _] = keys(plan);
            leader.public_key = EndorsedKey::key_text(&[7; 342]);
        }),
        row("a key of the author's own, which he endorses himself", &|plan| {
            let name = ISSUER.parse().unwrap();
            plan.issuer_signer = key_of("author.example", ISSUER);
            plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
            plan.issuer_signer = key(ISSUER);
            assert_eq!(plan.recipe.parties.tokens.issuer(), Some(&name));
        }),
        row("endorsed for the other role", &|plan| {
            let [leader, helper] = keys(plan);
            std::mem::swap(leader, helper);
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
            let issuer = plan.recipe.parties.tokens.issuer().unwrap().clone();
            plan.issuer_signer = key("leader.example");
            plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
            plan.issuer_signer = key(ISSUER);
            if let Tokens::RateLimited { issuer: named, .. } = &mut plan.recipe.parties.tokens {
                *named = issuer;
            }
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
        row("another issuer than the pinned one", &|plan| {
            plan.issuer_signer = key("helper-of-mallory.example");
            plan.endorse(TOKEN_KEYS[0], Some(TOKEN_KEYS[1]));
            let pinned = plan.issuer_signer.verifier().to_string();
            plan.trust.operators.push(PinnedOperator { key: pinned });
        })
        .walk(Walk::Same),
    ]
}

fn key_sets() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::KeySets, words, change);
    vec![
        row("an issuer without an encapsulation key in its set", &|plan| {
            let set = plan.issuer_set.as_mut().unwrap();
            set.hpke_configs = set.encapsulation_configs.take().unwrap();
        }),
        row("an encapsulation key of a suite that nobody knows", &|plan| {
            let set = plan.issuer_set.as_mut().unwrap();
            set.encapsulation_configs = Some(vec![unknown_suite()]);
        }),
        row("an issuer's key set with a foreign signature", &|plan| {
            plan.issuer_signer = key_of("mallory", ISSUER);
        }),
        row("an issuer without a key set in the log", &|plan| {
            plan.issuer_set = None;
            plan.places.issuer = None;
        }),
        row("keys of the issuer that the log does not hold", &|_| {}).offer(|_, offer| {
            let set = issuer_set(&key(ISSUER), 4, NOW - 41 * DAY);
            offer.issuer_keys.as_mut().unwrap().entry = key_set_entry(&set, &key(ISSUER));
        }),
    ]
}

fn operators() -> Vec<Row> {
    let row = |words, change: &dyn Fn(&mut Plan)| row(Check::Operators, words, change);
    let attester = |plan: &mut Plan, name: &str| {
        let tokens = plan.trust.tokens.as_mut().unwrap();
        tokens.attester.as_mut().unwrap().operator = name.to_owned();
    };
    vec![
        row("leader and issuer are one operator under two names", &|plan| {
            plan.issuer_signer = key_of("leader.example", ISSUER);
            reissue(plan);
        }),
        row("helper and issuer are one operator under two names", &|plan| {
            plan.issuer_signer = key_of("helper.example", ISSUER);
            reissue(plan);
        }),
        row("attester and leader are one operator", &|plan| attester(plan, "leader.example")),
        row("attester and helper are one operator", &|plan| attester(plan, "helper.example")),
        row("attester and issuer are one operator under two names", &|plan| {
            let second = key_of(ISSUER, ATTESTER).verifier().to_string();
            plan.trust.operators.push(PinnedOperator { key: second });
        }),
        row("relay and attester are one operator", &|plan| {
            plan.trust.relays[0].operator = ATTESTER.to_owned();
        }),
        row("relay and issuer are one operator", &|plan| {
            plan.trust.relays[0].operator = ISSUER.to_owned();
        }),
    ]
}

/// The issuer with another key: pinned, in the log, and on the endorsements.
fn reissue(plan: &mut Plan) {
    plan.trust.operators.pop();
    plan.with_tokens();
}
