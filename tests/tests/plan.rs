//! A slice of the campaign of predicted errors; `cargo xtask campaign plan` runs it at full length.

use sotto_tests::plan::QUESTIONS;

/// The seeds are fixed. Of other seeds one in about a hundred would be a false alarm: three standard
/// errors beyond 10 %, from 60 squared errors of a single number.
#[test]
fn errors_and_turnout_are_as_predicted() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["count of few", "mean of few"] {
        let question = QUESTIONS.iter().find(|question| question.name == name).unwrap();
        let found = question.run(folder.path(), 3, 1).unwrap();
        println!("{name}: {found:?}");
        assert!(found.holds(), "{name}: {found:?}");
    }
}

#[test]
fn names_of_questions_are_distinct() {
    let names: std::collections::BTreeSet<&str> = QUESTIONS.iter().map(|one| one.name).collect();
    assert_eq!((names.len(), QUESTIONS.len()), (30, 30));
}
