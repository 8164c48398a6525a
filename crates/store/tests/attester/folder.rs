//! Which folders are opened, and what lies in them.

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

#[test]
fn a_restored_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("attester.sqlite");
    drop(open(dir.path()));
    let backup = fs::read(&database).unwrap();
    {
        let db = open(dir.path());
        assert_eq!(record(&db, wish(1, 1, 1).grant(), at(5)), Recorded::New);
    }
    fs::write(&database, backup).unwrap();
    assert!(refusal(dir.path(), &options()).contains("older than attester.secret"));
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
    // The files can be searched: the response is there as it is.
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
    let shown = format!("{grant:?} {:?} {:?}", grant.device, Known::Again(grant.response.clone()));
    assert_eq!(shown, "Grant { .. } DeviceIdentity([redacted]) Again(..)");
}
