//! Binary HTTP: the examples of RFC 9292, agreement with the crate `bhttp` in both directions, and
//! what must be rejected.

mod agreement;
mod published;

use std::borrow::Cow;

use published::{bytes, field};
use sotto_wire::bhttp::{Field, Informational, Request, Response};
use sotto_wire::limits::{MAX_BHTTP_FIELDS, MAX_BHTTP_INFORMATIONAL};
use sotto_wire::{BoundsError, DecodeError};

#[test]
fn the_published_requests() {
    let request = published::request();
    let known = bytes(published::KNOWN_REQUEST);
    assert_eq!(encoded(&request), known);
    // The content and the trailers, both empty, may be cut off, each alone and with all padding.
    for len in known.len() - 2..=known.len() {
        assert_eq!(Request::decode(&known[..len]), Ok(request.clone()));
    }
    let indeterminate = bytes(published::INDETERMINATE_REQUEST);
    for len in indeterminate.len() - 12..=indeterminate.len() {
        assert_eq!(Request::decode(&indeterminate[..len]), Ok(request.clone()));
    }
    for message in [&known[..known.len() - 2], &indeterminate[..indeterminate.len() - 12]] {
        let shortest = accepted(message, |bytes| Request::decode(bytes).is_ok());
        assert_eq!(shortest.last(), Some(&message.len()));
        // The only other position is after the control data, before the fields.
        assert_eq!(shortest, [23, message.len()]);
    }
    assert_eq!(request.field("host"), Some(&b"www.example.com"[..]));
    assert_eq!(request.field("Host"), None);
}

#[test]
fn the_published_responses() {
    let response = published::response();
    let indeterminate = bytes(published::INDETERMINATE_RESPONSE);
    assert_eq!(Response::decode(&indeterminate), Ok(response.clone()));
    assert_eq!(Response::decode(&encoded_response(&response)), Ok(response));

    let chunked = published::chunked_response();
    let known = bytes(published::KNOWN_RESPONSE);
    assert_eq!(encoded_response(&chunked), known);
    assert_eq!(Response::decode(&known), Ok(chunked));
}

#[test]
fn content_in_pieces() {
    let pieces =
        b"\x03\x40\xc8\0\x04This\x06 conte\x13nt contains CRLF.\r\n\0\x07trailer\x04text\0";
    let response = Response::decode(pieces).unwrap();
    assert_eq!(response, published::chunked_response());
    assert!(matches!(response.content, Cow::Owned(_)));
    let whole = Response::decode(b"\x03\x40\xc8\0\x04This\0").unwrap();
    assert!(matches!(whole.content, Cow::Borrowed(b"This")));
    // Memory is allocated once, for all chunks.
    let many = [&b"\x03\x40\xc8\0"[..], &b"\x01x".repeat(1_000), b"\0"].concat();
    let Cow::Owned(content) = Response::decode(&many).unwrap().content else {
        unreachable!("a thousand pieces are not one");
    };
    assert_eq!((content.len(), content.capacity()), (1_000, 1_000));
    // The end marker of the chunks is part of the message.
    assert_eq!(Response::decode(b"\x03\x40\xc8\0\x04This"), Err(DecodeError::UnexpectedEnd));
}

#[test]
fn padding_is_zeros_to_the_last_byte() {
    let request = published::request();
    let len = request.encoded_len();
    assert_eq!(request.to_padded(len - 1), None);
    for more in [0, 1, 63, 5_000] {
        let mut padded = request.to_padded(len + more).unwrap();
        assert_eq!(padded.len(), len + more);
        assert_eq!(Request::decode(&padded), Ok(request.clone()));
        for at in [len, len + more / 2, len + more - more.min(1)] {
            if at >= padded.len() {
                continue;
            }
            padded[at] = 1;
            assert_eq!(Request::decode(&padded), Err(DecodeError::TrailingBytes), "{more} {at}");
            padded[at] = 0;
        }
    }
    let response = published::response();
    let padded = response.to_padded(4096 - 32).unwrap();
    assert_eq!(padded.len(), 4064);
    assert_eq!(Response::decode(&padded), Ok(response));
}

#[test]
fn integers_that_are_longer_than_they_must_be() {
    let wide = b"\x80\0\0\0\x40\x03GET\xc0\0\0\0\0\0\0\x05https\0\x01/\x40\0\x40\0\x40\0";
    let request = Request::decode(wide).unwrap();
    assert_eq!((request.method, request.scheme, request.path), ("GET", "https", "/"));
}

#[test]
fn the_other_kind_and_unknown_framings_are_refused() {
    let request = encoded(&published::request());
    let response = encoded_response(&published::response());
    assert_eq!(Response::decode(&request), Err(DecodeError::Malformed("framing indicator")));
    assert_eq!(Request::decode(&response), Err(DecodeError::Malformed("framing indicator")));
    for framing in [4, 0x3f] {
        let other = [&[framing], &request[1..]].concat();
        assert_eq!(Request::decode(&other), Err(DecodeError::Malformed("framing indicator")));
    }
    assert_eq!(Request::decode(b""), Err(DecodeError::UnexpectedEnd));
}

