//! Files of signing keys: of authors, operators, logs and witnesses. Each has a name and a seed.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use sotto_crypto::Secret;
use sotto_crypto::note::NoteKey;
use sotto_wire::{Entry, EntryKind, KeyName, Note, PublicKey, Signer};
use zeroize::Zeroizing;

use crate::output::WithHint;
use crate::task_file::{secret, secret_array};
use crate::{private_file, toml_text};

/// Reads a signer's key file.
pub(crate) fn read(path: &Path) -> Result<NoteKey> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SignerFile {
        name: String,
        #[serde(deserialize_with = "secret")]
        seed: Secret<String>,
    }
    let hint = "make one with `sotto keys signer --name NAME --out FILE`";
    let file: SignerFile = toml_text::read(path).hint(hint)?;
    let name = file.name.parse::<KeyName>().map_err(|error| anyhow::anyhow!("name: {error}"));
    let key = name
        .and_then(|name| Ok(NoteKey::from_seed(name, secret_array(&file.seed).context("seed")?)));
    key.with_context(|| format!("{} is not a signer's key file", path.display())).hint(hint)
}

/// Writes a signer's key file, readable only by its owner.
pub(crate) fn write(path: &Path, key: &NoteKey, force: bool) -> Result<()> {
    private_file::write(path, &text(key), force)
}

/// The text of a signer's key file.
pub(crate) fn text(key: &NoteKey) -> Zeroizing<String> {
    let seed = Zeroizing::new(URL_SAFE_NO_PAD.encode(key.seed().expose()));
    let name = toml::Value::String(key.name().to_string());
    Zeroizing::new(format!(
        "# A signing key. SECRET: whoever has it can sign in this name.\nname = {name}\nseed = \"{}\"\n",
        *seed
    ))
}

/// The public half, as recipes, key sets and results name it.
pub(crate) fn public(key: &NoteKey) -> Signer {
    Signer { name: key.name().clone(), key: PublicKey::new(*key.verifier().public_key()) }
}

/// The entry with this content, signed.
pub(crate) fn sign(kind: EntryKind, json: Vec<u8>, key: &NoteKey) -> Result<Entry> {
    let text = Entry::text(kind, &String::from_utf8(json)?);
    let signature = key.sign(&text);
    Ok(Entry::from_note(Note::new(text)?.with_signature(signature))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;

    #[test]
    fn signer_files_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("author.key");
        let key = NoteKey::generate("analytics.example".parse().unwrap(), &mut random::system());
        write(&path, &key, false).unwrap();
        assert_eq!(read(&path).unwrap().verifier(), key.verifier());
        assert!(write(&path, &key, false).is_err());
        assert!(public(&key).is(&key.verifier()));
    }

    #[test]
    fn what_is_no_signer_file_is_refused_without_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("author.key");
        for bad in [
            "name = \"a b\"\nseed = \"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"\n",
            "name = \"a\"\nseed = \"c2VjcmV0\"\n",
            "name = \"a\"\n",
            "seed = \"c2VjcmV0\"\n",
        ] {
            std::fs::write(&path, bad).unwrap();
            let error = format!("{:?}", read(&path).unwrap_err());
            assert!(!error.contains("c2VjcmV0"), "{error}");
        }
    }
}
