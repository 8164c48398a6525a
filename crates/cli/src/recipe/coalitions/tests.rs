use std::collections::BTreeSet;

use sotto_protocol::recipe::coalitions::Party;
use sotto_protocol::recipe::judgement;
use sotto_wire::recipe::{Probability, Randomizer};

use super::*;

const HEAD: &str = "\
# Coalitions

What each party of a recipe learns, alone and with each other party. This page is the output of
`sotto recipe coalitions --markdown` for the example in [recipe format](recipe-format.md); run the
command for your own recipe. A test compares the page with the code, and recomputes every epsilon.
To write it again, run `SOTTO_BLESS=1 cargo test -p sotto the_table_of_coalitions`.

- *Epsilon* bounds what the parties learn about the value of one device. *With the result*: the same
  if they also see the result, for instance because it is published.
- Every row tolerates dishonest devices: at most half of the minimum batch, in total.
- Two attesters and hybrid keys are assumed; `--trust` takes what is allowed from a trust file. What
  a predicate says about senders is not counted.
- A is the chain of the leader's token, B that of the helper's: attester and issuer.
- *Shown by*: tests of what each party sees on its own, and of what the pair can do. That a pair
  learns nothing else follows from the design, as does what is marked *design*: no test covers it.
- The last two are no parties of a recipe. A *clock* compares the times at which requests arrive,
  without addresses. A *recorder* keeps all traffic of everybody, and breaks X25519 later.
- Three or more parties, witnesses, manufacturers and other observers of the network:
  [threat model](threat-model.md). What is in neither place is **not claimed**.

";

fn example() -> Recipe {
    let page = include_str!("../../../../../docs/recipe-format.md");
    let json = page.lines().find(|line| line.starts_with("{\"aggregation\"")).unwrap();
    Recipe::parse(json.as_bytes()).unwrap()
}

#[test]
fn the_table_of_coalitions_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coalitions.md");
    let page = format!("{HEAD}{}", markdown(&rows(&example(), None, Allowed::default()).unwrap()));
    if std::env::var_os("SOTTO_BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(committed, page, "run: SOTTO_BLESS=1 cargo test -p sotto the_table_of_coalitions");
}

#[test]
fn every_party_and_every_pair_has_a_full_row() {
    let rows = rows(&example(), None, Allowed::default()).unwrap();
    let named: BTreeSet<Vec<&str>> = rows.iter().map(|row| row.parties.clone()).collect();
    let count = Party::ALL.len();
    assert_eq!((named.len(), rows.len()), (count + count * (count - 1) / 2, named.len()));
    for row in &rows {
        assert!(!row.learns.is_empty() && !row.shown_by.is_empty(), "{row:?}");
        assert!(row.learns.iter().all(|text| !text.is_empty()) && !row.because.is_empty());
        let tests = row.shown_by.iter().filter(|test| **test != "design");
        for test in tests {
            let path = format!("{}/../../{test}", env!("CARGO_MANIFEST_DIR"));
            assert!(std::path::Path::new(&path).exists(), "{test}");
        }
    }
}

/// Each epsilon, computed here from the accountant and from who may collude with whom, written down
/// by hand.
#[test]
fn every_epsilon_is_what_the_accountant_says() {
    let recipe = example();
    let judged = judgement(&recipe).unwrap().unwrap();
    let mut everybody = recipe.clone();
    everybody.sampling.rate = Probability::ONE;
    let local = judged.local_epsilon.unwrap();
    let claim = judged.epsilon.min(local);
    let senders = judgement(&everybody).unwrap().unwrap().epsilon.min(local);
    assert!(0.0 < claim && claim < senders && senders <= local, "{claim} {senders} {local}");
    // These pairs see one randomized answer if they see the result: devices that do not exist pass
    // both aggregators. In every other pair one honest chain stops them.
    let isolating = [
        ["attester A", "attester B"],
        ["attester A", "issuer B"],
        ["attester B", "issuer A"],
        ["issuer A", "issuer B"],
        ["attester A", "helper"],
        ["issuer A", "helper"],
        ["attester B", "leader"],
        ["issuer B", "leader"],
    ];
    for row in rows(&recipe, None, Allowed::default()).unwrap() {
        let has = |name: &str| row.parties.contains(&name);
        let isolates = isolating.iter().any(|pair| pair.iter().all(|name| has(name)));
        let with_result = match () {
            () if has("leader") && has("helper") || isolates => local,
            // The leader tells reports from cover.
            () if has("relay") && has("leader") => senders,
            // Reports go on to the helper, and cover does not.
            () if has("relay") && has("helper") => senders,
            () if has("relay") && has("clock at every party") => senders,
            () if has("recorder of all traffic") => senders,
            // The attester grants its token last, and the aggregator sees whether a report comes.
            () if has("attester A") && has("leader") => senders,
            () if has("attester B") && has("helper") => senders,
            () => claim,
        };
        let alone = match () {
            () if has("author or public result") => with_result,
            () if has("leader") && has("helper") => local,
            () if has("leader") || has("helper") => claim,
            // How much leader and helper send each other says how many reports there are.
            () if has("recorder of all traffic") => claim,
            () => 0.0,
        };
        let found = (row.epsilon, row.epsilon_with_result);
        assert_eq!(found, (Some(alone), Some(with_result)), "{:?}", row.parties);
    }
}

