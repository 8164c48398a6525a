use super::*;
use sotto_testing::published::{array, bytes, rate_limited, vectors};

const CTX: &[u8] = b"a context";

fn secret(byte: u8) -> ClientSecret {
    ClientSecret::new([byte; 32])
}

#[test]
fn the_published_vectors() {
    let Some(file) = vectors("key_blinding.json") else { return };
    let list = file["ed25519"].as_array().unwrap();
    assert_eq!(list.len(), 4);
    for vector in list {
        let secret = ClientSecret::new(array(vector, "skS"));
        let (blind, ctx) = (array(vector, "bk"), bytes(vector, "context"));
        let public_key = secret.public_key();
        assert_eq!(*public_key.as_bytes(), array(vector, "pkS"));
        let blinded = public_key.blind(&blind, &ctx);
        assert_eq!(*blinded.as_bytes(), array(vector, "pkR"));
        assert_eq!(blinded.unblind(&blind, &ctx), public_key);
        let message = bytes(vector, "message");
        let signature = secret.sign_blinded(&blind, &ctx, &message);
        assert_eq!(signature, array(vector, "signature"));
        blinded.verify(&message, &signature).unwrap();
    }
}

#[test]
fn only_points_of_prime_order_in_canonical_form_are_keys() {
    let file = rate_limited();
    let checks = file["public_key_checks"].as_array().unwrap();
    assert_eq!(checks.len(), 18);
    for check in checks {
        let valid = PublicKey::parse(&array(check, "key")).is_ok();
        assert_eq!(valid, check["valid"].as_bool().unwrap(), "{}", check["why"]);
    }
    let demo = &file["mixed_order_demo"];
    assert_eq!(PublicKey::parse(&array(demo, "client_key")), Err(InvalidKey));
}

#[test]
fn blinded_keys_parse_and_unblind_in_any_order() {
    let key = secret(1).public_key();
    let (first, second) = ([2; 32], [3; 32]);
    let blinded = key.blind(&first, CTX).blind(&second, b"");
    assert_eq!(PublicKey::parse(blinded.as_bytes()), Ok(blinded));
    assert_eq!(blinded.unblind(&first, CTX), key.blind(&second, b""));
    assert_ne!(blinded.unblind(&first, b""), key.blind(&second, b""));
}

#[test]
fn a_signature_is_good_for_one_key_blind_context_and_message() {
    let (blind, message) = ([7; 32], b"message");
    let key = secret(1).public_key().blind(&blind, CTX);
    let signature = secret(1).sign_blinded(&blind, CTX, message);
    key.verify(message, &signature).unwrap();
    assert_eq!(key.verify(b"another", &signature), Err(InvalidSignature));
    for other in [
        secret(2).public_key().blind(&blind, CTX),
        secret(1).public_key().blind(&[8; 32], CTX),
        secret(1).public_key().blind(&blind, b""),
        secret(1).public_key(),
    ] {
        assert_eq!(other.verify(message, &signature), Err(InvalidSignature));
    }
    for at in 0..signature.len() {
        let mut bad = signature;
        bad[at] ^= 1;
        assert_eq!(key.verify(message, &bad), Err(InvalidSignature), "byte {at}");
    }
}

/// S plus the order of the group also satisfies the equation. A verifier that accepted it would
/// take one request for two.
#[test]
fn a_response_above_the_order_is_refused() {
    let order_minus_one = (-Scalar::ONE).to_bytes();
    let (blind, message) = ([7; 32], b"message");
    let mut signature = secret(1).sign_blinded(&blind, CTX, message);
    let mut carry = 1u16;
    for (byte, add) in signature[32..].iter_mut().zip(order_minus_one) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = carry as u8;
        carry >>= 8;
    }
    assert_eq!(carry, 0);
    let key = secret(1).public_key().blind(&blind, CTX);
    assert_eq!(key.verify(message, &signature), Err(InvalidSignature));
}

#[test]
fn debug_shows_neither_secrets_nor_keys() {
    let shown = format!("{:?} {:?}", secret(1), secret(1).public_key());
    assert_eq!(shown, "ClientSecret(Secret([redacted])) PublicKey([redacted])");
}
