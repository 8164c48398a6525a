//! Decoders of the formats of notes and logs. All but the policy have one encoding per value.

use sotto_wire::{
    AddCheckpoint, BundlePath, Checkpoint, EntryBundle, Note, NoteSignature, TilePath, TlogProof,
};

pub(super) fn note(bytes: &[u8]) -> bool {
    let Ok(note) = Note::parse(bytes) else { return false };
    assert!(note.to_bytes() == bytes, "note is not canonical");
    let lines = NoteSignature::to_lines(note.signatures());
    assert!(bytes.ends_with(&lines), "lines are not those of the note");
    true
}

pub(super) fn checkpoint(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(checkpoint) = Checkpoint::parse(text) else { return false };
    assert!(checkpoint.to_text() == text, "checkpoint is not canonical");
    true
}

pub(super) fn tlog_proof(bytes: &[u8]) -> bool {
    let Ok(proof) = TlogProof::parse(bytes) else { return false };
    assert!(proof.to_bytes() == bytes, "proof is not canonical");
    true
}

pub(super) fn add_checkpoint(bytes: &[u8]) -> bool {
    let Ok(request) = AddCheckpoint::parse(bytes) else { return false };
    assert!(request.to_bytes() == bytes, "request is not canonical");
    true
}

pub(super) fn entry_bundle(bytes: &[u8]) -> bool {
    let Ok(entries) = EntryBundle::parse(bytes) else { return false };
    let encoded = EntryBundle::encode(&entries);
    assert!(encoded.is_ok_and(|encoded| encoded == bytes), "bundle is not canonical");
    true
}

pub(super) fn tile_path(bytes: &[u8]) -> bool {
    let Ok(path) = std::str::from_utf8(bytes) else { return false };
    let shown = match (TilePath::parse(path), BundlePath::parse(path)) {
        (Ok(tile), Err(_)) => tile.to_path(),
        (Err(_), Ok(bundle)) => bundle.to_path(),
        (result, _) => {
            assert!(result.is_err(), "a path of both kinds");
            return false;
        }
    };
    assert!(shown == path, "path is not canonical");
    true
}
