//! The tokens of a draft. The keys come from an issuer, so a draft starts without them.

use super::AuthoringError;
use super::fields::{Field, Fields};
use super::write::{Writer, moment};
use crate::recipe::{EndorsedKey, Tokens};
use crate::{FormatError, Role};

const ROLES: [(Role, &str); 2] = [(Role::Leader, "leader"), (Role::Helper, "helper")];

/// [`Tokens`] whose keys may be missing.
pub type TokensDraft = Tokens<Option<EndorsedKey>>;

impl TokensDraft {
    /// Whether a key is missing.
    pub fn keys_missing(&self) -> bool {
        ROLES.into_iter().any(|(role, _)| self.key(role).is_some_and(Option::is_none))
    }

    /// The tokens of a recipe. No key may be missing.
    pub fn complete(self) -> Result<Tokens, FormatError> {
        let present = |key: Option<EndorsedKey>| {
            key.ok_or_else(|| FormatError::new("parties.tokens has no keys of the issuer yet"))
        };
        Ok(match self {
            Self::RateLimited { issuer, leader, helper } => {
                Tokens::RateLimited { issuer, leader: present(leader)?, helper: present(helper)? }
            }
            Self::InsecureLeaderOnly { issuer, leader } => {
                Tokens::InsecureLeaderOnly { issuer, leader: present(leader)? }
            }
            Self::InsecureNone => Tokens::InsecureNone,
        })
    }
}

impl From<Tokens> for TokensDraft {
    fn from(tokens: Tokens) -> Self {
        match tokens {
            Tokens::RateLimited { issuer, leader, helper } => {
                Self::RateLimited { issuer, leader: Some(leader), helper: Some(helper) }
            }
            Tokens::InsecureLeaderOnly { issuer, leader } => {
                Self::InsecureLeaderOnly { issuer, leader: Some(leader) }
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
            issuer: fields.required("issuer")?.parsed()?,
            leader: key(&mut fields, "leader")?,
            helper: key(&mut fields, "helper")?,
        },
        Kind::LeaderOnly => TokensDraft::InsecureLeaderOnly {
            issuer: fields.required("issuer")?.parsed()?,
            leader: key(&mut fields, "leader")?,
        },
        Kind::None => TokensDraft::InsecureNone,
    };
    fields.finish()?;
    Ok(tokens)
}

fn key(fields: &mut Fields, name: &'static str) -> Result<Option<EndorsedKey>, AuthoringError> {
    let Some(field) = fields.optional(name) else { return Ok(None) };
    let mut fields = field.table()?;
    let key = EndorsedKey {
        public_key: fields.required("public_key")?.text()?,
        expires: fields.required("expires")?.moment()?,
        endorsement: fields.required("endorsement")?.text()?,
    };
    fields.finish()?;
    Ok(Some(key))
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
    if let Some(issuer) = tokens.issuer() {
        out.text("issuer", issuer.as_str());
    }
    if tokens.keys_missing() {
        out.comment("The issuer's keys follow here: `sotto recipe tokens` asks for them.");
    }
    for (role, name) in ROLES {
        let Some(Some(key)) = tokens.key(role) else { continue };
        out.table(&format!("parties.tokens.{name}"));
        out.text("public_key", &key.public_key);
        out.raw("expires", moment(key.expires));
        out.text("endorsement", &key.endorsement);
    }
}
