//! Tokens: who makes sure that a device contributes only once, and the keys to check that with.
//!
//! A recipe holds one public key for each aggregator that checks tokens, each from an issuer of its
//! own and endorsed by that issuer's operator. If the author could choose the keys, they could sign
//! any number of tokens and fill a batch with their own reports. What a device needs to construct
//! the challenge is also here. The addresses of attesters and issuers are not: a recipe must not
//! direct devices to any server.
//!
//! Not checked here: whether an endorsement is signed and what a key is (`sotto-crypto`), and who
//! must have signed it (the trust file).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::check::{integer, range, visible};
use super::{Participation, Parties, PublicKey, Recipe, Signer, canonical, scalar};
use crate::limits::{
    MAX_PARTICIPATIONS, MAX_TOKEN_KEY_LEN, MAX_TOKEN_NONCE_LEN, MIN_TOKEN_KEY_LEN,
    MIN_TOKEN_NONCE_LEN,
};
use crate::{FormatError, KeyName, Role};

/// The first line of what an issuer's operator signs for a token key.
pub const TOKEN_KEY_HEADER: &str = "sotto.token-key/v1";

/// The first line of an author's request for token keys.
pub const TOKEN_KEY_REQUEST_HEADER: &str = "sotto.token-key-request/v1";

/// Which aggregators check that each device contributes once. In a draft, keys may be missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Tokens<K = EndorsedKey> {
    /// Both: every report carries a token for each of them.
    RateLimited {
        /// The key of the leader's tokens.
        leader: K,
        /// The key of the helper's tokens.
        helper: K,
    },
    /// Only the leader, because the helper cannot. A cheating leader can fill a batch.
    InsecureLeaderOnly {
        /// The key of the leader's tokens.
        leader: K,
    },
    /// None: anyone can contribute any number of times.
    InsecureNone,
}

impl<K> Tokens<K> {
    /// The key with which this aggregator checks tokens, if it does.
    pub fn key(&self, role: Role) -> Option<&K> {
        match (self, role) {
            (Self::RateLimited { leader, .. }, Role::Leader)
            | (Self::InsecureLeaderOnly { leader, .. }, Role::Leader) => Some(leader),
            (Self::RateLimited { helper, .. }, Role::Helper) => Some(helper),
            _ => None,
        }
    }

    /// Whether any aggregator counts reports without tokens.
    pub fn is_insecure(&self) -> bool {
        !matches!(self, Self::RateLimited { .. })
    }
}

impl Tokens {
    /// Whose issuer signs this aggregator's tokens, if it checks any.
    pub fn issuer(&self, role: Role) -> Option<&KeyName> {
        self.key(role).map(|key| &key.issuer)
    }
}

/// A token key with the signature of the issuer's operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndorsedKey {
    /// Whose issuer signs tokens with it: the name under which devices pin its operator's key.
    pub issuer: KeyName,
    /// The key: a DER-encoded SubjectPublicKeyInfo (RFC 9578 "Issuer Configuration"), base64url
    /// without padding.
    pub public_key: String,
    /// Tokens are issued and valid until just before this second, in POSIX seconds.
    pub expires: u64,
    /// The Ed25519 signature over the [`TokenKeyStatement`], base64url without padding.
    pub endorsement: String,
}

impl EndorsedKey {
    /// The key with this SubjectPublicKeyInfo, of this issuer.
    pub fn new(issuer: KeyName, spki: &[u8], expires: u64, signature: &[u8; 64]) -> Self {
        Self {
            issuer,
            public_key: Self::key_text(spki),
            expires,
            endorsement: Self::signature_text(signature),
        }
    }

    /// The text form of this signature in a recipe.
    pub fn signature_text(signature: &[u8; 64]) -> String {
        URL_SAFE_NO_PAD.encode(signature)
    }

    /// The text form of the key with this SubjectPublicKeyInfo in a recipe.
    pub fn key_text(spki: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(spki)
    }

