//! The secret of an attester's database, and the hashes keyed with it.
//!
//! The file also records how many commits the database had when the file was last written. A
//! database with fewer was restored from a copy (`super::mark`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rand_core::CryptoRng;
use sha2::{Digest, Sha256};
use sotto_crypto::Secret;
use sotto_protocol::attester::DeviceIdentity;
use sotto_wire::KeyName;

const HEAD: &str = "sotto attester secret v1";

/// A keyed hash. 128 bits are enough: without the key nobody can search for two values with the
/// same hash, and chance collisions do not happen.
pub(super) type Tag = [u8; 16];

/// The key. Messages under one domain have one length, and the digest is truncated, so a prefix key
/// is as good as HMAC.
pub(super) struct HashSecret(Secret<[u8; 32]>);

impl HashSecret {
    pub(super) fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; 32];
        rng.fill_bytes(&mut bytes);
        Self(Secret::new(bytes))
    }

    /// Identifies the secret that a database belongs to, and reveals nothing about it.
    pub(super) fn mark(&self) -> Tag {
        self.tag(0, &[], &[])
    }

    pub(super) fn device(&self, device: &DeviceIdentity) -> Tag {
        self.tag(1, &[], device.as_bytes())
    }

    pub(super) fn client_key(&self, key: &[u8; 32]) -> Tag {
        self.tag(2, &[], key)
    }

    pub(super) fn request(&self, issuer: &[u8; 32], digest: &[u8; 32]) -> Tag {
        self.tag(3, issuer, digest)
    }

    /// Issuers name their origins independently: no issuer may use up a device's token from another
    /// issuer.
    pub(super) fn issuer_alias(&self, issuer: &[u8; 32], alias: &[u8; 64]) -> Tag {
        self.tag(4, issuer, alias)
    }

    pub(super) fn client_alias(&self, issuer: &[u8; 32], alias: &[u8; 32]) -> Tag {
        self.tag(5, issuer, alias)
    }

    fn tag(&self, domain: u8, first: &[u8], second: &[u8]) -> Tag {
        let digest = Sha256::new()
            .chain_update(self.0.expose())
            .chain_update([domain])
            .chain_update(first)
            .chain_update(second)
            .finalize();
        let (tag, _) = digest.as_slice().split_first_chunk().unwrap_or((&[0; 16], &[]));
        *tag
    }
}

/// An issuer as it enters hashes, whatever the length of its name.
pub(super) fn issuer(name: &KeyName) -> [u8; 32] {
    Sha256::digest(name.as_str()).into()
}

/// The file: the secret, and the number of commits of the database.
pub(super) struct SecretFile {
    pub(super) secret: Arc<HashSecret>,
    pub(super) commits: u64,
}

impl SecretFile {
    /// Reads the file; `None` if it does not exist.
    pub(super) fn read(path: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read(path) {
            Ok(bytes) => Secret::new(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let parsed = std::str::from_utf8(text.expose()).ok().and_then(parse);
        parsed.map(Some).ok_or_else(|| io::Error::other("it is damaged"))
    }

    /// Replaces the old file atomically. The new one is durable when this returns.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let hex: Secret<String> =
            Secret::new(self.secret.0.expose().iter().map(|byte| format!("{byte:02x}")).collect());
        let text = Secret::new(format!("{HEAD}\n{}\n{}\n", hex.expose(), self.commits));
        let next = path.with_extension("secret.new");
        let mut options = File::options();
        let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&next)?;
        file.write_all(text.expose().as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn parse(text: &str) -> Option<SecretFile> {
    let mut lines = text.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let hex = lines.next()?;
    let mut bytes = [0; 32];
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(hex.get(at..at + 2)?, 16).ok()?;
    }
    let commits = lines.next()?.parse().ok()?;
    Some(SecretFile { secret: Arc::new(HashSecret(Secret::new(bytes))), commits })
}
