use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;
use crate::note::{KeyName, KeyType};

/// The key with this number: its name is `k<number>`.
fn key(number: u8, key_type: KeyType) -> VerifierKey {
    let name: KeyName = format!("k{number}").parse().unwrap();
    VerifierKey::new(name, key_type, [number; 32])
}

fn log(number: u8) -> String {
    key(number, KeyType::Ed25519).to_string()
}

fn witness(number: u8) -> String {
    key(number, KeyType::CosignatureV1).to_string()
}

/// Two organisations: two of the three witnesses of X, and any witness of Y.
fn two_levels() -> TlogPolicy {
    let witnesses: String = ["X1", "X2", "X3", "Y1", "Y2", "Y3", "Z"]
        .iter()
        .zip(1..)
        .map(|(name, number)| format!("witness {name} {}\n", witness(number)))
        .collect();
    TlogPolicy::parse(&format!(
        "log {}\n\n{witnesses}group X-witnesses 2 X1 X2 X3\ngroup Y-witnesses any Y1 Y2 Y3\n\
         group X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n",
        log(9)
    ))
    .unwrap()
}

#[test]
fn spacing_and_comments_are_free() {
    let policy = TlogPolicy::parse(&format!(
        "# A policy.\n \t# Indented: naïve \u{3000}.\n\n \t \n\tlog \t{} https://log.example/ \n\
         witness caf\u{e9} {}\nwitness b {}  http://b.example\n group  g  1\tcaf\u{e9} b\nquorum g\n",
        log(1),
        witness(1),
        witness(2)
    ))
    .unwrap();
    assert_eq!(policy.logs().len(), 1);
    assert_eq!(policy.logs()[0].url.as_deref(), Some("https://log.example/"));
    assert_eq!(policy.log_keys("k1").count(), 1);
    assert_eq!(policy.log_keys("k2").count(), 0);
    assert_eq!(policy.witnesses()[0].name, "caf\u{e9}");
    assert_eq!(policy.witnesses()[1].url.as_deref(), Some("http://b.example"));
    assert!(policy.requires_witnesses());
    assert!(policy.quorum_met(&|name| name == "b"));
    assert!(!policy.quorum_met(&|_| false));
    assert_eq!(TlogPolicy::parse(&policy.to_string()), Ok(policy));
}

#[test]
fn a_quorum_of_none_is_met_but_proves_no_time() {
    let policy = TlogPolicy::parse("quorum none\n").unwrap();
    assert!(!policy.requires_witnesses());
    assert!(policy.quorum_met(&|_| false));
    assert_eq!(policy.quorum_time(&|_| Some(5)), None);
    assert_eq!(policy.quorum_freshness(&|_| Some(5)), None);
    assert_eq!(policy.to_string(), "quorum none\n");
}

#[test]
fn policies_that_do_not_parse() {
    let (l, l2, w, w2) = (log(1), log(2), witness(1), witness(2));
    let two = format!("witness a {w}\nwitness b {w2}\n");
    let renamed = VerifierKey::new("other".parse().unwrap(), KeyType::CosignatureV1, [1; 32]);
    let other_log = VerifierKey::new("other".parse().unwrap(), KeyType::Ed25519, [1; 32]);
    assert!(TlogPolicy::parse(&format!("log {l}\nlog {l2}\n{two}quorum a\n")).is_ok());
    for text in [
        String::new(),
        "quorum none".into(),
        format!("log {l}\n"),
        "quorum none\nquorum none\n".into(),
        format!("{two}quorum a\nquorum b\n"),
        "quorum\n".into(),
        "quorum a\n".into(),
        format!("quorum a\nwitness a {w}\n"),
        format!("{two}quorum a b\n"),
        "Quorum none\n".into(),
        // Keys: missing, of the wrong type, or twice.
        "log\nquorum none\n".into(),
        format!("log {w}\nquorum none\n"),
        format!("witness a {l}\nquorum a\n"),
        format!("witness a\nquorum none\n{w}\n"),
        format!("log {l}\nlog {l}\nquorum none\n"),
        format!("log {l}\nlog {other_log}\nquorum none\n"),
        format!("witness a {w}\nwitness b {renamed}\nquorum a\n"),
        format!("log {l} url more\nquorum none\n"),
        format!("witness a {w} url more\nquorum a\n"),
        // Names: taken, reserved, unknown, or defined later.
        format!("witness a {w}\nwitness a {w2}\nquorum a\n"),
        format!("witness none {w}\nquorum none\n"),
        format!("{two}group a any b\nquorum a\n"),
        format!("{two}group none any a b\nquorum none\n"),
        format!("{two}group g any a c\nquorum g\n"),
        format!("{two}group g any g a\nquorum g\n"),
        format!("{two}group g any h\ngroup h any a\nquorum g\n"),
        format!("{two}group g any none\nquorum g\n"),
        // One witness, counted twice.
        format!("{two}group g all a a\nquorum g\n"),
        format!("{two}group g any a b\ngroup h any a\nquorum h\n"),
        format!("{two}group g any a\ngroup h all g a\nquorum h\n"),
        // Thresholds.
        format!("{two}group g\nquorum none\n"),
        format!("{two}group g any\nquorum g\n"),
        format!("{two}group g all\nquorum g\n"),
        format!("{two}group g 0 a b\nquorum g\n"),
        format!("{two}group g 3 a b\nquorum g\n"),
        format!("{two}group g 01 a b\nquorum g\n"),
        format!("{two}group g -1 a b\nquorum g\n"),
        format!("{two}group g 18446744073709551617 a b\nquorum g\n"),
        // Characters.
        "quorum none\r\n".into(),
        "quorum none\u{7f}\n".into(),
        "# \u{0}\nquorum none\n".into(),
        "quorum\u{a0}none\n".into(),
    ] {
        assert!(TlogPolicy::parse(&text).is_err(), "{text:?}");
    }
    let error = TlogPolicy::parse("# one\n\nquorum x\n").unwrap_err();
    assert_eq!(error.line(), Some(3));
}

