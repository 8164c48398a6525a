//! Bytes as base64url in stored JSON. Many of them are secrets, so no intermediate copy is left
//! behind.

use std::fmt;

use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use base64::{Engine, decoded_len_estimate};
use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};
use zeroize::{Zeroize, Zeroizing};

/// A type that bytes are decoded into.
pub(crate) trait FromBytes: Sized {
    /// `None` if the length is wrong.
    fn from_bytes(bytes: Zeroizing<Vec<u8>>) -> Option<Self>;
}

impl FromBytes for Vec<u8> {
    fn from_bytes(mut bytes: Zeroizing<Vec<u8>>) -> Option<Self> {
        Some(std::mem::take(&mut *bytes))
    }
}

impl<const N: usize> FromBytes for [u8; N] {
    fn from_bytes(bytes: Zeroizing<Vec<u8>>) -> Option<Self> {
        bytes.as_slice().try_into().ok()
    }
}

impl<B: FromBytes + Zeroize> FromBytes for Zeroizing<B> {
    fn from_bytes(bytes: Zeroizing<Vec<u8>>) -> Option<Self> {
        B::from_bytes(bytes).map(Self::new)
    }
}

pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
    bytes: &B,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(&Zeroizing::new(URL_SAFE_NO_PAD.encode(bytes)))
}

pub(crate) fn deserialize<'de, B, D>(from: D) -> Result<B, D::Error>
where
    B: FromBytes,
    D: Deserializer<'de>,
{
    let bytes = from.deserialize_str(Text)?;
    B::from_bytes(bytes).ok_or_else(|| D::Error::custom("the length is wrong"))
}

/// Decodes the text in place.
struct Text;

impl Visitor<'_> for Text {
    type Value = Zeroizing<Vec<u8>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes in base64url without padding")
    }

    /// The error names neither a symbol nor its position: the text may be a secret.
    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        // Allocated at its final size, so that it never moves.
        let mut bytes = Zeroizing::new(vec![0; decoded_len_estimate(text.len())]);
        let decoded = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes);
        let len = decoded.map_err(|_| E::custom("not base64url without padding"))?;
        bytes.truncate(len);
        Ok(bytes)
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        self.visit_str(&Zeroizing::new(text))
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Held {
        #[serde(with = "super")]
        list: Zeroizing<Vec<u8>>,
        #[serde(with = "super")]
        array: [u8; 4],
    }

    #[test]
    fn bytes_come_back_from_a_text_that_is_borrowed_or_owned() {
        for len in 0..40u8 {
            let held = Held { list: Zeroizing::new((0..len).collect()), array: [251, 255, 254, 0] };
            let text = serde_json::to_string(&held).unwrap();
            assert!(text.ends_with(r#""array":"-__-AA"}"#), "{text}");
            assert_eq!(serde_json::from_str::<Held>(&text).unwrap(), held);
            let owned = serde_json::to_value(&held).unwrap();
            assert_eq!(serde_json::from_value::<Held>(owned).unwrap(), held);
        }
    }

    #[test]
    fn errors_show_nothing_of_the_text() {
        for (list, array) in
            [("secret!", "AAAAAA"), ("AAAA", "AAAAA"), ("AAAA", "AAAAAAA"), ("AAAA==", "AAAAAA")]
        {
            let text = format!(r#"{{"list":"{list}","array":"{array}"}}"#);
            let shown = serde_json::from_str::<Held>(&text).unwrap_err().to_string();
            let known = ["not base64url without padding", "the length is wrong"];
            assert!(known.iter().any(|known| shown.starts_with(known)), "{shown}");
        }
        let number = serde_json::from_str::<Held>(r#"{"list":7,"array":"AAAAAA"}"#);
        assert!(number.is_err());
    }
}