    /// The SubjectPublicKeyInfo. Whether it is that of a token key is checked where it is used.
    pub fn spki(&self) -> Result<Vec<u8>, FormatError> {
        let bytes = URL_SAFE_NO_PAD.decode(&self.public_key);
        bytes
            .ok()
            .filter(|bytes| (MIN_TOKEN_KEY_LEN..=MAX_TOKEN_KEY_LEN).contains(&bytes.len()))
            .ok_or_else(|| {
                FormatError::new(format!(
                    "public_key must be {MIN_TOKEN_KEY_LEN} to {MAX_TOKEN_KEY_LEN} bytes in base64url without padding"
                ))
            })
    }

    /// The signature.
    pub fn signature(&self) -> Result<[u8; 64], FormatError> {
        let mut bytes = [0; 64];
        match URL_SAFE_NO_PAD.decode_slice(&self.endorsement, &mut bytes) {
            Ok(64) => Ok(bytes),
            _ => Err(FormatError::new("endorsement must be 64 bytes in base64url without padding")),
        }
    }
}

/// An issuer operator's statement about a token key: which aggregator checks with it, for recipes
/// of which author, and until when.
///
/// The author is part of it. Otherwise anyone could put another author's key into their own recipe,
/// and use up the one token that each device gets for it.
#[derive(Clone, Copy, Debug)]
pub struct TokenKeyStatement<'a> {
    /// Leader or helper.
    pub role: Role,
    /// The operator of the aggregator.
    pub aggregator: &'a KeyName,
    /// The key of the author.
    pub author: &'a PublicKey,
    /// The operator of the issuer.
    pub issuer: &'a KeyName,
    /// The key, in the form that [`EndorsedKey`] holds.
    pub public_key: &'a str,
    /// When it expires.
    pub expires: u64,
}

impl TokenKeyStatement<'_> {
    /// The text that is signed.
    pub fn text(&self) -> String {
        #[derive(Serialize)]
        struct Json<'a> {
            aggregator: &'a KeyName,
            author: &'a PublicKey,
            expires: u64,
            issuer: &'a KeyName,
            public_key: &'a str,
            role: &'static str,
        }
        let json = Json {
            aggregator: self.aggregator,
            author: self.author,
            expires: self.expires,
            issuer: self.issuer,
            public_key: self.public_key,
            role: self.role.as_str(),
        };
        signed_text(TOKEN_KEY_HEADER, &canonical::encode(&json))
    }
}

/// What an author requests from an issuer: the key pair for one aggregator of a recipe that is to
/// be published.
///
/// It is signed as a note. The nonce distinguishes two recipes of one author; the same request gets
/// the same key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenKeyRequest {
    /// Who asks, and signs.
    pub author: Signer,
    /// The operator of the leader.
    pub leader: KeyName,
    /// The operator of the helper.
    pub helper: KeyName,
    /// Which of the two checks tokens with the key.
    #[serde(with = "scalar::aggregator")]
    pub role: Role,
    /// Until when the key is needed, in POSIX seconds: not before the recipe closes.
    pub expires: u64,
    /// Letters, digits, hyphens and underscores, drawn at random.
    pub nonce: String,
    /// For a series: in how many rounds a device takes part at most. Each participation is an
    /// origin of its own. `None` for a recipe of no series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participations: Option<u32>,
}

impl TokenKeyRequest {
    /// Parses a request from its canonical encoding.
    pub fn parse(json: &[u8]) -> Result<Self, FormatError> {
        canonical::parse(json, Self::check)
    }

    /// The canonical encoding.
    pub fn to_json(&self) -> Vec<u8> {
        canonical::encode(self)
    }

    /// The operator of the aggregator that checks tokens with the key.
    pub fn aggregator(&self) -> &KeyName {
        match self.role {
            Role::Helper => &self.helper,
            _ => &self.leader,
        }
    }

    /// Parses a request from the text of a note.
    pub fn from_text(text: &str) -> Result<Self, FormatError> {
        let json = text
            .strip_prefix(TOKEN_KEY_REQUEST_HEADER)
            .and_then(|rest| rest.strip_prefix('\n'))
            .and_then(|rest| rest.strip_suffix('\n'))
            .ok_or_else(|| FormatError::new("the note is not a request for token keys"))?;
        Self::parse(json.as_bytes())
    }

