//! Byte sequences in HTTP fields: `:base64:` (RFC 9651, and RFC 8941 before it).

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The field's value for `bytes`.
pub(crate) fn encode(bytes: &[u8]) -> String {
    format!(":{}:", STANDARD.encode(bytes))
}

/// The bytes of a field's value.
///
/// The value is an item; its parameters are skipped. As the RFC asks, missing padding and stray
/// bits in the last character are tolerated.
pub(crate) fn parse(value: &str) -> Option<Vec<u8>> {
    const FORGIVING: GeneralPurpose = GeneralPurpose::new(
        &ALPHABET,
        GeneralPurposeConfig::new()
            .with_decode_padding_mode(DecodePaddingMode::Indifferent)
            .with_decode_allow_trailing_bits(true),
    );
    let item = value.trim_matches(' ').strip_prefix(':')?;
    let (encoded, parameters) = item.split_once(':')?;
    skip_parameters(parameters)?;
    FORGIVING.decode(encoded).ok()
}

/// Accepts `*( ";" *SP key [ "=" bare-item ] )`. Bare items are distinguished only as far as needed
/// to find their end; a comma outside a string would make the value a list.
fn skip_parameters(text: &str) -> Option<()> {
    let mut bytes = text.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b';' {
            return None;
        }
        while bytes.next_if_eq(&b' ').is_some() {}
        bytes.next_if(|&byte| byte.is_ascii_lowercase() || byte == b'*')?;
        while bytes.next_if(|&byte| is_key_byte(byte)).is_some() {}
        if bytes.next_if_eq(&b'=').is_none() {
            continue;
        }
        if bytes.next_if_eq(&b'"').is_some() {
            loop {
                match bytes.next()? {
                    b'"' => break,
                    b'\\' => drop(bytes.next_if(|byte| b"\"\\".contains(byte))?),
                    b' '..=b'~' => {}
                    _ => return None,
                }
            }
        } else {
            bytes.next_if(|&byte| is_bare_byte(byte))?;
            while bytes.next_if(|&byte| is_bare_byte(byte)).is_some() {}
        }
    }
    Some(())
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte)
}

fn is_bare_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\",;".contains(&byte)
}
