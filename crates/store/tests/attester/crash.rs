//! A process that is killed at any point.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::*;

/// Tells the child its folder.
const FOLDER: &str = "SOTTO_TEST_ATTESTER_FOLDER";

#[test]
fn what_was_recorded_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for stop_after in [1, 40, 7] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "attester::crash::child", "--ignored", "--nocapture"])
            .env(FOLDER, dir.path())
            .env("SOTTO_TEST_FIRST", next.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let durable = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("granted ")?.parse::<u32>().ok())
            .take(stop_after);
        let durable: Vec<_> = durable.collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(durable.len(), stop_after);

        let db = open(dir.path());
        for origin in 0..=*durable.last().unwrap() {
            let first = wish(1, origin, 1);
            assert_eq!(known(&db, &first.grant(), at(5)), Known::Answered(first.response()));
            assert_eq!(record(&db, wish(1, origin, 2).grant(), at(5)), Recorded::Withheld);
        }
        // A grant that was not reported may or may not be stored; either way the same request gets
        // one response.
        next = durable.last().unwrap() + 1;
        let unsure = wish(1, next, 1);
        let outcome = record(&db, unsure.grant(), at(5));
        assert!(matches!(outcome, Recorded::New | Recorded::AlreadyGranted(_)), "{outcome:?}");
        assert_eq!(known(&db, &unsure.grant(), at(5)), Known::Answered(unsure.response()));
        next += 1;
    }
}

/// Records until it is killed.
#[test]
#[ignore = "the child of the test above"]
fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let first: u32 = std::env::var("SOTTO_TEST_FIRST").unwrap().parse().unwrap();
    let db = open(Path::new(&folder));
    let mut out = std::io::stdout();
    writeln!(out).unwrap();
    for origin in first.. {
        let outcome = record(&db, wish(1, origin, 1).grant(), at(5));
        assert!(matches!(outcome, Recorded::New | Recorded::AlreadyGranted(_)), "{outcome:?}");
        writeln!(out, "granted {origin}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn a_folder_that_was_being_made_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    // As if the process had ended before the database had its row.
    std::fs::remove_file(dir.path().join("attester.secret")).unwrap();
    let rows = rusqlite::Connection::open(dir.path().join("attester.sqlite")).unwrap();
    rows.execute("DELETE FROM attester", []).unwrap();
    drop(rows);
    let db = open(dir.path());
    assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
}
