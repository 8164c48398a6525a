use sotto_wire::recipe::{AttributeType, EndorsedKey, Noise, Probability, Randomizer};

use super::*;
use crate::recipe::new::testing;

fn described(change: impl FnOnce(&mut Recipe)) -> Vec<String> {
    let old = testing::recipe();
    let mut new = old.clone();
    change(&mut new);
    changes(&old, &new).iter().map(ToString::to_string).collect()
}

#[test]
fn a_recipe_does_not_differ_from_itself() {
    assert!(described(|_| {}).is_empty());
}

#[test]
fn changes_are_said_in_words_with_their_effect() {
    let found = described(|recipe| {
        recipe.aggregation.min_batch = 500;
        recipe.sampling.rate = Probability::new(1, 10).unwrap();
        recipe.randomizer = Randomizer::RandomizedResponse { epsilon_micro: 2_500_000 };
        if let Privacy::Claim { epsilon_micro, .. } = &mut recipe.privacy {
            *epsilon_micro = 800_000;
        }
    });
    assert_eq!(found[0], "sampling rate 1 in 50 -> 1 in 10 (weaker)");
    assert_eq!(found[1], "local epsilon 4 -> 2.5 (stronger)");
    assert_eq!(found[2], "minimum batch 19,434 -> 500 (weaker)");
    assert!(found[3].ends_with("-> 0.8 (weaker)"), "{}", found[3]);
    assert_eq!(found.len(), 4);
}

#[test]
fn more_eyes_and_less_noise_are_weaker() {
    let found = described(|recipe| {
        recipe.attributes.insert("home".parse().unwrap(), AttributeType::String);
        recipe.randomizer = Randomizer::None;
        recipe.privacy = Privacy::InsecureUnbounded;
        recipe.when.window_s = 60;
    });
    let weaker = found.iter().filter(|text| text.ends_with("(weaker)")).count();
    assert_eq!((found.len(), weaker), (4, 4), "{found:?}");
    assert_eq!(found[0], "may now read the attribute home (string) (weaker)");
}

/// Every difference is described: otherwise an author could change a field unnoticed.
#[test]
fn no_field_changes_in_silence() {
    let changes: [fn(&mut Recipe); 23] = [
        |recipe| recipe.name.push('x'),
        |recipe| recipe.purpose.push('x'),
        |recipe| recipe.author = signer("other.example"),
        |recipe| recipe.attributes.clear(),
        |recipe| recipe.who.population += 1,
        |recipe| recipe.who.targeting = Some(targeting()),
        |recipe| recipe.when.opens -= 3_600,
        |recipe| recipe.when.closes += 3_600,
        |recipe| recipe.when.window_s = 1,
        |recipe| recipe.when.max_window_s -= 3_600,
        |recipe| recipe.sampling.rate = Probability::ONE,
        |recipe| recipe.sampling.default_rate = Some(Probability::new(1, 99).unwrap()),
        |recipe| recipe.sampling.dummy_rate = Probability::ONE,
        |recipe| recipe.sampling.cover = Probability::ZERO,
        |recipe| labels(recipe).push("x".to_owned()),
        |recipe| recipe.randomizer = Randomizer::None,
        |recipe| recipe.aggregation.min_batch += 1,
        |recipe| recipe.aggregation.batch_mode = sotto_wire::BatchMode::LeaderSelected,
        |recipe| recipe.aggregation.vdaf = sotto_wire::recipe::RecipeVdaf::Prio3Count,
        |recipe| recipe.privacy = Privacy::InsecureUnbounded,
        |recipe| recipe.parties.leader.url.push('x'),
        |recipe| recipe.parties.helper.operator = "x".parse().unwrap(),
        |recipe| recipe.parties.log.push('x'),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        assert_eq!(described(change).len(), 1, "change {place}");
    }
}

