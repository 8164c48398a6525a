//! Decodes messages of both framings (RFC 9292 §3).

use std::borrow::Cow;

use super::varint::{opaque, varint};
use super::{Field, Informational, KNOWN_REQUEST, KNOWN_RESPONSE, Request, Response};
use crate::codec::{BoundsError, DecodeError, Reader};
use crate::limits::{MAX_BHTTP_FIELDS, MAX_BHTTP_INFORMATIONAL};

/// The framing indicators of messages whose sections end with a zero instead of having a length
/// prefix.
const INDETERMINATE_REQUEST: u64 = 2;
const INDETERMINATE_RESPONSE: u64 = 3;

impl<'a> Request<'a> {
    /// Reads a request that, with its padding, fills `bytes`.
    ///
    /// Borrows everything, except content that came in several chunks.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut message = Message::new(bytes, KNOWN_REQUEST, INDETERMINATE_REQUEST)?;
        let method = message.control("method", is_token)?;
        let scheme = message.control("scheme", is_scheme)?;
        let authority = message.control("authority", is_authority)?;
        let path = message.control("path", is_path)?;
        let fields = message.fields()?;
        let content = message.content()?;
        let trailers = message.fields()?;
        message.padding()?;
        Ok(Self { method, scheme, authority, path, fields, content, trailers })
    }
}

impl<'a> Response<'a> {
    /// Reads a response that, with its padding, fills `bytes`.
    ///
    /// Borrows everything, except content that came in several chunks.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut message = Message::new(bytes, KNOWN_RESPONSE, INDETERMINATE_RESPONSE)?;
        let mut informational = Vec::new();
        let status = loop {
            match varint(&mut message.reader)? {
                status @ 100..200 => {
                    if informational.len() == MAX_BHTTP_INFORMATIONAL {
                        return Err(BoundsError::Length("informational responses").into());
                    }
                    let fields = message.fields()?;
                    informational.push(Informational { status: status as u16, fields });
                }
                status @ 200..600 => break status as u16,
                _ => return Err(DecodeError::Malformed("status")),
            }
        };
        let fields = message.fields()?;
        let content = message.content()?;
        let trailers = message.fields()?;
        message.padding()?;
        Ok(Self { informational, status, fields, content, trailers })
    }
}

struct Message<'a> {
    reader: Reader<'a>,
    known_length: bool,
    /// How many more fields are accepted.
    fields_left: usize,
}

impl<'a> Message<'a> {
    fn new(bytes: &'a [u8], known: u64, indeterminate: u64) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let framing = varint(&mut reader)?;
        if framing != known && framing != indeterminate {
            return Err(DecodeError::Malformed("framing indicator"));
        }
        Ok(Self { reader, known_length: framing == known, fields_left: MAX_BHTTP_FIELDS })
    }

    /// One part of a request's control data.
    fn control(
        &mut self,
        part: &'static str,
        allowed: fn(&str) -> bool,
    ) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(opaque(&mut self.reader)?)
            .ok()
            .filter(|text| allowed(text))
            .ok_or(DecodeError::Malformed(part))
    }

    /// A section of fields. A message may end before it, which is equivalent to an empty section.
    fn fields(&mut self) -> Result<Vec<Field<'a>>, DecodeError> {
        if self.reader.is_empty() {
            return Ok(Vec::new());
        }
        if self.known_length {
            let mut section = Reader::new(opaque(&mut self.reader)?);
            return fields(&mut section, false, &mut self.fields_left);
        }
        fields(&mut self.reader, true, &mut self.fields_left)
    }

    /// The content. A message may end before it.
    fn content(&mut self) -> Result<Cow<'a, [u8]>, DecodeError> {
        if self.reader.is_empty() {
            return Ok(Cow::default());
        }
        let first = opaque(&mut self.reader)?;
        if self.known_length || first.is_empty() {
            return Ok(Cow::Borrowed(first));
        }
        // Chunks are read twice, so that memory is allocated once: growing content could take three
        // times its length.
        let mut others = self.reader.clone();
        let mut len = first.len();
        loop {
            let chunk = opaque(&mut self.reader)?;
            if chunk.is_empty() {
                break;
            }
            len += chunk.len();
        }
        if len == first.len() {
            return Ok(Cow::Borrowed(first));
        }
        let mut content = Vec::with_capacity(len);
        content.extend_from_slice(first);
        while content.len() < len {
            content.extend_from_slice(opaque(&mut others)?);
        }
        Ok(Cow::Owned(content))
    }

    /// Zeros up to the end. Anything else could carry a message that only some readers see.
    fn padding(mut self) -> Result<(), DecodeError> {
        // By blocks without an early exit, so that the compiler can process many bytes at once.
        let is_zero = |block: &[u8]| block.iter().fold(0, |seen, byte| seen | byte) == 0;
        if self.reader.rest().chunks(1024).all(is_zero) {
            Ok(())
        } else {
            Err(DecodeError::TrailingBytes)
        }
    }
}

/// Fields up to the end of `reader`, or up to a zero instead of a name. At most `left` of them.
fn fields<'a>(
    reader: &mut Reader<'a>,
    terminated: bool,
    left: &mut usize,
) -> Result<Vec<Field<'a>>, DecodeError> {
    let mut fields = Vec::new();
    while terminated || !reader.is_empty() {
        let name = opaque(reader)?;
        if terminated && name.is_empty() {
            break;
        }
        *left = left.checked_sub(1).ok_or(BoundsError::Length("field sections"))?;
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| is_field_name(name))
            .ok_or(DecodeError::Malformed("field name"))?;
        let value = opaque(reader)?;
        if !is_field_value(value) {
            return Err(DecodeError::Malformed("field value"));
        }
        fields.push(Field { name, value });
    }
    Ok(fields)
}

/// A `token` (RFC 9110 §5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// A name without capitals, as in HTTP/2 (RFC 9113 §8.2.1): with only one spelling, no filter can
/// miss another. The colon of a pseudo-field is not allowed in a token: control data is encoded
/// separately, and we know no extension that adds more of it.
fn is_field_name(name: &str) -> bool {
    is_token(name) && !name.bytes().any(|byte| byte.is_ascii_uppercase())
}

/// No line break or NUL anywhere, no space at either end (RFC 9113 §8.2.1).
fn is_field_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(value.first())
        && !is_space(value.last())
        && !value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
}

/// A `scheme` (RFC 3986 §3.1).
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Host and port, without user information (RFC 9113 §8.3.1). The caller decides which ones exist.
fn is_authority(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic() && !b"@/?#\\".contains(&byte))
}

/// A path with its query, or the asterisk of `OPTIONS`; never a fragment (RFC 9113 §8.3.1).
fn is_path(text: &str) -> bool {
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    visible && (text.starts_with('/') || text == "*")
}