/// With one attester for both aggregators, it can invent devices on its own.
#[test]
fn a_single_attester_isolates_devices() {
    let one = |rows: Vec<Row>, name| {
        rows.into_iter().find(|row| row.parties == [name]).unwrap().epsilon_with_result
    };
    for name in ["attester A", "attester B"] {
        let [two, single] = [false, true].map(|one_attester| {
            let allowed = Allowed { one_attester, ..Allowed::default() };
            one(rows(&example(), None, allowed).unwrap(), name)
        });
        assert!(two < single, "{two:?} {single:?}");
    }
    let same = |one_attester| {
        one(rows(&example(), None, Allowed { one_attester, x25519: false }).unwrap(), "issuer A")
    };
    assert_eq!(same(false), same(true));
}

/// With keys of X25519 alone, whoever recorded the traffic reads every randomized answer one day.
#[test]
fn without_hybrid_keys_a_recorder_sees_every_answer() {
    let local = judgement(&example()).unwrap().unwrap().local_epsilon;
    let allowed = Allowed { x25519: true, ..Allowed::default() };
    for row in rows(&example(), None, allowed).unwrap() {
        if row.parties.contains(&"recorder of all traffic") {
            assert_eq!((row.epsilon, row.epsilon_with_result), (local, local), "{row:?}");
        }
    }
}

/// Without cover, who sends is who answers.
#[test]
fn without_cover_the_relay_knows_the_sample() {
    let mut recipe = example();
    recipe.sampling.cover = Probability::new(0, 1).unwrap();
    let rows = rows(&recipe, None, Allowed::default()).unwrap();
    let relay = rows.iter().find(|row| row.parties == ["relay"]).unwrap();
    assert_eq!(relay.because, because(Limit::SampleKnown));
    assert!(relay.learns[0].starts_with("which address answered"), "{relay:?}");
}

/// Two parties learn at least what each of them learns.
#[test]
fn a_pair_learns_no_less_than_its_members() {
    let rows = rows(&example(), None, Allowed::default()).unwrap();
    for pair in rows.iter().filter(|row| row.parties.len() == 2) {
        for one in rows.iter().filter(|row| row.parties.len() == 1) {
            if pair.parties.contains(&one.parties[0]) {
                let less = |a: Option<f64>, b: Option<f64>| a.unwrap() < b.unwrap();
                assert!(!less(pair.epsilon, one.epsilon), "{pair:?} {one:?}");
                assert!(!less(pair.epsilon_with_result, one.epsilon_with_result), "{pair:?}");
            }
        }
    }
}

/// Without a randomizer nothing is left once sampling and the crowd are gone.
#[test]
fn exact_answers_have_no_bound() {
    let mut recipe = example();
    recipe.randomizer = Randomizer::None;
    recipe.privacy = sotto_wire::recipe::Privacy::InsecureUnbounded;
    for row in rows(&recipe, None, Allowed::default()).unwrap() {
        let sees_nothing = row.epsilon == Some(0.0);
        assert!(row.epsilon.is_none() || sees_nothing, "{row:?}");
        assert_eq!(row.epsilon_with_result, None, "{row:?}");
    }
}
