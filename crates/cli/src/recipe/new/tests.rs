use clap::FromArgMatches;
use sotto_wire::BatchMode;
use sotto_wire::recipe::{Model, Noise, Participation, Probability, Randomizer, Tokens};

use super::testing::{NOW, arguments};
use super::*;
use crate::pages::{blocks, command_lines};
use sotto_protocol::plan::{Answers, errors};
use sotto_protocol::recipe::{judgement, show_micro};

fn draft(change: impl FnOnce(&mut NewArgs)) -> Result<Recipe> {
    let folder = tempfile::tempdir().unwrap();
    let mut args = arguments(folder.path());
    change(&mut args);
    args.nothing_missing()?;
    let mut draft = args.draft(&mut Inquiry::new(None), NOW)?;
    with_claim(&mut draft, None)
}

const WEEK_S: u64 = 7 * 86_400;

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn defaults_are_sensible() {
    let recipe = draft(|_| {}).unwrap();
    assert_eq!(recipe.sampling.rate, Probability::new(1, 50).unwrap());
    assert_eq!(recipe.aggregation.min_batch, 19_434);
    let Randomizer::RandomizedResponse { epsilon_micro } = recipe.randomizer else { panic!() };
    assert!((3_000_000..5_000_000).contains(&epsilon_micro), "{epsilon_micro}");
    assert_eq!(recipe.when.opens, NOW + 2 * 86_400);
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
    refused(|args| args.error = text("0"), "--error");
    let missing = "missing: --leader-issuer (or --insecure-no-tokens)";
    refused(|args| args.leader_issuer = None, missing);
    refused(|args| args.helper_issuer = None, "missing: --helper-issuer");
    refused(|args| args.leader_issuer = text("two words"), "--leader-issuer");
    refused(|args| args.helper_issuer = text("two words"), "--helper-issuer");
    refused(|args| args.helper_issuer = text("issuer-a.example"), "the issuers must differ");
    for url in ["https://LEADER.example:443/helper", "https://leader.example"] {
        let error = draft(|args| args.helper_url = text(url)).unwrap_err();
        assert!(format!("{error:#}").contains("the leader is at this address"), "{error:#}");
    }
    refused(|args| args.opens = text("2020-01-01"), "it is in the past");
    refused(|args| args.opens = text("2026-11-13T23:00:00Z"), "it is in the past");
    refused(|args| args.max = text("9"), "--max does not go with --kind histogram");
    refused(|args| args.sigma = text("0"), "--sigma cannot be used: it must be at least 0.5");
    refused(|args| args.adjacency = Neighbours::AddRemove, "add-remove needs noise");
    refused(
        |args| (args.labels, args.buckets, args.fallback) = (None, text("200000"), None),
        "at most 100,000 are possible",
    );
    refused(
        |args| {
            args.dummy_rate = Some(Probability::new(1, 10).unwrap());
            args.epsilon0 = text("4");
        },
        "sampling.dummy_rate must be 0 with randomizer.kind randomized_response",
    );
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
fn counts_and_sums_may_be_exact() {
    let recipe = draft(|args| {
        args.kind = Some(Kind::Sum);
        (args.labels, args.fallback) = (None, None);
        args.max = text("240");
        args.mapping = text("minutes");
        args.insecure_exact = true;
    });
    let recipe = recipe.unwrap();
    assert!(matches!(recipe.query, Query::Sum { max: 240, .. }));
    assert_eq!(recipe.privacy, Privacy::InsecureUnbounded);
}

/// Every kind gets a claim, by a randomizer or by noise of the aggregators.
#[test]
fn every_kind_is_made_with_a_claim() {
    let of_kind = |kind, change: fn(&mut NewArgs)| {
        let recipe = draft(|args| {
            (args.kind, args.fallback) = (Some(kind), None);
            args.mapping = text("minutes");
            match kind {
                Kind::Sum | Kind::Mean => (args.labels, args.max) = (None, text("240")),
                Kind::Count => args.labels = None,
                Kind::Quantiles => (args.labels, args.boundaries) = (None, text("-5,15,45")),
                Kind::MultiHistogram => args.most = text("2"),
                Kind::VectorSum | Kind::VectorMean | Kind::Nearest => args.labels = None,
                Kind::Histogram | Kind::SparseHistogram => {}
            }
            change(args);
            args.nothing_missing().unwrap();
        });
        let recipe = recipe.unwrap();
        assert!(matches!(recipe.privacy, Privacy::Claim { .. }));
        assert!(Assessment::new(recipe.clone()).is_ok());
        recipe
    };
    let sigma = |sigma_micro| Some(Noise::ServerGaussian { sigma_micro });
    for kind in [Kind::Sum, Kind::Mean] {
        let recipe = of_kind(kind, |args| args.sigma = text("10000.5"));
        assert_eq!((recipe.randomizer, recipe.noise), (Randomizer::None, sigma(10_000_500_000)));
    }
    let count = of_kind(Kind::Count, |args| {
        args.mapping = text("minutes < 15");
        args.epsilon = text("0.1");
    });
    let Privacy::Claim { epsilon_micro, .. } = count.privacy else { unreachable!() };
    assert!((99_000..=100_000).contains(&epsilon_micro), "{epsilon_micro}");
    let quantiles = of_kind(Kind::Quantiles, |_| {});
    let Query::Quantiles { boundaries, fallback: 0, .. } = &quantiles.query else { panic!() };
    assert_eq!(boundaries, &[-5, 15, 45]);
    assert_eq!(quantiles.randomizer.kind(), "randomized_response");
    let sparse = of_kind(Kind::SparseHistogram, |args| args.fallback = text("middle"));
    assert!(matches!(sparse.query, Query::SparseHistogram { buckets: 3, default: 1, .. }));
    let several = of_kind(Kind::MultiHistogram, |args| {
        args.mapping = text("minutes < 15 ? ['short'] : ['long', minutes]");
        args.fallback = text("long,short");
    });
    let Query::MultiHistogram { most: 2, fallback, .. } = &several.query else { panic!() };
    assert_eq!(fallback, &[0, 2]);
    let missing = |kind, change: fn(&mut NewArgs)| {
        let folder = tempfile::tempdir().unwrap();
        let mut args = arguments(folder.path());
        args.kind = Some(kind);
        change(&mut args);
        args.nothing_missing().unwrap_err().to_string()
    };
    assert_eq!(missing(Kind::Mean, |_| {}), "missing: --max");
    assert_eq!(missing(Kind::Quantiles, |_| {}), "missing: --boundaries");
    assert_eq!(missing(Kind::MultiHistogram, |_| {}), "missing: --most");
}

#[test]
fn a_person_can_be_asked_for_everything() {
    let folder = tempfile::tempdir().unwrap();
    let scripted = arguments(folder.path());
    let key = scripted.collector_key.clone().unwrap();
    let answers = format!(
        "commute\nHow long?\n\nshort,middle,long\nminutes:int\nminutes < 15 ? 0 : seconds\n\
         minutes < 15 ? 0 : 1\n1,000,000\n\n\n\nleader.example\nhttps://leader.example/\n\
         helper.example\nhttps://helper.example/\n{key}\nlog.example\n\
         issuer-a.example\nissuer-b.example\n"
    );
    let (mut input, mut shown) = (answers.as_bytes(), Vec::new());
    let out = Some(folder.path().join("commute.toml"));
    let args = NewArgs { window: 3_600, out, ..NewArgs::default() };
    let mut inquiry = Inquiry::new(Some(Prompt::new(&mut input, &mut shown, 80)));
    let mut draft = args.draft(&mut inquiry, NOW).unwrap();
    let recipe = with_claim(&mut draft, None).unwrap();
    assert_eq!(recipe.purpose, "How long?");
    assert_eq!(recipe.aggregation.min_batch, 19_434);
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("seconds"), "the mistake is explained: {shown}");
    assert!(shown.contains("[at most 1]") && !shown.contains("With which probability"), "{shown}");
}

