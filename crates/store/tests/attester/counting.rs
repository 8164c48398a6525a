//! One token for each device and origin.

use super::*;

#[test]
fn one_origin_gives_one_token() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let first = wish(1, 1, 1);
    assert_eq!(known(&db, &first.grant(), at(5)), Known::Unknown);
    assert_eq!(record(&db, first.grant(), at(5)), Recorded::New);
    assert_eq!(record(&db, wish(1, 1, 2).grant(), at(5)), Recorded::Withheld);
    // A withheld request is not answered later, and the issuer need not be asked again.
    assert_eq!(known(&db, &wish(1, 1, 2).grant(), at(5)), Known::Withheld);
    assert_eq!(known(&db, &wish(1, 1, 2).grant(), at(6)), Known::Withheld);
    assert_eq!(known(&db, &wish(1, 1, 2).grant(), at(7)), Known::Unknown);
    // Other origins and other devices are not affected.
    assert_eq!(record(&db, wish(1, 2, 1).grant(), at(5)), Recorded::New);
    assert_eq!(record(&db, wish(2, 1, 1).grant(), at(5)), Recorded::New);
}

#[test]
fn the_same_request_gets_the_stored_response() {
    let dir = tempfile::tempdir().unwrap();
    let first = wish(1, 1, 1);
    {
        let db = open(dir.path());
        assert_eq!(record(&db, first.grant(), at(5)), Recorded::New);
    }
    let db = open(dir.path());
    assert_eq!(known(&db, &first.grant(), at(5)), Known::Answered(first.response()));
    // The issuer seals each response afresh: the first one counts.
    let again = Grant { response: vec![9; 288], ..first.grant() };
    assert_eq!(record(&db, again, at(5)), Recorded::AlreadyGranted(first.response()));
    assert_eq!(block_on(db.counts()).unwrap(), (1, 1));
    // For another device or another issuer the same bytes mean nothing.
    let stranger = Grant { device: wish(2, 0, 0).identity(), ..first.grant() };
    assert_eq!(known(&db, &stranger, at(5)), Known::Unknown);
    let other = Grant { issuer: "other.example".parse().unwrap(), ..first.grant() };
    assert_eq!(known(&db, &other, at(5)), Known::Unknown);
}

#[test]
fn aliases_go_one_to_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
    // One origin under two client aliases.
    let renamed = Grant { client_alias: [99; 32], ..wish(1, 1, 2).grant() };
    assert_eq!(record(&db, renamed, at(5)), Recorded::OtherAlias);
    // One client alias for two origins.
    let merged =
        Grant { client_alias: wish(1, 1, 1).grant().client_alias, ..wish(1, 2, 1).grant() };
    assert_eq!(known(&db, &merged, at(5)), Known::Withheld);
    assert_eq!(record(&db, merged, at(5)), Recorded::OtherAlias);
    // Neither left a trace.
    assert_eq!(block_on(db.counts()).unwrap(), (1, 1));
    assert_eq!(record(&db, wish(1, 2, 1).grant(), at(5)), Recorded::New);
    // Issuers name their origins independently.
    let issuer = "other.example".parse().unwrap();
    assert_eq!(record(&db, Grant { issuer, ..wish(1, 1, 1).grant() }, at(5)), Recorded::New);
}

#[test]
fn a_device_has_one_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
    // With another key the issuer's alias differs: only the key identifies the device.
    let other_key = |attempt| Grant {
        client_key: [77; 32],
        client_alias: [78; 32],
        issuer_alias: [79; 64],
        ..wish(1, 1, attempt).grant()
    };
    for window in [5, 6, 7] {
        assert_eq!(known(&db, &other_key(2), at(window)), Known::OtherKey);
        assert_eq!(record(&db, other_key(2), at(window)), Recorded::OtherKey);
        // Not even the stored response is returned for another key.
        assert_eq!(known(&db, &other_key(1), at(window)), Known::OtherKey);
    }
    // Windows 6 and 7 have passed without a request under the device's own key.
    assert_eq!(known(&db, &other_key(2), at(8)), Known::Unknown);
    assert_eq!(record(&db, other_key(2), at(8)), Recorded::New);
    assert_eq!(record(&db, wish(1, 2, 1).grant(), at(8)), Recorded::OtherKey);
}

#[test]
fn asking_in_vain_keeps_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
    assert_eq!(record(&db, wish(1, 1, 2).grant(), at(6)), Recorded::Withheld);
    let other_key = Grant { client_key: [77; 32], ..wish(1, 2, 1).grant() };
    assert_eq!(record(&db, other_key.clone(), at(8)), Recorded::OtherKey);
    assert_eq!(record(&db, other_key, at(9)), Recorded::New);
}

#[test]
fn a_device_has_so_many_origins_in_two_windows() {
    let dir = tempfile::tempdir().unwrap();
    let limited = AttesterDbOptions { max_aliases_per_device: 3, ..options() };
    let db = open_with(dir.path(), &limited).unwrap();
    assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
    assert_eq!(record(&db, wish(1, 2, 1).grant(), at(5)), Recorded::New);
    assert_eq!(record(&db, wish(1, 3, 1).grant(), at(6)), Recorded::New);
    assert_eq!(record(&db, wish(1, 4, 1).grant(), at(6)), Recorded::Full);
    // It still gets the responses it had before, and others are not affected.
    assert_eq!(
        record(&db, wish(1, 1, 1).grant(), at(6)),
        Recorded::AlreadyGranted(wish(1, 1, 1).response())
    );
    assert_eq!(record(&db, wish(2, 4, 1).grant(), at(6)), Recorded::New);
    // Window 5 no longer counts.
    assert_eq!(record(&db, wish(1, 4, 1).grant(), at(7)), Recorded::New);
    assert_eq!(record(&db, wish(1, 5, 1).grant(), at(7)), Recorded::New);
    assert_eq!(record(&db, wish(1, 6, 1).grant(), at(7)), Recorded::Full);
}

#[test]
fn a_batch_is_judged_in_its_order() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let grants = [wish(1, 1, 1), wish(1, 1, 2), wish(1, 1, 1), wish(2, 1, 1)].map(Wish::grant);
    let outcomes = block_on(db.record(grants.to_vec(), at(5))).unwrap();
    let again = Recorded::AlreadyGranted(wish(1, 1, 1).response());
    assert_eq!(outcomes, [Recorded::New, Recorded::Withheld, again, Recorded::New]);
    assert_eq!(block_on(db.record(Vec::new(), at(5))).unwrap(), []);
}

#[test]
fn the_same_request_twice_at_once_is_one_grant() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seal| {
                let db = &db;
                scope.spawn(move || {
                    let grant = Grant { response: vec![seal; 288], ..wish(1, 1, 1).grant() };
                    match record(db, grant, at(5)) {
                        Recorded::New => (true, vec![seal; 288]),
                        Recorded::AlreadyGranted(response) => (false, response),
                        other => panic!("{other:?}"),
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|(is_new, _)| *is_new).count(), 1);
    let (_, response) = &outcomes[0];
    assert!(outcomes.iter().all(|(_, other)| other == response), "all got one answer");
    assert_eq!(block_on(db.counts()).unwrap(), (1, 1));
}

#[test]
fn different_requests_at_once_get_one_token() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let granted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|attempt| {
                let db = &db;
                scope.spawn(move || record(db, wish(1, 1, attempt).grant(), at(5)))
            })
            .collect();
        let outcomes = threads.into_iter().map(|thread| thread.join().unwrap());
        outcomes.filter(|outcome| *outcome == Recorded::New).count()
    });
    assert_eq!(granted, 1);
}
