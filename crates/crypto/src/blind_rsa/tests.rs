mod vectors;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, RsaKeyPair};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

use super::*;

const INPUT: &[u8] = b"a token input";

fn rng(seed: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([seed; 32])
}

/// The issuer's response to `blinded`, unblinded.
fn issue(issuer: &IssuerKey, input: &[u8], rng: &mut ChaCha20Rng) -> [u8; MODULUS_LEN] {
    let (blinded, unblinder) = blind(issuer.token_key(), input, rng).unwrap();
    let blind_sig = issuer.blind_sign(&blinded).unwrap();
    unblinder.finalize(issuer.token_key(), input, &blind_sig).unwrap()
}

#[test]
fn a_round_gives_a_valid_authenticator() {
    let issuer = IssuerKey::generate().unwrap();
    let verifier = TokenVerifier::new(issuer.token_key()).unwrap();
    let first = issue(&issuer, INPUT, &mut rng(1));
    let second = issue(&issuer, INPUT, &mut rng(2));
    verifier.verify(INPUT, &first).unwrap();
    verifier.verify(INPUT, &second).unwrap();
    assert_ne!(first, second, "the salt is random");
}

#[test]
fn an_authenticator_is_good_for_one_input_and_one_key() {
    let issuer = IssuerKey::generate().unwrap();
    let verifier = TokenVerifier::new(issuer.token_key()).unwrap();
    let authenticator = issue(&issuer, INPUT, &mut rng(3));
    let refused = Err(BlindRsaError::InvalidSignature);
    assert_eq!(verifier.verify(b"another input", &authenticator), refused);
    for place in [0, 1, 128, MODULUS_LEN - 1] {
        let mut tampered = authenticator;
        tampered[place] ^= 1;
        assert_eq!(verifier.verify(INPUT, &tampered), refused);
    }
    assert_eq!(verifier.verify(INPUT, &[0; MODULUS_LEN]), refused);
    assert_eq!(verifier.verify(INPUT, &[0xff; MODULUS_LEN]), refused);
    assert_eq!(verifier.verify(INPUT, issuer.token_key().modulus()), refused);
    let other = TokenVerifier::new(IssuerKey::generate().unwrap().token_key()).unwrap();
    assert_eq!(other.verify(INPUT, &authenticator), refused);
    verifier.verify(INPUT, &authenticator).unwrap();
}

#[test]
fn other_paddings_of_the_same_key_are_refused() {
    let issuer = IssuerKey::generate().unwrap();
    let verifier = TokenVerifier::new(issuer.token_key()).unwrap();
    let pair = RsaKeyPair::from_pkcs8(&issuer.to_pkcs8()).unwrap();
    let sign = |encoding: &'static dyn signature::RsaEncoding| {
        let mut signed = [0; MODULUS_LEN];
        pair.sign(encoding, &SystemRandom::new(), INPUT, &mut signed).unwrap();
        signed
    };
    let on_the_device = |signed: &[u8; MODULUS_LEN]| {
        // Without blinding: the inverse of one.
        let mut one = [0; MODULUS_LEN];
        one[MODULUS_LEN - 1] = 1;
        Unblinder::from_bytes(&one).finalize(issuer.token_key(), INPUT, signed)
    };
    // AWS-LC's own signature with our parameters passes both, so the rejections below mean
    // something.
    let right = sign(&signature::RSA_PSS_SHA384);
    verifier.verify(INPUT, &right).unwrap();
    assert_eq!(on_the_device(&right), Ok(right));
    // Other hashes, each with its own salt length, and the older padding.
    let wrong: [&'static dyn signature::RsaEncoding; 3] =
        [&signature::RSA_PSS_SHA256, &signature::RSA_PSS_SHA512, &signature::RSA_PKCS1_SHA384];
    for encoding in wrong {
        let signed = sign(encoding);
        assert_eq!(verifier.verify(INPUT, &signed), Err(BlindRsaError::InvalidSignature));
        assert_eq!(on_the_device(&signed), Err(BlindRsaError::InvalidSignature));
    }
    // Our hash with salts of other lengths.
    for salt in [&[][..], &[7; 47], &[7; 49], &[7; 32]] {
        let signed = issuer.blind_sign(&encode_with(INPUT, salt)).unwrap();
        assert_eq!(verifier.verify(INPUT, &signed), Err(BlindRsaError::InvalidSignature));
        assert_eq!(on_the_device(&signed), Err(BlindRsaError::InvalidSignature));
    }
    let signed = issuer.blind_sign(&encode_with(INPUT, &[7; 48])).unwrap();
    verifier.verify(INPUT, &signed).unwrap();
}

