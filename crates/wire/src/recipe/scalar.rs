//! The small values that recipes, key sets, results and receipts are made of.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::query;
use crate::limits::{MAX_ATTRIBUTE_NAME_LEN, MAX_INTEGER};
use crate::{
    BatchId, Decode, Encode, EntryId, FormatError, HpkeConfig, KeyName, KeyType, TreeHash,
    VerifierKey,
};

/// A probability: a fraction in lowest terms, `[num, den]` in JSON.
///
/// Both numbers are below 2^53, and 0 is `[0, 1]`: each fraction has a single form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "(u64, u64)", try_from = "(u64, u64)")]
pub struct Probability {
    num: u64,
    den: u64,
}

impl Probability {
    /// The probability 0.
    pub const ZERO: Self = Self { num: 0, den: 1 };

    /// The probability 1.
    pub const ONE: Self = Self { num: 1, den: 1 };

    /// The fraction, which must be in lowest terms.
    pub fn new(num: u64, den: u64) -> Result<Self, FormatError> {
        let probability = Self::reduced(num, den)?;
        if probability.den != den {
            return Err(FormatError::new("a probability must be in lowest terms"));
        }
        Ok(probability)
    }

    /// The fraction, reduced to lowest terms.
    pub fn reduced(num: u64, den: u64) -> Result<Self, FormatError> {
        if den == 0 {
            return Err(FormatError::new("a probability needs a denominator of at least 1"));
        }
        if num > den {
            return Err(FormatError::new("a probability is at most 1"));
        }
        let divisor = greatest_common_divisor(num, den);
        let (num, den) = (num / divisor, den / divisor);
        if den > MAX_INTEGER {
            return Err(FormatError::new("the denominator of a probability is below 2^53"));
        }
        Ok(Self { num, den })
    }

    /// The numerator.
    pub fn num(self) -> u64 {
        self.num
    }

    /// The denominator, at least 1.
    pub fn den(self) -> u64 {
        self.den
    }

    /// The nearest double. Both numbers are exact as doubles, so the error is at most half a unit
    /// in the last place.
    pub fn to_f64(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Whether this is 0.
    pub fn is_zero(self) -> bool {
        self.num == 0
    }

    /// Whether this is 1.
    pub fn is_one(self) -> bool {
        self.num == self.den
    }

    /// 1, the default of an optional field.
    pub(super) fn one() -> Self {
        Self::ONE
    }

    /// Whether an optional field has the default 1.
    pub(super) fn is_always(&self) -> bool {
        self.is_one()
    }

    /// 0, the default of an optional field.
    pub(super) fn zero() -> Self {
        Self::ZERO
    }

    /// Whether an optional field has the default 0.
    pub(super) fn is_never(&self) -> bool {
        self.is_zero()
    }
}

/// Numerical order.
impl Ord for Probability {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let cross = |a: &Self, b: &Self| u128::from(a.num) * u128::from(b.den);
        cross(self, other).cmp(&cross(other, self))
    }
}

impl PartialOrd for Probability {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.num, self.den)
    }
}

impl From<Probability> for (u64, u64) {
    fn from(probability: Probability) -> Self {
        (probability.num, probability.den)
    }
}

impl TryFrom<(u64, u64)> for Probability {
    type Error = FormatError;

    fn try_from((num, den): (u64, u64)) -> Result<Self, FormatError> {
        Self::new(num, den)
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// An Ed25519 public key, base64url without padding in JSON. Whether it is a point on the curve is
/// checked where it is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The key with these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let mut bytes = [0; 32];
        match URL_SAFE_NO_PAD.decode_slice(text, &mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            _ => Err(FormatError::new("a public key is 32 bytes in base64url without padding")),
        }
    }
}

/// A signer: a name and a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signer {
    /// The name of the key in signed notes.
    pub name: KeyName,
    /// The Ed25519 key.
    pub key: PublicKey,
}

impl Signer {
    /// The key in the form that verifies signed notes.
    pub fn verifier(&self) -> VerifierKey {
        VerifierKey::new(self.name.clone(), KeyType::Ed25519, *self.key.as_bytes())
    }

    /// Whether this is the holder of a pinned key.
    pub fn is(&self, pinned: &VerifierKey) -> bool {
        self.name == *pinned.name() && self.key.as_bytes() == pinned.public_key()
    }
}

