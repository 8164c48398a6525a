use super::*;
use crate::recipe::new::testing::{self, NOW};

fn loaded(recipe: Recipe) -> Loaded {
    Loaded { recipe, entry: None, author_known: true, index: None }
}

fn trust(change: impl FnOnce(&mut String)) -> Trust {
    let new = |name: &str| {
        let name = name.parse().unwrap();
        sotto_crypto::note::NoteKey::generate(name, &mut crate::random::system())
    };
    let key = |name: &str| new(name).verifier();
    let mut text = format!(
        "policy = \"log {}\\nwitness w {}\\nquorum w\\n\"\ninsecure_direct = true\n\
         [[operators]]\nkey = \"{}\"\n[[operators]]\nkey = \"{}\"\n",
        key("log.example"),
        new("witness.example").cosigner(),
        key("leader.example"),
        key("helper.example")
    );
    change(&mut text);
    let file: sotto_protocol::trust::TrustFile = toml::from_str(&text).unwrap();
    Trust::try_from(file).unwrap()
}

fn status(found: &Examination, check: Check) -> Status {
    found.checks.iter().find(|line| line.check == check.name()).unwrap().status
}

#[test]
fn a_good_recipe_passes_all_that_needs_no_log() {
    let found = examine(&loaded(testing::recipe()), Some(&trust(|_| {})), NOW).unwrap();
    assert!(found.ok, "{found:?}");
    for check in [Check::Derivation, Check::Operators, Check::Floors, Check::Claim, Check::Ledger] {
        assert_eq!(status(&found, check), Status::Ok, "{check:?}");
    }
    assert_eq!(status(&found, Check::Inclusion), Status::Unknown);
    assert_eq!(found.checks.len(), Check::ALL.len());
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    let privacy = found.privacy.unwrap();
    assert!(privacy.computed_epsilon <= privacy.claimed_epsilon);
    assert!(privacy.paper_epsilon < privacy.computed_epsilon);
    assert!(privacy.local_epsilon.unwrap() > 3.9);
    let keep = found.contribution.unwrap().keep_probability.unwrap();
    let expected = 4f64.exp() / (4f64.exp() + 2.0);
    assert!((keep - expected).abs() < 1e-9, "{keep}");
}

/// A check, and what makes it fail: in the recipe, or in the trust file.
type Case = (Check, fn(&mut Recipe), fn(&mut String));

/// One recipe for each check that fails.
#[test]
fn each_failure_is_named() {
    let cases: [Case; 8] = [
        (Check::Claim, claim_less, |_| {}),
        (
            Check::Derivation,
            |recipe| recipe.aggregation.vdaf = sotto_wire::recipe::RecipeVdaf::Prio3Count,
            |_| {},
        ),
        (Check::Operators, |recipe| recipe.parties.leader.operator = "x".parse().unwrap(), |_| {}),
        (Check::Floors, |_| {}, |text| text.push_str("[floors]\nmin_batch = 30000\n")),
        (Check::Ledger, |_| {}, |text| text.push_str("[budget]\nepsilon = 0.0001\n")),
        (Check::Open, over, |_| {}),
        (Check::LogKey, |recipe| recipe.parties.log = "other.example".to_owned(), |_| {}),
        (Check::Targeting, target_minutes, |_| {}),
    ];
    for (check, change, change_trust) in cases {
        let mut recipe = testing::recipe();
        change(&mut recipe);
        let found = examine(&loaded(recipe), Some(&trust(change_trust)), NOW).unwrap();
        assert!(!found.ok, "{check:?}");
        let failed: Vec<&str> = found
            .checks
            .iter()
            .filter(|line| line.status == Status::Failed)
            .map(|line| line.check)
            .collect();
        assert_eq!(failed, [check.name()]);
    }
}

/// A wrong claim does not hide what else is wrong.
#[test]
fn several_failures_are_seen_at_once() {
    let mut recipe = testing::recipe();
    claim_less(&mut recipe);
    let trust = trust(|text| text.push_str("[floors]\nmin_batch = 30000\n"));
    let found = examine(&loaded(recipe), Some(&trust), NOW).unwrap();
    assert_eq!(status(&found, Check::Claim), Status::Failed);
    assert_eq!(status(&found, Check::Floors), Status::Failed);
}

#[test]
fn warnings_are_given() {
    let mut recipe = testing::recipe();
    recipe.aggregation.min_batch = 19_900;
    let closes = recipe.when.closes;
    let found = examine(&loaded(recipe), None, closes - 100).unwrap();
    assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    assert!(found.ok, "a warning is no refusal: {:?}", found.checks);
}

fn claim_less(recipe: &mut Recipe) {
    if let Privacy::Claim { epsilon_micro, .. } = &mut recipe.privacy {
        *epsilon_micro = *epsilon_micro * 99 / 100;
    }
}

fn over(recipe: &mut Recipe) {
    let length = recipe.when.closes - recipe.when.opens;
    (recipe.when.opens, recipe.when.closes) = (NOW - length, NOW);
}

fn target_minutes(recipe: &mut Recipe) {
    recipe.who.targeting = Some(sotto_wire::recipe::Targeting {
        predicate: "minutes > 3".to_owned(),
        certified: sotto_wire::EntryId::new([0; 32]),
    });
}