#[test]
fn the_file_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = arguments(folder.path()).draft(&mut Inquiry::new(None), NOW).unwrap();
    let recipe = with_claim(&mut draft, None).unwrap();
    let path = folder.path().join("commute.toml");
    recipe_file::write(&path, draft.to_toml().as_bytes(), false).unwrap();
    let loaded = recipe_file::load(&path).unwrap();
    assert_eq!(loaded.recipe, recipe);
    assert!(!loaded.author_known && !loaded.token_keys_known && !loaded.id_known());
    assert!(recipe_file::write(&path, b"", false).is_err());
}

/// Devices with missing or mistyped data must not count as an answer.
#[test]
fn devices_without_an_answer_have_a_bucket_of_their_own() {
    let question = |change: fn(&mut NewArgs)| {
        let recipe = draft(|args| {
            args.fallback = None;
            change(args);
        });
        match recipe.unwrap().query {
            Query::Histogram { buckets, labels, fallback, .. } => (buckets, labels, fallback),
            other => panic!("{other:?}"),
        }
    };
    let labels = |all: &str| Some(all.split(',').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(question(|_| {}), (4, labels("short,middle,long,unknown"), 3));
    // It is there already.
    let known = question(|args| args.labels = text("unknown,short,middle,long"));
    assert_eq!(known, (4, labels("unknown,short,middle,long"), 0));
    let numbered = question(|args| {
        args.labels = None;
        args.buckets = text("3");
    });
    assert_eq!(numbered, (4, None, 3));
    // Unless told otherwise.
    let told = question(|args| args.fallback = text("middle"));
    assert_eq!(told, (3, labels("short,middle,long"), 1));
}

#[test]
fn constants_that_no_bucket_has_are_refused() {
    for (mapping, part) in [
        ("minutes < 15 ? 0 : 3", "it can give 3"),
        ("minutes < 15 ? 0 : -1", "it can give -1"),
        ("minutes < 15 ? 0 : minutes < 45 ? 1 + 4 : 2", "it can give 5"),
        ("minutes < 15 ? \"short\" : \"lnog\"", "it can give \"lnog\""),
        ("minutes < 15 ? 'short' : (minutes < 45 ? 'Middle' : 'long')", "it can give \"Middle\""),
    ] {
        let error = draft(|args| args.mapping = text(mapping)).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("--mapping") && error.contains(part), "{mapping}: {error}");
        assert!(error.contains("a bucket from 0 to 2, or its label: \"short\""), "{error}");
    }
    for mapping in ["minutes % 3", "minutes == 7 ? 0 : minutes / 10", "minutes in [7, 8] ? 1 : 2"] {
        draft(|args| args.mapping = text(mapping)).unwrap();
    }
    let sum = |mapping: &'static str| {
        draft(move |args| {
            (args.kind, args.insecure_exact) = (Some(Kind::Sum), true);
            (args.labels, args.fallback, args.max) = (None, None, text("240"));
            args.mapping = text(mapping);
        })
    };
    sum("minutes < 3 ? 240 : minutes").unwrap();
    let error = format!("{:#}", sum("minutes < 3 ? 241 : minutes").unwrap_err());
    assert!(error.contains("it can give 241") && error.contains("from 0 to 240"), "{error}");
}

