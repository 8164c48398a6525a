//! Results from collected numbers, their three forms, and what they say about each other.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_protocol::collector::Collection;
use sotto_protocol::recipe::derive_task;
use sotto_protocol::uniform_below;
use sotto_testing::recipe;
use sotto_wire::recipe::{
    AttributeType, Compression, Noise as ServerNoise, Probability, Randomizer, VectorQuery,
};
use sotto_wire::{Duration, Interval, Time};

use super::*;
use crate::CollectionJob;

/// The result of these sums, from one in four devices without noise, or of a recipe as it is.
fn result(recipe: &Recipe, count: u64, sums: AggregateResult) -> QueryResult {
    let task = derive_task(recipe).unwrap();
    let interval = Interval::new(Time::new(495_000), Duration::new(24)).unwrap();
    let collection = Collection { report_count: count, interval, result: sums };
    let job = CollectionJob { id: "a-job".to_owned(), request: Vec::new() };
    QueryResult::new(&task, Some((recipe, Some(7))), &Collected { collection, job }).unwrap()
}

fn exact(labels: [&str; 3]) -> Recipe {
    let mut exact = recipe::recipe("commute");
    exact.randomizer = Randomizer::None;
    exact.sampling.rate = Probability::new(1, 4).unwrap();
    let labels = Some(labels.map(str::to_owned).to_vec());
    let mapping = "region".to_owned();
    recipe::set_query(&mut exact, Query::Histogram { buckets: 3, labels, mapping, fallback: 0 });
    exact
}

fn histogram(counts: [i128; 3]) -> QueryResult {
    let count = counts.iter().sum::<i128>() as u64;
    result(&exact(["short", "middle", "long"]), count, AggregateResult::Vector(counts.to_vec()))
}

/// Four regions by randomized response, of which a fourth of the reports show each.
fn noisy(counts: [i128; 4]) -> QueryResult {
    let count = counts.iter().sum::<i128>() as u64;
    let sums = AggregateResult::Vector(counts.to_vec());
    result(&recipe::recipe("regions"), count, sums)
}

/// As kinds will be that are computed from sums.
fn with_statistics(kind: Kind, statistics: Vec<Row>) -> QueryResult {
    let mut found = noisy([3_000, 2_000, 1_000, 0]);
    let meaning = found.meaning.as_mut().unwrap();
    (meaning.kind, meaning.statistics) = (kind, statistics);
    found
}

fn mean() -> QueryResult {
    let mean = Row { stderr: 0.034, low: 3.08, high: 3.21, ..Row::exact("mean", 3.1623) };
    with_statistics(Kind::Mean, vec![mean])
}

fn quantiles() -> QueryResult {
    let of = |quantile: f64, low: f64, high: f64| Row {
        quantile: Some(quantile),
        stderr: 1.5,
        low,
        high,
        ..Row::exact(quantile.to_string(), 34.0)
    };
    let all =
        [of(0.25, f64::NEG_INFINITY, 36.0), of(0.5, 32.0, 36.0), of(0.75, 32.0, f64::INFINITY)];
    with_statistics(Kind::Quantiles, all.to_vec())
}

#[test]
fn a_result_says_where_it_comes_from() {
    let found = histogram([100, 25, 0]);
    let meaning = found.meaning.as_ref().unwrap();
    assert_eq!((found.count, meaning.kind, meaning.index), (125, Kind::Histogram, Some(7)));
    assert_eq!((meaning.rate, meaning.cover, meaning.population), (0.25, 1.0, 1_000_000));
    assert_eq!(meaning.leader_operator.to_string(), "leader.example");
    let labels: Vec<&str> = meaning.buckets.iter().map(|row| row.label.as_str()).collect();
    assert_eq!(labels, ["short", "middle", "long"]);
    let [short, _, long] = &meaning.buckets[..] else { panic!("{meaning:?}") };
    assert_eq!((short.estimate, long.estimate, long.stderr), (400.0, 0.0, 0.0));
    let noise = short.noise.unwrap();
    assert_eq!((noise.stderr, noise.low, noise.high), (0.0, 400.0, 400.0), "only sampling");
    assert!(short.low < 400.0 && 400.0 < short.high && long.high > 0.0);
    let noisy = noisy([3_000, 2_000, 1_000, 0]);
    let meaning = noisy.meaning.unwrap();
    assert_eq!(meaning.mechanism, "randomized_response");
    let parameter = Parameter { name: "local epsilon".to_owned(), value: 1.0 };
    assert_eq!(meaning.parameters, [parameter]);
    assert!(meaning.buckets[0].noise.unwrap().stderr > 0.0);
}

