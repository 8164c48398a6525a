//! The formats of Oblivious HTTP: the example of RFC 9458, and what must be rejected.

use sotto_testing::decoders::decoder;
use sotto_wire::ohttp::{
    EncapsulatedRequest, KeyConfig, REQUEST_LABEL, decode_key_list, encode_key_list,
    request_header, request_info, request_overhead,
};
use sotto_wire::{
    BoundsError, Decode, DecodeError, Encode, HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId,
    HpkeKemId,
};

/// RFC 9458 appendix A.
const KEY_CONFIG: &str = "01002031e1f05a740102115220e9af918f738674aec95f54db6e04eb705aae8e798155\
                          00080001000100010003";
const REQUEST: &str = "010020000100014b28f881333e7c164ffc499ad9796f877f4e1051ee6d31bad19dec96c2\
                       08b4726374e469135906992e1268c594d2a10c695d858c40a026e7965e7d86b83dd440b2\
                       c0185204b4d63525";
const INFO: &str = "6d6573736167652f626874747020726571756573740001002000010001";

const KEM: HpkeKemId = HpkeKemId::X25519_HKDF_SHA256;
const AES: (HpkeKdfId, HpkeAeadId) = (HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM);
const CHACHA: (HpkeKdfId, HpkeAeadId) = (HpkeKdfId::HKDF_SHA256, HpkeAeadId::CHACHA20_POLY1305);

#[test]
fn the_published_key_configuration() {
    let bytes = hex::decode(KEY_CONFIG).unwrap();
    let config = KeyConfig::from_bytes(&bytes).unwrap();
    assert_eq!((config.id().value(), config.kem_id()), (1, KEM));
    assert_eq!(config.public_key(), &bytes[3..35]);
    assert_eq!(config.suites(), [AES, CHACHA]);
    assert_eq!(config.to_bytes(), bytes);
    let ours = config.hpke_config(AES.0, AES.1).unwrap();
    assert_eq!(ours.public_key(), config.public_key());
    assert_eq!(config.hpke_config(HpkeKdfId::HKDF_SHA512, AES.1), None);
    assert_eq!(config.hpke_config(AES.0, HpkeAeadId::AES_256_GCM), None);

    let list = [&[0, 45], &bytes[..]].concat();
    assert_eq!(decode_key_list(&list), Ok(vec![config]));
}

#[test]
fn the_published_request() {
    let bytes = hex::decode(REQUEST).unwrap();
    let request = EncapsulatedRequest::parse(&bytes).unwrap();
    assert_eq!((request.key_id.value(), request.kem), (1, KEM));
    assert_eq!((request.kdf, request.aead), AES);
    assert_eq!(request.rest, &bytes[7..]);
    assert_eq!(request.header(), bytes[..7]);
    assert_eq!(request_info(&request.header()), hex::decode(INFO).unwrap());
    assert_eq!(request_header(&config(1, 2)), request.header());
    // `GET https://example.com/` has 25 bytes.
    assert_eq!(bytes.len(), request_overhead(&config(1, 2)) + 25);
    assert_eq!(request_info(&[0; 7]), [REQUEST_LABEL.as_bytes(), &[0; 8]].concat());
}

#[test]
fn a_request_without_a_header_is_refused() {
    let bytes = hex::decode(REQUEST).unwrap();
    for len in 0..7 {
        assert_eq!(EncapsulatedRequest::parse(&bytes[..len]), Err(DecodeError::UnexpectedEnd));
    }
    assert!(EncapsulatedRequest::parse(&bytes[..7]).unwrap().rest.is_empty());
}

#[test]
fn lists_come_back() {
    let configs = [config(1, 2), config(255, 7), config(0, 0)];
    let list = encode_key_list(&configs).unwrap();
    let decoded = decode_key_list(&list).unwrap();
    assert_eq!(decoded.len(), 3);
    for (config, decoded) in configs.iter().zip(&decoded) {
        assert_eq!(decoded.hpke_config(AES.0, AES.1).as_ref(), Some(config));
    }
    assert_eq!(decode_key_list(b""), Ok(Vec::new()));
    let accepted: Vec<_> =
        (0..=list.len()).filter(|len| decode_key_list(&list[..*len]).is_ok()).collect();
    assert_eq!(accepted, [0, 43, 86, 129]);
}

