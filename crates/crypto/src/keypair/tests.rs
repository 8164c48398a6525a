//! Key pairs: generation and the checks of their parts.

use super::*;
use sotto_testing::rfc9180::{self, Fixed, array, bytes};
use sotto_wire::HpkeKemId;

/// The receiver of the vector.
pub(crate) fn receiver() -> HpkeKeypair {
    let private_key = Secret::new(array(rfc9180::SK_R));
    HpkeKeypair::from_parts(rfc9180::config(rfc9180::PK_R), private_key).unwrap()
}

#[test]
fn generation_follows_derive_key_pair() {
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(7), &mut Fixed(array(rfc9180::IKM_R)));
    assert_eq!(keypair.config().public_key(), bytes(rfc9180::PK_R));
    // The RFC prints the key before X25519 clamps it; the clamped key is the same scalar.
    let mut clamped = array(rfc9180::SK_R);
    clamped[0] &= 0xf8;
    clamped[31] = clamped[31] & 0x7f | 0x40;
    assert!(keypair.private_key().ct_eq(&clamped));
}

#[test]
fn parts_must_belong_together() {
    let mut wrong = array(rfc9180::SK_R);
    wrong[5] ^= 1;
    let keypair = HpkeKeypair::from_parts(rfc9180::config(rfc9180::PK_R), Secret::new(wrong));
    assert_eq!(keypair.unwrap_err(), HpkeError::InvalidKey);
}

#[test]
fn other_suites_are_refused() {
    let (kem, kdf, aead) =
        (HpkeKemId::X25519_HKDF_SHA256, HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM);
    let key = bytes(rfc9180::PK_R);
    for (kem, kdf, aead, key) in [
        (HpkeKemId::new(0x0010), kdf, aead, key.clone()),
        (kem, HpkeKdfId::new(2), aead, key.clone()),
        (kem, kdf, HpkeAeadId::new(2), key.clone()),
        (kem, kdf, aead, key[1..].to_vec()),
        (HpkeKemId::X_WING, kdf, aead, key.clone()),
        (kem, kdf, aead, vec![1; 1216]),
    ] {
        let config = HpkeConfig::new(HpkeConfigId::new(7), kem, kdf, aead, key).unwrap();
        let keypair = HpkeKeypair::from_parts(config, Secret::new(array(rfc9180::SK_R)));
        assert_eq!(keypair.unwrap_err(), HpkeError::UnsupportedSuite);
    }
}

#[test]
fn hybrid_keys_are_pairs_too() {
    let keypair = HpkeKeypair::generate_hybrid(HpkeConfigId::new(7), &mut Fixed([5; 32]));
    let parts = |seed: [u8; 32]| {
        HpkeKeypair::from_parts(keypair.config().clone(), Secret::new(seed)).map(drop)
    };
    let mut seed = *keypair.private_key().expose();
    assert_eq!(parts(seed), Ok(()));
    seed[31] ^= 1;
    assert_eq!(parts(seed), Err(HpkeError::InvalidKey));
}

#[test]
fn debug_hides_the_private_key() {
    let shown = format!("{:?}", receiver());
    assert!(shown.contains("redacted"));
}