    /// The text of the note that the author signs.
    pub fn text(&self) -> String {
        signed_text(TOKEN_KEY_REQUEST_HEADER, &self.to_json())
    }

    /// Whether the request follows the rules of the format; if not, the reason as text.
    pub fn check(&self) -> Result<(), FormatError> {
        visible("author.name", self.author.name.as_str())?;
        visible("leader", self.leader.as_str())?;
        visible("helper", self.helper.as_str())?;
        if self.helper == self.leader {
            return Err(FormatError::new("leader and helper must differ"));
        }
        if !matches!(self.role, Role::Leader | Role::Helper) {
            return Err(FormatError::new("role must be leader or helper"));
        }
        integer("expires", self.expires)?;
        if let Some(participations) = self.participations {
            range("participations", participations.into(), 1, MAX_PARTICIPATIONS)?;
        }
        range(
            "the length of nonce",
            self.nonce.len() as u64,
            MIN_TOKEN_NONCE_LEN as u64,
            MAX_TOKEN_NONCE_LEN as u64,
        )?;
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match self.nonce.bytes().all(allowed) {
            true => Ok(()),
            false => Err(FormatError::new("nonce must be letters, digits, hyphen and underscore")),
        }
    }
}

impl Recipe {
    /// Which token pair of its series the report of a round carries: that with the number of the
    /// round, so that a device can send one report in each round and no more; with donation the only
    /// one. `None` for a header, and for a recipe of no series.
    pub fn token_number(&self) -> Option<u32> {
        let (series, round) = (self.series.as_ref()?, self.round()?);
        match series.participation {
            Participation::EachRound {} => u32::try_from(round.index).ok(),
            Participation::Donation {} => Some(0),
        }
    }

    /// How many token pairs a device gets for the series; `None` for a recipe of no series.
    pub fn participations(&self) -> Option<u32> {
        // The format allows no more.
        self.series.as_ref().map(|s| s.most_reports().min(MAX_PARTICIPATIONS) as u32)
    }

    /// What the issuer's operator must have signed for this aggregator's key, if it checks tokens.
    pub fn token_statement(&self, role: Role) -> Option<TokenKeyStatement<'_>> {
        let key = self.parties.tokens.key(role)?;
        let aggregator = match role {
            Role::Leader => &self.parties.leader.operator,
            _ => &self.parties.helper.operator,
        };
        Some(TokenKeyStatement {
            role,
            aggregator,
            author: &self.author.key,
            issuer: &key.issuer,
            public_key: &key.public_key,
            expires: key.expires,
        })
    }
}

/// The rules of the format for the tokens of a recipe that closes at `closes`.
pub(super) fn check(parties: &Parties, closes: u64) -> Result<(), FormatError> {
    let keys = [Role::Leader, Role::Helper].map(|role| (role, parties.tokens.key(role)));
    for (role, key) in keys {
        let Some(key) = key else { continue };
        let field = format!("parties.tokens.{}", role.as_str());
        visible(&format!("{field}.issuer"), key.issuer.as_str())?;
        if [&parties.leader.operator, &parties.helper.operator].contains(&&key.issuer) {
            return Err(FormatError::new(format!(
                "{field}.issuer must be another operator than the leader's and the helper's"
            )));
        }
        let named = |error: FormatError| FormatError::new(format!("{field}.{error}"));
        key.spki().map_err(named)?;
        key.signature().map_err(named)?;
        integer(&format!("{field}.expires"), key.expires)?;
        if key.expires < closes {
            return Err(FormatError::new(format!(
                "{field}.expires must not be earlier than when.closes: devices could get no tokens at the end"
            )));
        }
    }
    // Otherwise a token for one aggregator would also be valid at the other.
    if let [(_, Some(leader)), (_, Some(helper))] = keys
        && leader.public_key == helper.public_key
    {
        return Err(FormatError::new("the token keys of leader and helper must differ"));
    }
    Ok(())
}

fn signed_text(header: &str, json: &[u8]) -> String {
    // Canonical JSON is UTF-8.
    format!("{header}\n{}\n", String::from_utf8_lossy(json))
}