#[test]
fn numbers_are_written_as_people_do() {
    for rate in ["5%", "1/20", "0.05"] {
        let recipe = draft(|args| {
            args.population = text("1e6");
            args.rate = text(rate);
            args.min_batch = text("4e4");
        });
        let recipe = recipe.unwrap();
        assert_eq!(recipe.who.population, 1_000_000);
        assert_eq!(recipe.sampling.rate, Probability::new(1, 20).unwrap());
        assert_eq!(recipe.aggregation.min_batch, 40_000);
    }
}

/// It is what devices send, dummies included, at their lowest rate, and only the audience sends.
#[test]
fn the_suggested_batch_is_safe() {
    let suggested = |change: fn(&mut NewArgs)| {
        let folder = tempfile::tempdir().unwrap();
        let mut args = arguments(folder.path());
        args.kind = Some(Kind::SparseHistogram);
        change(&mut args);
        let draft = args.draft(&mut Inquiry::new(None), NOW).unwrap();
        let recipe = recipe_file::with_stand_ins(draft).unwrap();
        let min_batch = recipe.aggregation.min_batch;
        assert_eq!(min_batch, series::crowd_of_round(&recipe, args.audience).safe_min_batch);
        min_batch
    };
    assert_eq!(suggested(|_| {}), 19_434);
    let dummies = |args: &mut NewArgs| args.dummy_rate = Some(Probability::new(1, 20).unwrap());
    assert_eq!(suggested(dummies), 67_949, "69,000 messages");
    let audience = |args: &mut NewArgs| (args.audience, args.rate) = (Some(500_000), text("1/50"));
    assert_eq!(suggested(audience), 9_600, "10,000 answers");
    let two_rates = |args: &mut NewArgs| {
        (args.rate, args.sigma) = (text("0.2"), text("30"));
        args.default_rate = Some(Probability::new(1, 50).unwrap());
    };
    assert_eq!(suggested(two_rates), 19_434);
}

