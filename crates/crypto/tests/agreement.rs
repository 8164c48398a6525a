//! The two implementations agree: they give the same ciphertext for the same randomness, each opens
//! what the other sealed, and both reject any change.

use rand_chacha::ChaCha20Rng;
use rand_core::{CryptoRng, Rng, SeedableRng};
use sotto_crypto::hpke::Suite;
use sotto_crypto::server_hpke::Opener;
use sotto_crypto::{HpkeError, HpkeKeypair, hpke, server_hpke};
use sotto_wire::{HpkeCiphertext, HpkeConfigId};

const ROUNDS: u64 = 200;
const SUITES: [Suite; 2] = [Suite::X25519, Suite::Hybrid];

#[test]
fn equal_randomness_gives_equal_ciphertexts_and_each_opens_the_other() {
    for seed in 0..ROUNDS {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let suite = SUITES[seed as usize / 10 % 2];
        let keypair = HpkeKeypair::generate_for(suite, HpkeConfigId::new(seed as u8), &mut rng);
        let opener = Opener::new(&keypair).unwrap();
        let (info, aad, plaintext) = case(seed, &mut rng);

        let mut twin = rng.clone();
        let device = hpke::seal(keypair.config(), &info, &aad, &plaintext, &mut rng).unwrap();
        let server =
            server_hpke::seal(keypair.config(), &info, &aad, &plaintext, &mut twin).unwrap();
        assert_eq!(device, server, "seed {seed}");
        assert_eq!(rng.next_u64(), twin.next_u64(), "both take the same from the generator");

        assert_eq!(*opener.open(&info, &aad, &device).unwrap(), plaintext, "seed {seed}");
        assert_eq!(*hpke::open(&keypair, &info, &aad, &server).unwrap(), plaintext, "seed {seed}");
        let mut receiver = opener.setup_receiver(device.enc(), &info).unwrap();
        assert_eq!(*receiver.open(&aad, device.payload()).unwrap(), plaintext, "seed {seed}");
    }
}

#[test]
fn every_changed_byte_is_refused_by_both() {
    SUITES.into_iter().for_each(every_changed_byte_is_refused);
}

fn every_changed_byte_is_refused(suite: Suite) {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let keypair = HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng);
    let opener = Opener::new(&keypair).unwrap();
    let (info, aad, plaintext) = (b"some info".to_vec(), b"associated".to_vec(), vec![7; 24]);
    let sealed = hpke::seal(keypair.config(), &info, &aad, &plaintext, &mut rng).unwrap();
    let refused = |info: &[u8], aad: &[u8], enc: &[u8], payload: &[u8]| {
        let ct = HpkeCiphertext::new(HpkeConfigId::new(1), enc, payload).unwrap();
        assert_eq!(hpke::open(&keypair, info, aad, &ct).unwrap_err(), HpkeError::Decrypt);
        assert_eq!(opener.open(info, aad, &ct).unwrap_err(), HpkeError::Decrypt);
    };
    for mask in [0x01, 0x80] {
        for changed in changes(&info, mask) {
            refused(&changed, &aad, sealed.enc(), sealed.payload());
        }
        for changed in changes(&aad, mask) {
            refused(&info, &changed, sealed.enc(), sealed.payload());
        }
        // The top bit of an X25519 point is ignored (RFC 7748 §5), but it is part of the KEM
        // context, and of what X-Wing hashes.
        for changed in changes(sealed.enc(), mask) {
            refused(&info, &aad, &changed, sealed.payload());
        }
        for changed in changes(sealed.payload(), mask) {
            refused(&info, &aad, sealed.enc(), &changed);
        }
    }
    for len in 1..sealed.payload().len() {
        refused(&info, &aad, sealed.enc(), &sealed.payload()[..len]);
    }
    for len in 1..sealed.enc().len() {
        refused(&info, &aad, &sealed.enc()[..len], sealed.payload());
    }
    refused(&info, &aad, &[sealed.enc(), b"\0"].concat(), sealed.payload());
    refused(&info, &aad, sealed.enc(), &[sealed.payload(), b"\0"].concat());
}

