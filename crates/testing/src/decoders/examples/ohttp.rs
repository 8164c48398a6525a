//! Valid binary HTTP messages, encapsulated requests and lists of keys.

use std::borrow::Cow;

use crate::decoders::ohttp::put_opaque_u16;
use sotto_wire::bhttp::{Field, Informational, Request, Response};
use sotto_wire::ohttp::{KeyConfig, encode_key_list, request_header};
use sotto_wire::{BoundsError, Encode, HpkeAeadId, HpkeConfigId, HpkeKdfId, HpkeKemId};

/// A request of indeterminate length with a field, content in two pieces, a trailer and padding.
const INDETERMINATE_REQUEST: &[u8] =
    b"\x02\x04POST\x04http\x09l.example\x02/x\x04date\x011\0\x03abc\x02de\0\x01t\x00\0\0\0\0";

/// A response of indeterminate length with an informational response before it, and nothing after
/// its status.
const INDETERMINATE_RESPONSE: &[u8] = b"\x03\x40\x67\x04link\x03</>\0\x40\xc8";

/// Valid encodings for the decoder `name`, if it is one of these formats.
pub(super) fn seeds(name: &str) -> Option<Vec<Vec<u8>>> {
    match name {
        "bhttp_request" => Some(requests()),
        "bhttp_response" => Some(responses()),
        "ohttp_request" => Some(encapsulated().unwrap_or_default()),
        "ohttp_keys" => Some(keys().unwrap_or_default()),
        _ => None,
    }
}

fn requests() -> Vec<Vec<u8>> {
    let get = Request {
        method: "GET",
        scheme: "https",
        authority: "log.example",
        path: "/tile/0/000?q",
        fields: Vec::new(),
        content: Cow::default(),
        trailers: Vec::new(),
    };
    let post = Request {
        method: "POST",
        fields: vec![field("date", b"Mon, 27 Jul 2009 12:20:00 GMT"), field("a-b", b"")],
        content: Cow::Borrowed(&[7; 70]),
        trailers: vec![field("t", b"1")],
        ..get.clone()
    };
    let padded = [get.to_padded(80), post.to_padded(post.encoded_len())];
    padded.into_iter().flatten().chain([INDETERMINATE_REQUEST.to_vec()]).collect()
}

fn responses() -> Vec<Vec<u8>> {
    let hint = Informational { status: 103, fields: vec![field("link", b"</a>")] };
    let response = Response {
        informational: vec![Informational { status: 102, fields: Vec::new() }, hint],
        status: 400,
        fields: vec![field("content-type", b"application/problem+json")],
        content: Cow::Borrowed(b"{}"),
        trailers: vec![field("t", b"1")],
    };
    let padded = response.to_padded(response.encoded_len() + 3);
    padded.into_iter().chain([INDETERMINATE_RESPONSE.to_vec()]).collect()
}

fn field<'a>(name: &'a str, value: &'a [u8]) -> Field<'a> {
    Field { name, value }
}

fn encapsulated() -> Result<Vec<Vec<u8>>, BoundsError> {
    let header = request_header(&super::hpke_config(1)?);
    Ok(vec![[&header[..], &[2; 32], &[3; 25]].concat(), header.to_vec()])
}

fn keys() -> Result<Vec<Vec<u8>>, BoundsError> {
    let hybrid = crate::x_wing::config(vec![6; 1216]);
    let three = encode_key_list(&[hybrid, super::hpke_config(1)?, super::hpke_config(9)?])?;
    // A second suite, and a key of an unknown mechanism.
    let aes = (HpkeKdfId::HKDF_SHA256, HpkeAeadId::AES_128_GCM);
    let chacha = (HpkeKdfId::HKDF_SHA256, HpkeAeadId::CHACHA20_POLY1305);
    let (id, kem) = (HpkeConfigId::new(1), HpkeKemId::X25519_HKDF_SHA256);
    let config = KeyConfig::new(id, kem, vec![5; 32], vec![aes, chacha])?;
    let mut mixed = Vec::new();
    put_opaque_u16(&mut mixed, &config.to_bytes());
    put_opaque_u16(&mut mixed, &[1, 0xff, 0xff, 1, 2, 3]);
    Ok(vec![three, mixed, Vec::new()])
}