/// `--epsilon` is the claim; the randomizer's follows.
#[test]
fn the_claim_can_be_chosen() {
    let chosen = |epsilon: &'static str| {
        let chosen = move |args: &mut NewArgs| {
            (args.epsilon, args.rate) = (text(epsilon), text("1/50"));
            args.randomizer = Some(RandomizerName::RandomizedResponse);
        };
        let recipe = draft(chosen).unwrap();
        let Privacy::Claim { epsilon_micro, .. } = recipe.privacy else { panic!("no claim") };
        let Randomizer::RandomizedResponse { epsilon_micro: local } = recipe.randomizer else {
            panic!("no randomizer")
        };
        (epsilon_micro, local)
    };
    let (claim, local) = chosen("0.01");
    assert!((9_800..=10_000).contains(&claim), "{claim}");
    let (weaker, more) = chosen("0.02");
    assert!((19_600..=20_000).contains(&weaker), "{weaker}");
    assert!(local < more && more < 8_000_000, "{local} {more}");
    // More than a randomizer's epsilon of 8 gives is not needed.
    assert_eq!(chosen("1000").1, 8_000_000);
    let error = draft(|args| {
        args.epsilon = text("0.000001");
        args.randomizer = Some(RandomizerName::RandomizedResponse);
    });
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("no protection reaches this epsilon"), "{error}");
}

#[test]
fn too_many_labels_have_a_way_out() {
    let labels: Vec<String> = (0..9_000).map(|label| format!("label{label}")).collect();
    let error = draft(|args| {
        (args.labels, args.fallback) = (Some(labels.join(",")), None);
        args.mapping = text("minutes % 3");
    });
    let hint = crate::output::hint_of(&error.unwrap_err()).unwrap_or_default().to_owned();
    assert!(hint.starts_with("give fewer or shorter --labels"), "{hint}");
}

/// By its name, where it answers such a query.
#[test]
fn the_randomizer_can_be_chosen() {
    let chosen = |name, epsilon0: Option<&'static str>| {
        let chosen = move |args: &mut NewArgs| {
            (args.randomizer, args.epsilon0) = (Some(name), epsilon0.and_then(text));
        };
        draft(chosen).unwrap().randomizer
    };
    let epsilon_micro = 2_000_000;
    let rappor = Randomizer::Rappor { epsilon_micro };
    assert_eq!(chosen(RandomizerName::Rappor, Some("4")), rappor);
    let geometry = Randomizer::ProjectiveGeometry { epsilon_micro };
    assert_eq!(chosen(RandomizerName::ProjectiveGeometry, Some("4")), geometry);
    let response = Randomizer::RandomizedResponse { epsilon_micro: 4_000_000 };
    assert_eq!(chosen(RandomizerName::RandomizedResponse, Some("4")), response);
    assert_eq!(chosen(RandomizerName::Rappor, None).kind(), "rappor");
    let refused = draft(|args| {
        (args.kind, args.most) = (Some(Kind::MultiHistogram), text("2"));
        args.mapping = text("minutes < 15 ? ['short'] : ['long']");
        args.randomizer = Some(RandomizerName::ProjectiveGeometry);
    });
    let error = format!("{:#}", refused.unwrap_err());
    assert!(error.contains("does not answer multi_histogram"), "{error}");
    let dummies = draft(|args| {
        args.randomizer = Some(RandomizerName::Rappor);
        args.dummy_rate = Some(Probability::new(1, 10).unwrap());
    });
    assert!(dummies.is_ok());
}

