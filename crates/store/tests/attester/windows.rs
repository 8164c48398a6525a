//! Window boundaries, clocks that go back, and deletion.

use super::*;

#[test]
fn a_grant_counts_in_its_window_and_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    // The last second of a window and the first of the next.
    let (last, first) = (Moment(6 * WINDOW - 1), Moment(6 * WINDOW));
    assert_eq!(record(&db, wish(1, 1, 1).grant(), last), Recorded::New);
    assert_eq!(record(&db, wish(1, 1, 2).grant(), first), Recorded::Withheld);
    assert_eq!(
        known(&db, &wish(1, 1, 1).grant(), first),
        Known::Answered(wish(1, 1, 1).response())
    );
    let end = Moment(7 * WINDOW - 1);
    assert_eq!(record(&db, wish(1, 1, 3).grant(), end), Recorded::Withheld);
    assert_eq!(known(&db, &wish(1, 1, 1).grant(), end), Known::Answered(wish(1, 1, 1).response()));
    // No token key of window 5 is valid any longer.
    let after = Moment(7 * WINDOW);
    assert_eq!(known(&db, &wish(1, 1, 1).grant(), after), Known::Unknown);
    assert_eq!(record(&db, wish(1, 1, 4).grant(), after), Recorded::New);
    assert_eq!(record(&db, wish(1, 1, 5).grant(), after), Recorded::Withheld);
}

#[test]
fn a_clock_that_goes_back_grants_nothing() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = open(dir.path());
        assert_eq!(record(&db, wish(1, 1, 1).grant(), at(9)), Recorded::New);
        for window in [0, 5, 8] {
            assert_eq!(record(&db, wish(1, 1, 2).grant(), at(window)), Recorded::Withheld);
        }
        // Counted in window 9, not in window 3, where it would be forgotten at once.
        assert_eq!(record(&db, wish(1, 2, 1).grant(), at(3)), Recorded::New);
    }
    let db = open(dir.path());
    assert_eq!(record(&db, wish(1, 1, 2).grant(), at(4)), Recorded::Withheld);
    assert_eq!(record(&db, wish(1, 2, 2).grant(), at(10)), Recorded::Withheld);
    let again = known(&db, &wish(1, 2, 1).grant(), at(1));
    assert_eq!(again, Known::Answered(wish(1, 2, 1).response()));
}

#[test]
fn what_counts_no_more_is_deleted_bit_by_bit() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    // More than one step can delete.
    let grants =
        |devices: std::ops::Range<u32>| devices.map(|one| wish(one, 1, 1).grant()).collect();
    block_on(db.record(grants(0..1200), at(5))).unwrap();
    block_on(db.record(grants(1200..1300), at(6))).unwrap();
    assert_eq!(block_on(db.counts()).unwrap(), (1300, 1300));
    assert_eq!(record(&db, wish(5000, 1, 1).grant(), at(7)), Recorded::New);
    wait_for_counts(&db, (1301, 101));
    // Devices are remembered for two windows after their last request, then forgotten.
    assert_eq!(record(&db, wish(5000, 2, 1).grant(), at(8)), Recorded::New);
    wait_for_counts(&db, (101, 2));
    assert_eq!(record(&db, wish(5000, 3, 1).grant(), at(9)), Recorded::New);
    wait_for_counts(&db, (1, 2));
}

#[test]
fn old_rows_that_are_not_deleted_yet_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let many: Vec<_> = (0..3000).map(|origin| wish(1, origin, 1).grant()).collect();
    block_on(db.record(many, at(5))).unwrap();
    // In the same transaction as the change of window, before any tidying.
    let outcomes = [wish(1, 2999, 2), wish(1, 0, 2)].map(Wish::grant);
    let outcomes = block_on(db.record(outcomes.to_vec(), at(7))).unwrap();
    assert_eq!(outcomes, [Recorded::New, Recorded::New]);
}
