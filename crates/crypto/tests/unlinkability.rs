//! Why an issuer that keeps all records cannot link: for any recorded issuance and any token of the
//! same key there is exactly one blinding factor that maps one to the other. So the record of an
//! issuance fits every token, and since factors are drawn uniformly, it fits all equally well.

use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U2048};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use sotto_crypto::blind_rsa::{IssuerKey, TokenKey, TokenVerifier, blind, blind_with};

const COUNT: usize = 8;

/// What an issuer sees at issuance.
struct Issuance {
    blinded_msg: [u8; 256],
    blind_sig: [u8; 256],
}

/// What can be seen of a token when it is spent.
struct Spent {
    input: Vec<u8>,
    authenticator: [u8; 256],
}

/// Arithmetic modulo the key's n.
struct Ring(FixedMontyParams<{ U2048::LIMBS }>);
type Number = FixedMontyForm<{ U2048::LIMBS }>;

impl Ring {
    fn of(key: &TokenKey) -> Self {
        // The modulus comes before the exponent, which is the last five bytes.
        let spki = key.spki();
        let modulus = U2048::from_be_slice(&spki[spki.len() - 261..spki.len() - 5]);
        Self(FixedMontyParams::new_vartime(Odd::new(modulus).unwrap()))
    }

    fn number(&self, bytes: &[u8; 256]) -> Number {
        Number::new(&U2048::from_be_slice(bytes), &self.0)
    }
}

fn to_the_e(number: &Number) -> Number {
    number.pow(&U2048::from(65537u32))
}

fn bytes(number: &Number) -> [u8; 256] {
    number.retrieve().to_be_bytes().as_ref().try_into().unwrap()
}

/// Issues tokens, and returns the records of both sides in the same order.
fn issue(issuer: &IssuerKey, rng: &mut ChaCha20Rng) -> (Vec<Issuance>, Vec<Spent>) {
    let key = issuer.token_key();
    let round = |index: usize| {
        let input = format!("token input {index}").into_bytes();
        let (blinded_msg, unblinder) = blind(key, &input, rng).unwrap();
        let blind_sig = issuer.blind_sign(&blinded_msg).unwrap();
        let authenticator = unblinder.finalize(key, &input, &blind_sig).unwrap();
        (Issuance { blinded_msg, blind_sig }, Spent { input, authenticator })
    };
    (0..COUNT).map(round).unzip()
}

#[test]
fn every_issuance_fits_every_token() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    let ring = Ring::of(key);
    let (issuances, tokens) = issue(&issuer, &mut ChaCha20Rng::from_seed([1; 32]));
    let verifier = TokenVerifier::new(key).unwrap();
    for token in &tokens {
        verifier.verify(&token.input, &token.authenticator).unwrap();
        let authenticator = ring.number(&token.authenticator);
        let encoded = to_the_e(&authenticator);
        for issuance in &issuances {
            let inverse = authenticator.invert().unwrap();
            let r = ring.number(&issuance.blind_sig).mul(&inverse);
            assert!(bool::from(r.invert().is_some()), "the factor is one that a device can draw");
            let blinded = encoded.mul(&to_the_e(&r));
            assert_eq!(bytes(&blinded), issuance.blinded_msg);
        }
    }
}

/// The same through the real code: a device that had drawn that factor, and the token's own salt,
/// would have sent exactly the bytes of any recorded issuance, and turned the response into exactly
/// that token.
#[test]
fn a_device_could_have_sent_any_issuance_for_any_token() {
    let issuer = IssuerKey::generate().unwrap();
    let key = issuer.token_key();
    let ring = Ring::of(key);
    let mut rng = ChaCha20Rng::from_seed([2; 32]);
    let (issuances, _) = issue(&issuer, &mut rng);
    for index in 0..COUNT {
        let (input, salt) = (format!("another input {index}").into_bytes(), [index as u8; 48]);
        let mut one = [0; 256];
        one[255] = 1;
        // With the factor one, the blinded message is the encoded message itself, and its signature
        // is the token.
        let (encoded, _) = blind_with(key, &input, &salt, &one).unwrap();
        let authenticator = issuer.blind_sign(&encoded).unwrap();
        for issuance in &issuances {
            let inverse = ring.number(&authenticator).invert().unwrap();
            let r = bytes(&ring.number(&issuance.blind_sig).mul(&inverse));
            let (blinded_msg, unblinder) = blind_with(key, &input, &salt, &r).unwrap();
            assert_eq!(blinded_msg, issuance.blinded_msg);
            let token = unblinder.finalize(key, &input, &issuance.blind_sig).unwrap();
            assert_eq!(token, authenticator);
        }
    }
}

/// The relation is not vacuous: it fails for the records of another key.
#[test]
fn an_issuance_of_another_key_does_not_fit() {
    let (issuer, other) = (IssuerKey::generate().unwrap(), IssuerKey::generate().unwrap());
    let ring = Ring::of(issuer.token_key());
    let mut rng = ChaCha20Rng::from_seed([3; 32]);
    let (_, tokens) = issue(&issuer, &mut rng);
    let (foreign, _) = issue(&other, &mut rng);
    for (token, issuance) in tokens.iter().zip(&foreign) {
        let authenticator = ring.number(&token.authenticator);
        let r = ring.number(&issuance.blind_sig).mul(&authenticator.invert().unwrap());
        let blinded = to_the_e(&authenticator).mul(&to_the_e(&r));
        assert_ne!(bytes(&blinded), issuance.blinded_msg);
    }
}
