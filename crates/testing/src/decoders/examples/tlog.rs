//! Valid notes, checkpoints, proofs, policies, bundles and paths.

use sotto_wire::{
    AddCheckpoint, Checkpoint, EntryBundle, FormatError, KeyType, Note, NoteSignature, TlogProof,
    TreeHash, VerifierKey,
};

/// Valid encodings for the decoder `name`, if it is one of these formats.
pub(super) fn seeds(name: &str) -> Option<Vec<Vec<u8>>> {
    let seeds = match name {
        "note" => notes(),
        "checkpoint" => Ok(vec![checkpoint(0).into_bytes(), checkpoint(2).into_bytes()]),
        "tlog_proof" => proofs(),
        "tlog_policy" => policies(),
        "add_checkpoint" => requests(),
        "entry_bundle" => bundles(),
        "tile_path" => Ok([
            "tile/0/000",
            "tile/2/x001/x234/067.p/12",
            "tile/7/000.p/255",
            "tile/entries/999",
            "tile/entries/x001/067.p/1",
        ]
        .map(|path| path.as_bytes().to_vec())
        .to_vec()),
        _ => return None,
    };
    Some(seeds.unwrap_or_default())
}

fn notes() -> Result<Vec<Vec<u8>>, FormatError> {
    let texts = ["a\n", "\n", "text\n\nwith an empty line, and naïve\n\n"];
    texts.iter().zip([1, 2, 5]).map(|(text, count)| Ok(signed(text, count)?.to_bytes())).collect()
}

fn signed(text: &str, count: u8) -> Result<Note, FormatError> {
    let mut note = Note::new(text)?;
    for number in 0..count {
        let key = key(number, KeyType::Ed25519)?;
        note = note.with_signature(NoteSignature {
            name: key.name().clone(),
            key_id: key.key_id(),
            signature: vec![number; usize::from(number) + 1],
        });
    }
    Ok(note)
}

fn key(number: u8, key_type: KeyType) -> Result<VerifierKey, FormatError> {
    Ok(VerifierKey::new(format!("k.example/{number}").parse()?, key_type, [number; 32]))
}

fn checkpoint(extensions: usize) -> String {
    let mut checkpoint = Checkpoint::new("log.example", 109_482, TreeHash([7; 32]));
    checkpoint.extensions = vec!["extension".to_owned(); extensions];
    checkpoint.to_text()
}

fn hashes(count: u8) -> Vec<TreeHash> {
    (0..count).map(|byte| TreeHash([byte; 32])).collect()
}

fn proofs() -> Result<Vec<Vec<u8>>, FormatError> {
    [(None, 0, 0), (Some(vec![]), 1, 1), (Some(vec![1, 2, 3, 4]), 73_894, 5)]
        .into_iter()
        .map(|(extra, index, count)| {
            let checkpoint = signed(&checkpoint(0), 1)?;
            Ok(TlogProof { extra, index, hashes: hashes(count), checkpoint }.to_bytes())
        })
        .collect()
}

fn requests() -> Result<Vec<Vec<u8>>, FormatError> {
    [(0, 0), (20_852_014, 3)]
        .into_iter()
        .map(|(old_size, count)| {
            let checkpoint = signed(&checkpoint(0), 2)?;
            Ok(AddCheckpoint { old_size, proof: hashes(count), checkpoint }.to_bytes())
        })
        .collect()
}

fn policies() -> Result<Vec<Vec<u8>>, FormatError> {
    let log = key(9, KeyType::Ed25519)?;
    let mut witnesses = String::new();
    for (number, name) in (0..).zip(["a", "b", "c", "d"]) {
        let key = key(number, KeyType::CosignatureV1)?;
        witnesses.push_str(&format!("witness {name} {key} https://{name}.example/\n"));
    }
    Ok(vec![
        b"quorum none\n".to_vec(),
        format!("log {log}\n{witnesses}quorum a\n").into_bytes(),
        format!(
            "# Two levels.\nlog {log} https://log.example/\n\n{witnesses}group x 2 a b c\n\
             group y any d\n\tgroup all-of-them all x  y\nquorum all-of-them\n# End.\n"
        )
        .into_bytes(),
    ])
}

fn bundles() -> Result<Vec<Vec<u8>>, FormatError> {
    Ok(vec![
        EntryBundle::encode(&[b""])?,
        EntryBundle::encode(&[&b"one"[..], b"", b"three"])?,
        EntryBundle::encode(&[[1, 2]; 256])?,
    ])
}