#[test]
fn single_numbers_are_named_by_their_query() {
    let mapping = || "region".to_owned();
    let sum = Query::Sum { max: 60, mapping: mapping(), fallback: 0 };
    let count = Query::Count { mapping: "true".to_owned(), fallback: false };
    for (query, kind, label) in [(sum, Kind::Sum, "sum"), (count, Kind::Count, "count")] {
        let mut recipe = exact(["a", "b", "c"]);
        recipe::set_query(&mut recipe, query);
        let meaning = result(&recipe, 10, AggregateResult::Scalar(10)).meaning.unwrap();
        assert_eq!((meaning.kind, meaning.buckets.len()), (kind, 1));
        assert_eq!((meaning.buckets[0].label.as_str(), meaning.buckets[0].estimate), (label, 40.0));
    }
}

#[test]
fn what_is_kept_is_read_back() {
    for mut found in [histogram([100, 25, 0]), noisy([3_000, 2_000, 1_000, 1]), mean(), quantiles()]
    {
        for consistent in [false, true] {
            if consistent {
                found.add_consistent();
            }
            let kept = found.to_json();
            let read = QueryResult::from_json(kept.as_bytes()).unwrap();
            assert_eq!(read.to_json(), kept);
            assert_eq!(read.to_csv(), found.to_csv());
        }
    }
    let plain = QueryResult { meaning: None, ..histogram([100, 25, 0]) };
    assert_eq!(QueryResult::from_json(plain.to_json().as_bytes()).unwrap(), plain);
    let kept = histogram([100, 25, 0]).to_json();
    assert!(
        kept.contains("\"schema\": \"sotto/1\"") && kept.contains("\"estimate\": 400,"),
        "{kept}"
    );
}

#[test]
fn a_bad_file_is_refused_with_the_reason() {
    let kept = histogram([100, 25, 0]).to_json();
    let refused = |from: &str, to: &str| {
        assert!(kept.contains(from), "{from}");
        let changed = kept.replacen(from, to, 1);
        QueryResult::from_json(changed.as_bytes()).unwrap_err().to_string()
    };
    for (from, to, reason) in [
        (
            "sotto/1",
            "sotto/2",
            "it has the version \"sotto/2\", and this program reads \"sotto/1\"",
        ),
        ("\"schema\"", "\"scheme\"", "it has the version null"),
        ("\"command\": \"collect\"", "\"command\": \"demo\"", "it is what `sotto demo` printed"),
        ("\"result\"", "\"error\"", "the collection gave no result"),
        ("\"count\"", "\"kount\"", "missing field `count` at line"),
        ("\"count\": 125", "\"count\": -125", "invalid value"),
        ("\"result\": [", "\"result\": [1.5,", "expected a whole number, or a list of them"),
        ("\"histogram\"", "\"histograms\"", "unknown variant `histograms`"),
        ("\"rate\": 0.25", "\"rate\": 0", "its rate is not above 0 and at most 1"),
        ("\"rate\": 0.25", "\"rate\": 2", "its rate is not above 0 and at most 1"),
        ("\"cover\": 1", "\"cover\": 1.5", "a probability is not between 0 and 1"),
        ("0.95", "0.9", "its intervals have another level than 0.95"),
        ("\"estimate\": 400", "\"estimate\": 1e300", "the estimate of `short` is beyond all sums"),
        (
            "\"estimate\": 400",
            "\"estimate\": -1",
            "the estimate of `short` is not in its intervals",
        ),
        ("\"estimate\": 400", "\"estimate\": 1e999", "number out of range at line"),
        ("\"short\"", "\"sh\\u001b[31mort\"", "a text has characters that cannot be seen"),
        ("\"commute\"", "\"\\u202ecommute\"", "a text has characters that cannot be seen"),
        ("{", "[", "expected"),
    ] {
        let said = refused(from, to);
        assert!(said.starts_with(reason) || said.contains(reason), "{from} {to}: {said}");
    }
    for end in [0, 1, kept.len() / 2, kept.len() - 3] {
        assert!(QueryResult::from_json(&kept.as_bytes()[..end]).is_err(), "{end}");
    }
    assert!(QueryResult::from_json(b"\xff").is_err());
}