#[test]
fn an_error_anywhere_spoils_the_list() {
    let good = encode_key_list(&[config(1, 2)]).unwrap();
    assert!(decode_key_list(&good).is_ok());
    let patched = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        bad
    };
    for (why, bad) in [
        ("a length past the end", patched(0, &[0, 42])),
        ("a length before the end", patched(0, &[0, 40])),
        ("no suites", [&[0, 37], &good[2..37], &[0, 0]].concat()),
        ("half a suite", [&[0, 39], &good[2..37], &[0, 2, 0, 1]].concat()),
        ("a suite past the end", patched(37, &[0, 8])),
        ("bytes behind the suites", [&[0, 42], &good[2..], &[0]].concat()),
        ("a short key", [&[0, 40], &good[2..36], &good[37..]].concat()),
        ("nothing", vec![0, 0]),
        ("an id alone", vec![0, 1, 1]),
        ("half a mechanism", vec![0, 2, 1, 0]),
        ("a key of another mechanism's length", patched(3, &[0, 0x10])),
    ] {
        assert!(decode_key_list(&bad).is_err(), "{why}");
        assert!(decode_key_list(&[&good[..], &bad].concat()).is_err(), "{why}, behind a good one");
        assert!(decode_key_list(&[&bad[..], &good].concat()).is_err(), "{why}, before a good one");
    }
}

#[test]
fn keys_of_unknown_mechanisms_are_passed_over() {
    let good = encode_key_list(&[config(1, 2)]).unwrap();
    let unknown = [0, 5, 9, 0x12, 0x34, 1, 2];
    let list = [&unknown[..], &good, &unknown].concat();
    assert_eq!(decode_key_list(&list), decode_key_list(&good));
    let alone = KeyConfig::from_bytes(&unknown[2..]);
    assert_eq!(alone, Err(DecodeError::Malformed("KEM")));
}

#[test]
fn keys_that_have_no_encoding() {
    let id = HpkeConfigId::new(1);
    let length = |field| Err(BoundsError::Length(field));
    assert_eq!(KeyConfig::new(id, KEM, vec![0; 31], vec![AES]), length("public key"));
    let unknown = HpkeKemId::new(0x1234);
    assert_eq!(KeyConfig::new(id, unknown, vec![0; 32], vec![AES]), length("public key"));
    assert_eq!(KeyConfig::new(id, KEM, vec![0; 32], vec![]), length("symmetric algorithms"));
    let suites = |count| KeyConfig::new(id, KEM, vec![0; 32], vec![AES; count]);
    assert_eq!(suites(0x4000), length("symmetric algorithms"));
    let most = suites(0x3fff).unwrap();
    assert_eq!(KeyConfig::from_bytes(&most.to_bytes()), Ok(most.clone()));
    let short = HpkeConfig::new(id, KEM, AES.0, AES.1, vec![0; 31]).unwrap();
    assert_eq!(encode_key_list(&[short]), Err(BoundsError::Length("public key")));
}

#[test]
fn public_keys_of_every_known_mechanism() {
    for (kem, len) in [(0x10, 65), (0x11, 97), (0x12, 133), (0x20, 32), (0x21, 56)] {
        let config =
            KeyConfig::new(HpkeConfigId::new(1), HpkeKemId::new(kem), vec![4; len], vec![AES]);
        let bytes = config.as_ref().unwrap().to_bytes();
        assert_eq!(bytes.len(), 9 + len);
        assert_eq!(KeyConfig::from_bytes(&bytes), Ok(config.unwrap()));
    }
    assert!((decoder("ohttp_keys").unwrap().decode)(&[0, 3, 0, 0xff, 0xff]));
}

fn config(id: u8, key: u8) -> HpkeConfig {
    HpkeConfig::new(HpkeConfigId::new(id), KEM, AES.0, AES.1, vec![key; 32]).unwrap()
}
