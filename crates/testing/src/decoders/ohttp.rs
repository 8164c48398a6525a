//! Decoders of Oblivious HTTP. A binary HTTP message has many encodings, so it must survive a round
//! trip through ours.

use sotto_wire::bhttp::{Request, Response};
use sotto_wire::ohttp::{EncapsulatedRequest, KeyConfig, decode_key_list};
use sotto_wire::{Decode, Encode};

pub(super) fn bhttp_request(bytes: &[u8]) -> bool {
    let Ok(request) = Request::decode(bytes) else { return false };
    let mut encoded = Vec::with_capacity(request.encoded_len());
    request.encode(&mut encoded);
    assert!(encoded.len() == request.encoded_len(), "request has another length");
    assert!(Request::decode(&encoded).as_ref() == Ok(&request), "request is not stable");
    true
}

pub(super) fn bhttp_response(bytes: &[u8]) -> bool {
    let Ok(response) = Response::decode(bytes) else { return false };
    let mut encoded = Vec::with_capacity(response.encoded_len());
    response.encode(&mut encoded);
    assert!(encoded.len() == response.encoded_len(), "response has another length");
    assert!(Response::decode(&encoded).as_ref() == Ok(&response), "response is not stable");
    true
}

pub(super) fn ohttp_request(bytes: &[u8]) -> bool {
    let Ok(request) = EncapsulatedRequest::parse(bytes) else { return false };
    assert!([&request.header(), request.rest].concat() == bytes, "request is not canonical");
    true
}

/// Keys of unknown mechanisms are dropped; the encoding of each kept key must occur in the list.
pub(super) fn ohttp_keys(bytes: &[u8]) -> bool {
    let Ok(configs) = decode_key_list(bytes) else { return false };
    let mut encoded = Vec::new();
    for config in &configs {
        let one = config.to_bytes();
        assert!(one.len() == config.encoded_len(), "key has another length");
        assert!(KeyConfig::from_bytes(&one).as_ref() == Ok(config), "key is not canonical");
        put_opaque_u16(&mut encoded, &one);
    }
    assert!(encoded.len() <= bytes.len(), "keys were added");
    assert!(encoded.len() < bytes.len() || encoded == bytes, "list is not canonical");
    true
}

/// Appends `opaque<0..2^16-1>`.
pub(super) fn put_opaque_u16(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}
