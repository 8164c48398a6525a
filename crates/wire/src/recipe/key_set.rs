//! Key sets: the HPKE keys that an operator publishes in the log.

use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, Signer, canonical, check, scalar};
use crate::limits::MAX_KEY_SET_CONFIGS;
use crate::{EntryId, FormatError, HpkeConfig};

/// The JSON Schema of a key set.
pub const KEY_SET_SCHEMA: &str = include_str!("../../schema/key-set-v1.schema.json");

/// The HPKE keys of one operator, for a time.
///
/// That `seq` increases from set to set is judged by whoever sees several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySet {
    /// [`FORMAT_VERSION`].
    pub version: u64,
    /// Whose keys they are, and who signs.
    pub operator: Signer,
    /// The number of the set: a device takes the largest.
    pub seq: u64,
    /// From this second on.
    pub not_before: u64,
    /// Until before this second.
    pub not_after: u64,
    /// The keys: encoded [`HpkeConfig`]s, base64url without padding, the preferred one first.
    pub hpke_configs: Vec<String>,
}

impl KeySet {
    /// The key set with these bytes, which must be its canonical encoding.
    pub fn parse(json: &[u8]) -> Result<Self, FormatError> {
        canonical::parse(json, Self::check_fields)
    }

    /// The canonical encoding. Of a set that breaks the rules this gives bytes that [`KeySet::parse`] refuses.
    pub fn to_json(&self) -> Vec<u8> {
        canonical::encode(self)
    }

    /// The hash of the canonical encoding.
    pub fn id(&self) -> EntryId {
        EntryId::of(&self.to_json())
    }

    /// Whether the set keeps the rules of the format; if not, the reason in words.
    pub fn check(&self) -> Result<(), FormatError> {
        self.check_fields()?;
        canonical::check_len(self.to_json().len())
    }

    /// The keys.
    pub fn configs(&self) -> Result<Vec<HpkeConfig>, FormatError> {
        self.hpke_configs.iter().map(|text| scalar::hpke_config("hpke_configs", text)).collect()
    }

    /// The text in which a key set holds this key.
    pub fn config_text(config: &HpkeConfig) -> String {
        scalar::hpke_config_text(config)
    }

    fn check_fields(&self) -> Result<(), FormatError> {
        check::range("version", self.version, FORMAT_VERSION, FORMAT_VERSION)?;
        check::visible("operator.name", self.operator.name.as_str())?;
        check::integer("seq", self.seq)?;
        check::integer("not_after", self.not_after)?;
        if self.not_before >= self.not_after {
            return Err(FormatError::new("not_before must be earlier than not_after"));
        }
        let count = self.hpke_configs.len() as u64;
        check::range("the number of hpke_configs", count, 1, MAX_KEY_SET_CONFIGS as u64)?;
        // A report names its key by this id alone.
        let mut ids: Vec<u8> = self.configs()?.iter().map(|config| config.id().value()).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(FormatError::new("two hpke_configs have the same id"));
        }
        Ok(())
    }
}