/// The name of an attribute: an identifier of the expression language that is not a reserved word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeName(String);

impl AttributeName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for AttributeName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AttributeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AttributeName {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let begins = text.bytes().next().is_some_and(|byte| matches!(byte, b'a'..=b'z' | b'_'));
        let goes_on = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if !begins || !goes_on || text.len() > MAX_ATTRIBUTE_NAME_LEN {
            return Err(FormatError::new(format!(
                "the name of an attribute is at most {MAX_ATTRIBUTE_NAME_LEN} of a-z, 0-9 and _, \
                 and begins with no digit"
            )));
        }
        if RESERVED_WORDS.contains(&text) {
            return Err(FormatError::new(format!(
                "{text:?} is a reserved word of the expression language, so not an attribute name"
            )));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The reserved words of CEL: its literals and operators, and what it reserves for host languages
/// (CEL "Syntax").
const RESERVED_WORDS: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// The type of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttributeType {
    /// True or false.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// Text.
    String,
    /// A list of texts.
    Strings,
    /// A list of so many numbers with fractions.
    Vector(u32),
}

impl fmt::Display for AttributeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::String => f.write_str("string"),
            Self::Strings => f.write_str("strings"),
            Self::Vector(dimension) => write!(f, "vector({dimension})"),
        }
    }
}

impl FromStr for AttributeType {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let vector = text.strip_prefix("vector(").and_then(|rest| rest.strip_suffix(')'));
        match (text, vector) {
            ("bool", _) => Ok(Self::Bool),
            ("int", _) => Ok(Self::Int),
            ("string", _) => Ok(Self::String),
            ("strings", _) => Ok(Self::Strings),
            (_, Some(digits)) => {
                // Each length has a single form.
                let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
                let length = digits.parse().ok().filter(|_| plain).ok_or_else(|| {
                    FormatError::new(format!("{text:?} has no length: write it like vector(64)"))
                })?;
                query::dimension("the length of a vector", length)?;
                Ok(Self::Vector(length))
            }
            _ => Err(FormatError::new(format!(
                "{text:?} is unknown; use one of: bool, int, string, strings, vector(64)"
            ))),
        }
    }
}

/// For types that JSON represents as text, by their `Display` and `FromStr`.
macro_rules! text_in_json {
    ($($type:ty),*) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )*};
}

text_in_json!(AttributeName, AttributeType, BatchId, EntryId, KeyName, PublicKey, TreeHash);

/// The HPKE configuration in unpadded base64url text; `field` names it in the error.
pub(super) fn hpke_config(field: &str, text: &str) -> Result<HpkeConfig, FormatError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| FormatError::new(format!("{field} is not base64url without padding")))?;
    HpkeConfig::from_bytes(&bytes)
        .map_err(|_| FormatError::new(format!("{field} is not an HPKE configuration")))
}

/// The text of an HPKE configuration.
pub(super) fn hpke_config_text(config: &HpkeConfig) -> String {
    URL_SAFE_NO_PAD.encode(config.to_bytes())
}

/// A batch mode, by its DAP name.
pub(super) mod batch_mode {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::BatchMode;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Name {
        TimeInterval,
        LeaderSelected,
    }

    pub(in crate::recipe) fn serialize<S: Serializer>(
        mode: &BatchMode,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match mode {
            BatchMode::TimeInterval => Name::TimeInterval,
            BatchMode::LeaderSelected => Name::LeaderSelected,
        }
        .serialize(serializer)
    }

    pub(in crate::recipe) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BatchMode, D::Error> {
        Ok(match Name::deserialize(deserializer)? {
            Name::TimeInterval => BatchMode::TimeInterval,
            Name::LeaderSelected => BatchMode::LeaderSelected,
        })
    }
}

/// Leader or helper, by name.
pub(super) mod aggregator {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Role;

    pub(in crate::recipe) fn serialize<S: Serializer>(
        role: &Role,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(role.as_str())
    }

    pub(in crate::recipe) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Role, D::Error> {
        let name = String::deserialize(from)?;
        let aggregators = [Role::Leader, Role::Helper];
        let role = aggregators.into_iter().find(|role| role.as_str() == name);
        role.ok_or_else(|| D::Error::custom("role must be leader or helper"))
    }
}
