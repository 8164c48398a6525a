use sotto_wire::recipe::{
    AttributeType, EndorsedKey, Model, Noise, Probability, Randomizer, Round, UPDATE, VectorQuery,
};

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
    let said = |old: &Recipe, new: &Recipe| said(old, new).join("; ");
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

/// A header with a model, and one of its rounds.
fn trained() -> (Recipe, Recipe) {
    let mut header = testing::header();
    let training = Training {
        model: Model::Softmax { features: 6, classes: 8 },
        models: "https://models.example/".to_owned(),
        steps: 3,
        batch: Some(32),
        learning_rate_micro: 500_000,
        vote_weight_micro: None,
        largest_loss_micro: None,
    };
    header.attributes.insert(UPDATE.parse().unwrap(), AttributeType::Vector(48));
    header.query = Query::VectorMean(VectorQuery {
        dimension: 48,
        clip_micro: 1_000_000,
        fraction_bits: 15,
        mapping: UPDATE.to_owned(),
        compression: None,
    });
    header.randomizer = Randomizer::Gaussian { sigma_micro: 1_000_000 };
    header.series.as_mut().unwrap().training = Some(training);
    let model = Some(sotto_wire::EntryId::new([7; 32]));
    let round = header.with_round(Round { index: 3, model }).unwrap();
    (header, round)
}

fn said(old: &Recipe, new: &Recipe) -> Vec<String> {
    changes(old, new).iter().map(ToString::to_string).collect()
}

/// The same for every other field of the format would be a round of another series.
#[test]
fn a_round_differs_from_its_header_by_the_round_alone() {
    let (header, round) = trained();
    let found = changes(&header, &round);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].field, found[0].effect), ("series.round", Effect::Neutral));
    let model = "07".repeat(32);
    assert_eq!(found[0].text, format!("is the header -> round 3, model {model}"));
    let plain = testing::header();
    let round = plain.with_round(Round { index: 0, model: None }).unwrap();
    assert_eq!(said(&plain, &round), ["is the header -> round 0"]);
    let next = round.with_round(Round { index: 1, model: None }).unwrap();
    assert_eq!(said(&round, &next), ["is round 0 -> round 1"]);
}

/// A question of every week: its times follow from the number, so they do not differ.
#[test]
fn the_length_of_rounds_is_compared() {
    let weekly = testing::weekly();
    let round = weekly.with_round(Round { index: 3, model: None }).unwrap();
    assert_eq!(said(&weekly, &round), ["is the header -> round 3"]);
    let mut other = weekly.clone();
    other.series.as_mut().unwrap().length_s = None;
    assert_eq!(said(&weekly, &other), ["each round lasts 1w -> any length"]);
    let once = Recipe { series: None, ..weekly.clone() };
    let text = "up to 26 of 1w each, each device in any round";
    assert_eq!(said(&once, &weekly)[0], format!("asks in rounds instead of once: {text} (weaker)"));
}

#[test]
fn more_rounds_are_weaker() {
    let once = testing::recipe();
    let Recipe { author, parties, .. } = once.clone();
    let header = Recipe { author, parties, ..testing::header() };
    let text = "up to 30, each device in any round";
    let found = said(&once, &header);
    assert_eq!(found[0], format!("asks in rounds instead of once: {text} (weaker)"));
    assert!(found[1].starts_with("epsilon ") && found[1].ends_with("(weaker)"), "{found:?}");
    assert_eq!(found.len(), 2);
    let found = said(&header, &once);
    assert_eq!(found[0], format!("asks once instead of in rounds: {text} (stronger)"));
    let with = |rounds, participation| {
        let mut other = header.clone();
        other.series.as_mut().unwrap().rounds = rounds;
        other.series.as_mut().unwrap().participation = participation;
        if let Privacy::Claim { rounds: claimed, .. } = &mut other.privacy {
            *claimed = rounds;
        }
        other.check().unwrap();
        other
    };
    for (other, there, back) in [
        (
            with(40, Participation::EachRound {}),
            "rounds 30 -> 40 (weaker)",
            "rounds 40 -> 30 (stronger)",
        ),
        (
            with(30, Participation::Donation {}),
            "takes part: each device in any round -> each device at most once, in a secret round (stronger)",
            "takes part: each device at most once, in a secret round -> each device in any round (weaker)",
        ),
    ] {
        assert_eq!(said(&header, &other), [there]);
        assert_eq!(said(&other, &header), [back]);
    }
}

/// As above: an author could otherwise change a field of a series unnoticed.
#[test]
fn no_field_of_a_training_changes_in_silence() {
    let (_, round) = trained();
    fn terms(recipe: &mut Recipe) -> &mut Training {
        recipe.series.as_mut().unwrap().training.as_mut().unwrap()
    }
    type Case = (fn(&mut Recipe), &'static str);
    let cases: [Case; 10] = [
        (
            |it| {
                terms(it).steps = 0;
                terms(it).largest_loss_micro = Some(4_000_000);
            },
            "device says 3 steps of at most 32 examples, learning rate 0.5 -> the loss, at most 4, and the part of right predictions",
        ),
        (
            |it| terms(it).model = Model::Softmax { features: 8, classes: 6 },
            "trains softmax regression",
        ),
        (
            |it| terms(it).model = Model::Custom { name: "m".to_owned(), weights: 48 },
            "-> the model m (48 weights)",
        ),
        (|it| terms(it).models.push('x'), "models at https://models.example/ -> "),
        (|it| terms(it).steps = 1, "-> 1 step of at most 32 examples"),
        (|it| terms(it).batch = None, "-> 3 steps of all examples"),
        (|it| terms(it).learning_rate_micro = 1, "learning rate 0.5 -> "),
        (|it| terms(it).vote_weight_micro = Some(100_000), "vote on the clip none -> 0.1"),
        (|it| it.series.as_mut().unwrap().round = None, "is round 3, model"),
        (|it| it.series.as_mut().unwrap().training = None, "no longer trains"),
    ];
    for (change, part) in cases {
        let mut other = round.clone();
        change(&mut other);
        let found = said(&round, &other);
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:?}");
        assert_eq!(said(&other, &round).len(), 1, "{part}");
    }
    // The terms of an evaluation.
    let mut evaluation = round.clone();
    terms(&mut evaluation).largest_loss_micro = Some(4_000_000);
    let mut other = evaluation.clone();
    terms(&mut other).largest_loss_micro = Some(5_000_000);
    let found = said(&evaluation, &other);
    assert!(
        found.len() == 1 && found[0].contains("at most 4, ") && found[0].contains("at most 5, ")
    );
    terms(&mut other).model = Model::Softmax { features: 8, classes: 6 };
    assert!(said(&evaluation, &other)[0].starts_with("evaluates softmax regression"));
}
