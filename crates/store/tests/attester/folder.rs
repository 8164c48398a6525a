//! Which folders can be opened, and what they contain.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn refusal(dir: &Path, options: &AttesterDbOptions) -> String {
    open_with(dir, options).unwrap_err().to_string()
}

#[test]
fn one_process_has_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let _db = open(dir.path());
    assert!(refusal(dir.path(), &options()).contains("in use by another process"));
}

#[test]
fn the_length_of_a_window_is_fixed() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let longer = AttesterDbOptions { window_s: 2 * WINDOW, ..options() };
    assert!(refusal(dir.path(), &longer).contains("windows of 1000 seconds"));
    let none = AttesterDbOptions { window_s: 0, ..options() };
    assert!(refusal(dir.path(), &none).contains("a window needs a length"));
}

#[test]
fn secret_and_database_belong_together() {
    let dir = tempfile::tempdir().unwrap();
    let (secret, database) =
        (dir.path().join("attester.secret"), dir.path().join("attester.sqlite"));
    drop(open(dir.path()));
    assert_eq!(fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
    let kept = fs::read(&secret).unwrap();

    fs::remove_file(&secret).unwrap();
    assert!(refusal(dir.path(), &options()).contains("attester.secret is missing"));
    let other = tempfile::tempdir().unwrap();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    drop(AttesterDb::open(other.path(), &options(), &mut rng).unwrap());
    fs::copy(other.path().join("attester.secret"), &secret).unwrap();
    assert!(refusal(dir.path(), &options()).contains("do not belong together"));
    fs::write(&secret, "sotto attester secret v1\nabc\n").unwrap();
    assert!(refusal(dir.path(), &options()).contains("it is damaged"));

    fs::write(&secret, kept).unwrap();
    drop(open(dir.path()));
    fs::remove_file(&database).unwrap();
    assert!(refusal(dir.path(), &options()).contains("the database is gone"));
}

const FILES: [&str; 2] = ["attester.sqlite", "attester.sqlite-wal"];

/// The files of the database, as a backup would copy them.
fn copy(dir: &Path) -> [Option<Vec<u8>>; 2] {
    FILES.map(|name| fs::read(dir.join(name)).ok())
}

fn restore(dir: &Path, copy: &[Option<Vec<u8>>; 2]) {
    for (name, bytes) in FILES.iter().zip(copy) {
        let path = dir.join(name);
        match bytes {
            Some(bytes) => fs::write(path, bytes).unwrap(),
            None => {
                let _ = fs::remove_file(path);
            }
        }
    }
    let _ = fs::remove_file(dir.join("attester.sqlite-shm"));
}

#[test]
fn a_database_from_before_a_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let before = copy(dir.path());
    drop(open(dir.path()));
    let after = copy(dir.path());
    restore(dir.path(), &before);
    assert!(refusal(dir.path(), &options()).contains("older than attester.secret"));
    restore(dir.path(), &after);
    drop(open(dir.path()));
}

/// A long run, and a backup in the middle of it.
#[test]
fn a_database_from_the_middle_of_a_run_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let during;
    {
        let db = open(dir.path());
        assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
        during = copy(dir.path());
        assert!(during[1].as_ref().is_some_and(|wal| !wal.is_empty()));
        assert_eq!(record(&db, wish(1, 2, 1).grant(), at(5)), Recorded::New);
    }
    let after = copy(dir.path());
    restore(dir.path(), &during);
    assert!(refusal(dir.path(), &options()).contains("older than attester.secret"));
    // Without its WAL the copy is even older.
    restore(dir.path(), &[during[0].clone(), None]);
    assert!(refusal(dir.path(), &options()).contains("older than attester.secret"));
    // The latest state is accepted.
    restore(dir.path(), &after);
    let db = open(dir.path());
    assert_eq!(
        known(&db, &wish(1, 2, 1).grant(), at(5)),
        Known::Answered(wish(1, 2, 1).response())
    );
}

/// The same for a run that crashes, except for its last seconds.
#[test]
fn the_mark_follows_while_the_database_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mark = || -> u64 {
        let text = fs::read_to_string(dir.path().join("attester.secret")).unwrap();
        text.lines().nth(2).unwrap().parse().unwrap()
    };
    assert_eq!(mark(), 1);
    let before = copy(dir.path());
    for origin in 1..=3 {
        assert_eq!(record(&db, wish(1, origin, 1).grant(), at(5)), Recorded::New);
    }
    // No more requests come, and nothing is closed.
    for _ in 0..2000 {
        if mark() == 4 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(mark(), 4);
    // As after a crash: the files are copied in their current state.
    let crashed = tempfile::tempdir().unwrap();
    fs::copy(dir.path().join("attester.secret"), crashed.path().join("attester.secret")).unwrap();
    restore(crashed.path(), &before);
    assert!(refusal(crashed.path(), &options()).contains("older than attester.secret"));
    restore(crashed.path(), &copy(dir.path()));
    drop(open(crashed.path()));
}

#[test]
fn nothing_of_a_device_lies_in_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let grant = wish(1, 1, 1).grant();
    {
        let db = open(dir.path());
        assert_eq!(record(&db, grant.clone(), at(5)), Recorded::New);
    }
    let database = fs::read(dir.path().join("attester.sqlite")).unwrap();
    let holds = |needle: &[u8]| database.windows(needle.len()).any(|window| window == needle);
    // The search works: it finds the response, which is stored as it is.
    assert!(holds(&grant.response));
    for hidden in [
        &grant.device.as_bytes()[..16],
        &grant.client_key[..16],
        &grant.client_alias[..16],
        &grant.issuer_alias[..16],
        &grant.request_digest[..16],
        grant.issuer.as_str().as_bytes(),
    ] {
        assert!(!holds(hidden));
    }
    let shown =
        format!("{grant:?} {:?} {:?}", grant.device, Known::Answered(grant.response.clone()));
    assert_eq!(shown, "Grant { .. } DeviceIdentity([redacted]) Answered(..)");
}