#[test]
fn limits() {
    let witnesses = |count: u8| -> String {
        (0..count).map(|number| format!("witness {number} {}\n", witness(number))).collect()
    };
    assert!(TlogPolicy::parse(&format!("{}quorum 0\n", witnesses(64))).is_ok());
    assert!(TlogPolicy::parse(&format!("{}quorum 0\n", witnesses(65))).is_err());
    let long = format!("quorum none\n#{}\n", "x".repeat(64 * 1024));
    assert!(TlogPolicy::parse(&long).is_err());
}

#[test]
fn nested_groups() {
    let policy = two_levels();
    let met = |names: &[&str]| policy.quorum_met(&|name| names.contains(&name));
    assert!(met(&["X1", "X3", "Y2"]));
    assert!(met(&["X1", "X2", "X3", "Y1", "Y2", "Y3"]));
    assert!(!met(&["X1", "X2", "X3"]));
    assert!(!met(&["X1", "Y1", "Y2", "Y3"]));
    assert!(!met(&["Z", "X1", "Y1"]));
    assert!(!met(&[]));
    assert_eq!(TlogPolicy::parse(&policy.to_string()), Ok(policy));
}

#[test]
fn times_of_nested_groups() {
    let policy = two_levels();
    let time = |times: &[(&str, u64)]| {
        let times = times.to_vec();
        let of = move |name: &str| times.iter().find(|(other, _)| *other == name).map(|t| t.1);
        (policy.quorum_time(&of), policy.quorum_freshness(&of))
    };
    // The second of X and the first of Y count.
    assert_eq!(time(&[("X1", 10), ("X2", 30), ("X3", 20), ("Y1", 5)]), (Some(20), Some(5)));
    assert_eq!(time(&[("X1", 10), ("X2", 30), ("X3", 20), ("Y1", 99)]), (Some(99), Some(20)));
    assert_eq!(time(&[("X1", 10), ("X2", 30), ("Y1", 50), ("Y2", 40)]), (Some(40), Some(10)));
    // A witness outside the quorum changes nothing.
    assert_eq!(time(&[("X1", 7), ("X2", 7), ("Y1", 7), ("Z", 1)]), (Some(7), Some(7)));
    assert_eq!(time(&[("X1", 7), ("Y1", 7), ("Z", 7)]), (None, None));
}

/// The definition itself: the first of the given times, in order, at which the witnesses so far
/// meet the quorum.
fn by_definition(policy: &TlogPolicy, times: &[Option<u64>], newest_first: bool) -> Option<u64> {
    let of = |name: &str| times[name[1..].parse::<usize>().unwrap()];
    let mut candidates: Vec<u64> = times.iter().flatten().copied().collect();
    candidates.sort_unstable();
    if newest_first {
        candidates.reverse();
    }
    candidates.into_iter().find(|limit| {
        policy.quorum_met(&|name| {
            of(name).is_some_and(|time| if newest_first { time >= *limit } else { time <= *limit })
        })
    })
}

/// Whether the witnesses meet the quorum, by recursion over the text of the policy.
fn met_by_recursion(text: &str, name: &str, signed: &dyn Fn(&str) -> bool) -> bool {
    let line = text.lines().find(|line| line.starts_with(&format!("group {name} ")));
    let Some(line) = line else { return signed(name) };
    let words: Vec<&str> = line.split(' ').collect();
    let met = words[3..].iter().filter(|member| met_by_recursion(text, member, signed)).count();
    met >= words[2].parse().unwrap()
}

#[test]
fn random_policies_agree_with_the_definition() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let mut below = |bound: usize| (rng.next_u64() % bound as u64) as usize;
    let (mut with_time, mut without) = (0, 0);
    for _ in 0..400 {
        let count = 1 + below(8);
        let mut text: String =
            (0..count).map(|n| format!("witness w{n} {}\n", witness(n as u8))).collect();
        // Groups the remaining members, until one remains.
        let mut free: Vec<String> = (0..count).map(|n| format!("w{n}")).collect();
        for group in 0.. {
            if free.len() == 1 {
                break;
            }
            let members: Vec<String> =
                (0..1 + below(free.len())).map(|_| free.swap_remove(below(free.len()))).collect();
            let threshold = 1 + below(members.len());
            text.push_str(&format!("group g{group} {threshold} {}\n", members.join(" ")));
            free.push(format!("g{group}"));
        }
        text.push_str(&format!("quorum {}\n", free[0]));
        let policy = TlogPolicy::parse(&text).unwrap();
        assert_eq!(policy.to_string(), text);
        for _ in 0..20 {
            let times: Vec<Option<u64>> =
                (0..count).map(|_| (below(4) > 0).then(|| below(6) as u64)).collect();
            let of = |name: &str| times[name[1..].parse::<usize>().unwrap()];
            let signed = |name: &str| of(name).is_some();
            assert_eq!(policy.quorum_met(&signed), met_by_recursion(&text, &free[0], &signed));
            let time = policy.quorum_time(&of);
            assert_eq!(time, by_definition(&policy, &times, false), "{text}{times:?}");
            assert_eq!(policy.quorum_freshness(&of), by_definition(&policy, &times, true));
            if time.is_some() { with_time += 1 } else { without += 1 }
        }
    }
    assert!(with_time > 1000 && without > 1000, "{with_time} {without}");
}
