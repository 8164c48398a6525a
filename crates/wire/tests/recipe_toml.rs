//! Recipes as TOML: what people may write, and the errors for what they may not.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_testing::arbitrary;
use sotto_wire::recipe::{Noise, Privacy, Query, Randomizer};
use sotto_wire::{Probability, Recipe, RecipeDraft};

const PAGE: &str = include_str!("../../../docs/recipe-format.md");

fn example() -> &'static str {
    let (_, rest) = PAGE.split_once("```toml\n").unwrap();
    rest.split_once("```").unwrap().0
}

/// The example with one line changed.
fn with(from: &str, to: &str) -> String {
    assert_eq!(example().matches(from).count(), 1, "{from}");
    example().replace(from, to)
}

#[test]
fn values_have_several_spellings() {
    let expected = Recipe::from_toml(example()).unwrap();
    for (from, to) in [
        ("rate = \"1/50\"", "rate = [1, 50]"),
        ("rate = \"1/50\"", "rate = [2, 100]"),
        ("rate = \"1/50\"", "rate = 0.02"),
        ("rate = \"1/50\"", "rate = \"2e-2\""),
        ("delta = \"1e-9\"", "delta = 1e-9"),
        ("delta = \"1e-9\"", "delta = \"1 / 1000000000\""),
        ("epsilon = 4.0", "epsilon = \"4.0\""),
        ("epsilon = 4.0", "epsilon = 4"),
        ("epsilon = 0.05", "epsilon = \"5e-2\""),
        ("epsilon = 0.05", "epsilon = \"0.0499999001\""),
        ("opens = 2026-11-20T00:00:00Z", "opens = \"2026-11-20T00:00:00Z\""),
        ("opens = 2026-11-20T00:00:00Z", "opens = \"2026-11-20T00:00Z\""),
        ("opens = 2026-11-20T00:00:00Z", "opens = 2026-11-20"),
        ("opens = 2026-11-20T00:00:00Z", "opens = 1795132800"),
        ("window = \"1h\"", "window = 3600"),
        ("max_window = \"7d\"", "max_window = \"168h\""),
        ("name = \"emoji-2026-11\"", "version = 1\nname = \"emoji-2026-11\""),
        ("adjacency = \"replace\"\n", ""),
        ("accountant = \"best\"\n", ""),
        ("rounds = 1\n", ""),
    ] {
        // `window = ` also ends `max_window = `.
        let text = if from.starts_with("window") {
            example().replace(&format!("\n{from}"), &format!("\n{to}"))
        } else {
            with(from, to)
        };
        assert_eq!(Recipe::from_toml(&text), Ok(expected.clone()), "{to}");
    }
}

#[test]
fn epsilon_is_rounded_up() {
    let recipe = Recipe::from_toml(&with("epsilon = 4.0", "epsilon = 1.0000001")).unwrap();
    assert_eq!(recipe.randomizer, Randomizer::RandomizedResponse { epsilon_micro: 1_000_001 });
    let recipe = Recipe::from_toml(&with("epsilon = 0.05", "epsilon = 0.1")).unwrap();
    assert!(matches!(recipe.privacy, Privacy::Claim { epsilon_micro: 100_000, .. }));
}

