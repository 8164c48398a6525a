//! The tokens of a draft. The keys come from the issuers, so a draft starts without them.

use super::AuthoringError;
use super::fields::{Field, Fields};
use super::write::{Writer, moment};
use crate::recipe::{EndorsedKey, Tokens};
use crate::{FormatError, KeyName, Role};

const ROLES: [Role; 2] = [Role::Leader, Role::Helper];

/// [`Tokens`] whose keys may be missing. Each aggregator's issuer is known.
pub type TokensDraft = Tokens<KeyDraft>;

/// A token key of a draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDraft {
    /// This issuer has not been asked yet.
    Missing(KeyName),
    /// The issuer has endorsed it.
    Endorsed(EndorsedKey),
}

impl KeyDraft {
    /// Whose issuer signs tokens with it.
    pub fn issuer(&self) -> &KeyName {
        match self {
            Self::Missing(issuer) => issuer,
            Self::Endorsed(key) => &key.issuer,
        }
    }

    /// The key, unless it is missing.
    pub fn endorsed(&self) -> Option<&EndorsedKey> {
        match self {
            Self::Missing(_) => None,
            Self::Endorsed(key) => Some(key),
        }
    }

    fn complete(self) -> Result<EndorsedKey, FormatError> {
        match self {
            Self::Endorsed(key) => Ok(key),
            Self::Missing(issuer) => {
                Err(FormatError::new(format!("parties.tokens has no key of {issuer} yet")))
            }
        }
    }
}

impl TokensDraft {
    /// The first aggregator whose key is missing, and the issuer that has to make it.
    pub fn missing_key(&self) -> Option<(Role, &KeyName)> {
        ROLES.into_iter().find_map(|role| match self.key(role)? {
            KeyDraft::Missing(issuer) => Some((role, issuer)),
            KeyDraft::Endorsed(_) => None,
        })
    }

    /// This aggregator's key, if it checks tokens.
    pub fn key_mut(&mut self, role: Role) -> Option<&mut KeyDraft> {
        match (self, role) {
            (
                Self::RateLimited { leader, .. } | Self::InsecureLeaderOnly { leader },
                Role::Leader,
            ) => Some(leader),
            (Self::RateLimited { helper, .. }, Role::Helper) => Some(helper),
            _ => None,
        }
    }

    /// The tokens of a recipe. No key may be missing.
    pub fn complete(self) -> Result<Tokens, FormatError> {
        Ok(match self {
            Self::RateLimited { leader, helper } => {
                Tokens::RateLimited { leader: leader.complete()?, helper: helper.complete()? }
            }
            Self::InsecureLeaderOnly { leader } => {
                Tokens::InsecureLeaderOnly { leader: leader.complete()? }
            }
            Self::InsecureNone => Tokens::InsecureNone,
        })
    }
}

impl From<Tokens> for TokensDraft {
    fn from(tokens: Tokens) -> Self {
        let endorsed = KeyDraft::Endorsed;
        match tokens {
            Tokens::RateLimited { leader, helper } => {
                Self::RateLimited { leader: endorsed(leader), helper: endorsed(helper) }
            }
            Tokens::InsecureLeaderOnly { leader } => {
                Self::InsecureLeaderOnly { leader: endorsed(leader) }
            }
            Tokens::InsecureNone => Self::InsecureNone,
        }
    }
}

/// From TOML.
pub(super) fn read(field: Field) -> Result<TokensDraft, AuthoringError> {
    #[derive(Clone, Copy)]
    enum Kind {
        RateLimited,
        LeaderOnly,
        None,
    }
    let kinds = [
        ("rate_limited", Kind::RateLimited),
        ("insecure_leader_only", Kind::LeaderOnly),
        ("insecure_none", Kind::None),
    ];
    let mut fields = field.table()?;
    let tokens = match fields.required("kind")?.choice(&kinds)? {
        Kind::RateLimited => TokensDraft::RateLimited {
            leader: key(&mut fields, "leader")?,
            helper: key(&mut fields, "helper")?,
        },
        Kind::LeaderOnly => TokensDraft::InsecureLeaderOnly { leader: key(&mut fields, "leader")? },
        Kind::None => TokensDraft::InsecureNone,
    };
    fields.finish()?;
    Ok(tokens)
}

/// The issuer alone, or everything.
fn key(fields: &mut Fields, name: &'static str) -> Result<KeyDraft, AuthoringError> {
    let mut fields = fields.required(name)?.table()?;
    let issuer = fields.required("issuer")?.parsed()?;
    let key = match fields.optional("public_key") {
        None => KeyDraft::Missing(issuer),
        Some(public_key) => KeyDraft::Endorsed(EndorsedKey {
            issuer,
            public_key: public_key.text()?,
            expires: fields.required("expires")?.moment()?,
            endorsement: fields.required("endorsement")?.text()?,
        }),
    };
    fields.finish()?;
    Ok(key)
}

/// To TOML.
pub(super) fn write(out: &mut Writer, tokens: &TokensDraft) {
    out.group("parties.tokens", "Who checks that each device contributes once.");
    let kind = match tokens {
        TokensDraft::RateLimited { .. } => "rate_limited",
        TokensDraft::InsecureLeaderOnly { .. } => "insecure_leader_only",
        TokensDraft::InsecureNone => "insecure_none",
    };
    out.text("kind", kind);
    for role in ROLES {
        let Some(key) = tokens.key(role) else { continue };
        out.table(&format!("parties.tokens.{}", role.as_str()));
        out.text("issuer", key.issuer().as_str());
        match key {
            KeyDraft::Missing(_) => {
                out.comment("Its key follows here: `sotto recipe tokens` asks for it.");
            }
            KeyDraft::Endorsed(key) => {
                out.text("public_key", &key.public_key);
                out.raw("expires", moment(key.expires));
                out.text("endorsement", &key.endorsement);
            }
        }
    }
}