#[test]
fn labels_never_become_formulas() {
    let recipe = exact(["=1+1", "a \"b\", c", "-5"]);
    let csv = result(&recipe, 6, AggregateResult::Vector(vec![1, 2, 3])).to_csv();
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(lines.len(), 5, "a header, three rows, and the end of the last line");
    assert!(lines[0].starts_with("label,quantile,estimate,stderr,lo95,hi95,noise_stderr,"));
    let starts: Vec<&str> =
        lines[1..4].iter().map(|line| line.split(",,").next().unwrap()).collect();
    assert_eq!(starts, ["'=1+1", "\"a \"\"b\"\", c\"", "'-5"]);
    let id = recipe.id();
    let origin = format!(",6,2026-06-21T00:00:00Z,2026-06-22T00:00:00Z,{id},commute,1e-6,");
    let origin = origin.replace("1e-6", "0.000001");
    assert!(lines[1].contains(&origin), "{} {origin}", lines[1]);
    let columns = lines[0].split(',').count();
    assert!(
        lines[1..4].iter().all(|line| line.replace("b\"\", c", "").split(',').count() == columns)
    );
    // An end that there is not is empty.
    assert!(quantiles().to_csv().contains("\n0.25,0.25,34,1.5,,36,"), "{}", quantiles().to_csv());
}

#[test]
fn consistent_estimates_stand_beside_the_raw_ones() {
    let mut found = noisy([3_000, 2_000, 1_000, 0]);
    let raw: Vec<f64> = found.buckets().iter().map(|row| row.estimate).collect();
    assert!(raw.iter().any(|estimate| *estimate < 0.0), "{raw:?}");
    found.add_consistent();
    let rows = found.buckets();
    assert_eq!(rows.iter().map(|row| row.estimate).collect::<Vec<_>>(), raw);
    let consistent: Vec<f64> = rows.iter().map(|row| row.consistent.unwrap()).collect();
    assert!(consistent.iter().all(|estimate| *estimate >= 0.0));
    // 6,000 reports of every second device.
    assert!((consistent.iter().sum::<f64>() - 12_000.0).abs() < 1e-6, "{consistent:?}");
    // The reports alone do not say how many devices there are.
    let meaning = found.meaning.as_mut().unwrap();
    (meaning.kind, meaning.default_rate) = (Kind::SparseHistogram, Some(0.01));
    found.add_consistent();
    let clamped: Vec<f64> = found.buckets().iter().map(|row| row.consistent.unwrap()).collect();
    assert_eq!(clamped, raw.iter().map(|raw| raw.max(0.0)).collect::<Vec<_>>());
}

/// How many holders of each bucket take part, of this many each, if one in four does.
fn sampled(holders: [u64; 3], rng: &mut ChaCha20Rng) -> QueryResult {
    histogram(holders.map(|n| (0..n).map(|_| i128::from(uniform_below(4, rng) == 0)).sum()))
}

/// Of 1,000 pairs without a difference at most 5 % may be called different: 50, and more than 72 by
/// chance in less than one of 1,000 runs. Rare values, where standard errors are too small, are
/// included. A value twice as large is found nearly always.
#[test]
fn chance_is_rarely_called_a_difference() {
    let mut rng = ChaCha20Rng::seed_from_u64(18);
    for holders in [[400, 200, 100], [300, 5, 1], [12, 12, 12]] {
        let mut alarms = 0;
        for _ in 0..1_000 {
            let pair = [(); 2].map(|()| sampled(holders, &mut rng));
            alarms += u32::from(Comparison::new(&pair[0], &pair[1], 0.05).unwrap().differs());
        }
        assert!(alarms <= 72, "{holders:?}: {alarms}");
    }
    let mut found = 0;
    for _ in 0..100 {
        let pair = [[400, 200, 100], [400, 400, 100]].map(|held| sampled(held, &mut rng));
        let comparison = Comparison::new(&pair[0], &pair[1], 0.05).unwrap();
        found += u32::from(comparison.rows[1].differs);
    }
    assert!(found >= 95, "{found}");
}

