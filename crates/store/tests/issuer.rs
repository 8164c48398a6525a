//! The keys of an issuer on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sotto_crypto::Secret;
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_protocol::Moment;
use sotto_protocol::issuer::Origin;
use sotto_protocol::issuer::author::RecipeKey;
use sotto_store::{IssuerDb, IssuerDbError};
use sotto_wire::recipe::TokenKeyRequest;
use sotto_wire::{PublicKey, Role, Signer};

fn made(nonce: &str, role: Role) -> RecipeKey {
    let author = Signer { name: "author.example".parse().unwrap(), key: PublicKey::new([1; 32]) };
    let request = TokenKeyRequest {
        author,
        leader: "leader.example".parse().unwrap(),
        helper: "helper.example".parse().unwrap(),
        role,
        expires: 1_900_000_000,
        nonce: format!("a-nonce-for-the-test-{nonce}"),
        // One is for a series.
        participations: (role == Role::Helper).then_some(3),
    };
    let (key, expires) = (IssuerKey::generate().unwrap(), Moment(request.expires));
    let origin = Origin::new(key, Secret::new([3; 32]), expires);
    let origin = Arc::new(origin.with_participations(request.participations));
    RecipeKey { request, origin }
}

fn assert_same(a: &RecipeKey, b: &RecipeKey) {
    assert_eq!(a.request, b.request);
    let (a, b) = (&a.origin, &b.origin);
    assert!(a.names().eq(b.names()) && a.expires() == b.expires());
    assert_eq!(a.secret(), b.secret());
    let message = [1; 256];
    assert_eq!(a.key().blind_sign(&message).unwrap(), b.key().blind_sign(&message).unwrap());
}

fn file(folder: &Path, keys: &RecipeKey) -> PathBuf {
    folder.join("keys").join(keys.id().to_string())
}

#[test]
fn keys_come_back_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (made("one", Role::Leader), made("other", Role::Helper));
    let db = IssuerDb::open(folder.path()).unwrap();
    assert!(db.load().unwrap().is_empty());
    db.insert(&one).unwrap();
    db.insert(&other).unwrap();
    drop(db);
    let db = IssuerDb::open(folder.path()).unwrap();
    let mut stored = db.load().unwrap();
    stored.sort_by_key(|key| key.request.role);
    assert_eq!(stored.len(), 2);
    assert_same(&stored[0], &one);
    assert_same(&stored[1], &other);
    db.remove(&one.id()).unwrap();
    db.remove(&one.id()).unwrap();
    assert!(!file(folder.path(), &one).exists());
    let stored = db.load().unwrap();
    assert_eq!(stored.len(), 1);
    assert_same(&stored[0], &other);
}

#[test]
fn only_the_owner_reads_and_only_one_process_writes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("issuer");
    let db = IssuerDb::open(&folder).unwrap();
    let keys = made("mode", Role::Leader);
    db.insert(&keys).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file(&folder, &keys)), 0o600);
    assert_eq!((mode(&folder), mode(&folder.join("keys"))), (0o700, 0o700));
    assert!(matches!(IssuerDb::open(&folder), Err(IssuerDbError::Locked)));
}

#[test]
fn half_a_file_of_a_dead_process_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (stored, keys) = (made("stored", Role::Leader), made("late", Role::Leader));
    IssuerDb::open(folder.path()).unwrap().insert(&stored).unwrap();
    fs::write(folder.path().join("new"), b"sotto issuer key v2\n half of a").unwrap();
    let db = IssuerDb::open(folder.path()).unwrap();
    assert!(!folder.path().join("new").exists());
    assert_eq!(db.load().unwrap().len(), 1);
    db.insert(&keys).unwrap();
    assert_eq!(db.load().unwrap().len(), 2);
}

#[test]
fn damage_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let keys = made("damage", Role::Helper);
    let db = IssuerDb::open(folder.path()).unwrap();
    db.insert(&keys).unwrap();
    let path = file(folder.path(), &keys);
    let good = fs::read(&path).unwrap();
    let damaged = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        matches!(db.load(), Err(IssuerDbError::Damaged(at)) if at == path)
    };
    for place in [0, 25, 100, good.len() / 2, good.len() - 1] {
        let mut flipped = good.clone();
        flipped[place] ^= 0x10;
        assert!(damaged(&flipped), "{place}");
    }
    for len in [0, 10, 31, 32, good.len() - 1] {
        assert!(damaged(&good[..len]), "{len}");
    }
    assert!(damaged(&[&good[..], b"x"].concat()));
    assert!(!damaged(&good));
    // Under the name of another request.
    let other = path.with_file_name("00".repeat(32));
    fs::rename(&path, &other).unwrap();
    assert!(matches!(db.load(), Err(IssuerDbError::Damaged(at)) if at == other));
    // What the version before the two chains of tokens wrote.
    fs::write(&other, b"sotto issuer keys v1\n and so on").unwrap();
    assert!(matches!(db.load(), Err(IssuerDbError::OfBoth(at)) if at == other));
}
