//! One lying attester, or one lying issuer. It wants to know what one device says: it fills a batch
//! with devices that it invents, lets that device alone through, and subtracts its own reports from
//! the result. With two chains of tokens nothing is released. With one chain
//! (`insecure_single_attester`), or with a liar in each chain, the same attack works, and the tests
//! show it.
//!
//! The other real devices do not appear: the liar withholds their tokens.

use std::fs;

use sotto_crypto::blind_rsa::blind;
use sotto_protocol::admission::Admitted;
use sotto_protocol::issuer::author::RecipeKey;
use sotto_protocol::token::{ReportTokens, report_id};
use sotto_store::IssuerDb;
use sotto_wire::token::{TOKEN_TYPE, Token, token_input};
use sotto_wire::{Encode, Role};

use crate::tokens::certificates::{Manufacturer, TABLE};
use crate::tokens::rogue::{ROLES, Rogue, Wish, present};
use crate::tokens::{AGGREGATED, Scene, answer, dropped, until_equal};

/// The recipe's minimum batch: liars invent all devices but one. `SOTTO_INVENTED` sets another.
fn batch() -> u64 {
    std::env::var("SOTTO_INVENTED").map_or(40, |text| text.parse().unwrap())
}

/// What is wrong with the tokens that stand in. The helper tells the leader only that a report is
/// invalid.
const WRONG: [&str; 2] = ["token_wrong_key", "token_forged"];

/// Real devices have certificates. `liars` also vouch for whoever has a name.
fn scene(manufacturer: &Manufacturer, liars: &[usize], single: bool) -> Scene {
    Scene::arranged(|world| {
        fs::write(world.path("manufacturer.pem"), &manufacturer.pem)?;
        let tokens = world.tokens.as_mut().unwrap();
        tokens.single = single;
        for (number, chain) in tokens.chains.iter_mut().enumerate() {
            let lies = liars.contains(&number);
            chain.attestation = format!("insecure_attestation = {lies}\n{TABLE}");
        }
        Ok(())
    })
}

/// Puts the tokens that a liar could get into a report. Where there is none, a token for the other
/// aggregator stands in, as it is or relabelled.
fn filled(wishes: &[Wish; 2], [leader, helper]: [Option<Token>; 2], relabel: bool) -> ReportTokens {
    let stand_in = |of: &Token, wish: &Wish| {
        let mut token = Token::clone(of);
        if relabel {
            token.token_key_id = *wish.key.id();
            token.challenge_digest = wish.challenge_digest;
        }
        token.to_bytes()
    };
    let (leader, helper) = match (leader, helper) {
        (Some(leader), Some(helper)) => (leader.to_bytes(), helper.to_bytes()),
        (Some(leader), None) => (leader.to_bytes(), stand_in(&leader, &wishes[1])),
        (None, Some(helper)) => (stand_in(&helper, &wishes[0]), helper.to_bytes()),
        (None, None) => panic!("a liar has one token"),
    };
    let report_id = report_id(&wishes[0].nonce);
    ReportTokens { report_id, leader, helper: Some(helper) }
}

/// The victim answers, and the liar sends a report for each invented device. `token` is how it gets
/// a token, or `None`.
fn attack(
    scene: &mut Scene,
    manufacturer: &Manufacturer,
    mut token: impl FnMut(&Scene, &mut Rogue, &Wish) -> Option<Token>,
) {
    let admitted = scene.admitted("commute");
    let victim = manufacturer.badge("the victim", 1);
    answer(&mut scene.bare_phone().attested(victim.attestor()), 50);
    for number in 1..batch() {
        let mut invented = Rogue::new(&format!("invented {number}"), 7_000 + number);
        let nonce = invented.nonce();
        let wishes = ROLES.map(|role| Wish::of(&admitted, role, nonce));
        let tokens = wishes.each_ref().map(|wish| token(scene, &mut invented, wish));
        let tokens = filled(&wishes, tokens, number % 2 == 0);
        let report = invented.report(&admitted, 0, present(&admitted), Some(&tokens));
        assert_eq!(scene.upload(&admitted, &report).status, 200);
    }
}

/// Only the victim's report is counted, so nothing is released.
fn assert_nothing_released(scene: &Scene, liar: usize) {
    let (leader, helper) = (&scene.world.pair.leader, &scene.world.pair.helper);
    let invented = (batch() - 1) as f64;
    let by_token = |aggregator| WRONG.iter().map(|why| dropped(aggregator, why)).sum();
    match liar {
        // The leader believes its token, and the helper does not believe the other.
        0 => {
            until_equal("refused by the helper", invented, || dropped(leader, "invalid_message"));
            assert_eq!(by_token(helper), invented);
        }
        _ => until_equal("refused by the leader", invented, || by_token(leader)),
    }
    until_equal(AGGREGATED, 1.0, || leader.metric(AGGREGATED).unwrap());
    let Err(error) = scene.world.collect_within("commute", "3") else {
        panic!("a batch was released");
    };
    assert!(!error.to_string().contains("\"count\":"), "{error}");
}

/// A control: everything is released, and the difference is what the victim said.
fn assert_singled_out(scene: &Scene) {
    scene.collect("commute", [batch() - 1, 0, 1]);
}

/// What a token request of an invented device gets: the lying attester grants it, an honest one says
/// no.
fn asked(scene: &Scene, invented: &mut Rogue, wish: &Wish) -> Option<Token> {
    let asking = invented.request(wish.clone());
    let answer = invented.send(&scene.world, &asking);
    match answer.status {
        200 => Some(asking.finish(&answer.body)),
        403 => None,
        other => panic!("{other}"),
    }
}