#[test]
fn control_data_that_is_refused() {
    let good = published::request();
    let bad = |part, request: Request<'_>| {
        let message = encoded(&request);
        assert_eq!(Request::decode(&message), Err(DecodeError::Malformed(part)), "{part}");
    };
    for method in ["", "GE T", "GET\r\n", "G\u{e9}T", "GET:"] {
        bad("method", Request { method, ..good.clone() });
    }
    for scheme in ["", "1http", "ht tp", "https:", "h\0"] {
        bad("scheme", Request { scheme, ..good.clone() });
    }
    for authority in ["user@host", "a b", "a/b", "a?b", "a#b", "a\\b", "a\r\nx: y", "\u{e9}"] {
        bad("authority", Request { authority, ..good.clone() });
    }
    for path in ["", "x", "/a b", "/a\r\n", "/a#b", "/\u{e9}", "**", "https://a/b"] {
        bad("path", Request { path, ..good.clone() });
    }
    for (path, authority) in [("*", "[2001:db8::1]:443"), ("/a?b=c%20d", "a.example:80")] {
        let request = Request { path, authority, ..good.clone() };
        assert_eq!(Request::decode(&encoded(&request)), Ok(request.clone()));
    }
    let no_text = b"\0\x03G\xffT\x05https\0\x01/";
    assert_eq!(Request::decode(no_text), Err(DecodeError::Malformed("method")));
}

#[test]
fn fields_that_are_refused() {
    let good = published::request();
    for name in ["", "Date", "a b", "a:", ":path", ":x", "a\n", "\u{e9}", "a(b"] {
        let fields = vec![Field { name, value: b"1" }];
        for message in [
            Request { fields: fields.clone(), ..good.clone() },
            Request { trailers: fields.clone(), ..good.clone() },
        ] {
            let decoded = Request::decode(&encoded(&message)).map(|_| ());
            assert_eq!(decoded, Err(DecodeError::Malformed("field name")), "{name}");
        }
    }
    for value in [&b" a"[..], b"a ", b"\ta", b"a\t", b" ", b"a\rb", b"a\nb", b"a\0b", b"\n"] {
        let message = Request { fields: vec![Field { name: "a", value }], ..good.clone() };
        let decoded = Request::decode(&encoded(&message)).map(|_| ());
        assert_eq!(decoded, Err(DecodeError::Malformed("field value")), "{value:?}");
    }
    // Bytes above ASCII, and empty values, are allowed.
    let odd = vec![field("a", ""), Field { name: "b", value: b"\xff \x80" }, field("b", "2")];
    let message = Request { fields: odd.clone(), ..good };
    let encoded = encoded(&message);
    let decoded = Request::decode(&encoded).unwrap();
    assert_eq!(decoded.fields, odd);
    assert_eq!(decoded.field("b"), Some(&b"\xff \x80"[..]));
}

#[test]
fn status_codes() {
    let good = published::chunked_response();
    for status in [200, 204, 404, 599] {
        let response = Response { status, ..good.clone() };
        assert_eq!(Response::decode(&encoded_response(&response)), Ok(response.clone()));
    }
    for status in [0, 99, 600, 0xffff] {
        let response = Response { status, ..good.clone() };
        let decoded = Response::decode(&encoded_response(&response)).map(|_| ());
        assert_eq!(decoded, Err(DecodeError::Malformed("status")), "{status}");
    }
    // An informational response cannot be the last one.
    for message in [&b"\x01\x40\x64"[..], b"\x01\x40\x64\0", b"\x03\x40\x64\0"] {
        assert_eq!(Response::decode(message), Err(DecodeError::UnexpectedEnd));
    }
}

#[test]
fn too_many_parts_are_refused() {
    let good = published::request();
    let request = |fields: usize, trailers: usize| Request {
        fields: vec![field("a", ""); fields],
        trailers: vec![field("t", ""); trailers],
        ..good.clone()
    };
    let most = encoded(&request(MAX_BHTTP_FIELDS - 3, 3));
    assert!(Request::decode(&most).is_ok());
    let more = encoded(&request(MAX_BHTTP_FIELDS - 3, 4));
    let error = DecodeError::Bounds(BoundsError::Length("field sections"));
    assert_eq!(Request::decode(&more), Err(error));

    let one = Informational { status: 103, fields: Vec::new() };
    let response = |count: usize| {
        let informational = vec![one.clone(); count];
        encoded_response(&Response { informational, ..published::chunked_response() })
    };
    assert!(Response::decode(&response(MAX_BHTTP_INFORMATIONAL)).is_ok());
    let error = DecodeError::Bounds(BoundsError::Length("informational responses"));
    assert_eq!(Response::decode(&response(MAX_BHTTP_INFORMATIONAL + 1)), Err(error));
}

#[test]
fn debug_shows_no_content() {
    let shown = format!("{:?} {:?}", published::request(), published::chunked_response());
    for secret in ["hello", "curl", "example", "content contains"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert!(shown.contains("user-agent: 52 bytes"), "{shown}");
}

/// Where a message may be cut.
fn accepted(message: &[u8], decodes: impl Fn(&[u8]) -> bool) -> Vec<usize> {
    (0..=message.len()).filter(|len| decodes(&message[..*len])).collect()
}

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.encode(&mut out);
    assert_eq!(out.len(), request.encoded_len());
    out
}

fn encoded_response(response: &Response<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    response.encode(&mut out);
    assert_eq!(out.len(), response.encoded_len());
    out
}