/// A question can be written before any operator is found.
#[test]
fn nobody_has_to_be_found_to_begin_with() {
    let folder = tempfile::tempdir().unwrap();
    let alone = |args: &mut NewArgs| {
        (args.leader_operator, args.leader_url) = (None, None);
        (args.helper_operator, args.helper_url) = (None, None);
        (args.collector_key, args.log_origin) = (None, None);
        (args.leader_issuer, args.helper_issuer) = (None, None);
    };
    let mut args = arguments(folder.path());
    alone(&mut args);
    args.nothing_missing().unwrap();
    let mut draft = args.draft(&mut Inquiry::new(None), NOW).unwrap();
    with_claim(&mut draft, None).unwrap();
    assert_eq!(draft.parties, None);
    let path = folder.path().join("commute.toml");
    recipe_file::write(&path, draft.to_toml().as_bytes(), false).unwrap();
    let loaded = recipe_file::load(&path).unwrap();
    assert!(!loaded.parties_known && !loaded.id_known());
    // What it wrote as comments is what is missing.
    let key = sotto_wire::KeySet::config_text(crate::keys::generate(7).config());
    let filled: String = draft
        .to_toml()
        .lines()
        .map(|line| line.strip_prefix('#').filter(|_| !line.starts_with("# ")).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    let filled = filled
        .replace("collector_hpke_config = \"...\"", &format!("collector_hpke_config = {key:?}"));
    std::fs::write(&path, filled).unwrap();
    assert!(recipe_file::load(&path).unwrap().parties_known);
    // Half of them are a mistake.
    args.log_origin = text("log.example");
    let error = args.nothing_missing().unwrap_err().to_string();
    assert!(error.contains("missing: --leader-operator, --leader-url"), "{error}");
}

/// Whoever is interrupted finds the answers as defaults, and the file goes when the recipe is there.
#[test]
fn an_interrupted_person_goes_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let args = || NewArgs {
        window: 3_600,
        out: Some(folder.path().join("commute.toml")),
        ..NewArgs::default()
    };
    let ask = |mut input: &[u8]| {
        let mut shown = Vec::new();
        let mut inquiry = Inquiry::new(Some(Prompt::new(&mut input, &mut shown, 80)));
        let draft = args().draft(&mut inquiry, NOW).ok();
        (draft, String::from_utf8(shown).unwrap())
    };
    let (nothing, _) = ask(b"commute\nHow long?\n\nshort,long\nminutes:int\n");
    assert_eq!(nothing, None);
    // The name, then Enter for what was answered, the mapping, the population, and Enter again.
    let again = "commute\n\n\n\n\nminutes < 15 ? 0 : 1\n1e6\n\n\n\n\n\n\n\n";
    let (draft, shown) = ask(again.as_bytes());
    let draft = draft.unwrap();
    assert_eq!((draft.purpose.as_str(), draft.parties), ("How long?", None));
    assert!(shown.contains("[short,long]") && shown.contains("[minutes:int]"), "{shown}");
    assert!(matches!(draft.query, Query::Histogram { buckets: 3, fallback: 2, .. }));
}

fn vector(args: &mut NewArgs) {
    args.kind = Some(Kind::VectorMean);
    (args.labels, args.fallback) = (None, None);
    args.attribute = vec!["trace:vector(48)".to_owned()];
    args.mapping = text("trace");
    args.dimension = text("48");
}

/// With the epsilon that is asked for, whoever adds the noise.
#[test]
fn vectors_get_noise_of_the_devices_or_of_the_aggregators() {
    let claimed = |recipe: &Recipe| match recipe.privacy {
        Privacy::Claim { epsilon_micro, .. } => epsilon_micro,
        Privacy::InsecureUnbounded => panic!("no claim"),
    };
    let devices = draft(|args| {
        vector(args);
        args.epsilon = text("0.5");
    })
    .unwrap();
    let Randomizer::Gaussian { sigma_micro } = devices.randomizer else { panic!("{devices:?}") };
    assert!(sigma_micro > 1_000_000 && devices.noise.is_none(), "{sigma_micro}");
    // At most what is asked for, and a thousandth more of sigma is not wasted.
    assert!((490_000..=500_000).contains(&claimed(&devices)), "{}", claimed(&devices));
    let servers = draft(|args| {
        vector(args);
        args.sigma = text("3");
        args.clip = text("2.5");
        args.compress = text("16");
    })
    .unwrap();
    assert_eq!(servers.noise, Some(Noise::ServerGaussian { sigma_micro: 3_000_000 }));
    let asked = servers.query.vectors().unwrap();
    assert_eq!((asked.clip_micro, asked.fraction_bits, asked.sent()), (2_500_000, 15, 16));
    let own = draft(|args| {
        vector(args);
        args.device_sigma = text("4.5");
        args.fraction_bits = Some(18);
    })
    .unwrap();
    assert_eq!(own.randomizer, Randomizer::Gaussian { sigma_micro: 4_500_000 });
    // With a claim that is far too low more is computed than is needed.
    let mut low = own.clone();
    set_claim(&mut low, 1).unwrap();
    assert!(published(judgement(&low).unwrap().unwrap().epsilon).unwrap() > claimed(&own));
    let needed = show_micro(claimed(&own));
    let said = Assessment::new(low).unwrap_err().reason;
    assert!(said.contains(&format!("imply {needed}: claim that, or more")), "{said} / {needed}");
    let refused = |change: fn(&mut NewArgs), part: &str| {
        let error = format!("{:#}", draft(change).unwrap_err());
        assert!(error.contains(part), "{error} / {part}");
    };
    refused(
        |args| {
            vector(args);
            (args.dimension, args.epsilon) = (None, text("1"));
        },
        "--dimension",
    );
    refused(
        |args| {
            vector(args);
            (args.dimension, args.epsilon) = (text("64"), text("1"));
        },
        "the mapping gives vector(48), not vector(64)",
    );
    refused(
        |args| {
            vector(args);
            // Of each device less than four units.
            (args.clip, args.device_sigma) = (text("0.001"), text("1"));
        },
        "randomizer.sigma: the noise of one device is",
    );
    refused(
        |args| {
            vector(args);
            (args.clip, args.device_sigma) = (text("1e6"), text("1"));
        },
        "query.fraction_bits: the largest norm of a report is",
    );
    refused(|args| args.device_sigma = text("-1"), "--device-sigma");
}

