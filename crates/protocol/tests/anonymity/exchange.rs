//! Exchanges between our device and our gateway, and what the gateway refuses to open.

use sotto_crypto::HpkeKeypair;
use sotto_protocol::Moment;
use sotto_protocol::gateway::{GatewayKeyring, OuterRefusal, consume_request};
use sotto_protocol::http_date::imf_fixdate;
use sotto_protocol::oblivious::{InnerRequest, ObliviousError, produce_request};
use sotto_wire::ohttp::{DATE_PROBLEM, decode_key_list};
use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeConfigId, HpkeKdfId, HpkeKemId};

use crate::anonymity::parties::{Gateway, KEY_IDS, NOON, UPLOAD, success};

#[test]
fn the_target_gets_the_request_and_the_device_its_answer() {
    let mut gateway = Gateway::new(1);
    let now = Moment(NOON.0 + 599);
    let (body, awaited) = gateway.produce(&UPLOAD, now);
    let opened = gateway.open(&body);
    let request = opened.decode().unwrap();
    gateway.window.admit(&opened, &request, now).unwrap();
    assert_eq!((request.method, request.scheme), ("POST", "https"));
    assert_eq!((request.authority, request.path), ("leader.example", "/dap/tasks/a/reports"));
    assert_eq!(request.content.as_ref(), b"a report");
    // The rounded date, the caller's fields, and nothing else.
    let fields: Vec<_> = request.fields.iter().map(|field| (field.name, field.value)).collect();
    let date = imf_fixdate(NOON);
    assert_eq!(
        fields,
        [
            ("date", date.as_bytes()),
            ("content-type", b"application/ppm-dap;message=upload-req".as_slice()),
        ]
    );
    assert!(request.trailers.is_empty());
    let (_, responder) = opened.into_parts();
    let answer = responder.respond(&success(b"stored"), &mut gateway.rng).unwrap();
    let response = awaited.consume_response(&answer).unwrap();
    assert_eq!((response.status, response.content.as_slice()), (200, b"stored".as_slice()));
    assert_eq!(response.fields, [("content-type".to_owned(), "text/plain".to_owned())]);
}

/// Nothing links two requests, not even equal ones made at the same moment.
#[test]
fn equal_requests_share_no_byte_but_the_header() {
    let mut gateway = Gateway::new(3);
    let (first, _) = gateway.produce(&UPLOAD, NOON);
    let (second, _) = gateway.produce(&UPLOAD, NOON);
    assert_eq!(first[..7], second[..7]);
    let equal = first[7..].iter().zip(&second[7..]).filter(|(a, b)| a == b).count();
    // 4,089 places agree by chance 16 times on average; 60 or more with a probability below 1e-15.
    assert!(equal < 60, "{equal} equal bytes");
}

#[test]
fn an_answer_belongs_to_one_request() {
    let mut gateway = Gateway::new(4);
    let (first, first_awaited) = gateway.produce(&UPLOAD, NOON);
    let (second, second_awaited) = gateway.produce(&UPLOAD, NOON);
    let mut to_first = gateway.answer(&first, b"one", NOON);
    let to_second = gateway.answer(&second, b"two", NOON);
    assert_eq!(second_awaited.consume_response(&to_first), Err(ObliviousError::Sealed));
    drop(to_second);
    to_first[100] ^= 1;
    assert_eq!(first_awaited.consume_response(&to_first), Err(ObliviousError::Sealed));
}

#[test]
fn answers_that_are_none_are_refused() {
    let mut gateway = Gateway::new(5);
    for answer in [&b""[..], b"an error page", &[0; 32], &[0; 4096]] {
        let (_, awaited) = gateway.produce(&UPLOAD, NOON);
        assert_eq!(awaited.consume_response(answer), Err(ObliviousError::Sealed));
    }
}

#[test]
fn every_live_key_opens_and_others_do_not() {
    let mut gateway = Gateway::new(6);
    let configs = gateway.keys.configs();
    assert_eq!(configs.iter().map(|config| config.id().value()).collect::<Vec<_>>(), KEY_IDS);
    for config in &configs {
        let (body, _) = produce_request(&UPLOAD, config, NOON, &mut gateway.rng).unwrap();
        assert_eq!(gateway.admit(&body, NOON), Ok(()));
    }
    // A key that is gone, and a key that took its id.
    let gone = HpkeKeypair::generate(HpkeConfigId::new(9), &mut gateway.rng);
    let (body, _) = produce_request(&UPLOAD, gone.config(), NOON, &mut gateway.rng).unwrap();
    assert_eq!(consume_request(&gateway.keys, &body).unwrap_err(), OuterRefusal::UnknownKey);
    let other = HpkeKeypair::generate(HpkeConfigId::new(KEY_IDS[0]), &mut gateway.rng);
    let (body, _) = produce_request(&UPLOAD, other.config(), NOON, &mut gateway.rng).unwrap();
    assert_eq!(consume_request(&gateway.keys, &body).unwrap_err(), OuterRefusal::Malformed);
}

