//! Damaged state files are errors. None reads as a device that has spent less.

use sotto_client::StateFile;
use sotto_protocol::device::{DeviceState, DeviceStore, StateError};

use crate::crash::world;
use crate::files::begin;

/// A state with all that a state can have, and its file.
fn lived() -> (tempfile::TempDir, std::path::PathBuf, DeviceState) {
    let (world, folder) = (world(), tempfile::tempdir().unwrap());
    let path = folder.path().join("state.json");
    begin(&world, &path);
    let mut store = StateFile::open(&path).unwrap();
    world.walk(&mut store, 1).unwrap();
    let state = store.state().clone();
    assert!(state.ledger().is_some() && state.pending().count() > 0);
    (folder, path, state)
}

#[test]
fn a_flipped_bit_is_an_error_or_changes_nothing() {
    let (_folder, path, state) = lived();
    let bytes = std::fs::read(&path).unwrap();
    let mut same = 0;
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        std::fs::write(&path, &changed).unwrap();
        match StateFile::open(&path) {
            Err(StateError::Damaged(_) | StateError::Io(_)) => {}
            Err(other) => panic!("{other}"),
            Ok(store) => {
                assert_eq!(store.state(), &state, "byte {place}");
                same += 1;
            }
        }
    }
    assert!(same < 4, "{same}");
}

#[test]
fn a_file_that_was_cut_emptied_or_replaced_is_an_error() {
    let (_folder, path, state) = lived();
    let text = std::fs::read_to_string(&path).unwrap();
    for length in (0..text.len()).step_by(7) {
        std::fs::write(&path, &text[..length]).unwrap();
        assert!(matches!(StateFile::open(&path), Err(StateError::Damaged(_))), "{length} bytes");
    }
    let empty = serde_json::to_string(&DeviceState::default()).unwrap();
    let others = [
        empty.clone(),
        format!(r#"{{"version":1,"state":{empty}}}"#),
        format!(r#"{{"version":1,"checksum":"","state":{empty}}}"#),
        text.replacen(r#""version":1"#, r#""version":2"#, 1),
        text.replacen("{", r#"{"more":1,"#, 1),
        format!("{text}{text}"),
    ];
    for other in others {
        std::fs::write(&path, &other).unwrap();
        assert!(matches!(StateFile::open(&path), Err(StateError::Damaged(_))), "{other}");
    }
    std::fs::write(&path, &text).unwrap();
    assert_eq!(StateFile::open(&path).unwrap().state(), &state);
}

#[test]
fn a_file_that_cannot_be_read_is_no_new_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    std::fs::create_dir(&path).unwrap();
    assert!(StateFile::open(&path).is_err());
    assert!(StateFile::open(&folder.path().join("no/such/folder.json")).is_err());
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path, _) = lived();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