/// A file of candidates becomes whole numbers, and devices without a vector have a bucket.
#[test]
fn candidates_come_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("candidates.csv");
    let made = |lines: &str, change: fn(&mut NewArgs)| {
        std::fs::write(&path, lines).unwrap();
        draft(|args| {
            (args.kind, args.fallback, args.labels) = (Some(Kind::Nearest), None, None);
            args.candidates = Some(path.clone());
            args.attribute = vec!["trace:vector(2)".to_owned()];
            args.mapping = text("trace");
            change(args);
        })
    };
    let recipe = made("0.5, -1\n\n0;1e-3\n", |args| args.labels = text("a,b")).unwrap();
    let Query::Nearest { candidates, fraction_bits, labels, fallback, .. } = &recipe.query else {
        panic!("{:?}", recipe.query)
    };
    assert_eq!((candidates, *fraction_bits), (&vec![vec![512, -1024], vec![0, 1]], 10));
    assert_eq!((labels.as_ref().unwrap().join(" "), *fallback), ("a b unknown".to_owned(), 2));
    assert!(matches!(recipe.privacy, Privacy::Claim { .. }));
    let chosen = made("1,2\n3,4\n", |args| args.fallback = text("0")).unwrap();
    assert_eq!(chosen.query.buckets(), Some(2));

    let refused = |lines: &str, part: &str| {
        let error = format!("{:#}", made(lines, |_| {}).unwrap_err());
        assert!(error.contains(part), "{part}: {error}");
    };
    refused("1,2\n1,x\n", "line 2: \"x\" is not a number");
    refused("1,2\n3\n", "the same length");
    refused("1,2\n1,2\n", "differ from each other");
    refused("1,2\n", "the number of query.candidates");
    refused("1,2,3\n4,5,6\n", "the mapping gives vector(2), not vector(3)");
    let many: String = (0..20_000).map(|one| format!("{one},1\n")).collect();
    refused(&many, "fit into an entry of the log");
}

#[test]
fn a_series_gets_its_header() {
    let series = |change: fn(&mut NewArgs)| {
        let recipe = draft(|args| {
            args.rounds = Some(30);
            change(args);
        });
        recipe.map(|recipe| (recipe.series.clone().unwrap(), recipe))
    };
    let (found, recipe) = series(|_| {}).unwrap();
    assert!(recipe.is_header());
    assert!(matches!(recipe.privacy, Privacy::Claim { rounds: 30, .. }), "{:?}", recipe.privacy);
    assert_eq!(found.participation, Participation::EachRound {});
    let (found, recipe) = series(|args| args.donation = true).unwrap();
    assert_eq!(found.participation, Participation::Donation {});
    // All devices, of which 12,471 stop at the last round.
    assert_eq!(recipe.sampling.rate, Probability::ONE);
    assert_eq!(recipe.aggregation.min_batch, 12_024);
    for rounds in [0, 257] {
        let recipe = draft(|args| args.rounds = Some(rounds));
        let error = format!("{:#}", recipe.unwrap_err());
        assert!(error.contains("series.rounds must be from 1 to 256"), "{error}");
    }
}