/// Noise on the sum, and none.
#[test]
fn noise_of_the_aggregators_is_compared() {
    let mut exact = testing::recipe();
    exact.randomizer = Randomizer::None;
    let noise = |sigma_micro| Recipe {
        noise: Some(Noise::ServerGaussian { sigma_micro }),
        ..exact.clone()
    };
    let said = |old: &Recipe, new: &Recipe| {
        changes(old, new).iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let (little, much) = (noise(2_000_000), noise(3_000_000));
    assert_eq!(said(&little, &much), "noise of each server 2 -> 3 (stronger)");
    assert_eq!(said(&little, &exact), "values are no longer randomized (weaker)");
    assert!(said(&exact, &little).ends_with("noise of each server 2 (stronger)"));
    assert_eq!(described(|recipe| recipe.parties.collector_hpke_config.push('x')).len(), 1);
    assert_eq!(described(|recipe| mapping(recipe).push(' ')).len(), 1);
    let changes: [fn(&mut Recipe); 6] = [
        |recipe| token_parts(recipe).0.issuer = "other.example".parse().unwrap(),
        |recipe| token_parts(recipe).1.issuer = "other.example".parse().unwrap(),
        |recipe| token_parts(recipe).0.expires += 1,
        |recipe| token_parts(recipe).0.endorsement.push('x'),
        |recipe| token_parts(recipe).1.public_key.push('x'),
        |recipe| recipe.parties.tokens = Tokens::InsecureNone,
    ];
    for change in changes {
        assert_eq!(described(change).len(), 1);
    }
}

/// A smaller claim does not make up for what a device loses if both servers collude.
#[test]
fn noise_instead_of_a_randomizer_is_weaker_if_both_collude() {
    let response = testing::recipe();
    let mut noise = response.clone();
    noise.randomizer = Randomizer::None;
    noise.noise = Some(Noise::ServerGaussian { sigma_micro: 100_000_000 });
    if let Privacy::Claim { epsilon_micro, .. } = &mut noise.privacy {
        *epsilon_micro = 1_400;
    }
    let found = changes(&response, &noise);
    assert_eq!(found[0].field, "randomizer");
    assert_eq!((found[0].effect, found[1].effect), (Effect::Weaker, Effect::Stronger));
    assert!(found[0].text.ends_with("see them exactly if they collude"), "{}", found[0].text);
    assert_eq!(changes(&noise, &response)[0].effect, Effect::Stronger);
    // RAPPOR's epsilon is for deletion: half of that for replacement.
    let rappor = |epsilon_micro| {
        let randomizer = Randomizer::Rappor { epsilon_micro };
        changes(&response, &Recipe { randomizer, ..response.clone() })[0].clone()
    };
    assert_eq!(rappor(2_000_000).effect, Effect::Neutral);
    let weaker = rappor(3_000_000);
    assert_eq!(weaker.effect, Effect::Weaker);
    assert!(weaker.text.ends_with(": the randomizer alone has epsilon 4 -> 6"), "{}", weaker.text);
}

#[test]
fn shares_are_said_as_people_do() {
    let found = described(|recipe| {
        recipe.sampling.dummy_rate = Probability::new(1, 20).unwrap();
        recipe.sampling.cover = Probability::new(1, 2).unwrap();
        if let Privacy::Claim { delta, .. } = &mut recipe.privacy {
            *delta = Probability::new(1, 1_000).unwrap();
        }
    });
    let expected =
        ["dummies none -> 1 in 20", "cover all -> 1 in 2 (weaker)", "delta 1e-9 -> 1e-3 (weaker)"];
    assert_eq!(found, expected);
}

#[test]
fn fewer_checks_of_tokens_are_weaker() {
    let both = testing::recipe();
    let mut leader_only = both.clone();
    let leader = token_parts(&mut leader_only).0.clone();
    leader_only.parties.tokens = Tokens::InsecureLeaderOnly { leader };
    let mut none = both.clone();
    none.parties.tokens = Tokens::InsecureNone;
    for (strong, weak) in [(&both, &leader_only), (&leader_only, &none), (&both, &none)] {
        let effects = |old, new| changes(old, new).iter().map(|c| c.effect).collect::<Vec<_>>();
        assert_eq!(effects(strong, weak), [Effect::Weaker]);
        assert_eq!(effects(weak, strong), [Effect::Stronger]);
    }
}

fn token_parts(recipe: &mut Recipe) -> (&mut EndorsedKey, &mut EndorsedKey) {
    match &mut recipe.parties.tokens {
        Tokens::RateLimited { leader, helper } => (leader, helper),
        _ => panic!("no tokens"),
    }
}

fn signer(name: &str) -> sotto_wire::Signer {
    sotto_wire::Signer { name: name.parse().unwrap(), key: sotto_wire::PublicKey::new([1; 32]) }
}

fn targeting() -> Targeting {
    Targeting { predicate: "true".to_owned(), certified: sotto_wire::EntryId::new([0; 32]) }
}

fn labels(recipe: &mut Recipe) -> &mut Vec<String> {
    match &mut recipe.query {
        Query::Histogram { labels: Some(labels), .. } => labels,
        _ => panic!("no labels"),
    }
}

fn mapping(recipe: &mut Recipe) -> &mut String {
    match &mut recipe.query {
        Query::Histogram { mapping, .. } => mapping,
        _ => panic!("no histogram"),
    }
}
