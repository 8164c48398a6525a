//! Damaged state files are errors. None reads as a device that has spent less.

use sotto_client::{SealingKey, StateFile};
use sotto_protocol::device::{DeviceState, DeviceStore, StateError};
use sotto_testing::crash::world;
use sotto_testing::recipe::{DAY, NOW};
use sotto_testing::world::seen;

use crate::device::files::sealing_key;

/// The first bytes of a file; the nonce follows.
const HEADER: &[u8] = b"sotto device state v3\n";

/// A state that uses every field, and its file.
fn lived() -> (tempfile::TempDir, std::path::PathBuf, DeviceState) {
    lived_with(&sealing_key())
}

fn lived_with(key: &SealingKey) -> (tempfile::TempDir, std::path::PathBuf, DeviceState) {
    let (world, folder) = (world(), tempfile::tempdir().unwrap());
    let path = folder.path().join("state");
    let checkpoint = sotto_wire::Checkpoint::parse(world.log.checkpoints[0].text()).unwrap();
    let mut store = StateFile::open(&path, key).unwrap();
    store.commit(seen(checkpoint, NOW - 41 * DAY)).unwrap();
    world.walk(&mut store, 1).unwrap();
    let state = store.state().clone();
    assert!(state.ledger().is_some() && state.pending().count() > 0);
    (folder, path, state)
}

#[test]
fn a_flipped_bit_is_an_error_and_loses_nothing() {
    let (_folder, path, state) = lived();
    let bytes = std::fs::read(&path).unwrap();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << (place % 8);
        std::fs::write(&path, &changed).unwrap();
        let opened = StateFile::open(&path, &sealing_key());
        match place < HEADER.len() {
            true => assert!(matches!(opened, Err(StateError::Damaged(_))), "byte {place}"),
            false => assert!(matches!(opened, Err(StateError::Sealed)), "byte {place}"),
        }
        assert_eq!(std::fs::read(&path).unwrap(), changed, "what cannot be read is left alone");
    }
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(StateFile::open(&path, &sealing_key()).unwrap().state(), &state);
}

#[test]
fn a_file_that_was_cut_emptied_or_replaced_is_an_error() {
    let (_folder, path, state) = lived();
    let bytes = std::fs::read(&path).unwrap();
    let opens = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        StateFile::open(&path, &sealing_key())
    };
    for length in (0..bytes.len()).step_by(7) {
        let opened = opens(&bytes[..length]);
        assert!(matches!(opened, Err(StateError::Damaged(_) | StateError::Sealed)), "{length}");
    }
    let empty = serde_json::to_vec(&DeviceState::default()).unwrap();
    let others = [
        empty.clone(),
        [HEADER, &empty].concat(),
        [HEADER, &[0; 12], &empty].concat(),
        [&bytes[..], &bytes].concat(),
        // The bytes of another version do not open as this one.
        bytes.iter().copied().map(|byte| if byte == b'3' { b'2' } else { byte }).collect(),
    ];
    for other in others {
        assert!(matches!(opens(&other), Err(StateError::Damaged(_) | StateError::Sealed)));
    }
    assert_eq!(opens(&bytes).unwrap().state(), &state);
}

#[test]
fn another_key_opens_nothing_and_loses_nothing() {
    let (_folder, path, state) = lived();
    let bytes = std::fs::read(&path).unwrap();
    let other = SealingKey::new([8; 32]);
    assert!(matches!(StateFile::open(&path, &other), Err(StateError::Sealed)));
    assert!(matches!(StateFile::read(&path, &other), Err(StateError::Sealed)));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    assert_eq!(StateFile::read(&path, &sealing_key()).unwrap(), state);
    // The file of another device does not open either.
    let (_folder, theirs, _) = lived_with(&other);
    std::fs::copy(&theirs, &path).unwrap();
    assert!(matches!(StateFile::open(&path, &sealing_key()), Err(StateError::Sealed)));
}

#[test]
fn no_two_writes_look_alike_and_none_shows_what_is_in_it() {
    let (_folder, path, _) = lived();
    let (_other, again, _) = lived();
    let (one, two) = (std::fs::read(&path).unwrap(), std::fs::read(&again).unwrap());
    assert_eq!(one.len(), two.len(), "the same life");
    assert_ne!(one[HEADER.len()..HEADER.len() + 12], two[HEADER.len()..HEADER.len() + 12]);
    let shown = one.windows(11).any(|window| window == b"log.example");
    assert!(!shown, "sealed");
}

#[test]
fn a_file_from_before_sealing_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    std::fs::write(&path, include_str!("unsealed_state.json")).unwrap();
    let error = StateFile::open(&path, &sealing_key()).unwrap_err().to_string();
    assert!(error.contains("not sealed"), "{error}");
    assert!(error.contains("Move it away"), "{error}");
}

#[test]
fn a_file_that_cannot_be_read_is_no_new_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    std::fs::create_dir(&path).unwrap();
    assert!(StateFile::open(&path, &sealing_key()).is_err());
    assert!(StateFile::open(&folder.path().join("no/such/folder"), &sealing_key()).is_err());
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_it() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path, _) = lived();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
