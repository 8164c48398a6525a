//! The example of RFC 9458 appendix A, and what must be rejected.
//!
//! The example gives the client's ephemeral private key. Our sender derives that key from
//! randomness, so its bytes are checked through the receiver here, and against another
//! implementation in `tests/ohttp.rs`.

use sotto_testing::rfc9180::{self, Fixed, array, bytes};
use sotto_wire::ohttp::{EncapsulatedRequest, KeyConfig, REQUEST_HEADER_LEN, request_header};
use sotto_wire::{Decode, HpkeConfig, HpkeConfigId};

use super::*;
use crate::server_hpke::Opener;
use crate::{HpkeKeypair, Secret};

const KEY_CONFIG: &str = "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e798155\
                          00080001000100010003";
const PRIVATE_KEY: &str = "3c168975674b2fa8e465970b79c8dcf09f1c741626480bd4c6162fc5b6a98e1a";
const REQUEST: &str = "00034745540568747470730b6578616d706c652e636f6d012f";
const ENC: &str = "4b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c208b472";
const ENCAPSULATED_REQUEST: &str = "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c2\
     08b4726374e469135906992e1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2\
     c0185204b4d63525";
const RESPONSE: &str = "0140c8";
const SECRET: &str = "62d87a6ba569ee81014c2641f52bea36";
const RESPONSE_NONCE: &str = "c789e7151fcba46158ca84b04464910d";
const KEY: &str = "5d0172a080e428b16d298c4ea0db620d";
const NONCE: &str = "f6bf1aeb88d6df87007fa263";
const ENCAPSULATED_RESPONSE: &str =
    "c789e7151fcba46158ca84b04464910d86f9013e404feea014e7be4a441f234f857fbd";

/// The gateway of the example.
fn opener() -> Opener {
    let offered = KeyConfig::from_bytes(&bytes(KEY_CONFIG)).unwrap();
    let (kdf, aead) = offered.suites()[0];
    let config = offered.hpke_config(kdf, aead).unwrap();
    let key = HpkeKeypair::from_parts(config, Secret::new(array(PRIVATE_KEY))).unwrap();
    Opener::new(&key).unwrap()
}

fn open(body: &[u8]) -> Result<OpenedRequest, HpkeError> {
    open_request(&opener(), &EncapsulatedRequest::parse(body).unwrap())
}

/// The client of the example, after sending its request.
fn response_opener() -> ResponseOpener {
    let secret = Zeroizing::new(bytes(SECRET).try_into().unwrap());
    ResponseOpener { secret: ResponseSecret { enc: bytes(ENC), secret } }
}

#[test]
fn the_published_request_opens_and_its_answer_is_the_published_one() {
    let opened = open(&bytes(ENCAPSULATED_REQUEST)).unwrap();
    assert_eq!(*opened.bhttp, bytes(REQUEST));
    assert_eq!(opened.enc, array(ENC));
    assert_eq!(opened.responder.secret.secret.as_slice(), bytes(SECRET));
    let nonce: [u8; 16] = bytes(RESPONSE_NONCE).try_into().unwrap();
    let answer = opened.responder.seal(&bytes(RESPONSE), &mut Fixed(nonce)).unwrap();
    assert_eq!(answer, bytes(ENCAPSULATED_RESPONSE));
}

#[test]
fn the_published_answer_opens() {
    let opener = response_opener();
    let keys = opener.secret.keys(&bytes(RESPONSE_NONCE).try_into().unwrap()).unwrap();
    assert_eq!(keys.key.as_slice(), bytes(KEY));
    assert_eq!(keys.nonce.as_slice(), bytes(NONCE));
    assert_eq!(*opener.open(&bytes(ENCAPSULATED_RESPONSE)).unwrap(), bytes(RESPONSE));
}

#[test]
fn every_changed_or_missing_byte_of_a_request_is_refused() {
    let good = bytes(ENCAPSULATED_REQUEST);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x80;
        let expected = match at {
            0 => HpkeError::WrongConfigId,
            1..7 => HpkeError::UnsupportedSuite,
            _ => HpkeError::Decrypt,
        };
        assert_eq!(open(&bad).unwrap_err(), expected, "byte {at}");
    }
    for len in REQUEST_HEADER_LEN..good.len() {
        assert_eq!(open(&good[..len]).unwrap_err(), HpkeError::Decrypt, "{len} bytes");
    }
    assert_eq!(open(&[&good[..], &[0]].concat()).unwrap_err(), HpkeError::Decrypt);
}

#[test]
fn every_changed_or_missing_byte_of_an_answer_is_refused() {
    let good = bytes(ENCAPSULATED_RESPONSE);
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_eq!(response_opener().open(&bad).unwrap_err(), HpkeError::Decrypt, "byte {at}");
    }
    for len in 0..good.len() {
        let opened = response_opener().open(&good[..len]);
        assert_eq!(opened.unwrap_err(), HpkeError::Decrypt, "{len} bytes");
    }
    let longer = [&good[..], &[0]].concat();
    assert_eq!(response_opener().open(&longer).unwrap_err(), HpkeError::Decrypt);
}

/// The header is authenticated: a request to one key cannot pass for a request to another key of
/// the same gateway.
#[test]
fn a_request_under_another_id_does_not_open() {
    let config = opener().config().clone();
    let (mut body, _) = seal_request(&config, b"x", &mut Fixed([9; 32])).unwrap();
    assert!(open(&body).is_ok());
    let renamed = HpkeConfig::new(
        HpkeConfigId::new(2),
        config.kem_id(),
        config.kdf_id(),
        config.aead_id(),
        config.public_key().to_vec(),
    );
    let (other, _) = seal_request(&renamed.unwrap(), b"x", &mut Fixed([9; 32])).unwrap();
    body[REQUEST_HEADER_LEN..].copy_from_slice(&other[REQUEST_HEADER_LEN..]);
    assert_eq!(open(&body).unwrap_err(), HpkeError::Decrypt);
}

#[test]
fn low_order_points_and_other_suites_are_refused() {
    let header = request_header(opener().config());
    for point in rfc9180::LOW_ORDER {
        let body = [&header[..], &bytes(point), &[0; 40]].concat();
        assert_eq!(open(&body).unwrap_err(), HpkeError::Decrypt);
        let sealed = seal_request(&rfc9180::config(point), b"x", &mut Fixed([9; 32]));
        assert_eq!(sealed.unwrap_err(), HpkeError::InvalidKey);
    }
    let offered = KeyConfig::from_bytes(&bytes(KEY_CONFIG)).unwrap();
    let (kdf, aead) = offered.suites()[1];
    let chacha = offered.hpke_config(kdf, aead).unwrap();
    let sealed = seal_request(&chacha, b"x", &mut Fixed([9; 32]));
    assert_eq!(sealed.unwrap_err(), HpkeError::UnsupportedSuite);
}

#[test]
fn debug_shows_no_secret_and_nothing_of_the_request() {
    let opened = open(&bytes(ENCAPSULATED_REQUEST)).unwrap();
    let shown = format!("{opened:?} {:?} {:?}", opened.responder, response_opener());
    assert_eq!(
        shown,
        "OpenedRequest { len: 25, .. } ResponseSealer { secret: [redacted] } \
         ResponseOpener { secret: [redacted] }"
    );
}