#[test]
fn other_suites_are_unknown_keys() {
    let mut gateway = Gateway::new(7);
    let (body, _) = gateway.produce(&UPLOAD, NOON);
    for at in [2, 4, 6] {
        let mut other = body.clone();
        other[at] ^= 0x40;
        assert_eq!(consume_request(&gateway.keys, &other).unwrap_err(), OuterRefusal::UnknownKey);
    }
}

#[test]
fn garbage_truncated_and_changed_requests_do_not_open_and_are_not_remembered() {
    let mut gateway = Gateway::new(8);
    let (body, _) = gateway.produce(&UPLOAD, NOON);
    for len in (0..80).chain([4095]) {
        let refusal = consume_request(&gateway.keys, &body[..len]).unwrap_err();
        assert_eq!(refusal, OuterRefusal::Malformed, "{len} bytes");
    }
    for at in [7, 38, 39, 2_000, 4_095] {
        let mut other = body.clone();
        other[at] ^= 0x80;
        let refusal = consume_request(&gateway.keys, &other).unwrap_err();
        assert_eq!(refusal, OuterRefusal::Malformed, "byte {at}");
    }
    let mut longer = body.clone();
    longer.push(0);
    assert_eq!(consume_request(&gateway.keys, &longer).unwrap_err(), OuterRefusal::Malformed);
    assert!(gateway.window.is_empty());
    assert_eq!(gateway.admit(&body, NOON), Ok(()));
}

#[test]
fn what_is_no_request_is_refused_inside() {
    let mut gateway = Gateway::new(9);
    for message in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", &[1, 0x40, 0xc8], &[0xff; 64]] {
        let (body, opener) = gateway.sealed(message);
        let answer = gateway.answer(&body, b"", NOON);
        let opened = opener.open(&answer).unwrap();
        let response = sotto_wire::bhttp::Response::decode(&opened).unwrap();
        assert_eq!(response.status, 400);
        assert_eq!(response.field("content-type"), Some(b"application/problem+json".as_slice()));
    }
    assert!(gateway.window.is_empty());
}

#[test]
fn refusals_say_why_inside() {
    let mut gateway = Gateway::new(10);
    let refused = |gateway: &mut Gateway, made: Moment, now: Moment| {
        let (body, awaited) = gateway.produce(&UPLOAD, made);
        awaited.consume_response(&gateway.answer(&body, b"", now)).unwrap()
    };
    let response = refused(&mut gateway, Moment(0), NOON);
    assert_eq!(response.status, 400);
    let text = String::from_utf8(response.content).unwrap();
    assert!(text.contains(DATE_PROBLEM), "{text}");

    let mut full = Gateway::remembering(0, 11);
    let response = refused(&mut full, NOON, NOON);
    assert_eq!(response.status, 503);
}

#[test]
fn a_ring_has_keys_with_ids_of_their_own() {
    let mut gateway = Gateway::new(12);
    assert!(GatewayKeyring::new(&[]).is_err());
    let same = [1, 2, 1].map(|id| HpkeKeypair::generate(HpkeConfigId::new(id), &mut gateway.rng));
    assert!(GatewayKeyring::new(&same).is_err());
    let listed: Vec<_> = decode_key_list(&gateway.keys.key_list())
        .unwrap()
        .iter()
        .map(|key| key.hpke_config(HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM).unwrap())
        .collect();
    assert_eq!(listed, gateway.keys.configs());
}

#[test]
fn a_device_makes_no_request_that_could_point_at_it() {
    let mut gateway = Gateway::new(13);
    let config = gateway.config();
    for (request, expected) in [
        (InnerRequest { url: "/reports", ..UPLOAD }, ObliviousError::InvalidUrl),
        (InnerRequest { url: "https://me@leader.example/", ..UPLOAD }, ObliviousError::InvalidUrl),
        (InnerRequest { fields: &[("Date", "now")], ..UPLOAD }, ObliviousError::DateGiven),
    ] {
        let refused = produce_request(&request, &config, NOON, &mut gateway.rng);
        assert_eq!(refused.unwrap_err(), expected);
    }
    let other = HpkeConfig::new(
        config.id(),
        HpkeKemId::P256_HKDF_SHA256,
        config.kdf_id(),
        config.aead_id(),
        config.public_key().to_vec(),
    );
    let refused = produce_request(&UPLOAD, &other.unwrap(), NOON, &mut gateway.rng);
    assert!(matches!(refused, Err(ObliviousError::Key(_))));
}

#[test]
fn names_of_fields_go_out_in_lower_case() {
    let mut gateway = Gateway::new(14);
    let request = InnerRequest { fields: &[("DAP-Taskprov", "x")], ..UPLOAD };
    let (body, _) = gateway.produce(&request, NOON);
    let opened = gateway.open(&body);
    assert_eq!(opened.decode().unwrap().field("dap-taskprov"), Some(b"x".as_slice()));
}

#[test]
fn debug_shows_no_secret() {
    let mut gateway = Gateway::new(15);
    let (body, awaited) = gateway.produce(&UPLOAD, NOON);
    let opened = gateway.open(&body);
    let shown = format!("{UPLOAD:?} {awaited:?} {opened:?} {:?}", gateway.window);
    assert!(!shown.contains("report"), "{shown}");
    assert!(shown.contains("redacted"), "{shown}");
}
