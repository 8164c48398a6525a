use sotto_wire::recipe::{Probability, Randomizer, Tokens};

use super::testing::{NOW, arguments};
use super::*;

fn draft(change: impl FnOnce(&mut NewArgs)) -> Result<Recipe> {
    let folder = tempfile::tempdir().unwrap();
    let mut args = arguments(folder.path());
    change(&mut args);
    args.nothing_missing()?;
    let mut draft = args.draft(&mut Inquiry::new(None), NOW)?;
    with_claim(&mut draft)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn defaults_are_sensible() {
    let recipe = draft(|_| {}).unwrap();
    assert_eq!(recipe.sampling.rate, Probability::new(1, 50).unwrap());
    assert_eq!(recipe.aggregation.min_batch, 19_434);
    assert_eq!(recipe.randomizer, Randomizer::RandomizedResponse { epsilon_micro: 4_000_000 });
    assert_eq!(recipe.when.opens, NOW + 86_400);
    assert_eq!(recipe.when.closes - recipe.when.opens, 7 * 86_400);
    assert_eq!(recipe.when.max_window_s, 7 * 86_400);
    let Privacy::Claim { epsilon_micro, .. } = recipe.privacy else { panic!("no claim") };
    assert!((1_000..100_000).contains(&epsilon_micro), "{epsilon_micro}");
}

#[test]
fn the_claim_is_what_a_device_computes_and_not_a_millionth_more() {
    let recipe = draft(|_| {}).unwrap();
    assert!(Assessment::new(recipe.clone()).is_ok());
    let mut less = recipe;
    if let Privacy::Claim { epsilon_micro, .. } = &mut less.privacy {
        *epsilon_micro -= 1;
    }
    assert!(Assessment::new(less).is_err());
}

#[test]
fn options_are_named_in_errors() {
    let refused = |change: fn(&mut NewArgs), part: &str| {
        let error = format!("{:#}", draft(change).unwrap_err());
        assert!(error.contains(part), "{error} / {part}");
    };
    refused(|args| args.purpose = None, "missing: --purpose");
    refused(|args| args.labels = None, "--labels (or --buckets)");
    refused(|args| args.rate = text("2"), "--rate");
    refused(|args| args.epsilon0 = text("-1"), "--epsilon0");
    refused(|args| args.population = text("many"), "--population");
    refused(|args| args.mapping = text("minuts < 3 ? 0 : 1"), "--mapping");
    refused(|args| args.attribute = vec!["minutes:float".to_owned()], "--attribute");
    refused(|args| args.closes = text("2026-11-20T00:30:00Z"), "--closes");
    refused(|args| args.fallback = text("longest"), "--fallback");
    refused(|args| args.leader_url = text("leader.example"), "--leader-url");
    refused(|args| args.collector_key = text("/does/not/exist"), "--collector-key");
    refused(|args| args.helper_operator = text("leader.example"), "must differ");
    refused(|args| args.mapping = text("minutes < 3"), "the mapping gives bool");
    refused(|args| args.kind = Some(Kind::Count), "randomizer");
    let missing = "missing: --leader-issuer (or --insecure-no-tokens)";
    refused(|args| args.leader_issuer = None, missing);
    refused(|args| args.helper_issuer = None, "missing: --helper-issuer");
    refused(|args| args.leader_issuer = text("two words"), "--leader-issuer");
    refused(|args| args.helper_issuer = text("two words"), "--helper-issuer");
    refused(|args| args.leader_issuer = text("leader.example"), "another operator");
    refused(|args| args.helper_issuer = text("leader.example"), "another operator");
}

#[test]
fn doing_without_tokens_must_be_said() {
    let tokens = |change: fn(&mut NewArgs)| draft(change).unwrap().parties.tokens;
    assert!(matches!(tokens(|_| {}), Tokens::RateLimited { .. }));
    assert!(matches!(
        tokens(|args| {
            args.helper_issuer = None;
            args.insecure_leader_only = true;
        }),
        Tokens::InsecureLeaderOnly { .. }
    ));
    let none = tokens(|args| {
        (args.leader_issuer, args.helper_issuer) = (None, None);
        args.insecure_no_tokens = true;
    });
    assert_eq!(none, Tokens::InsecureNone);
}

#[test]
fn counts_and_sums_are_exact_only() {
    let recipe = draft(|args| {
        args.kind = Some(Kind::Sum);
        args.labels = None;
        args.max = text("240");
        args.mapping = text("minutes");
        args.insecure_exact = true;
    });
    let recipe = recipe.unwrap();
    assert!(matches!(recipe.query, Query::Sum { max: 240, .. }));
    assert_eq!(recipe.privacy, Privacy::InsecureUnbounded);
}

#[test]
fn a_person_can_be_asked_for_everything() {
    let folder = tempfile::tempdir().unwrap();
    let scripted = arguments(folder.path());
    let key = scripted.collector_key.clone().unwrap();
    let answers = format!(
        "commute\nHow long?\n\nshort,middle,long\nminutes:int\nminutes < 15 ? 0 : seconds\n\
         minutes < 15 ? 0 : 1\n1,000,000\n\n\n\n\n\n\nleader.example\nhttps://leader.example/\n\
         helper.example\nhttps://helper.example/\n{key}\nlog.example\n\
         issuer-a.example\nissuer-b.example\n"
    );
    let (mut input, mut shown) = (answers.as_bytes(), Vec::new());
    let args = NewArgs { window: 3_600, ..NewArgs::default() };
    let mut inquiry = Inquiry::new(Some(Prompt::new(&mut input, &mut shown)));
    let mut draft = args.draft(&mut inquiry, NOW).unwrap();
    let recipe = with_claim(&mut draft).unwrap();
    assert_eq!(recipe.purpose, "How long?");
    assert_eq!(recipe.aggregation.min_batch, 19_434);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("seconds"), "the mistake is explained: {shown}");
    assert!(shown.contains("[1/50]"), "{shown}");
}

#[test]
fn the_file_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = arguments(folder.path()).draft(&mut Inquiry::new(None), NOW).unwrap();
    let recipe = with_claim(&mut draft).unwrap();
    let path = folder.path().join("commute.toml");
    recipe_file::write(&path, draft.to_toml().as_bytes(), false).unwrap();
    let loaded = recipe_file::load(&path).unwrap();
    assert_eq!(loaded.recipe, recipe);
    assert!(!loaded.author_known && !loaded.token_keys_known && !loaded.id_known());
    assert!(recipe_file::write(&path, b"", false).is_err());
}