#[test]
fn errors_name_the_key() {
    for (from, to, message) in [
        ("rate = ", "rte = ", "sampling.rate: is missing"),
        ("[sampling]\n", "[sampling]\nx = 1\n", "sampling.x: is unknown; use one of: rate"),
        ("rate = \"1/50\"", "rate = \"x\"", "sampling.rate: \"x\" is not a number"),
        ("rate = \"1/50\"", "rate = 1.5", "sampling.rate: a probability is at most 1"),
        ("rate = \"1/50\"", "rate = [1, 2, 3]", "sampling.rate: a fraction as a list"),
        (
            "kind = \"histogram\"",
            "kind = \"pie\"",
            "query.kind: \"pie\" is unknown; use one of: count",
        ),
        ("kind = \"histogram\"", "kind = \"sum\"", "query.max: is missing"),
        ("kind = \"histogram\"", "kind = \"mean\"", "query.max: is missing"),
        ("kind = \"histogram\"", "kind = \"quantiles\"", "query.boundaries: is missing"),
        ("kind = \"histogram\"", "kind = \"multi_histogram\"", "query.fallback: must be a list"),
        ("kind = \"histogram\"", "kind = \"sparse_histogram\"", "query.default: is missing"),
        ("rate = \"1/50\"", "default_rate = 0.1", "sampling.other_rate: is missing"),
        ("rate = \"1/50\"", "other_rate = 0.1", "sampling.default_rate: is missing"),
        (
            "rate = \"1/50\"",
            "rate = 0.1\nother_rate = 0.1",
            "sampling.other_rate: there is a rate for all devices already",
        ),
        ("rate = \"1/50\"", "rate = 0.1\ndummy_rate = 2", "sampling.dummy_rate: a probability is"),
        ("kind = \"claim\"", "kind = \"insecure_unbounded\"", "privacy.accountant: is unknown"),
        ("fallback = 0", "fallback = -1", "query.fallback: -1 is out of range"),
        ("fallback = 0", "fallback = true", "query.fallback: must be a whole number"),
        ("labels = [\"none\",", "labels = [1,", "query.labels[0]: must be text"),
        ("emoji = \"string\"", "Emoji = \"string\"", "attributes.Emoji: the name of an attribute"),
        ("emoji = \"string\"", "in = \"string\"", "attributes.in: \"in\" is a reserved word"),
        ("emoji = \"string\"", "emoji = \"float\"", "attributes.emoji: \"float\" is unknown"),
        (
            "opens = 2026-11-20T00:00:00Z",
            "opens = 2026-11-20T00:00:00+01:00",
            "when.opens: must be",
        ),
        ("opens = 2026-11-20T00:00:00Z", "opens = 2026-11-20T00:00:00", "when.opens: must be"),
        ("opens = 2026-11-20T00:00:00Z", "opens = 2026-11-20T00:00:00.5Z", "when.opens: must be"),
        ("max_window = \"7d\"", "max_window = \"7 days\"", "when.max_window: unknown unit"),
        ("length = 3,", "length = 3, len = 3,", "aggregation.vdaf.len: is unknown"),
        ("url = \"https://leader.example/\"", "uri = \"x\"", "parties.leader.url: is missing"),
        ("key = \"BQUF", "key = \"BQ", "author.key: a public key is 32 bytes"),
        (
            "name = \"emoji-2026-11\"",
            "version = 2\nname = \"x\"",
            "version: only version 1 is known",
        ),
        ("epsilon = 4.0", "epsilon = -4.0", "randomizer.epsilon: \"-4\" is not a number"),
        ("epsilon = 4.0", "epsilon = nan", "randomizer.epsilon: \"NaN\" is not a number"),
        ("epsilon = 4.0", "epsilon = inf", "randomizer.epsilon: \"inf\" is not a number"),
        // Rules of the format, by the names of the JSON.
        ("epsilon = 4.0", "epsilon = 0", "randomizer.epsilon must be above 0"),
        ("max_window = \"7d\"", "max_window = \"90m\"", "when.max_window_s must be a multiple"),
        ("fallback = 0", "fallback = 3", "query.fallback must be from 0 to 2, not 3"),
        ("operator = \"helper.example\"", "operator = \"leader.example\"", "must differ"),
        ("url = \"https://helper.example/dap\"", "url = \"HTTPS://x\"", "must begin with https://"),
        ("url = \"https://helper.example/dap\"", "url = \"https://leader.example\"", "must differ"),
        ("url = \"https://helper.example/dap\"", "url = \"https://u@h/\"", "no user, query"),
        ("url = \"https://helper.example/dap\"", "url = \"https://h/?q\"", "no user, query"),
        ("name = \"emoji-2026-11\"", "name = \"Emoji\"", "name must be at most 64"),
        ("name = \"emoji-2026-11\"", "name = \"-emoji\"", "name must be at most 64"),
        ("most, to", "most,\\u202eto", "purpose contains the control character U+202E"),
        ("labels = [\"none\", ", "labels = [", "one label for each of the 3 buckets, not 2"),
        ("labels = [\"none\", ", "labels = [\"smile\", ", "query.labels must differ"),
        ("rounds = 1", "rounds = 2", "privacy.rounds must be 1, not 2"),
        ("delta = \"1e-9\"", "delta = 1", "privacy.delta must be above 0 and below 1"),
        ("delta = \"1e-9\"", "delta = 0", "privacy.delta must be above 0 and below 1"),
        ("closes = 2026-11-27", "closes = 2027-11-22", "at most 366 days"),
        ("closes = 2026-11-27", "closes = 2026-11-20", "must be earlier than when.closes"),
    ] {
        let error = Recipe::from_toml(&with(from, to)).unwrap_err().to_string();
        assert!(error.contains(message), "{to}: {error}");
    }
    let error = Recipe::from_toml("name = ").unwrap_err().to_string();
    assert!(error.contains("line 1"), "{error}");
}

