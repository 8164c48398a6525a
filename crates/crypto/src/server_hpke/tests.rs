//! RFC 9180 A.1.1 and the vectors of X-Wing through the server's implementation, and what it must
//! reject. The comparison with [`crate::hpke`] is in `tests/agreement.rs`.

use super::*;
use crate::Secret;
use crate::keypair::tests::receiver;
use sha2::{Digest, Sha256};
use sotto_testing::rfc9180::{self, Fixed, array, bytes};
use sotto_testing::x_wing::{self as published, hpke_pq};
use sotto_wire::HpkeConfigId;

fn opener() -> Opener {
    Opener::new(&receiver()).unwrap()
}

#[test]
fn ephemeral_key_and_shared_secret_are_the_vectors() {
    let private_key = key_schedule::derive_private_key(&array(rfc9180::IKM_E)).unwrap();
    assert_eq!(*private_key, array(rfc9180::SK_E));
    assert_eq!(X25519Key::parse(&private_key).unwrap().public, array(rfc9180::ENC));

    let PrivateKey::X25519(key) = opener().private_key else { panic!("another suite") };
    let enc = array(rfc9180::ENC);
    let shared_secret = key
        .agree(&enc, HpkeError::Decrypt, |dh| {
            key_schedule::extract_and_expand(dh, &enc, &key.public)
        })
        .unwrap();
    assert_eq!(
        *shared_secret,
        array("fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc")
    );
}

#[test]
fn key_schedule_is_the_vectors() {
    let opener = opener();
    let schedule = opener.decapsulate(&bytes(rfc9180::ENC), &bytes(rfc9180::INFO)).unwrap();
    assert_eq!(schedule.base_nonce().unwrap().as_slice(), bytes("56d890e5accaaf011cff4b7d"));
    assert_eq!(
        *schedule.exporter().unwrap().secret,
        array("45ff1c2e220db587171952c0592d5f5ebe103f1561a2614e38f2ffd47e99e3f8")
    );
}

#[test]
fn every_sequence_number_opens() {
    let mut receiver =
        opener().setup_receiver(&bytes(rfc9180::ENC), &bytes(rfc9180::INFO)).unwrap();
    for (sequence, payload) in rfc9180::CIPHERTEXTS {
        receiver.sequence = sequence;
        let aad = format!("Count-{sequence}");
        let opened = receiver.open(aad.as_bytes(), &bytes(payload)).unwrap();
        assert_eq!(opened.as_slice(), bytes(rfc9180::PLAINTEXT));
        assert_eq!(receiver.sequence, sequence + 1);
    }
}

#[test]
fn a_failed_open_does_not_advance_the_sequence() {
    let mut receiver =
        opener().setup_receiver(&bytes(rfc9180::ENC), &bytes(rfc9180::INFO)).unwrap();
    let payload = bytes(rfc9180::CIPHERTEXTS[0].1);
    assert_eq!(receiver.open(b"Count-1", &payload).unwrap_err(), HpkeError::Decrypt);
    assert!(receiver.open(b"Count-0", &payload).is_ok());
    assert_eq!(receiver.open(b"Count-0", &payload).unwrap_err(), HpkeError::Decrypt);
    receiver.sequence = u64::MAX;
    assert_eq!(receiver.open(b"", &payload).unwrap_err(), HpkeError::Decrypt);
}

#[test]
fn exports_are_the_vectors() {
    let receiver = opener().setup_receiver(&bytes(rfc9180::ENC), &bytes(rfc9180::INFO)).unwrap();
    for (context, value) in [
        (&b""[..], "3853fe2b4035195a573ffc53856e77058e15d9ea064de3e59f4961d0095250ee"),
        (&b"\0"[..], "2e8f0b54673c7029649d4eb9d5e33bf1872cf76d623ff164ac185da9e88c21a5"),
        (&b"TestContext"[..], "e9e43065102c3836401bed8c3c3c75ae46be1639869391d62c61f1ec7af54931"),
    ] {
        assert_eq!(receiver.export(context, 32).unwrap().as_slice(), bytes(value));
    }
    assert_eq!(receiver.export(b"", MAX_EXPORT_LEN).unwrap().len(), MAX_EXPORT_LEN);
    for len in [MAX_EXPORT_LEN + 1, usize::MAX] {
        assert_eq!(receiver.export(b"", len).unwrap_err(), HpkeError::ExportTooLong);
    }
}

