//! Everybody's keys, the same in every run.

use std::sync::OnceLock;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sha2::{Digest, Sha256};
use sotto_crypto::blind_rsa::IssuerKey;
use sotto_crypto::note::NoteKey;
use sotto_crypto::{HpkeKeypair, Secret};
use sotto_protocol::HpkeKeyring;
use sotto_wire::HpkeConfigId;
use sotto_wire::recipe::{EndorsedKey, KeySet, PublicKey, Signer};

pub fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

/// The key of a party, by name.
pub fn key(name: &str) -> NoteKey {
    key_of(name, name)
}

/// The key of `person` under another name.
pub fn key_of(person: &str, name: &str) -> NoteKey {
    NoteKey::from_seed(name.parse().unwrap(), Secret::new(Sha256::digest(person).into()))
}

pub fn witness(number: usize) -> NoteKey {
    key(&format!("witness-{number}.example"))
}

pub fn signer(key: &NoteKey) -> Signer {
    Signer { name: key.name().clone(), key: PublicKey::new(*key.verifier().public_key()) }
}

/// A key pair of DAP's suite with this id, which is also its seed.
pub fn keypair(id: u8) -> HpkeKeypair {
    HpkeKeypair::generate(HpkeConfigId::new(id), &mut rng(u64::from(id)))
}

/// A hybrid key pair with this id, which is also its seed.
pub fn hybrid(id: u8) -> HpkeKeypair {
    keypair_from(id, u64::from(id))
}

pub fn keyring(ids: &[u8]) -> HpkeKeyring {
    HpkeKeyring::new(&ids.iter().map(|id| keypair(*id)).collect::<Vec<_>>()).unwrap()
}

/// A configuration as key sets and recipes hold it.
pub fn hpke(seed: u64) -> String {
    KeySet::config_text(keypair_from(1, seed).config())
}

/// The key of a gateway, with its number as its id.
pub fn gateway_key(number: u8) -> HpkeKeypair {
    keypair_from(number, 1_000 + u64::from(number))
}

/// The key for token requests of the issuer of the leader's (0) or the helper's (1) tokens.
pub fn encapsulation_key(chain: usize) -> HpkeKeypair {
    keypair_from(3, 2_000 + chain as u64)
}

/// A hybrid key pair with this id from this seed.
pub fn keypair_from(id: u8, seed: u64) -> HpkeKeypair {
    HpkeKeypair::generate_hybrid(HpkeConfigId::new(id), &mut rng(seed))
}

/// How many token keys there are.
pub const TOKEN_KEY_COUNT: usize = 8;

/// An issuer's key: those with even numbers are for leaders, the others for helpers. Making one is slow, so the tests of a program share a few.
pub fn token_key(number: usize) -> &'static IssuerKey {
    static KEYS: [OnceLock<IssuerKey>; TOKEN_KEY_COUNT] = [const { OnceLock::new() }; _];
    KEYS[number].get_or_init(|| IssuerKey::generate().unwrap())
}

/// The public key, as recipes hold it.
pub fn token_key_text(number: usize) -> String {
    EndorsedKey::key_text(token_key(number).token_key().spki())
}