#[test]
fn a_public_key_in_der_is_not_an_encapsulated_key() {
    // AWS-LC would parse an X.509 SubjectPublicKeyInfo as well as the raw 32 bytes.
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(1), &mut rng);
    let sealed = hpke::seal(keypair.config(), b"", b"", b"share", &mut rng).unwrap();
    let prefix = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00];
    let der = [&prefix[..], sealed.enc()].concat();
    let ct = HpkeCiphertext::new(HpkeConfigId::new(1), der, sealed.payload()).unwrap();
    let opener = Opener::new(&keypair).unwrap();
    assert_eq!(opener.open(b"", b"", &ct).unwrap_err(), HpkeError::Decrypt);
    assert_eq!(hpke::open(&keypair, b"", b"", &ct).unwrap_err(), HpkeError::Decrypt);
}

#[test]
fn another_key_does_not_open() {
    SUITES.into_iter().for_each(another_key_of);
}

fn another_key_of(suite: Suite) {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let ours = HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng);
    let theirs = HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng);
    let sealed = server_hpke::seal(theirs.config(), b"", b"", b"share", &mut rng).unwrap();
    let opened = Opener::new(&ours).unwrap().open(b"", b"", &sealed);
    assert_eq!(opened.unwrap_err(), HpkeError::Decrypt);
    assert_eq!(hpke::open(&ours, b"", b"", &sealed).unwrap_err(), HpkeError::Decrypt);
    let elsewhere = HpkeKeypair::generate(HpkeConfigId::new(2), &mut rng);
    let opened = Opener::new(&elsewhere).unwrap().open(b"", b"", &sealed);
    assert_eq!(opened.unwrap_err(), HpkeError::WrongConfigId);
}

#[test]
fn a_message_of_one_suite_does_not_open_with_a_key_of_the_other() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let [x25519, hybrid] =
        SUITES.map(|suite| HpkeKeypair::generate_for(suite, HpkeConfigId::new(1), &mut rng));
    for (sender, receiver) in [(&x25519, &hybrid), (&hybrid, &x25519)] {
        let sealed = hpke::seal(sender.config(), b"", b"", b"share", &mut rng).unwrap();
        let opened = Opener::new(receiver).unwrap().open(b"", b"", &sealed);
        assert_eq!(opened.unwrap_err(), HpkeError::Decrypt);
        assert_eq!(hpke::open(receiver, b"", b"", &sealed).unwrap_err(), HpkeError::Decrypt);
    }
}

#[test]
fn hybrid_keys_come_first_and_others_only_if_allowed() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let mut config = |suite, id| {
        HpkeKeypair::generate_for(suite, HpkeConfigId::new(id), &mut rng).config().clone()
    };
    let listed = vec![
        config(Suite::X25519, 1),
        config(Suite::Hybrid, 2),
        config(Suite::X25519, 3),
        config(Suite::Hybrid, 4),
    ];
    let ids = |configs: Vec<sotto_wire::HpkeConfig>, required| -> Vec<u8> {
        hpke::usable(configs, required).iter().map(|config| config.id().value()).collect()
    };
    assert_eq!(ids(listed.clone(), false), [2, 4, 1, 3]);
    assert_eq!(ids(listed.clone(), true), [2, 4]);
    assert_eq!(ids(vec![listed[0].clone()], false), [1]);
    assert!(ids(vec![listed[0].clone()], true).is_empty());
}

/// Lengths around the block sizes first, then random ones; every tenth plaintext is a large share.
fn case(seed: u64, rng: &mut impl CryptoRng) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let edges = [0, 1, 15, 16, 17, 31, 32, 33, 64];
    let plaintext = match (edges.get(seed as usize), seed % 10) {
        (Some(edge), _) => *edge,
        (None, 9) => 40_000,
        _ => rng.next_u32() as usize % 3000,
    };
    let info = rng.next_u32() as usize % 60;
    let aad = rng.next_u32() as usize % 300;
    (random(info, rng), random(aad, rng), random(plaintext, rng))
}

fn random(len: usize, rng: &mut impl CryptoRng) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// `bytes` with each byte in turn changed by `mask`.
fn changes(bytes: &[u8], mask: u8) -> Vec<Vec<u8>> {
    let change = |i| {
        let mut changed = bytes.to_vec();
        changed[i] ^= mask;
        changed
    };
    (0..bytes.len()).map(change).collect()
}