/// A question of every week expects in each week what one of a single week does.
#[test]
fn rounds_with_a_length_have_the_times_that_follow() {
    let weekly = |args: &mut NewArgs| (args.rounds, args.round_length) = (Some(26), Some(WEEK_S));
    let (alone, weekly) = (draft(|_| {}).unwrap(), draft(weekly).unwrap());
    assert_eq!(weekly.series.as_ref().unwrap().length_s, Some(WEEK_S));
    assert_eq!(weekly.when.closes - weekly.when.opens, 26 * WEEK_S);
    assert_eq!(weekly.answer_times(), alone.when);
    assert_eq!(weekly.aggregation.min_batch, alone.aggregation.min_batch);
    assert_eq!(weekly.aggregation.min_batch, 19_434);
    for (length_s, words) in [
        (0, "--round-length must be a multiple of --window, 3600 seconds, and above 0"),
        (1_800, "--round-length must be a multiple of --window, 3600 seconds"),
        (20 * 86_400, "when.closes must be at most 366 days after when.opens"),
    ] {
        let refused = draft(|args| (args.rounds, args.round_length) = (Some(26), Some(length_s)));
        let error = format!("{:#}", refused.unwrap_err());
        assert!(error.contains(words), "{error}");
    }
}

fn training(args: &mut NewArgs, options: &str) {
    let command = NewArgs::augment_args(clap::Command::new("new"));
    let words = [&["new"], &options.split(' ').collect::<Vec<_>>()[..]].concat();
    let given = NewArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
    (args.rounds, args.training) = (given.rounds, given.training);
    args.discovery = given.discovery;
    (args.labels, args.fallback, args.mapping) = (None, None, None);
    args.attribute.clear();
}

#[test]
fn a_training_asks_for_what_its_devices_compute() {
    let trained = |options: &'static str| {
        draft(|args| {
            training(args, &format!("--models https://models.example --rounds 30 {options}"));
            match options.contains("largest-loss") {
                true => args.sigma = text("2"),
                false => args.device_sigma = text("4"),
            }
            *args = std::mem::take(args).with_training().unwrap();
        })
        .unwrap()
    };
    let recipe = trained("--training softmax:65:10");
    let found = recipe.series.clone().unwrap().training.unwrap();
    assert_eq!(found.model, Model::Softmax { features: 65, classes: 10 });
    assert_eq!((found.steps, found.batch, found.learning_rate_micro), (1, None, 1_000_000));
    let asked = recipe.query.vectors().unwrap();
    assert_eq!((asked.dimension, asked.mapping.as_str()), (650, "update"));
    assert_eq!(recipe.aggregation.batch_mode, BatchMode::LeaderSelected);
    let recipe = trained(
        "--training mlp:65:16:10 --steps 6 --batch 2 --learning-rate 0.5 --vote-weight 0.1",
    );
    let found = recipe.series.clone().unwrap().training.unwrap();
    assert_eq!((found.steps, found.batch, found.learning_rate_micro), (6, Some(2), 500_000));
    assert_eq!(recipe.query.vectors().unwrap().dimension, 66 * 16 + 17 * 10 + 1);
    let recipe = trained("--training words:1000 --largest-loss 4");
    let found = recipe.series.clone().unwrap().training.unwrap();
    assert_eq!(found.model, Model::Custom { name: "words".to_owned(), weights: 1000 });
    assert!(found.is_evaluation() && recipe.noise.is_some());
    assert_eq!(recipe.query.mapping(), "evaluation");
}

#[test]
fn a_discovery_asks_for_words() {
    let discovery = |options: &'static str| {
        draft(|args| {
            let options = format!("--lists https://lists.example --rounds 6 {options}");
            training(args, &options);
            (args.buckets, args.sigma) = (text("256"), text("20"));
            (args.attribute, args.mapping) = (vec!["word:strings".to_owned()], text("word"));
            *args = std::mem::take(args).with_discovery();
        })
    };
    let recipe = discovery("--buckets 256").unwrap();
    let found = recipe.discovery().unwrap();
    assert_eq!((found.lists.as_str(), found.list_len), ("https://lists.example", 61_408));
    let Query::Histogram { buckets, fallback, .. } = &recipe.query else { panic!("no histogram") };
    assert_eq!((*buckets, *fallback), (256, 0));
    assert_eq!(recipe.aggregation.batch_mode, BatchMode::LeaderSelected);
    let recipe = discovery("--buckets 256 --list-len 200000").unwrap();
    assert_eq!(recipe.discovery().unwrap().list_len, 200_000);
    let error = discovery("--buckets 256 --list-len 7").unwrap_err();
    assert!(format!("{error:#}").contains("list_len must be from 256"), "{error:#}");
}