/// The groups that the example does not use, and their rules.
#[test]
fn other_kinds_have_their_rules() {
    let of = |query: &str, randomizer: &str, sampling: &str, more: &str| {
        let (before, rest) = example().split_once("[sampling]").unwrap();
        let (_, after) = rest.split_once("[aggregation]").unwrap();
        let text = format!(
            "{before}[sampling]\n{sampling}\n[query]\n{query}\n[randomizer]\n{randomizer}\n{more}\n\
             [aggregation]{after}"
        );
        Recipe::from_toml(&text).map_err(|error| error.to_string())
    };
    let (rate, importance) = ("rate = 0.5", "default_rate = 0.01\nother_rate = 0.5");
    let (exact, rappor) = ("kind = \"none\"", "kind = \"rappor\"\nepsilon = 4.0");
    let (response, geometry) = (rappor.replace("rappor", "randomized_response"), rappor);
    let geometry = geometry.replace("rappor", "projective_geometry");
    let multi =
        "kind = \"multi_histogram\"\nbuckets = 4\nmost = 2\nmapping = \"[0]\"\nfallback = [1, 3]";
    let sparse = "kind = \"sparse_histogram\"\nbuckets = 4\nmapping = \"0\"\ndefault = 3";
    let ages = "kind = \"quantiles\"\nboundaries = [-5, 18, 65]\nmapping = \"age\"\nfallback = -7";
    let mean = "kind = \"mean\"\nmax = 9\nmapping = \"1\"\nfallback = 0";
    let noise = "[noise]\nkind = \"server_gaussian\"\nsigma = 0.5";
    for (query, randomizer, sampling, more) in [
        (multi, rappor, rate, ""),
        (sparse, rappor, importance, ""),
        (sparse, &geometry, importance, ""),
        (sparse, exact, importance, noise),
        (ages, rappor, "rate = 0.5\ndummy_rate = 0.25", ""),
        (mean, exact, rate, noise),
    ] {
        let recipe = of(query, randomizer, sampling, more).unwrap();
        assert_eq!(Recipe::from_toml(&recipe.to_toml()), Ok(recipe.clone()));
        assert_eq!(Recipe::parse(&recipe.to_json()), Ok(recipe));
    }
    let least = of(sparse, exact, importance, "").unwrap().sampling;
    assert_eq!(
        (least.rate, least.least_rate()),
        (Probability::new(1, 2).unwrap(), Probability::new(1, 100).unwrap())
    );
    let with = |text: &str, from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    };
    for (query, randomizer, sampling, more, message) in [
        (
            multi,
            &*response,
            rate,
            "",
            "randomizer.kind randomized_response needs query.kind histogram, quantiles or nearest",
        ),
        (multi, &geometry, rate, "", "histogram, quantiles, sparse_histogram or nearest"),
        (mean, rappor, rate, "", "randomizer.kind rappor needs query.kind"),
        (multi, exact, importance, "", "sampling.default_rate needs query.kind sparse_histogram"),
        (sparse, exact, "default_rate = 0.5\nother_rate = 0.1", "", "at most sampling.other_rate"),
        (
            sparse,
            exact,
            "default_rate = 0\nother_rate = 0.1",
            "",
            "sampling.default_rate must be above 0",
        ),
        (
            sparse,
            exact,
            "default_rate = 0\nother_rate = 0",
            "",
            "sampling.other_rate must be above 0",
        ),
        (sparse, &geometry, "rate = 0.1\ndummy_rate = 0.1", "", "sampling.dummy_rate must be 0"),
        (sparse, rappor, rate, noise, "noise needs randomizer.kind none, not rappor"),
        (
            mean,
            exact,
            rate,
            &with(noise, "0.5", "0.499999"),
            "noise.sigma must be from 0.5 to 1000000000, not",
        ),
        (mean, exact, rate, &with(noise, "0.5", "1000000000.000001"), "noise.sigma must be"),
        (mean, exact, rate, &with(noise, "sigma = 0.5", ""), "noise.sigma: is missing"),
        (mean, exact, rate, &with(noise, "_gaussian", ""), "noise.kind: \"server\" is unknown"),
        (&with(multi, "most = 2", "most = 1"), exact, rate, "", "at most query.most (1) buckets"),
        (&with(multi, "most = 2", "most = 5"), exact, rate, "", "query.most must be from 1 to 4"),
        (
            &with(multi, "[1, 3]", "[3, 1]"),
            exact,
            rate,
            "",
            "query.fallback must be in increasing order",
        ),
        (
            &with(multi, "[1, 3]", "[1, 4]"),
            exact,
            rate,
            "",
            "query.fallback must be from 0 to 3, not 4",
        ),
        (
            &with(sparse, "default = 3", "default = 4"),
            exact,
            rate,
            "",
            "query.default must be from 0 to 3",
        ),
        (
            &with(ages, "18, 65", "65, 18"),
            exact,
            rate,
            "",
            "query.boundaries must be in increasing order",
        ),
        (
            &with(ages, "[-5, 18, 65]", "[]"),
            exact,
            rate,
            "",
            "the number of query.boundaries must be",
        ),
        (&with(ages, "65]", "9007199254740992]"), exact, rate, "", "above -2^53 and below 2^53"),
        (
            &format!("{ages}\nquantiles = [1]"),
            exact,
            rate,
            "",
            "query.quantiles must be above 0 and below 1",
        ),
        (
            &format!("{ages}\nquantiles = [0.5, 0.1]"),
            exact,
            rate,
            "",
            "query.quantiles must be in increasing",
        ),
        (
            &format!("{ages}\nquantiles = []"),
            exact,
            rate,
            "",
            "the number of query.quantiles must be",
        ),
        (
            &with(ages, "18, 65", "\"18\""),
            exact,
            rate,
            "",
            "query.boundaries[1]: must be a whole number",
        ),
    ] {
        let error = of(query, randomizer, sampling, more).unwrap_err();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn noise_has_its_rules() {
    let of = |randomizer: &str, noise: &str| {
        let (before, rest) = example().split_once("[randomizer]").unwrap();
        let (_, after) = rest.split_once("[aggregation]").unwrap();
        let text =
            format!("{before}[randomizer]\n{randomizer}\n[noise]\n{noise}\n[aggregation]{after}");
        Recipe::from_toml(&text).map_err(|error| error.to_string())
    };
    let exact = "kind = \"none\"";
    for (sigma, sigma_micro) in
        [("0.5", 500_000), ("1000", 1_000_000_000), ("1e9", 1_000_000_000_000_000)]
    {
        let recipe = of(exact, &format!("kind = \"server_gaussian\"\nsigma = {sigma}")).unwrap();
        assert_eq!(recipe.noise, Some(Noise::ServerGaussian { sigma_micro }));
        assert_eq!(Recipe::from_toml(&recipe.to_toml()), Ok(recipe.clone()));
        assert_eq!(Recipe::parse(&recipe.to_json()), Ok(recipe));
    }
    for (randomizer, noise, message) in [
        (
            "kind = \"randomized_response\"\nepsilon = 4.0",
            "kind = \"server_gaussian\"\nsigma = 1",
            "noise needs randomizer.kind none",
        ),
        (
            exact,
            "kind = \"server_gaussian\"\nsigma = 0.499999",
            "noise.sigma must be from 0.5 to 1000000000, not",
        ),
        (exact, "kind = \"server_gaussian\"\nsigma = \"1000000000.000001\"", "noise.sigma must be"),
        (exact, "kind = \"server_gaussian\"", "noise.sigma: is missing"),
        (exact, "kind = \"server\"\nsigma = 1", "noise.kind: \"server\" is unknown"),
    ] {
        let error = of(randomizer, noise).unwrap_err();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn drafts_are_completed() {
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    for _ in 0..200 {
        let recipe = arbitrary::recipe(&mut rng);
        let mut draft = RecipeDraft::from(recipe.clone());
        (draft.author, draft.vdaf) = (None, None);
        let again = RecipeDraft::from_toml(&draft.to_toml()).unwrap();
        assert_eq!(again, draft);
        assert!(Recipe::from_toml(&draft.to_toml()).is_err());
        let completed = again.complete(recipe.author.clone(), recipe.aggregation.vdaf);
        assert_eq!(completed, Ok(recipe.clone()));
        let mut other = recipe.author.clone();
        other.name = "somebody.else".parse().unwrap();
        assert!(
            RecipeDraft::from(recipe.clone()).complete(other, recipe.aggregation.vdaf).is_err()
        );
    }
}

#[test]
fn probabilities_have_one_form() {
    assert!(Probability::new(2, 4).is_err());
    assert!(Probability::new(0, 2).is_err());
    assert!(Probability::new(0, 1).is_ok_and(Probability::is_zero));
    assert!(Probability::new(1, 0).is_err());
    assert!(Probability::new(1, 1 << 53).is_err());
    assert_eq!(Probability::reduced(1 << 53, 1 << 54), Probability::new(1, 2));
}

/// A recipe about vectors: these lines of the query, this randomizer and this noise.
fn about_vectors(query: &str, protection: &str) -> Result<Recipe, String> {
    let (before, rest) = example().split_once("[query]").unwrap();
    let (_, after) = rest.split_once("[aggregation]").unwrap();
    let query = format!("[query]\nkind = \"vector_sum\"\nmapping = \"emoji\"\n{query}\n");
    let text = format!("{before}{query}\n{protection}\n[aggregation]{after}");
    let text = text.replace("emoji = \"string\"", "emoji = \"vector(64)\"");
    Recipe::from_toml(&text).map_err(|error| error.to_string())
}

#[test]
fn candidates_have_their_rules() {
    let made = |query: &str| {
        let (before, rest) = example().split_once("[query]").unwrap();
        let (_, after) = rest.split_once("[randomizer]").unwrap();
        let query = format!("[query]\nkind = \"nearest\"\nmapping = \"emoji\"\n{query}\n");
        let text = format!("{before}{query}\n[randomizer]{after}");
        let text = text.replace("emoji = \"string\"", "emoji = \"vector(2)\"");
        Recipe::from_toml(&text).map_err(|error| error.to_string())
    };
    let plain = "candidates = [[1, -2], [0, 3]]\nfraction_bits = 4\nfallback = 2";
    let recipe = made(plain).unwrap();
    assert_eq!((recipe.query.buckets(), recipe.query.candidate_dimension()), (Some(3), Some(2)));
    assert_eq!(Recipe::from_toml(&recipe.to_toml()).unwrap(), recipe);
    let json = String::from_utf8(recipe.to_json()).unwrap();
    let part = r#""query":{"candidates":[[1,-2],[0,3]],"fallback":2,"fraction_bits":4,"kind":"nearest","mapping":"emoji"}"#;
    assert!(json.contains(part), "{json}");
    let own = made(&plain.replace("fallback = 2", "fallback = 1")).unwrap();
    assert_eq!(own.query.buckets(), Some(2));
    for (from, to, part) in [
        ("[0, 3]", "[0, 3, 1]", "the same length"),
        ("[0, 3]", "[1, -2]", "differ from each other"),
        (", [0, 3]", "", "the number of query.candidates"),
        ("[[1, -2], [0, 3]]", "[[1], [0]]", "the length of each of query.candidates"),
        ("-2", "-9007199254740992", "-2^53"),
        ("fraction_bits = 4", "fraction_bits = 31", "query.fraction_bits"),
        ("fraction_bits = 4\n", "", "query.fraction_bits"),
        ("fallback = 2", "fallback = 3", "query.fallback"),
        (
            "fallback = 2",
            "fallback = 2\nlabels = [\"a\", \"b\"]",
            "one label for each of the 3 buckets",
        ),
    ] {
        let error = made(&plain.replace(from, to)).unwrap_err();
        assert!(error.contains(part), "{from} -> {to}: {error}");
    }
}

#[test]
fn vectors_have_their_rules() {
    const GAUSSIAN: &str = "[randomizer]\nkind = \"gaussian\"\nsigma = 1.5\n";
    let plain = "dimension = 64\nclip = 0.5";
    let recipe = about_vectors(plain, GAUSSIAN).unwrap();
    let Query::VectorSum(vectors) = &recipe.query else { panic!("{:?}", recipe.query) };
    assert_eq!((vectors.clip_micro, vectors.fraction_bits, vectors.sent()), (500_000, 15, 64));
    assert_eq!(recipe.randomizer, Randomizer::Gaussian { sigma_micro: 1_500_000 });
    let json = String::from_utf8(recipe.to_json()).unwrap();
    for part in [
        r#""attributes":{"emoji":"vector(64)"}"#,
        r#""query":{"clip_micro":500000,"dimension":64,"fraction_bits":15,"kind":"vector_sum","mapping":"emoji"}"#,
        r#""randomizer":{"kind":"gaussian","sigma_micro":1500000}"#,
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    let many = about_vectors("dimension = 100_001\nclip = 1", GAUSSIAN).unwrap();
    assert_eq!(many.query.vectors().unwrap().fraction_bits, 20);
    let packed =
        format!("{plain}\nfraction_bits = 9\ncompression = {{ dimension = 16, seed = 7 }}");
    let packed = about_vectors(&packed, GAUSSIAN).unwrap();
    assert_eq!(packed.query.vectors().unwrap().sent(), 16);
    let json = String::from_utf8(packed.to_json()).unwrap();
    assert!(json.contains(r#""compression":{"dimension":16,"seed":7}"#), "{json}");
    assert_eq!(Recipe::from_toml(&packed.to_toml()).unwrap(), packed);
    let servers = "[randomizer]\nkind = \"none\"\n[noise]\nkind = \"server_gaussian\"\nsigma = 2\n";
    about_vectors(plain, servers).unwrap();

    let none = "[randomizer]\nkind = \"none\"\n";
    let response = "[randomizer]\nkind = \"rappor\"\nepsilon = 1\n";
    let both = format!("{GAUSSIAN}[noise]\nkind = \"server_gaussian\"\nsigma = 2\n");
    for (query, protection, part) in [
        ("clip = 1", none, "query.dimension: is missing"),
        ("dimension = 64", none, "query.clip: is missing"),
        ("dimension = 64\nclip = -1", none, "query.clip: \"-1\" is not a number"),
        ("dimension = 64\nclip = 0", none, "query.clip must be above 0"),
        ("dimension = 1\nclip = 1", none, "query.dimension must be from 2 to 1048576, not 1"),
        ("dimension = 2000000\nclip = 1", none, "query.dimension must be from 2 to 1048576"),
        (
            "dimension = 64\nclip = 1\nfraction_bits = 31",
            none,
            "query.fraction_bits must be from 0",
        ),
        ("dimension = 64\nclip = 1\nfallback = 0", none, "query.fallback: is unknown"),
        (
            "dimension = 64\nclip = 1\ncompression = { dimension = 64, seed = 1 }",
            none,
            "query.compression.dimension must be from 1 to 63, not 64",
        ),
        (
            "dimension = 64\nclip = 1\ncompression = { dimension = 8 }",
            none,
            "query.compression.seed: is missing",
        ),
        (plain, response, "randomizer.kind rappor needs query.kind"),
        (plain, "[randomizer]\nkind = \"gaussian\"\n", "randomizer.sigma: is missing"),
        (
            plain,
            "[randomizer]\nkind = \"gaussian\"\nsigma = 0\n",
            "randomizer.sigma must be above 0",
        ),
        (plain, both.as_str(), "noise needs randomizer.kind none, not gaussian"),
    ] {
        let error = about_vectors(query, protection).unwrap_err();
        assert!(error.contains(part), "{query} {protection}: {error}");
    }
    for (kind, part) in [
        (
            "vector",
            "attributes.emoji: \"vector\" is unknown; use one of: bool, int, string, strings",
        ),
        ("vector()", "has no length: write it like vector(64)"),
        ("vector(064)", "has no length"),
        ("vector(-3)", "has no length"),
        ("vector(1)", "the length of a vector must be from 2"),
        ("vector(9999999)", "the length of a vector must be from 2"),
    ] {
        let text = example().replace("emoji = \"string\"", &format!("emoji = \"{kind}\""));
        let error = Recipe::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(part), "{kind}: {error}");
    }
}
