//! Names and public keys of the signers of notes (C2SP signed-note "Verifier keys").

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::format::FormatError;
use crate::limits::MAX_KEY_NAME_LEN;

/// The name of a key: not empty, no Unicode white space, no plus sign, no control characters and at
/// most [`MAX_KEY_NAME_LEN`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for KeyName {
    type Err = FormatError;

    fn from_str(name: &str) -> Result<Self, FormatError> {
        if name.is_empty() {
            return Err(FormatError::new("the key name is empty"));
        }
        if name.len() > MAX_KEY_NAME_LEN {
            return Err(FormatError::new("the key name is too long"));
        }
        if name.chars().any(|c| c.is_whitespace() || c < ' ' || c == '+') {
            return Err(FormatError::new(
                "the key name has a space, a control character or a plus",
            ));
        }
        Ok(Self(name.to_owned()))
    }
}

impl AsRef<str> for KeyName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a key signs, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum KeyType {
    /// An Ed25519 signature over the text of the note.
    Ed25519 = 1,
    /// A timestamped Ed25519 cosignature of a checkpoint (C2SP tlog-cosignature).
    CosignatureV1 = 4,
}

impl KeyType {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Ed25519, Self::CosignatureV1].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A public key with its name and type. In text: `name+<8 hex digits>+<base64 of type and key>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerifierKey {
    name: KeyName,
    key_type: KeyType,
    public_key: [u8; 32],
    key_id: [u8; 4],
}

impl VerifierKey {
    /// The key with this name. Whether the bytes are a point on the curve is checked on
    /// verification.
    pub fn new(name: KeyName, key_type: KeyType, public_key: [u8; 32]) -> Self {
        let mut digest = Sha256::new();
        digest.update(name.as_str());
        digest.update([b'\n', key_type as u8]);
        digest.update(public_key);
        let digest = digest.finalize();
        let key_id = [digest[0], digest[1], digest[2], digest[3]];
        Self { name, key_type, public_key, key_id }
    }

    /// The name.
    pub fn name(&self) -> &KeyName {
        &self.name
    }

    /// What the key signs.
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// The Ed25519 public key.
    pub fn public_key(&self) -> &[u8; 32] {
        &self.public_key
    }

    /// The first bytes of the digest of name, type and key. Together with the name it selects the
    /// signature lines to verify with this key.
    pub fn key_id(&self) -> [u8; 4] {
        self.key_id
    }
}

impl FromStr for VerifierKey {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        // Base64 contains plus signs too, so only the first two are separators.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(key_id), Some(key)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(FormatError::new("the verifier key is incomplete"));
        };
        let bytes = STANDARD
            .decode(key)
            .map_err(|_| FormatError::new("the key is not canonical base64"))?;
        let (&key_type, public_key) =
            bytes.split_first().ok_or(FormatError::new("the key is empty"))?;
        let key_type = KeyType::from_byte(key_type)
            .ok_or(FormatError::new("the type of the key is not supported"))?;
        let public_key = <[u8; 32]>::try_from(public_key)
            .map_err(|_| FormatError::new("the key is not 32 bytes long"))?;
        let key = Self::new(name.parse()?, key_type, public_key);
        match key_id == format!("{:08x}", u32::from_be_bytes(key.key_id)) {
            true => Ok(key),
            false => Err(FormatError::new("the key identifier does not belong to the key")),
        }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = [&[self.key_type as u8][..], &self.public_key].concat();
        let key_id = u32::from_be_bytes(self.key_id);
        write!(f, "{}+{key_id:08x}+{}", self.name, STANDARD.encode(key))
    }
}
