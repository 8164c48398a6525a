//! `sotto discover` with the processes of all parties.

use std::collections::BTreeSet;

use sotto_tests::discovery::{self, DENIED};

/// The noise in a count has a standard deviation of 1.42, the threshold is 8, and a word that devices
/// agree on is on 17 at least: one is missed in a round with a probability below 1e-9. A word of one
/// device, or of none, is found with a probability below 2e-4.
#[test]
fn words_are_found_and_a_killed_discovery_goes_on() {
    let kinds: [(&[&str], usize); 6] = [
        (&["crispy"], 20),
        (&["sotto"], 14),
        (&[DENIED, "Sotto "], 4),
        (&["hello"], 17),
        (&[DENIED], 3),
        (&["lonely"], 1),
    ];
    let devices: usize = kinds.iter().map(|(_, count)| count).sum();
    let found = discovery::run(&kinds).unwrap();
    assert!(found.over_before >= 1, "{found:?}");

    let words = found.end["discovered"].as_array().unwrap();
    let listed: BTreeSet<&str> = words.iter().map(|word| word["word"].as_str().unwrap()).collect();
    assert_eq!(listed, BTreeSet::from(["crispy", "hello", "sotto"]), "{found:?}");
    for word in words {
        let holders = match word["word"].as_str().unwrap() {
            "crispy" => 20.0,
            "sotto" => 18.0,
            _ => 17.0,
        };
        // Six standard deviations.
        assert!((word["estimate"].as_f64().unwrap() - holders).abs() < 8.5, "{word}");
        let line = format!("\"{}\",", word["word"].as_str().unwrap());
        assert_eq!(found.csv.matches(&line).count(), 1, "{}", found.csv);
    }

    assert!(found.refused.contains("was begun with other denied words"), "{}", found.refused);

    // Rounds that were over are not asked again, and every device is in every round once.
    let rounds = found.end["rounds"].as_u64().unwrap();
    let told: Vec<u64> = found.rounds.iter().map(|line| line["round"].as_u64().unwrap()).collect();
    assert_eq!(told, (found.over_before..rounds).collect::<Vec<_>>());
    for line in &found.rounds {
        assert_eq!(line["count"], devices, "{line}");
    }
    for (considered, paid) in &found.devices {
        let different: BTreeSet<_> = considered.iter().collect();
        assert_eq!((considered.len() as u64, different.len() as u64), (rounds, rounds));
        assert_eq!(*paid, 1);
    }
}
