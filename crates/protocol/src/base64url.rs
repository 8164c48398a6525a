//! Bytes as base64url, in stored JSON.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub(crate) fn serialize<B: AsRef<[u8]>, S: Serializer>(
    bytes: &B,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.serialize_str(&URL_SAFE_NO_PAD.encode(bytes))
}

pub(crate) fn deserialize<'de, B, D>(from: D) -> Result<B, D::Error>
where
    B: TryFrom<Vec<u8>>,
    D: Deserializer<'de>,
{
    let bytes = URL_SAFE_NO_PAD.decode(String::deserialize(from)?).map_err(D::Error::custom)?;
    B::try_from(bytes).map_err(|_| D::Error::custom("another length is expected"))
}
