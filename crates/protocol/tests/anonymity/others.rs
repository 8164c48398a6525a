//! Our gateway with another implementation's client, and their gateway with our client.

use std::io::Cursor;

use bhttp::{Message, Mode, StatusCode};
use ohttp::hpke::{Aead, Kdf, Kem};
use ohttp::{ClientRequest, KeyConfig, Server, SymmetricSuite};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_protocol::gateway::{InnerRefusal, OuterRefusal, consume_request};
use sotto_protocol::http_date::imf_fixdate;
use sotto_protocol::oblivious::{InnerRequest, produce_request};
use sotto_wire::ohttp::decode_key_list;
use sotto_wire::size_class::SizeClass;
use sotto_wire::{HpkeAeadId, HpkeConfig, HpkeKdfId};

use crate::anonymity::parties::{Gateway, NOON, UPLOAD, success};

/// Their gateway, and its key as we read it.
fn their_gateway() -> (Server, HpkeConfig) {
    let suites = vec![
        SymmetricSuite::new(Kdf::HkdfSha256, Aead::ChaCha20Poly1305),
        SymmetricSuite::new(Kdf::HkdfSha256, Aead::Aes128Gcm),
    ];
    let config = KeyConfig::derive(3, Kem::X25519Sha256, suites, &[9; 32]).unwrap();
    let list = KeyConfig::encode_list(&[Box::new(config.clone())]).unwrap();
    let keys = decode_key_list(&list).unwrap();
    let key = keys[0].hpke_config(HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM).unwrap();
    (Server::new(config).unwrap(), key)
}

fn their_upload(date: &str) -> Message {
    let mut message = Message::request(
        b"POST".to_vec(),
        b"https".to_vec(),
        b"leader.example".to_vec(),
        b"/reports?x=1".to_vec(),
    );
    message.put_header("date", date);
    message.put_header("content-type", "application/ppm-dap;message=upload-req");
    message.write_content(b"a report");
    message
}

fn written(message: &Message, mode: Mode) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write_bhttp(mode, &mut bytes).unwrap();
    bytes
}

#[test]
fn their_gateway_serves_our_device() {
    let (server, key) = their_gateway();
    let mut rng = ChaCha20Rng::seed_from_u64(71);
    for (mode, len) in
        [(Mode::KnownLength, 0), (Mode::IndeterminateLength, 100), (Mode::KnownLength, 50_000)]
    {
        let content = vec![5; len];
        let request = InnerRequest { content: &content, ..UPLOAD };
        let (body, awaited) = produce_request(&request, &key, NOON, &mut rng).unwrap();
        let (opened, responder) = server.decapsulate(&body).unwrap();
        assert_eq!(opened.len() + 55, body.len());
        let message = Message::read_bhttp(&mut Cursor::new(&opened[..])).unwrap();
        let control = message.control();
        assert_eq!(control.method(), Some(b"POST".as_slice()));
        assert_eq!(control.scheme(), Some(b"https".as_slice()));
        assert_eq!(control.authority(), Some(b"leader.example".as_slice()));
        assert_eq!(control.path(), Some(b"/dap/tasks/a/reports".as_slice()));
        assert_eq!(message.header().get(b"date"), Some(imf_fixdate(NOON).as_bytes()));
        assert_eq!(message.header().len(), 2);
        assert_eq!(message.content(), content);

        let mut answer = Message::response(StatusCode::try_from(201_u16).unwrap());
        answer.put_header("location", "/somewhere");
        answer.write_content(&content);
        let sealed = responder.encapsulate(&written(&answer, mode)).unwrap();
        let response = awaited.consume_response(&sealed).unwrap();
        assert_eq!((response.status, response.content), (201, content));
        assert_eq!(response.fields, [("location".to_owned(), "/somewhere".to_owned())]);
    }
}

#[test]
fn our_gateway_serves_their_client() {
    let mut gateway = Gateway::new(72);
    for mode in [Mode::KnownLength, Mode::IndeterminateLength] {
        let client = ClientRequest::from_encoded_config_list(&gateway.keys.key_list()).unwrap();
        let message = written(&their_upload(&imf_fixdate(NOON)), mode);
        let (body, awaited) = client.encapsulate(&message).unwrap();
        let opened = gateway.open(&body);
        let request = opened.decode().unwrap();
        gateway.window.admit(&opened, &request, NOON).unwrap();
        assert_eq!((request.method, request.scheme), ("POST", "https"));
        assert_eq!((request.authority, request.path), ("leader.example", "/reports?x=1"));
        assert_eq!(request.field("content-type"), Some(UPLOAD.fields[0].1.as_bytes()));
        assert_eq!(request.content.as_ref(), b"a report");

        let sealed = gateway.respond(&body, &success(b"stored")).unwrap();
        assert!(SizeClass::of_exact(sealed.len()).is_some());
        let answer = awaited.decapsulate(&sealed).unwrap();
        let answer = Message::read_bhttp(&mut Cursor::new(&answer[..])).unwrap();
        assert_eq!(answer.control().status().map(StatusCode::code), Some(200));
        assert_eq!(answer.header().get(b"content-type"), Some(b"text/plain".as_slice()));
        assert_eq!(answer.content(), b"stored");
        // Their bytes are remembered like ours.
        assert_eq!(gateway.admit(&body, NOON), Err(InnerRefusal::Replayed));
    }
}

#[test]
fn their_client_reads_our_refusals() {
    let mut gateway = Gateway::new(73);
    let client = ClientRequest::from_encoded_config_list(&gateway.keys.key_list()).unwrap();
    let message = written(&their_upload("yesterday"), Mode::KnownLength);
    let (body, awaited) = client.encapsulate(&message).unwrap();
    let sealed = gateway.answer(&body, b"", NOON);
    let answer = awaited.decapsulate(&sealed).unwrap();
    let answer = Message::read_bhttp(&mut Cursor::new(&answer[..])).unwrap();
    assert_eq!(answer.control().status().map(StatusCode::code), Some(400));
    assert_eq!(answer.header().get(b"content-type"), Some(b"application/problem+json".as_slice()));
}

#[test]
fn a_request_to_another_gateway_is_one_to_an_unknown_key() {
    let gateway = Gateway::new(74);
    let (server, _) = their_gateway();
    let client = ClientRequest::from_encoded_config(&server.config().encode().unwrap()).unwrap();
    let (body, _) = client.encapsulate(b"anything").unwrap();
    assert_eq!(consume_request(&gateway.keys, &body).unwrap_err(), OuterRefusal::UnknownKey);
}
