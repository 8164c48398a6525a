//! What authors get from an issuer: the endorsed token keys of a recipe.
//!
//! [`consume_token_key_request`] judges an author's signed note, and [`produce_token_keys`] makes
//! the answer from the keys that the host has made and stored. The same note gets the same keys:
//! the host finds them by [`RecipeKeys::id`].
//!
//! An endorsement binds a key to the role, the aggregator's operator, the author and the expiry.
//! Without the author in it, anybody could put another author's key into their own recipe.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sotto_crypto::note::{self, NoteKey};
use sotto_wire::recipe::{EndorsedKey, TokenKeyRequest, TokenKeyStatement};
use sotto_wire::{EntryId, FormatError, Note, Role, VerifierKey};

use super::Origin;
use crate::Moment;

/// Whose requests an issuer accepts, and for how long its keys may live.
#[derive(Debug)]
pub struct AuthorRules {
    /// The authors, by their keys.
    pub authors: Vec<VerifierKey>,
    /// The policy window, in seconds. No key lives longer: the attester forgets what it counted.
    pub window_s: u64,
}

/// Why an author gets no keys. The reasons concern only the author, so the author is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorRefusal {
    /// It is not a valid request.
    #[error("this is not a request for token keys: {0}")]
    Malformed(String),
    /// The author is not listed.
    #[error("the author is not on this issuer's list")]
    UnknownAuthor,
    /// The note is not signed by its author.
    #[error("the note is not signed by its author")]
    Signature,
    /// The keys would expire before they could be used.
    #[error("the expiry is in the past")]
    Past,
    /// The keys would live longer than the attester remembers.
    #[error("the expiry is beyond the policy window of {0} seconds")]
    BeyondWindow(u64),
    /// The issuer's operator would check the tokens that it signs.
    #[error("the operator of this issuer cannot be that of an aggregator")]
    IsAggregator,
}

/// The keys of one recipe, with the request that they were made for.
#[derive(Clone, Debug)]
pub struct RecipeKeys {
    /// What the author asked for.
    pub request: TokenKeyRequest,
    /// Signs the tokens that the leader takes.
    pub leader: Arc<Origin>,
    /// Signs the tokens that the helper takes, if the author asked for one.
    pub helper: Option<Arc<Origin>>,
}

impl RecipeKeys {
    /// The hash of the request's canonical JSON.
    pub fn id(&self) -> EntryId {
        request_id(&self.request)
    }

    /// The origins of both keys.
    pub fn origins(&self) -> impl Iterator<Item = &Arc<Origin>> {
        std::iter::once(&self.leader).chain(&self.helper)
    }
}

/// The answer to an author: what goes into `parties.tokens` of the recipe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenKeys {
    /// For the leader.
    pub leader: EndorsedKey,
    /// For the helper, if the author asked for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helper: Option<EndorsedKey>,
}

/// The hash of a request's canonical JSON, by which the host finds keys that it made before.
pub fn request_id(request: &TokenKeyRequest) -> EntryId {
    EntryId::of(&request.to_json())
}

/// Judges an author's signed note.
pub fn consume_token_key_request(
    body: &[u8],
    rules: &AuthorRules,
    operator: &NoteKey,
    now: Moment,
) -> Result<TokenKeyRequest, AuthorRefusal> {
    let malformed = |error: FormatError| AuthorRefusal::Malformed(error.to_string());
    let note = Note::parse(body).map_err(malformed)?;
    let request = TokenKeyRequest::from_text(note.text()).map_err(malformed)?;
    let author = rules.authors.iter().find(|author| request.author.is(author));
    let author = author.ok_or(AuthorRefusal::UnknownAuthor)?;
    note::verify(&note, author).map_err(|_| AuthorRefusal::Signature)?;
    let issuer = operator.name();
    if request.leader == *issuer || request.helper.as_ref() == Some(issuer) {
        return Err(AuthorRefusal::IsAggregator);
    }
    if request.expires <= now.0 {
        return Err(AuthorRefusal::Past);
    }
    if request.expires - now.0 > rules.window_s {
        return Err(AuthorRefusal::BeyondWindow(rules.window_s));
    }
    Ok(request)
}

/// The keys, each endorsed by the operator. Deterministic: Ed25519 uses no randomness.
pub fn produce_token_keys(keys: &RecipeKeys, operator: &NoteKey) -> TokenKeys {
    let request = &keys.request;
    let endorse = |role, aggregator, origin: &Origin| {
        let statement = TokenKeyStatement {
            role,
            aggregator,
            author: &request.author.key,
            issuer: operator.name(),
            public_key: &EndorsedKey::key_text(origin.token_key().spki()),
            expires: origin.expires().0,
        };
        operator.endorse(&statement)
    };
    let helper = request.helper.as_ref().zip(keys.helper.as_ref());
    TokenKeys {
        leader: endorse(Role::Leader, &request.leader, &keys.leader),
        helper: helper.map(|(name, origin)| endorse(Role::Helper, name, origin)),
    }
}
