//! Binary HTTP messages (RFC 9292): the content of encapsulated requests and responses.
//!
//! Messages of both framings are decoded; only those of known length are encoded. Lengths, names,
//! values and control data are checked as RFC 9292 and HTTP/2 require: a message that two parsers
//! read differently could reach a resource that the first parser would have blocked. The meaning of
//! a request is left to others.
//!
//! One message has many encodings (integers of several widths, two framings, omitted sections,
//! padding), so these types do not implement the traits for canonical messages.

mod decode;
mod varint;

use std::borrow::Cow;
use std::fmt;

use varint::{opaque_len, put_opaque, put_varint};

use crate::codec::{Sink, length};

/// The framing indicators of messages of known length.
const KNOWN_REQUEST: u64 = 0;
const KNOWN_RESPONSE: u64 = 1;

/// One field of a header or trailer section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, in lower case.
    pub name: &'a str,
    /// The value: no line breaks, and no space at either end.
    pub value: &'a [u8],
}

/// A request.
///
/// Encoding does not check the parts: parts that break the rules give bytes that
/// [`Request::decode`] rejects.
#[derive(Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a str,
    /// The scheme of the URL.
    pub scheme: &'a str,
    /// The host and port of the URL; empty if a `host` field names them.
    pub authority: &'a str,
    /// The path and query of the URL.
    pub path: &'a str,
    /// The header fields.
    pub fields: Vec<Field<'a>>,
    /// The content.
    pub content: Cow<'a, [u8]>,
    /// The fields after the content.
    pub trailers: Vec<Field<'a>>,
}

/// A response. As with [`Request`], encoding does not check the parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Response<'a> {
    /// The informational responses before the response itself.
    pub informational: Vec<Informational<'a>>,
    /// The status code, from 200 to 599.
    pub status: u16,
    /// The header fields.
    pub fields: Vec<Field<'a>>,
    /// The content.
    pub content: Cow<'a, [u8]>,
    /// The fields after the content.
    pub trailers: Vec<Field<'a>>,
}

/// An informational response.
#[derive(Clone, PartialEq, Eq)]
pub struct Informational<'a> {
    /// The status code, from 100 to 199.
    pub status: u16,
    /// The header fields.
    pub fields: Vec<Field<'a>>,
}

impl Request<'_> {
    /// The value of the first field with this name, which must be in lower case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        first(&self.fields, name)
    }

    /// Appends the encoding, with known length and without padding.
    pub fn encode(&self, out: &mut impl Sink) {
        put_varint(out, KNOWN_REQUEST);
        for part in self.control() {
            put_opaque(out, part.as_bytes());
        }
        put_fields(out, &self.fields);
        put_opaque(out, &self.content);
        put_fields(out, &self.trailers);
    }

    /// The exact number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        length(|out| self.encode(out))
    }

    /// The encoding, padded with zeros to `len` bytes; `None` if it is longer than that.
    pub fn to_padded(&self, len: usize) -> Option<Vec<u8>> {
        padded(len, self.encoded_len(), |out| self.encode(out))
    }

    fn control(&self) -> [&str; 4] {
        [self.method, self.scheme, self.authority, self.path]
    }
}

impl Response<'_> {
    /// The value of the first field with this name, which must be in lower case.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        first(&self.fields, name)
    }

    /// Appends the encoding, with known length and without padding.
    pub fn encode(&self, out: &mut impl Sink) {
        put_varint(out, KNOWN_RESPONSE);
        for informational in &self.informational {
            put_varint(out, u64::from(informational.status));
            put_fields(out, &informational.fields);
        }
        put_varint(out, u64::from(self.status));
        put_fields(out, &self.fields);
        put_opaque(out, &self.content);
        put_fields(out, &self.trailers);
    }

    /// The exact number of bytes that [`encode`](Self::encode) appends.
    pub fn encoded_len(&self) -> usize {
        length(|out| self.encode(out))
    }

    /// The encoding, padded with zeros to `len` bytes; `None` if it is longer than that.
    pub fn to_padded(&self, len: usize) -> Option<Vec<u8>> {
        padded(len, self.encoded_len(), |out| self.encode(out))
    }
}

fn first<'a>(fields: &[Field<'a>], name: &str) -> Option<&'a [u8]> {
    fields.iter().find(|field| field.name == name).map(|field| field.value)
}

fn padded(len: usize, encoded_len: usize, encode: impl FnOnce(&mut Vec<u8>)) -> Option<Vec<u8>> {
    if encoded_len > len {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    encode(&mut out);
    out.resize(len, 0);
    Some(out)
}

fn put_fields(out: &mut impl Sink, fields: &[Field<'_>]) {
    put_varint(out, fields_len(fields) as u64);
    for field in fields {
        put_opaque(out, field.name.as_bytes());
        put_opaque(out, field.value);
    }
}

/// The length of a section, without its length prefix.
fn fields_len(fields: &[Field<'_>]) -> usize {
    fields.iter().map(|field| opaque_len(field.name.len()) + opaque_len(field.value.len())).sum()
}

/// Shows only names: a path, a value or the content may reveal whom a request is about.
impl fmt::Debug for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes", self.name, self.value.len())
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("fields", &self.fields)
            .field("content_len", &self.content.len())
            .field("trailers", &self.trailers)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("informational", &self.informational)
            .field("status", &self.status)
            .field("fields", &self.fields)
            .field("content_len", &self.content.len())
            .field("trailers", &self.trailers)
            .finish()
    }
}

impl fmt::Debug for Informational<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informational")
            .field("status", &self.status)
            .field("fields", &self.fields)
            .finish()
    }
}
