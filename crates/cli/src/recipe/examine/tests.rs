use super::*;
use crate::recipe::new::testing::{self, NOW};

fn loaded(recipe: Recipe) -> Loaded {
    // Its token keys are placeholders.
    Loaded { token_keys_known: false, ..Loaded::complete(recipe, None) }
}

fn trust(change: impl FnOnce(&mut String)) -> Trust {
    let new = |name: &str| {
        let name = name.parse().unwrap();
        sotto_crypto::note::NoteKey::generate(name, &mut crate::random::system())
    };
    let key = |name: &str| new(name).verifier();
    let mut text = format!(
        "policy = \"log {}\\nwitness w {}\\nquorum w\\n\"\ninsecure_direct = true\n\
         [[operators]]\nkey = \"{}\"\n[[operators]]\nkey = \"{}\"\n[[operators]]\nkey = \"{}\"\n\
         [[operators]]\nkey = \"{}\"\n{TOKENS}",
        key("log.example"),
        new("witness.example").cosigner(),
        key("leader.example"),
        key("helper.example"),
        issuers()[0].verifier(),
        issuers()[1].verifier()
    );
    change(&mut text);
    let file: sotto_protocol::trust::TrustFile = toml::from_str(&text).unwrap();
    Trust::try_from(file).unwrap()
}

const TOKENS: &str = "[tokens.leader]\nissuer = \"issuer-a.example\"\n[tokens.helper]\nissuer = \"issuer-b.example\"\n";

/// Those of the leader's and of the helper's tokens.
fn issuers() -> [sotto_crypto::note::NoteKey; 2] {
    [("issuer-a.example", 4), ("issuer-b.example", 5)].map(|(name, seed)| {
        let seed = sotto_crypto::Secret::new([seed; 32]);
        sotto_crypto::note::NoteKey::from_seed(name.parse().unwrap(), seed)
    })
}

/// The same recipe with real keys that the issuers endorsed, and that expire this long after it
/// closes.
fn endorsed(mut recipe: Recipe, grace_s: u64) -> Loaded {
    let key = || {
        let key = sotto_crypto::blind_rsa::IssuerKey::generate().unwrap();
        sotto_wire::recipe::EndorsedKey::key_text(key.token_key().spki())
    };
    let expires = recipe.when.closes + grace_s;
    let [a, b] = issuers();
    let leader = a.endorse_for(&recipe, Role::Leader, &key(), expires);
    let helper = b.endorse_for(&recipe, Role::Helper, &key(), expires);
    recipe.parties.tokens = sotto_wire::recipe::Tokens::RateLimited { leader, helper };
    Loaded { token_keys_known: true, ..loaded(recipe) }
}

fn status(found: &Examination, check: Check) -> Status {
    found.checks.iter().find(|line| line.check == check.name()).unwrap().status
}