/// EMSA-PSS with SHA-384 and a salt of any length, using `rsa`.
fn encode_with(message: &[u8], salt: &[u8]) -> [u8; MODULUS_LEN] {
    use sha2::{Digest, Sha384};
    let hash = Sha384::new().chain_update([0; 8]).chain_update(Sha384::digest(message));
    let hash = hash.chain_update(salt).finalize();
    let mut block = vec![0; MODULUS_LEN - 49];
    let salt_at = block.len() - salt.len();
    block[salt_at - 1] = 1;
    block[salt_at..].copy_from_slice(salt);
    let mut mask = Vec::new();
    for counter in 0u32..5 {
        let seeded = Sha384::new().chain_update(hash).chain_update(counter.to_be_bytes());
        mask.extend_from_slice(&seeded.finalize());
    }
    block.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    block[0] &= 0x7f;
    [&block[..], &hash, &[0xbc]].concat().try_into().unwrap()
}

#[test]
fn a_wrong_answer_of_the_issuer_gives_no_token() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    let (blinded, unblinder) = blind(key, INPUT, &mut rng(4)).unwrap();
    let blind_sig = issuer.blind_sign(&blinded).unwrap();
    let mut tampered = blind_sig;
    tampered[200] ^= 4;
    let refused = Err(BlindRsaError::InvalidSignature);
    assert_eq!(unblinder.finalize(key, INPUT, &tampered), refused);
    assert_eq!(unblinder.finalize(key, INPUT, &blinded), refused);
    assert_eq!(unblinder.finalize(key, INPUT, &[0; MODULUS_LEN]), refused);
    assert_eq!(unblinder.finalize(key, b"another input", &blind_sig), refused);
    let out_of_range = Err(BlindRsaError::OutOfRange);
    assert_eq!(unblinder.finalize(key, INPUT, key.modulus()), out_of_range);
    assert_eq!(unblinder.finalize(key, INPUT, &[0xff; MODULUS_LEN]), out_of_range);
    let damaged = Unblinder::from_bytes(&[0xff; MODULUS_LEN]);
    assert_eq!(damaged.finalize(key, INPUT, &blind_sig), out_of_range);
    let (_, other) = blind(key, INPUT, &mut rng(5)).unwrap();
    assert_eq!(other.finalize(key, INPUT, &blind_sig), refused);
    assert!(unblinder.finalize(key, INPUT, &blind_sig).is_ok());
}

#[test]
fn an_unblinder_survives_being_stored() {
    let issuer = IssuerKey::generate().unwrap();
    let (blinded, unblinder) = blind(issuer.token_key(), INPUT, &mut rng(6)).unwrap();
    let restored = Unblinder::from_bytes(&unblinder.to_bytes());
    assert_eq!(restored, unblinder);
    let blind_sig = issuer.blind_sign(&blinded).unwrap();
    restored.finalize(issuer.token_key(), INPUT, &blind_sig).unwrap();
    assert_eq!(format!("{unblinder:?}"), "Unblinder([redacted])");
}

#[test]
fn bad_blinding_factors_are_refused() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    let out_of_range = Some(BlindRsaError::OutOfRange);
    assert_eq!(blind_with(key, INPUT, &[1; 48], &[0; MODULUS_LEN]).err(), out_of_range);
    assert_eq!(blind_with(key, INPUT, &[1; 48], key.modulus()).err(), out_of_range);
    assert_eq!(blind_with(key, INPUT, &[1; 48], &[0xff; MODULUS_LEN]).err(), out_of_range);
    // A multiple of a factor of n has no inverse. Uses a modulus with the small factor 3.
    let mut modulus = [0xff; MODULUS_LEN];
    modulus[0] = 0xfe;
    let sum: u32 = modulus.iter().map(|byte| u32::from(*byte)).sum();
    modulus[MODULUS_LEN - 1] -= (sum % 3) as u8;
    if modulus[MODULUS_LEN - 1] & 1 == 0 {
        modulus[MODULUS_LEN - 1] -= 3;
    }
    let weak = TokenKey::from_modulus(&modulus).unwrap();
    let mut three = [0; MODULUS_LEN];
    three[MODULUS_LEN - 1] = 3;
    assert_eq!(blind_with(&weak, INPUT, &[1; 48], &three).err(), out_of_range);
}