fn a_lying_attester(liar: usize) {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, &[liar], false);
    scene.publish("commute", batch());
    attack(&mut scene, &manufacturer, |scene, invented, wish| {
        let token = asked(scene, invented, wish);
        assert_eq!(token.is_some(), wish.chain() == liar);
        token
    });
    assert_nothing_released(&scene, liar);
}

#[test]
fn the_leaders_attester_invents_devices_and_nothing_is_released() {
    a_lying_attester(0);
}

#[test]
fn the_helpers_attester_invents_devices_and_nothing_is_released() {
    a_lying_attester(1);
}

#[test]
fn a_single_attester_invents_devices_and_singles_one_out() {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, &[0], true);
    scene.publish("commute", batch());
    attack(&mut scene, &manufacturer, asked);
    assert_singled_out(&scene);
}

/// The private keys of an issuer, as it has them on disk.
fn keys(scene: &Scene, chain: usize) -> Vec<RecipeKey> {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (format!("{}-data/keys", scene.issuers()[chain].name()), "keys");
    fs::create_dir(folder.path().join(to)).unwrap();
    for file in fs::read_dir(scene.world.path(&from)).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), folder.path().join(to).join(file.file_name())).unwrap();
    }
    IssuerDb::open(folder.path()).unwrap().load().unwrap()
}

/// A token that an issuer signs without being asked by an attester, if it has the key.
fn signed(keys: &[RecipeKey], invented: &mut Rogue, wish: &Wish) -> Option<Token> {
    let key = keys.iter().find(|key| key.origin.token_key().id() == wish.key.id())?;
    let input = token_input(TOKEN_TYPE, &wish.nonce, &wish.challenge_digest, wish.key.id());
    let (blinded, unblinder) = blind(&wish.key, &input, &mut invented.rng).unwrap();
    let signature = key.origin.key().blind_sign(&blinded).unwrap();
    Some(Token {
        token_type: TOKEN_TYPE,
        nonce: wish.nonce,
        challenge_digest: wish.challenge_digest,
        token_key_id: *wish.key.id(),
        authenticator: unblinder.finalize(&wish.key, &input, &signature).unwrap(),
    })
}

fn a_lying_issuer(liar: usize) {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, &[], false);
    scene.publish("commute", batch());
    let keys = keys(&scene, liar);
    let role = [Role::Leader, Role::Helper][liar];
    assert_eq!(keys.iter().map(|key| key.request.role).collect::<Vec<_>>(), [role]);
    attack(&mut scene, &manufacturer, |_, invented, wish| {
        let token = signed(&keys, invented, wish);
        assert_eq!(token.is_some(), wish.role == role);
        token
    });
    assert_nothing_released(&scene, liar);
}

#[test]
fn the_leaders_issuer_signs_what_it_likes_and_nothing_is_released() {
    a_lying_issuer(0);
}

#[test]
fn the_helpers_issuer_signs_what_it_likes_and_nothing_is_released() {
    a_lying_issuer(1);
}

#[test]
fn a_single_issuer_signs_what_it_likes_and_singles_one_out() {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, &[], true);
    scene.publish("commute", batch());
    let keys = keys(&scene, 0);
    assert_eq!(keys.len(), 2, "for both aggregators");
    attack(&mut scene, &manufacturer, |_, invented, wish| signed(&keys, invented, wish));
    assert_singled_out(&scene);
}

/// Liars in both chains: each gets one of the two tokens. The table of coalitions says what is left.
fn liars_in_both_chains(attesters: &[usize], issuers: &[usize]) {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, attesters, false);
    scene.publish("commute", batch());
    let keys: Vec<_> = issuers.iter().flat_map(|chain| keys(&scene, *chain)).collect();
    attack(&mut scene, &manufacturer, |scene, invented, wish| {
        signed(&keys, invented, wish).or_else(|| asked(scene, invented, wish))
    });
    assert_singled_out(&scene);
}

#[test]
fn both_attesters_together_single_one_out() {
    liars_in_both_chains(&[0, 1], &[]);
}

#[test]
fn the_leaders_attester_and_the_helpers_issuer_single_one_out() {
    liars_in_both_chains(&[0], &[1]);
}

#[test]
fn the_helpers_attester_and_the_leaders_issuer_single_one_out() {
    liars_in_both_chains(&[1], &[0]);
}

#[test]
fn both_issuers_together_single_one_out() {
    liars_in_both_chains(&[], &[0, 1]);
}

/// Each chain alone learns no more than one attester and one issuer did before: the tests of `wire`.
/// Here: a device that has only one of its tokens does not take part, and is not charged.
#[test]
fn a_device_with_one_token_stays_silent() {
    let manufacturer = Manufacturer::new();
    let mut scene = scene(&manufacturer, &[], false);
    scene.publish("commute", 2);
    scene.services().chains[1].attester.kill().unwrap();
    let badge = manufacturer.badge("a device", 1);
    let mut phone = scene.bare_phone().attested(badge.attestor());
    let done = phone.pass(5).unwrap();
    let round = done.tokens.as_ref().unwrap();
    assert_eq!((round.asked, round.granted, round.waiting), (2, 1, 1));
    let (attester, _) = round.failure.as_ref().unwrap();
    assert_eq!(attester.as_str(), "attester-b.example");
    assert!(done.considered.is_empty());
    scene.services().chains[1].attester.start().unwrap();
    answer(&mut phone, 5);
    let admitted: &Admitted = &scene.admitted("commute");
    assert!(admitted.encapsulation(Role::Leader) != admitted.encapsulation(Role::Helper));
}
