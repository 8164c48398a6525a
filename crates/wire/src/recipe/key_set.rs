//! Key sets: the HPKE keys, and the URL of its aggregator, that an operator publishes in the log.

use serde::{Deserialize, Serialize};

use super::{FORMAT_VERSION, PublicKey, Signer, canonical, check, scalar};
use crate::limits::MAX_KEY_SET_CONFIGS;
use crate::{FormatError, HpkeConfig};

/// The JSON Schema of a key set.
pub const KEY_SET_SCHEMA: &str = include_str!("../../schema/key-set-v1.schema.json");

/// The HPKE keys of one operator and the URL of its aggregator, for a period of time.
///
/// Readers that see several sets check that `seq` increases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeySet {
    /// [`FORMAT_VERSION`].
    pub version: u64,
    /// Whose keys they are, and who signs.
    pub operator: Signer,
    /// The number of the set: a device uses the largest.
    pub seq: u64,
    /// From this second on.
    pub not_before: u64,
    /// Until just before this second.
    pub not_after: u64,
    /// The keys: encoded [`HpkeConfig`]s, base64url without padding, the preferred one first.
    ///
    /// Empty only if the operator runs no aggregator, but a gateway or an issuer.
    pub hpke_configs: Vec<String>,
    /// The keys of the operator's oblivious gateway, in the same form; absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_configs: Option<Vec<String>>,
    /// The keys that requests to the operator's token issuer are sealed to, in the same form;
    /// absent if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation_configs: Option<Vec<String>>,
    /// Where the operator's aggregator is. Recipes that name the operator must give exactly this
    /// URL. Absent if it has no aggregator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The key with which the operator's aggregator signs receipts, so that the operator's own key
    /// need not be on a server. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_key: Option<PublicKey>,
}

canonical::canonical_json!(KeySet);

impl KeySet {
    /// The keys that shares are sealed to.
    pub fn configs(&self) -> Result<Vec<HpkeConfig>, FormatError> {
        parse_configs("hpke_configs", &self.hpke_configs)
    }

    /// The keys that requests to the operator's gateway are sealed to; empty if it has no gateway.
    pub fn gateway_keys(&self) -> Result<Vec<HpkeConfig>, FormatError> {
        parse_configs("gateway_configs", self.gateway_configs.as_deref().unwrap_or_default())
    }

    /// The keys that token requests to the operator's issuer are sealed to; empty if it has no
    /// issuer.
    pub fn encapsulation_keys(&self) -> Result<Vec<HpkeConfig>, FormatError> {
        let texts = self.encapsulation_configs.as_deref().unwrap_or_default();
        parse_configs("encapsulation_configs", texts)
    }

    /// The text form of this key in a key set.
    pub fn config_text(config: &HpkeConfig) -> String {
        scalar::hpke_config_text(config)
    }

    /// The key in such a text; `field` names it in the error.
    pub fn parse_config(field: &str, text: &str) -> Result<HpkeConfig, FormatError> {
        scalar::hpke_config(field, text)
    }

    fn check_fields(&self) -> Result<(), FormatError> {
        check::range("version", self.version, FORMAT_VERSION, FORMAT_VERSION)?;
        check::visible("operator.name", self.operator.name.as_str())?;
        check::integer("seq", self.seq)?;
        check::integer("not_after", self.not_after)?;
        if self.not_before >= self.not_after {
            return Err(FormatError::new("not_before must be earlier than not_after"));
        }
        let others = [
            ("gateway_configs", &self.gateway_configs),
            ("encapsulation_configs", &self.encapsulation_configs),
        ];
        let least = u64::from(others.iter().all(|(_, configs)| configs.is_none()));
        check_configs("hpke_configs", &self.hpke_configs, least)?;
        for (field, configs) in others {
            configs.as_ref().map_or(Ok(()), |configs| check_configs(field, configs, 1))?;
        }
        self.url.as_deref().map_or(Ok(()), |url| check::url("url", url))
    }
}

fn parse_configs(field: &str, texts: &[String]) -> Result<Vec<HpkeConfig>, FormatError> {
    texts.iter().map(|text| scalar::hpke_config(field, text)).collect()
}

fn check_configs(field: &str, texts: &[String], least: u64) -> Result<(), FormatError> {
    let count = format!("the number of {field}");
    check::range(&count, texts.len() as u64, least, MAX_KEY_SET_CONFIGS as u64)?;
    // A report, or a request to a gateway, names its key only by this id.
    let mut ids: Vec<u8> =
        parse_configs(field, texts)?.iter().map(|config| config.id().value()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(FormatError::new(format!("two {field} have the same id")));
    }
    Ok(())
}