#[test]
fn single_shot_is_the_vectors() {
    let sealed = seal(
        &rfc9180::config(rfc9180::PK_R),
        &bytes(rfc9180::INFO),
        b"Count-0",
        &bytes(rfc9180::PLAINTEXT),
        &mut Fixed(array(rfc9180::IKM_E)),
    )
    .unwrap();
    assert_eq!(sealed, rfc9180::ciphertext(rfc9180::ENC, rfc9180::CIPHERTEXTS[0].1));
    let opened = opener().open(&bytes(rfc9180::INFO), b"Count-0", &sealed).unwrap();
    assert_eq!(opened.as_slice(), bytes(rfc9180::PLAINTEXT));
}

#[test]
fn low_order_points_are_refused() {
    for point in rfc9180::LOW_ORDER {
        let opened = opener().setup_receiver(&bytes(point), b"");
        assert_eq!(opened.unwrap_err(), HpkeError::Decrypt);
        let ct = rfc9180::ciphertext(point, rfc9180::CIPHERTEXTS[0].1);
        assert_eq!(opener().open(b"", b"", &ct).unwrap_err(), HpkeError::Decrypt);
        let sealed = seal(&rfc9180::config(point), b"", b"", b"x", &mut Fixed([9; 32]));
        assert_eq!(sealed.unwrap_err(), HpkeError::InvalidKey);
    }
}

#[test]
fn debug_shows_no_key_material() {
    let receiver = opener().setup_receiver(&bytes(rfc9180::ENC), &bytes(rfc9180::INFO)).unwrap();
    assert_eq!(format!("{receiver:?}"), "Receiver { sequence: 0, .. }");
    let private = format!("{:?}", array(rfc9180::SK_R));
    assert!(!format!("{:?}", opener()).contains(private.trim_matches(['[', ']'])));
}

/// Both libraries: the device's encapsulates, both decapsulate.
#[test]
fn x_wing_is_the_drafts() {
    let hashed = |bytes: &[u8]| hex::encode(Sha256::digest(bytes));
    for vector in published::VECTORS {
        let (key, public_key) = DecapsulationKey::expand(&array(vector.sk)).unwrap();
        assert_eq!(hashed(&public_key), vector.pk_sha256);
        let config = published::config(public_key);
        let keypair =
            HpkeKeypair::from_parts(config.clone(), Secret::new(array(vector.sk))).unwrap();
        let mut eseed = Fixed::<64>(bytes(vector.eseed).try_into().unwrap());
        let sealed = seal(&config, b"info", b"aad", b"share", &mut eseed).unwrap();
        assert_eq!(hashed(sealed.enc()), vector.ct_sha256);
        assert_eq!(*key.decapsulate(sealed.enc()).unwrap(), array(vector.ss));
        let opened = Opener::new(&keypair).unwrap().open(b"info", b"aad", &sealed).unwrap();
        assert_eq!(*opened, b"share");
        assert_eq!(*hpke::open(&keypair, b"info", b"aad", &sealed).unwrap(), b"share");
    }
}

#[test]
fn hybrid_keys_and_secrets_are_those_of_the_hpke_draft() {
    let id = HpkeConfigId::new(7);
    let keypair = HpkeKeypair::generate_hybrid(id, &mut Fixed(array(hpke_pq::IKM_R)));
    assert!(keypair.private_key().ct_eq(&array(hpke_pq::SK_R)));
    let ends = |value: &[u8], [first, last]: [&str; 2]| {
        value.starts_with(&bytes(first)) && value.ends_with(&bytes(last))
    };
    assert!(ends(keypair.config().public_key(), hpke_pq::PK_R_ENDS));
    let mut randomness = Fixed::<64>(bytes(hpke_pq::IKM_E).try_into().unwrap());
    let sealed = hpke::seal(keypair.config(), b"", b"", b"x", &mut randomness).unwrap();
    assert!(ends(sealed.enc(), hpke_pq::ENC_ENDS));
    let (key, _) = DecapsulationKey::expand(keypair.private_key().expose()).unwrap();
    assert_eq!(*key.decapsulate(sealed.enc()).unwrap(), array(hpke_pq::SHARED_SECRET));
}

#[test]
fn a_low_order_point_in_a_hybrid_key_is_refused() {
    let keypair = HpkeKeypair::generate_hybrid(HpkeConfigId::new(7), &mut Fixed([3; 32]));
    let sealed = seal(keypair.config(), b"", b"", b"x", &mut Fixed([9; 64])).unwrap();
    let opener = Opener::new(&keypair).unwrap();
    for point in rfc9180::LOW_ORDER {
        let enc = [&sealed.enc()[..1088], &bytes(point)].concat();
        assert_eq!(opener.setup_receiver(&enc, b"").unwrap_err(), HpkeError::Decrypt);
    }
}