/// Other options would be blamed for what follows from the training.
#[test]
fn a_training_goes_with_vectors_only() {
    let with = |kind| {
        let mut args = NewArgs { kind: Some(kind), ..NewArgs::default() };
        training(&mut args, "--training softmax:65:10 --rounds 3 --models https://models.example/");
        args.with_training()
    };
    let error = with(Kind::Histogram).unwrap_err().to_string();
    assert_eq!(error, "--training does not go with --kind histogram");
    assert_eq!(with(Kind::VectorMean).unwrap().kind, Some(Kind::VectorMean));
}

/// The page about learning shows the file that the command in it writes.
#[test]
fn the_header_in_the_documents_is_written_by_its_command() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/learning.md");
    let block = blocks(&page).into_iter().find(|block| block.text.contains("--training")).unwrap();
    let command = NewArgs::augment_args(clap::Command::new("new"));
    let words = command_lines(&block.text, &[]).remove(1).split_off(2);
    let mut args = NewArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    args.collector_key = arguments(folder.path()).collector_key;
    let args = args.with_training().unwrap();
    args.nothing_missing().unwrap();
    let mut draft = args.draft(&mut Inquiry::new(None), NOW).unwrap();
    with_claim(&mut draft, None).unwrap();
    let text = std::fs::read_to_string(&page).unwrap();
    let shown = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let key = |text: &str| {
        text.lines().find(|line| line.starts_with("collector_hpke")).unwrap().to_owned()
    };
    let written = draft.to_toml();
    assert_eq!(written.replace(&key(&written), &key(shown)), shown, "{written}");
}

/// "200 countries, a million users": what fixed defaults gave had noise of +-4,118 per country.
#[test]
fn many_buckets_get_a_useful_result() {
    let countries = |epsilon: Option<&'static str>| {
        let recipe = draft(|args| {
            (args.labels, args.buckets, args.fallback) = (None, text("200"), None);
            args.mapping = text("minutes % 200");
            args.epsilon = epsilon.and_then(text);
        });
        let recipe = recipe.unwrap();
        let Privacy::Claim { epsilon_micro, .. } = recipe.privacy else { panic!("no claim") };
        assert!(epsilon_micro <= 1_000_000, "{epsilon_micro}");
        let answers = Answers::usual(&recipe.query, None);
        (errors(&recipe, 1_000_000, &answers).unwrap(), recipe)
    };
    let (found, recipe) = countries(Some("1"));
    assert_eq!(recipe.sampling.rate, Probability::new(1, 50).unwrap());
    // The 95 % interval of a rare country, from the noise.
    assert!(1.96 * found.rarest.noise < 300.0, "{found:?}");
    assert!(found.average.total < 550.0, "the sample alone: 495: {found:?}");
    let (usual, _) = countries(None);
    assert!(1.96 * usual.rarest.noise < 500.0, "{usual:?}");
    assert!(usual.average.total < 1.06 * found.average.total, "{usual:?}");
}

/// An accuracy instead of a budget.
#[test]
fn the_error_can_be_chosen() {
    let chosen = |error: &'static str| {
        let recipe = draft(|args| args.error = text(error)).unwrap();
        let Privacy::Claim { epsilon_micro, .. } = recipe.privacy else { panic!("no claim") };
        let answers = Answers::usual(&recipe.query, None);
        (errors(&recipe, 1_000_000, &answers).unwrap().average.total, epsilon_micro)
    };
    let ((error, epsilon), (less, more)) = (chosen("6000"), chosen("4200"));
    assert!((5_500.0..=6_000.0).contains(&error), "{error}");
    assert!(less <= 4_200.0 && more > epsilon, "{less} {more} {epsilon}");
    let part = chosen("1.8%").0;
    assert!(part <= 6_000.0, "of 333,333 devices: {part}");
    let error = draft(|args| args.error = text("10")).unwrap_err();
    assert!(format!("{error:#}").contains("no protection reaches this error"), "{error:#}");
}