#[test]
fn a_good_recipe_passes_all_that_needs_no_log() {
    let found = examine(&loaded(testing::recipe()), Some(&trust(|_| {})), NOW).unwrap();
    assert!(found.ok, "{found:?}");
    let checks = [Check::Derivation, Check::Operators, Check::Floors, Check::Claim];
    for check in checks.into_iter().chain([Check::Ledger, Check::Lifetime]) {
        assert_eq!(status(&found, check), Status::Ok, "{check:?}");
    }
    assert_eq!(status(&found, Check::Inclusion), Status::Unknown);
    assert_eq!(status(&found, Check::TokenKeys), Status::Unknown);
    assert_eq!(found.id, None, "the id of a recipe with placeholders means nothing");
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

/// Of a billion devices only those of the audience are asked.
#[test]
fn the_crowd_is_the_certified_audience() {
    let mut recipe = testing::recipe();
    recipe.who.population = 1_000_000_000;
    target_minutes(&mut recipe);
    let found = |audience| {
        let found = examine(&Loaded { audience, ..loaded(recipe.clone()) }, None, NOW).unwrap();
        let devices = found.privacy.unwrap().colluding.unwrap().honest_devices;
        (found.crowd.expected, found.crowd.safe_min_batch, devices, found.warnings.len())
    };
    assert_eq!(found(Some(500_000)), (10_000.0, 9_600, 250_000, 1));
    assert_eq!(found(None), (20_000_000.0, 19_982_111, 500_000_000, 0));
    // The smaller of the two.
    assert_eq!(found(Some(2_000_000_000)), found(None));
}

/// A check, and a change of the recipe or the trust file that makes it fail.
type Case = (Check, fn(&mut Recipe), fn(&mut String));

/// One recipe for each check that fails.
#[test]
fn each_failure_is_named() {
    let cases: [Case; 12] = [
        (Check::Claim, claim_less, |_| {}),
        (
            Check::Derivation,
            |recipe| recipe.aggregation.vdaf = sotto_wire::recipe::RecipeVdaf::Prio3Count,
            |_| {},
        ),
        (Check::Operators, |recipe| recipe.parties.leader.operator = "x".parse().unwrap(), |_| {}),
        (Check::Floors, |_| {}, |text| text.push_str("[floors]\ndishonest_devices = 15000\n")),
        (Check::Ledger, |_| {}, |text| text.push_str("[budget]\nepsilon = 0.0001\n")),
        (Check::Lifetime, |_| {}, |text| text.push_str("[budget]\nlifetime_epsilon = 0.0001\n")),
        (Check::Open, over, |_| {}),
        (Check::LogKey, |recipe| recipe.parties.log = "other.example".to_owned(), |_| {}),
        (Check::Targeting, target_minutes, |_| {}),
        (
            Check::TokenKeys,
            |recipe| recipe.parties.tokens = sotto_wire::recipe::Tokens::InsecureNone,
            |_| {},
        ),
        (Check::TokenKeys, |_| {}, |text| *text = text.replace(TOKENS, "")),
        (
            Check::TokenKeys,
            |_| {},
            |text| {
                *text = text.replace("issuer = \"issuer-b.example\"", "issuer = \"helper.example\"")
            },
        ),
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

/// Without a trust file nothing is refused because of it, but the default floors are named.
#[test]
fn the_default_floors_are_named_where_there_is_no_trust_file() {
    let floors = |recipe: Recipe| {
        let found = examine(&loaded(recipe), None, NOW).unwrap();
        let line = found.checks.iter().find(|line| line.check == Check::Floors.name()).unwrap();
        (found.ok, found.refused_by_default, line.status, line.reason.clone())
    };
    let of_few = |devices| {
        let mut recipe = testing::recipe();
        recipe.aggregation.min_batch = devices;
        set_claim(&mut recipe, 100_000_000).unwrap();
        recipe
    };
    let needs = "needs --trust".to_owned();
    assert_eq!(floors(of_few(1_000)), (true, false, Status::Unknown, needs));
    let (ok, refused, status, reason) = floors(of_few(998));
    assert_eq!((ok, refused, status), (true, true, Status::Unknown));
    assert!(reason.starts_with("the default floors refuse it: a minimum batch of 998"), "{reason}");
}

#[test]
fn token_keys_are_checked_against_the_pinned_issuer() {
    let trust = trust(|_| {});
    let mut loaded = endorsed(testing::recipe(), TOKEN_GRACE_S);
    let found = examine(&loaded, Some(&trust), NOW).unwrap();
    assert!(found.ok, "{found:?}");
    assert_eq!(status(&found, Check::TokenKeys), Status::Ok);
    assert!(found.id.is_some());
    // Endorsed for another author: keys cannot be taken over.
    loaded.recipe.author.key = sotto_wire::PublicKey::new([9; 32]);
    let found = examine(&loaded, Some(&trust), NOW).unwrap();
    assert_eq!(status(&found, Check::TokenKeys), Status::Failed);
    let line = found.checks.iter().find(|line| line.check == "token_keys").unwrap();
    assert!(line.reason.contains("ask the issuer again"), "{}", line.reason);
    // Without the issuer's key, we only know who checks.
    let found = examine(&loaded, None, NOW).unwrap();
    let line = found.checks.iter().find(|line| line.check == "token_keys").unwrap();
    assert_eq!(line.status, Status::Unknown);
    assert!(line.reason.contains(
        "the leader checks a token of issuer-a.example, the helper one of issuer-b.example"
    ));
}

/// A draft without an author has a placeholder, for which there is no endorsement.
#[test]
fn token_keys_of_a_draft_without_an_author_are_not_refused() {
    let mut draft = endorsed(testing::recipe(), TOKEN_GRACE_S);
    draft.author_known = false;
    draft.recipe.author.key = sotto_wire::PublicKey::new([0; 32]);
    let found = examine(&draft, Some(&trust(|_| {})), NOW).unwrap();
    assert!(found.ok, "{found:?}");
    let line = found.checks.iter().find(|line| line.check == "token_keys").unwrap();
    assert_eq!(line.status, Status::Unknown);
    let reason = "not checked, because the author is not known yet; it is checked when you publish with --trust";
    assert_eq!(line.reason, reason);
    // Checks that need no author are still made.
    let other = trust(|text| {
        *text = text.replace("issuer = \"issuer-b.example\"", "issuer = \"helper.example\"");
    });
    assert_eq!(
        status(&examine(&draft, Some(&other), NOW).unwrap(), Check::TokenKeys),
        Status::Failed
    );
}

/// A wrong claim does not hide other problems.
#[test]
fn several_failures_are_seen_at_once() {
    let mut recipe = testing::recipe();
    claim_less(&mut recipe);
    let trust = trust(|text| text.push_str("[floors]\ndishonest_devices = 15000\n"));
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
    let mut insecure = testing::recipe();
    insecure.parties.tokens = sotto_wire::recipe::Tokens::InsecureNone;
    let warnings = examine(&loaded(insecure), None, NOW).unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("nobody checks tokens"), "{warnings:?}");
    let mut single = testing::recipe();
    if let sotto_wire::recipe::Tokens::RateLimited { leader, helper } = &mut single.parties.tokens {
        helper.issuer = leader.issuer.clone();
    }
    let warnings = examine(&loaded(single), None, NOW).unwrap().warnings;
    assert!(
        warnings.len() == 1 && warnings[0].contains("insecure_single_attester"),
        "{warnings:?}"
    );
    assert!(found.ok, "a warning is not a refusal: {:?}", found.checks);
}

/// Nobody can answer in its first two days, so they should not be part of it.
#[test]
fn a_recipe_that_opens_too_soon_is_warned_of() {
    let recipe = testing::recipe();
    let opens = recipe.when.opens;
    let mut draft = loaded(recipe.clone());
    let warnings = |loaded: &Loaded, now| examine(loaded, None, now).unwrap().warnings;
    assert_eq!(warnings(&draft, opens - LEAD_S), [""; 0]);
    let found = warnings(&draft, opens - LEAD_S + 1);
    assert!(found.len() == 1 && found[0].contains("less than two days from now"), "{found:?}");
    let found = warnings(&draft, opens);
    assert!(found.len() == 1 && found[0].contains("it has been open since"), "{found:?}");
    // One that is in the log opened in time, or it is too late for a warning.
    draft.index = Some(3);
    assert_eq!(warnings(&draft, opens), [""; 0]);
}

/// Reports of the last minutes are checked after the recipe has closed.
#[test]
fn a_token_key_that_expires_with_its_recipe_is_warned_of() {
    let warnings = |loaded: &Loaded| examine(loaded, None, NOW).unwrap().warnings;
    for grace_s in [0, TOKEN_GRACE_S - 1] {
        let mut short = endorsed(testing::recipe(), grace_s);
        let found = warnings(&short);
        assert!(found.len() == 1 && found[0].contains("token_expired"), "{found:?}");
        // One of the two is enough.
        if let sotto_wire::recipe::Tokens::RateLimited { leader, .. } =
            &mut short.recipe.parties.tokens
        {
            leader.expires += TOKEN_GRACE_S;
        }
        assert_eq!(warnings(&short), found);
        // Missing keys do not expire.
        short.token_keys_known = false;
        assert_eq!(warnings(&short), [""; 0]);
    }
    assert_eq!(warnings(&endorsed(testing::recipe(), TOKEN_GRACE_S)), [""; 0]);
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

/// Both ways to add noise stand side by side, whichever the recipe has; a large rho is a warning.
#[test]
fn noise_of_devices_and_of_aggregators_is_compared() {
    use sotto_wire::recipe::{AttributeType, Compression, Noise, Query};

    let of = |dimension: u32, randomizer, noise, compression| {
        let mut recipe = testing::recipe();
        recipe.attributes = [("trace".parse().unwrap(), AttributeType::Vector(dimension))].into();
        let (mapping, clip_micro) = ("trace".to_owned(), 2_000_000);
        recipe.query = Query::VectorSum(VectorQuery {
            dimension,
            clip_micro,
            fraction_bits: 15,
            mapping,
            compression,
        });
        (recipe.randomizer, recipe.noise) = (randomizer, noise);
        let judged = judgement_to_claim(&recipe, None).unwrap().unwrap();
        set_claim(&mut recipe, published(judged.epsilon).unwrap()).unwrap();
        let found = examine(&loaded(recipe), None, NOW).unwrap();
        assert_eq!(status(&found, Check::Claim), Status::Ok, "{found:?}");
        found
    };
    let devices = Randomizer::Gaussian { sigma_micro: 5_000_000 };
    let small = of(64, devices, None, None);
    let sides = small.contribution.as_ref().unwrap().sides.clone().unwrap();
    let (ours, theirs) = (&sides.noise_of_devices, &sides.noise_of_aggregators);
    assert!(ours.rho > 1.0 && ours.rho < 2.0 && theirs.rho == 1.0, "{sides:?}");
    assert!((ours.device_adds - 2.0 * ours.rho).abs() < 1e-9 && theirs.device_adds == 2.0);
    // Half of one is counted, and one of two of the other: the errors are about the same.
    assert!((ours.noise_error / theirs.noise_error - 1.0).abs() < 0.05, "{sides:?}");
    assert!(ours.report_bytes >= theirs.report_bytes && theirs.report_bytes > 64 * 8);
    let rho = |found: &Examination| found.warnings.iter().any(|line| line.contains("one cheating"));
    assert!(!rho(&small), "{:?}", small.warnings);
    let large = of(100_000, devices, None, None);
    assert!(rho(&large), "{:?}", large.warnings);
    // Fewer numbers are shorter and have a smaller rho.
    let compression = Some(Compression { dimension: 1_000, seed: 1 });
    let packed = of(100_000, devices, None, compression);
    let contribution = packed.contribution.as_ref().unwrap();
    let sides = contribution.sides.as_ref().unwrap();
    assert!(!rho(&packed) && sides.noise_of_devices.rho < 2.0, "{sides:?}");
    assert!(contribution.report_bytes < 50_000, "{}", contribution.report_bytes);
    let error = contribution.projection_error.unwrap();
    assert!((error * 1_000_f64.sqrt() - 1.0).abs() < 0.01, "{error}");
    let shorter =
        |found: &Examination| found.warnings.iter().any(|line| line.contains("the compression"));
    assert!(!shorter(&packed), "{:?}", packed.warnings);
    // The fixed part of a report does not become shorter.
    let hardly = of(64, devices, None, Some(Compression { dimension: 16, seed: 1 }));
    assert!(shorter(&hardly), "{:?}", hardly.warnings);
    let effect = |found: &Examination| found.contribution.as_ref().unwrap().effect.clone();

    let noise = Some(Noise::ServerGaussian { sigma_micro: 5_000_000 });
    let servers = of(64, Randomizer::None, noise, None);
    let sides = servers.contribution.as_ref().unwrap().sides.as_ref().unwrap();
    assert!(sides.noise_of_devices.rho > 1.0 && !rho(&servers), "{sides:?}");
    assert_eq!(
        effect(&servers),
        "sent as it is; both servers' noise on each number of the sum is 7.08 times the largest norm \
         (standard deviation)"
    );
    assert_eq!(sides.noise_of_aggregators.noise_error_of_mean, None);
    // Both servers add 5 clips of 2.
    assert!(
        (sides.noise_of_aggregators.noise_error - 10.0 * 2_f64.sqrt()).abs() < 0.1,
        "{sides:?}"
    );
}

#[test]
fn rounds_are_counted_for_one_device() {
    let header = testing::header();
    let found = examine(&loaded(header.clone()), None, NOW).unwrap();
    assert!(found.ok, "{:?}", found.checks);
    let json = serde_json::to_value(&found.series).unwrap();
    let text = |name: &str| json[name].to_string();
    let names = ["rounds", "donation", "most_rounds", "tokens_per_issuer", "header_id", "round"];
    assert_eq!(names.map(text), ["30", "false", "30", "30", "null", "null"]);
    // The dice of all answers together.
    let one = examine(&loaded(testing::recipe()), None, NOW).unwrap();
    assert!(one.series.is_none());
    let (all, once) = (found.privacy.unwrap(), one.privacy.unwrap());
    let ratio = all.local_epsilon.unwrap() / once.local_epsilon.unwrap();
    assert!((ratio - 30.0).abs() < 1e-9, "{ratio}");
    assert!(all.computed_epsilon > 2.0 * once.computed_epsilon);

    let round = header.with_round(sotto_wire::recipe::Round { index: 29, model: None }).unwrap();
    let known = Loaded::complete(round, None);
    let json = serde_json::to_value(Rounds::of(&known, None)).unwrap();
    assert_eq!(json["round"], 29);
    assert_eq!(json["header_id"], header.id().to_string());
}

/// A question of every week for half a year expects in each week what one of a single week does.
#[test]
fn rounds_with_a_length_expect_their_own_answers() {
    let (weekly, once) = (testing::weekly(), testing::recipe());
    let crowd = |recipe: &Recipe| examine(&loaded(recipe.clone()), None, NOW).unwrap().crowd;
    let round = weekly.with_round(sotto_wire::recipe::Round { index: 25, model: None }).unwrap();
    let expected = [&once, &weekly, &round].map(|recipe| crowd(recipe).expected_per_release);
    assert_eq!(expected, [20_000.0; 3]);
    let open = |recipe: &Recipe, now| {
        let found = examine(&loaded(recipe.clone()), None, now).unwrap();
        found.checks.into_iter().find(|line| line.check == Check::Open.name()).unwrap().reason
    };
    let opens = weekly.when.opens;
    let soon = words::moment(opens + 25 * 7 * 86_400);
    assert_eq!(open(&round, opens), format!("it opens at {soon}"));
    let end = words::moment(weekly.when.closes);
    assert_eq!(open(&weekly, opens), format!("it is open until {end}"));
}

/// A header must be in the log for a day; its rounds follow at once.
#[test]
fn a_round_may_open_today() {
    let header = testing::header();
    let round = header.with_round(sotto_wire::recipe::Round { index: 0, model: None }).unwrap();
    let (opens, closes) = (header.when.opens, header.when.closes);
    let warnings =
        |recipe: &Recipe, now| examine(&loaded(recipe.clone()), None, now).unwrap().warnings.len();
    for now in [opens - LEAD_S + 1, opens, closes - SOON_S + 1] {
        assert_eq!((warnings(&header, now), warnings(&round, now)), (1, 0), "{now}");
    }
}

#[test]
fn a_donation_expects_the_answers_of_its_last_round() {
    let mut header = testing::header();
    header.series.as_mut().unwrap().participation = sotto_wire::recipe::Participation::Donation {};
    let found = examine(&loaded(header), None, NOW).unwrap();
    // 10^6 (29/30)^29 / 30 devices stop there, of which 1 in 50 answers.
    assert!((found.crowd.expected - 249.4).abs() < 0.1, "{:?}", found.crowd);
    let json = serde_json::to_value(&found.series).unwrap();
    assert_eq!((&json["donation"], &json["most_rounds"]), (&true.into(), &1.into()));
}