#[test]
fn only_answers_to_the_same_question_are_compared() {
    let first = histogram([100, 25, 0]);
    let same = Comparison::new(&first, &first, 0.05).unwrap();
    assert!(!same.differs() && same.rows.iter().all(|row| row.p_adjusted == 1.0));
    let labels = exact(["short", "medium", "long"]);
    let labels = result(&labels, 125, AggregateResult::Vector(vec![100, 25, 0]));
    let plain = QueryResult { meaning: None, ..first.clone() };
    for (other, reason) in [
        (labels, "row 2 is `middle` in one, and `medium` in the other"),
        (noisy([1, 2, 3, 4]), "one has 3 rows, the other 4"),
        (mean(), "one is a histogram, the other a mean"),
        (plain, "the second result has no recipe"),
    ] {
        let error = Comparison::new(&first, &other, 0.05).unwrap_err().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    for level in [0.0, 1.0, f64::NAN] {
        assert_eq!(Comparison::new(&first, &first, level), Err(Incomparable::Significance));
    }
}

/// The value of an attribute.
fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    element.split_once(&format!("{name}=\""))?.1.split('"').next()
}

/// Every text of the image is inside it, whatever the font.
fn check_image(svg: &str) {
    for element in svg.split("<text ").skip(1) {
        let number = |name: &str| attribute(element, name).unwrap().parse::<f64>().unwrap();
        let text = element.split_once('>').unwrap().1.split("</text>").next().unwrap();
        let text = &text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let wide = svg::text::width(text, number("font-size"));
        let from = match attribute(element, "text-anchor") {
            Some("end") => number("x") - wide,
            Some("middle") => number("x") - wide / 2.0,
            _ => number("x"),
        };
        assert!(from >= 0.0 && from + wide <= 760.0, "{element}");
        let height: f64 = attribute(svg, "height").unwrap().parse().unwrap();
        assert!(number("y") > 10.0 && number("y") < height, "{element}");
    }
    for tag in ["svg", "text", "title", "style"] {
        let count = |what: String| svg.matches(&what).count();
        let opened = count(format!("<{tag}>")) + count(format!("<{tag} "));
        assert_eq!(opened, count(format!("</{tag}>")), "{tag}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
}

#[test]
fn pictures_hold_every_text() {
    let label = "an answer that is <much> longer than others & does not fit into one line";
    let long = exact(["W", label, "東京都千代田区東京都千代田区東京都千代田区"]);
    let long = result(&long, 125, AggregateResult::Vector(vec![100, 25, 0]));
    let sums = AggregateResult::Vector(vec![i128::MAX, 25, 0]);
    let plain = QueryResult { sums, meaning: None, ..mean() };
    for found in [histogram([100, 25, 0]), noisy([3_000, 2_000, 1_000, 0]), mean(), long, plain] {
        check_image(&found.to_svg());
    }
    let of_quantiles = quantiles().to_svg();
    check_image(&of_quantiles);
    assert!(of_quantiles.contains("0.25: 34.0 (36.0 or less)"), "{of_quantiles}");
    assert!(of_quantiles.contains("0.5: 34.0 (32.0 to 36.0)"));
    assert!(mean().to_svg().contains(">3.162<"), "{}", mean().to_svg());
    let empty = QueryResult { sums: AggregateResult::Vector(Vec::new()), meaning: None, ..mean() };
    check_image(&empty.to_svg());
}

#[test]
fn of_many_buckets_the_largest_are_drawn() {
    let mut found = histogram([100, 25, 0]);
    let meaning = found.meaning.as_mut().unwrap();
    meaning.buckets =
        (0..1_000).map(|at| Row::exact(at.to_string(), f64::from(at % 500))).collect();
    let svg = found.to_svg();
    check_image(&svg);
    assert!(svg.contains("The 200 largest of 1000 buckets"));
    assert_eq!(svg.matches("class=\"bar\"").count(), 201, "with the legend's");
    assert!(svg.contains(">499</text>") && !svg.contains(">399</text>"));
}

/// A mean of vectors of 1 at most, in units of 1/1024, at this rate.
fn vectors(randomizer: Randomizer, noise: Option<ServerNoise>, rate: (u64, u64)) -> Recipe {
    let mut recipe = recipe::recipe("rhythm");
    recipe.attributes.insert("trace".parse().unwrap(), AttributeType::Vector(8));
    (recipe.randomizer, recipe.noise) = (randomizer, noise);
    recipe.aggregation.min_batch = 100;
    recipe.sampling.rate = Probability::new(rate.0, rate.1).unwrap();
    let mapping = "trace".to_owned();
    let asked = VectorQuery {
        dimension: 8,
        clip_micro: 1_000_000,
        fraction_bits: 10,
        mapping,
        compression: None,
    };
    recipe::set_query(&mut recipe, Query::VectorMean(asked));
    recipe
}

fn coordinates(found: &QueryResult) -> &Coordinates {
    found.meaning.as_ref().unwrap().coordinates.as_ref().unwrap()
}

const SUMS: [i128; 8] = [102_400, -51_200, 0, 0, 1, 2, 3, 1_024];

#[test]
fn a_vector_has_columns_a_norm_and_no_buckets() {
    let exact = vectors(Randomizer::None, None, (1, 1));
    let found = result(&exact, 200, AggregateResult::Vector(SUMS.into()));
    let meaning = found.meaning.as_ref().unwrap();
    assert_eq!((meaning.kind, meaning.buckets.len()), (Kind::VectorMean, 0));
    let columns = coordinates(&found);
    // Everybody took part, without noise: 102,400/1,024/200.
    assert_eq!((columns.estimates[0], columns.estimates[1]), (0.5, -0.25));
    assert_eq!((columns.lows[0], columns.highs[0], columns.rms_error), (0.5, 0.5, 0.0));
    let [devices, norm] = &meaning.statistics[..] else { panic!("{meaning:?}") };
    assert_eq!((devices.label.as_str(), devices.estimate), ("devices", 200.0));
    let expected =
        SUMS.iter().map(|sum| (*sum as f64).powi(2)).sum::<f64>().sqrt() / 1_024.0 / 200.0;
    assert!((norm.estimate - expected).abs() < 1e-12 && norm.label == "norm", "{norm:?}");
    assert_eq!(found.buckets().len(), 8);
    assert_eq!(found.estimates(), columns.estimates);

    let noises = [
        (Randomizer::Gaussian { sigma_micro: 5_000_000 }, None, 5.0 * 2_f64.sqrt()),
        // Both servers add theirs.
        (
            Randomizer::None,
            Some(ServerNoise::ServerGaussian { sigma_micro: 5_000_000 }),
            5.0 * 2_f64.sqrt(),
        ),
    ];
    for (randomizer, noise, deviation) in noises {
        let recipe = vectors(randomizer, noise, (1, 2));
        let found = result(&recipe, 200, AggregateResult::Vector(SUMS.into()));
        let columns = coordinates(&found);
        // Sigma 5 is for 100 devices, of which there are twice as many.
        assert!((columns.noise_errors[2] / (deviation / 200.0) - 1.0).abs() < 0.01, "{columns:?}");
        assert!(columns.lows[0] < columns.noise_lows[0] && columns.noise_lows[0] < 0.5);
        assert!(
            columns.rms_error < columns.errors[2] && columns.rms_error > columns.noise_errors[2]
        );
        let parameters = &found.meaning.as_ref().unwrap().parameters;
        let named = |name: &str| parameters.iter().find(|one| one.name == name).unwrap().value;
        assert_eq!((named("clip"), named("fraction bits")), (1.0, 10.0));
    }
}

#[test]
fn vectors_are_kept_shown_and_compared() {
    let recipe = vectors(Randomizer::Gaussian { sigma_micro: 5_000_000 }, None, (1, 2));
    let found = result(&recipe, 200, AggregateResult::Vector(SUMS.into()));
    let kept = found.to_json();
    let read = QueryResult::from_json(kept.as_bytes()).unwrap();
    assert_eq!(read.to_json(), kept);
    assert_eq!(coordinates(&read).len(), 8);
    assert_eq!(read.to_csv().lines().count(), 1 + 8 + 2);
    let short = kept.replacen("\"lows\": [", "\"lows\": [0,", 1);
    assert!(QueryResult::from_json(short.as_bytes()).is_err(), "a column that is longer");

    let mut more = SUMS;
    more[3] += 100_000;
    let other = result(&recipe, 200, AggregateResult::Vector(more.into()));
    let same = Comparison::new(&found, &read, 0.05).unwrap();
    assert!(!same.differs() && same.rows.len() == 10);
    let differs = Comparison::new(&found, &other, 0.05).unwrap();
    let rows: Vec<&str> =
        differs.rows.iter().filter(|row| row.differs).map(|row| row.label.as_str()).collect();
    assert_eq!(rows, ["3"]);

    let svg = found.to_svg();
    for part in ["<polyline class=\"curve\"", "<polygon class=\"band\"", "8 coordinates", "norm: "]
    {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let mut long = found.clone();
    let columns = long.meaning.as_mut().unwrap().coordinates.as_mut().unwrap();
    for column in [
        &mut columns.estimates,
        &mut columns.errors,
        &mut columns.lows,
        &mut columns.highs,
        &mut columns.noise_errors,
        &mut columns.noise_lows,
        &mut columns.noise_highs,
    ] {
        *column = column.iter().copied().cycle().take(100_000).collect();
    }
    assert!(long.to_svg().len() < 100_000);
    assert_eq!(coordinates(&long).binned(700).len(), 100_000_usize.div_ceil(143));
    let mut consistent = found.clone();
    consistent.add_consistent();
    assert_eq!(consistent, found);
}

/// 500 devices, 8 numbers as 4: the way there and back, with the error that the result says.
#[test]
fn compressed_vectors_come_back_with_the_error_that_is_said() {
    let truth = [0.4, -0.2, 0.0, 0.1, 0.0, 0.3, -0.1, 0.2];
    let norm = truth.iter().map(|one: &f64| one * one).sum::<f64>().sqrt();
    let (mut squares, mut said, mut missed) = (0.0, 0.0, 0);
    for seed in 0..200 {
        let mut recipe = vectors(Randomizer::None, None, (1, 1));
        let Query::VectorMean(mut asked) = recipe.query.clone() else { panic!() };
        asked.compression = Some(Compression { dimension: 4, seed });
        recipe::set_query(&mut recipe, Query::VectorMean(asked));
        let projection = sotto_protocol::recipe::projection(&recipe.query).unwrap().unwrap();
        let sent = projection.project(&truth);
        let sums = sent.iter().map(|one| (one * 1_024.0).round() as i128 * 500).collect();
        let found = result(&recipe, 500, AggregateResult::Vector(sums));
        let columns = coordinates(&found);
        assert_eq!(columns.len(), 8);
        let statistics = &found.meaning.as_ref().unwrap().statistics;
        assert!(statistics.iter().all(|row| row.label != "norm"), "the projection changes it");
        said = columns.rms_error * columns.rms_error;
        let wrong = columns.estimates.iter().zip(&truth).map(|(found, truth)| found - truth);
        squares += wrong.map(|off| off * off).sum::<f64>() / 8.0;
        let ends = columns.lows.iter().zip(&columns.highs).zip(&truth);
        missed += ends.filter(|((low, high), truth)| *low > *truth || *high < *truth).count();
    }
    // (p - k)/(k (p - 1)) (d - 1)/d |X|^2; the mean of 200 seeds is within a tenth of it.
    let formula = (8.0 - 4.0) / (4.0 * 7.0) * (7.0 / 8.0) * norm * norm;
    assert!((squares / 200.0 / formula - 1.0).abs() < 0.1, "{} {formula}", squares / 200.0);
    assert!(said > 0.3 * formula && said < 3.0 * formula, "{said} {formula}");
    assert!(missed < 200 * 8 / 10, "{missed} of 1,600 intervals miss");
}

/// Two thousand devices would leave nothing of the bar of a mean of seven hours.
#[test]
fn a_mean_has_the_axis_for_itself() {
    let devices =
        Row { stderr: 45.0, low: 2_010.0, high: 2_190.0, ..Row::exact("devices", 2_102.0) };
    let mean = Row { stderr: 0.034, low: 6.93, high: 7.07, ..Row::exact("mean", 7.0) };
    let image = with_statistics(Kind::Mean, vec![devices, mean]).to_svg();
    assert!(image.contains("devices: 2102 (2010 to 2190)"), "{image}");
    assert!(image.contains(">6</text>") && !image.contains(">2,000</text>"), "{image}");
}
