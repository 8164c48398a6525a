//! Rounds of a series: each token counts in one of them, at both aggregators.

use std::collections::BTreeMap;

use sotto_protocol::token::{ReportTokens, TokenTerms, report_id};
use sotto_wire::recipe::{Participation, Recipe, Round, Series};
use sotto_wire::{BatchMode, Encode, Role};

use super::issuing::{Asked, recipe, signed_on, window};
use super::party::BOTH_STORES;
use super::world::World;

/// A round of a series.
fn round(participation: Participation, mode: BatchMode, index: u64) -> Recipe {
    let mut recipe = recipe(mode, Asked::Both, "series");
    recipe.series = Some(Series {
        rounds: 5,
        participation,
        length_s: None,
        training: None,
        discovery: None,
        round: Some(Round { index, model: None }),
    });
    recipe
}

/// The pair with a number.
fn pair(world: &mut World, participation: u32) -> ReportTokens {
    let nonce = world.nonce();
    let header = world.recipe.header().unwrap();
    let mut token = |role| {
        let terms = TokenTerms::of(&header, role).unwrap().unwrap();
        let terms = terms.participation(participation).unwrap();
        signed_on(&terms, role, &nonce, &mut world.rng).to_bytes()
    };
    let (leader, helper) = (token(Role::Leader), Some(token(Role::Helper)));
    ReportTokens { report_id: report_id(&nonce), leader, helper }
}

/// The token of a donation is good for any round.
#[test]
fn a_token_counts_in_one_round() {
    let round = |mode, index| round(Participation::Donation {}, mode, index);
    for kind in BOTH_STORES {
        for mode in [BatchMode::TimeInterval, BatchMode::LeaderSelected] {
            let mut world = World::of(kind, round(mode, 0));
            let wallet = [0, 0].map(|number| pair(&mut world, number));
            let first = world.report(3, window(0), Some(&wallet[0]));
            world.aggregate(&[first]);
            assert_eq!(world.counted(), BTreeMap::from([(3, 1)]));
            world.leader.restart();
            world.helper.restart();

            // The next round takes the same tokens, and neither takes one twice.
            world.serve(round(mode, 1));
            let again = world.report(4, window(0), Some(&wallet[0]));
            let other = world.report(5, window(0), Some(&wallet[1]));
            world.aggregate(&[again.clone(), other]);
            assert_eq!(world.counted(), BTreeMap::from([(5, 1)]));
            assert_eq!(world.leader.refused(), BTreeMap::from([("report_replayed", 1)]));

            // Nor does the helper, if the leader has forgotten the series.
            world.serve(round(mode, 2));
            world.replace_leader();
            let spent = wallet.each_ref().map(|tokens| world.report(6, window(0), Some(tokens)));
            let fresh = pair(&mut world, 0);
            let fresh = world.report(7, window(0), Some(&fresh));
            world.aggregate(&[&spent[..], &[fresh]].concat());
            assert_eq!(world.counted(), BTreeMap::from([(7, 1)]));
            assert_eq!(world.helper.refused(), BTreeMap::from([("report_replayed", 2)]));
        }
    }
}

/// Not of another round, of another series, of a plain recipe.
#[test]
fn a_round_takes_its_own_tokens_alone() {
    for kind in BOTH_STORES {
        let each = Participation::EachRound {};
        let mut world = World::of(kind, round(each, BatchMode::LeaderSelected, 0));
        let next = pair(&mut world, 1);
        let honest = world.honest(1);
        let mut reports = vec![honest, world.report(2, window(0), Some(&next))];
        let served = world.recipe.clone();
        let mut other = served.clone();
        other.name = "another".to_owned();
        let mut plain = served.clone();
        plain.series = None;
        for recipe in [other, plain] {
            world.recipe = recipe;
            let nonce = world.nonce();
            let tokens = world.tokens(&nonce);
            world.recipe = served.clone();
            reports.push(world.report(3, window(0), Some(&tokens)));
        }
        world.aggregate(&reports);
        assert_eq!(world.counted(), BTreeMap::from([(1, 1)]));
        assert_eq!(world.leader.refused(), BTreeMap::from([("token_wrong_recipe", 3)]));
    }
}
