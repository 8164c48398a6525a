//! The keys of an issuer in a folder: one file per token key.
//!
//! ```text
//! DIR/keys/<hex id of the request>   private key and origin secret, mode 0600
//! DIR/issuer.lock                    held while the issuer runs
//! ```
//! These are plain files and not a database. Keys are written once, read at startup, and must be
//! gone when they have expired. Unlinking a file does that, while a database keeps deleted rows in
//! free pages and in its journal. Issuing itself changes nothing on disk.
//!
//! A file gets its name only when it is complete and durable, and the author gets the keys only
//! after that.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::lock::try_lock;
use sha2::{Digest, Sha256};
use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_protocol::Moment;
use sotto_protocol::issuer::Origin;
use sotto_protocol::issuer::author::RecipeKey;
use sotto_wire::recipe::TokenKeyRequest;
use sotto_wire::{EntryId, Reader};
use zeroize::Zeroizing;

/// The first bytes of a file.
const MAGIC: &[u8] = b"sotto issuer key v2\n";

/// The first bytes of a file that holds the keys of both aggregators, from before there were two
/// chains of tokens.
const MAGIC_OF_BOTH: &[u8] = b"sotto issuer keys v1\n";

/// The length of the hash at the end of a file.
const CHECKSUM_LEN: usize = 32;

/// Why an issuer's keys could not be read, stored or deleted.
#[derive(Debug, thiserror::Error)]
pub enum IssuerDbError {
    /// The disk failed. Keys that were to be stored must not be given out.
    #[error("the issuer's files: {0}")]
    Io(#[from] io::Error),
    /// Another process has the folder open.
    #[error("another process has this issuer open")]
    Locked,
    /// Stored keys cannot be read. Recipes that use them would get no tokens, so this must not be
    /// ignored.
    #[error("the stored keys in {0} are damaged")]
    Damaged(PathBuf),
    /// Keys of the version before the two chains of tokens: one issuer made them for both
    /// aggregators, and neither devices nor aggregators accept them any more.
    #[error(
        "the keys in {0} are of an older version, which made those of both aggregators; their \
         recipe gets no tokens any more: delete the file, and let the author publish anew"
    )]
    OfBoth(PathBuf),
    /// The keys do not fit into the format.
    #[error("the keys are too long to store")]
    TooLong,
}

/// The stored keys of an issuer.
#[derive(Debug)]
pub struct IssuerDb {
    folder: PathBuf,
    /// Held while a file is written; its file holds the lock on the folder.
    lock: Mutex<File>,
}

impl IssuerDb {
    /// Opens the folder, and creates it if it is missing.
    pub fn open(folder: &Path) -> Result<Self, IssuerDbError> {
        let keys = folder.join("keys");
        DirBuilder::new().recursive(true).mode(0o700).create(&keys)?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        for above in [Some(folder), parent].into_iter().flatten() {
            sync_folder(above)?;
        }
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("issuer.lock"))?;
        match try_lock(&lock) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(IssuerDbError::Locked),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let db = Self { folder: folder.to_owned(), lock: Mutex::new(lock) };
        // Left by a process that died while writing: these keys were never given out.
        remove(&db.temporary())?;
        Ok(db)
    }

    /// All stored keys, in no particular order.
    pub fn load(&self) -> Result<Vec<RecipeKey>, IssuerDbError> {
        let mut all = Vec::new();
        for entry in fs::read_dir(self.folder.join("keys"))? {
            let path = entry?.path();
            let bytes = Zeroizing::new(fs::read(&path)?);
            match decode(&bytes).filter(|keys| self.path(&keys.id()) == path) {
                Some(keys) => all.push(keys),
                None if bytes.starts_with(MAGIC_OF_BOTH) => {
                    return Err(IssuerDbError::OfBoth(path));
                }
                None => return Err(IssuerDbError::Damaged(path)),
            }
        }
        Ok(all)
    }

    /// Stores a key. It is durable when this returns.
    pub fn insert(&self, key: &RecipeKey) -> Result<(), IssuerDbError> {
        let bytes = encode(key)?;
        // One at a time: all calls use the same temporary name. The mutex guards no data that a
        // panic could leave half-changed.
        let _one = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = self.temporary();
        remove(&temporary)?;
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, self.path(&key.id()))?;
        sync_folder(&self.folder.join("keys"))?;
        Ok(())
    }

    /// Deletes the key of a request. Does nothing if there is none.
    pub fn remove(&self, id: &EntryId) -> Result<(), IssuerDbError> {
        remove(&self.path(id))?;
        sync_folder(&self.folder.join("keys"))?;
        Ok(())
    }

    fn path(&self, id: &EntryId) -> PathBuf {
        self.folder.join("keys").join(id.to_string())
    }

    fn temporary(&self) -> PathBuf {
        self.folder.join("new")
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The magic, the request's JSON, then the key's secret and PKCS#8, and a hash over everything.
fn encode(key: &RecipeKey) -> Result<Zeroizing<Vec<u8>>, IssuerDbError> {
    let json = key.request.to_json();
    let (secret, pkcs8) = (key.origin.secret(), key.origin.key().to_pkcs8());
    // The exact capacity, so that no growing buffer leaves copies of keys behind.
    let len = MAGIC.len() + 2 + json.len() + 32 + 2 + pkcs8.len() + CHECKSUM_LEN;
    let mut out = Zeroizing::new(Vec::with_capacity(len));
    out.extend_from_slice(MAGIC);
    push_opaque(&mut out, &json)?;
    out.extend_from_slice(secret.expose());
    push_opaque(&mut out, &pkcs8)?;
    let checksum = Sha256::digest(&out[..]);
    out.extend_from_slice(&checksum);
    Ok(out)
}

fn push_opaque(out: &mut Vec<u8>, bytes: &[u8]) -> Result<(), IssuerDbError> {
    let len = u16::try_from(bytes.len()).map_err(|_| IssuerDbError::TooLong)?;
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

fn decode(bytes: &[u8]) -> Option<RecipeKey> {
    let (content, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_LEN)?)?;
    if Sha256::digest(content)[..] != *checksum {
        return None;
    }
    let mut reader = Reader::new(content.strip_prefix(MAGIC)?);
    let request = TokenKeyRequest::parse(reader.opaque_u16().ok()?).ok()?;
    let expires = Moment(request.expires);
    let secret = Secret::new(reader.array::<32>().ok()?);
    let key = IssuerKey::from_pkcs8(reader.opaque_u16().ok()?).ok()?;
    reader.finish().ok()?;
    let origin = Origin::new(key, secret, expires).with_participations(request.participations);
    Some(RecipeKey { request, origin: Arc::new(origin) })
}
