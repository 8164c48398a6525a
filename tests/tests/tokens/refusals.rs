//! Invalid tokens in the share of either aggregator. Each is counted under its fault, where it is
//! found.

use sotto_protocol::admission::Admitted;
use sotto_protocol::token::ReportTokens;
use sotto_tests::world::World;
use sotto_wire::token::Token;
use sotto_wire::{Decode, Encode, ReportId, Role};

use crate::tokens::rogue::{ROLES, Rogue, Wish, present, report_tokens};
use crate::tokens::{Scene, dropped, until_equal};

/// The fault of a token, and the reason under which it is counted.
const WRONGS: [(&str, &str); 7] = [
    ("none", "token_missing"),
    ("a part of one", "token_malformed"),
    ("for the other aggregator", "token_wrong_key"),
    ("under the key of another recipe", "token_wrong_key"),
    ("for the challenge of another recipe", "token_wrong_recipe"),
    ("forged", "token_forged"),
    ("for another report", "token_other_report"),
];

/// Tokens of a new device; that of one aggregator is invalid.
fn bad_tokens(
    device: &mut Rogue,
    world: &World,
    [admitted, other]: [&Admitted; 2],
    role: Role,
    wrong: &str,
) -> ReportTokens {
    let nonce = device.nonce();
    let [mut leader, mut helper] = ROLES.map(|role| Wish::of(admitted, role, nonce));
    let foreign = Wish::of(other, role, nonce);
    let own = if role == Role::Leader { &mut leader } else { &mut helper };
    // The issuer signs blindly: the device decides what a token is for, and the aggregator checks
    // it.
    match wrong {
        "under the key of another recipe" => *own = foreign,
        "for the challenge of another recipe" => own.challenge_digest = foreign.challenge_digest,
        "for another report" => own.nonce = device.nonce(),
        _ => {}
    }
    let mut tokens = report_tokens([leader, helper].map(|wish| device.token(world, wish)));
    // The id of the good token, even if the leader's token is for another report.
    tokens.report_id = ReportId::new(nonce[16..].try_into().unwrap());
    let others =
        if role == Role::Leader { tokens.helper.clone() } else { Some(tokens.leader.clone()) };
    let own =
        if role == Role::Leader { Some(tokens.leader.clone()) } else { tokens.helper.clone() };
    let own = own.unwrap();
    let bad = match wrong {
        "none" => None,
        "a part of one" => Some(own[..100].to_vec()),
        "for the other aggregator" => others,
        "forged" => {
            let mut token = Token::from_bytes(&own).unwrap();
            token.authenticator[100] ^= 1;
            Some(token.to_bytes())
        }
        _ => Some(own),
    };
    match role {
        Role::Leader => tokens.leader = bad.unwrap_or_default(),
        _ => tokens.helper = bad,
    }
    tokens
}

#[test]
fn tokens_that_are_not_good_are_counted_by_what_is_wrong() {
    let mut scene = Scene::new();
    scene.publish("commute", 3);
    scene.publish("other", 3);
    let (admitted, other) = (scene.admitted("commute"), scene.admitted("other"));
    let mut expected: Vec<(Role, &str, f64)> = Vec::new();
    for (number, role) in ROLES.into_iter().enumerate() {
        for (kind, (wrong, reason)) in WRONGS.into_iter().enumerate() {
            let mut device = Rogue::new(&format!("{wrong}, {number}"), (number * 10 + kind) as u64);
            let tokens = bad_tokens(&mut device, &scene.world, [&admitted, &other], role, wrong);
            let is_bare = wrong == "none" && role == Role::Leader;
            let report = match is_bare {
                true => device.report(&admitted, 0, present(&admitted), None),
                false => device.report(&admitted, 0, present(&admitted), Some(&tokens)),
            };
            // The sender learns nothing.
            let response = scene.upload(&admitted, &report);
            assert_eq!((response.status, response.body.as_slice()), (200, &b""[..]), "{wrong}");
            match expected.iter_mut().find(|(at, why, _)| (*at, *why) == (role, reason)) {
                Some((_, _, count)) => *count += 1.0,
                None => expected.push((role, reason, 1.0)),
            }
        }
    }
    scene.honest(&[5, 20, 50]);
    for (role, reason, count) in expected {
        let aggregator = match role {
            Role::Leader => &scene.world.pair.leader,
            _ => &scene.world.pair.helper,
        };
        until_equal(&format!("{role:?} {reason}"), count, || dropped(aggregator, reason));
    }
    // The helper only tells the leader that a report is invalid.
    let (leader, count) = (&scene.world.pair.leader, WRONGS.len() as f64);
    until_equal("invalid_message", count, || dropped(leader, "invalid_message"));
    for recipe in ["commute", "other"] {
        scene.collect(recipe, [1, 1, 1]);
    }
}