#[test]
fn randomness_that_is_none_does_not_hang() {
    struct Stuck;
    impl rand_core::TryRng for Stuck {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            Ok(u32::MAX)
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            Ok(u64::MAX)
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            bytes.fill(0xff);
            Ok(())
        }
    }
    impl rand_core::TryCryptoRng for Stuck {}
    let issuer = IssuerKey::generate().unwrap();
    let stuck = blind(issuer.token_key(), INPUT, &mut Stuck);
    assert_eq!(stuck.err(), Some(BlindRsaError::Randomness));
}

#[test]
fn the_issuer_refuses_numbers_out_of_range() {
    let issuer = IssuerKey::generate().unwrap();
    let mut one = [0; MODULUS_LEN];
    one[MODULUS_LEN - 1] = 1;
    for number in [[0; MODULUS_LEN], one, *issuer.token_key().modulus(), [0xff; MODULUS_LEN]] {
        assert_eq!(issuer.blind_sign(&number), Err(BlindRsaError::OutOfRange));
    }
}

#[test]
fn a_token_key_has_one_encoding() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    assert_eq!(&TokenKey::parse_spki(key.spki()).unwrap(), key);
    assert_eq!(key.origin_name(), hex::encode(key.id()));
    assert_eq!(key.truncated_id(), key.id()[31]);
    let refused = Some(BlindRsaError::InvalidKey);
    // Any bit outside the modulus, and the two bits of the modulus that its size and oddness fix.
    let fixed =
        (0..81).chain(337..342).flat_map(|place| (0..8).map(move |bit| (place, 1u8 << bit)));
    for (place, bit) in fixed.chain([(81, 0x80), (336, 0x01)]) {
        let mut changed = key.spki().to_vec();
        changed[place] ^= bit;
        assert_eq!(TokenKey::parse_spki(&changed).err(), refused, "byte {place}");
    }
    let mut longer = key.spki().to_vec();
    longer.push(0);
    assert_eq!(TokenKey::parse_spki(&longer).err(), refused);
    for len in 0..key.spki().len() {
        assert_eq!(TokenKey::parse_spki(&key.spki()[..len]).err(), refused);
    }
    let mut noise = [0; 342];
    rng(9).fill_bytes(&mut noise);
    assert_eq!(TokenKey::parse_spki(&noise).err(), refused);
}

/// The name of each participation is that of the format, and of no key.
#[test]
fn each_participation_has_a_name_of_its_own() {
    let issuers = [IssuerKey::generate().unwrap(), IssuerKey::generate().unwrap()];
    let mut names = std::collections::BTreeSet::new();
    for issuer in &issuers {
        let key = issuer.token_key();
        names.insert(key.origin_name());
        for number in [0, 1, 255, 256, u32::MAX] {
            let text = [key.spki(), &number.to_be_bytes()].concat();
            let name = key.participation_name(number);
            assert_eq!(name, hex::encode(Sha256::digest(&text)));
            assert_eq!(TokenKey::parse_spki(&text).err(), Some(BlindRsaError::InvalidKey));
            names.insert(name);
        }
    }
    assert_eq!(names.len(), 12);
}

#[test]
fn private_keys_are_checked_and_hidden() {
    let issuer = IssuerKey::generate().unwrap();
    let pkcs8 = issuer.to_pkcs8();
    let again = IssuerKey::from_pkcs8(&pkcs8).unwrap();
    assert_eq!(again.token_key(), issuer.token_key());
    assert!(!format!("{issuer:?}").contains(&hex::encode(&pkcs8[100..104])));
    // The last bytes are the inverse of q: with a wrong one, the first signature would reveal the
    // factors.
    let mut damaged = pkcs8.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    assert_eq!(IssuerKey::from_pkcs8(&damaged).err(), Some(BlindRsaError::InvalidKey));
    assert_eq!(IssuerKey::from_pkcs8(&[]).err(), Some(BlindRsaError::InvalidKey));
}
