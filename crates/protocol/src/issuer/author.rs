//! What authors get from an issuer: the endorsed token key of one aggregator of a recipe. The other
//! aggregator's key comes from another issuer.
//!
//! [`consume_token_key_request`] judges an author's signed note, and [`produce_token_key`] makes
//! the answer from the key that the host has made and stored. The same note gets the same key: the
//! host finds it by [`RecipeKey::id`].
//!
//! An endorsement binds a key to the role, the aggregator's operator, the author and the expiry.
//! Without the author in it, anybody could put another author's key into their own recipe.

use std::sync::Arc;

use sotto_crypto::note::{self, NoteKey};
use sotto_wire::recipe::{EndorsedKey, TokenKeyRequest, TokenKeyStatement};
use sotto_wire::{EntryId, FormatError, Note, VerifierKey};

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
    /// The issuer would sign the tokens of both aggregators.
    #[error(
        "this issuer has made the other aggregator's key of this recipe, and devices require two issuers: ask another \
         issuer for this one (an issuer with insecure_both_roles makes both)"
    )]
    BothRoles,
}

/// The key for one aggregator of a recipe, with the request that it was made for.
#[derive(Clone, Debug)]
pub struct RecipeKey {
    /// What the author asked for.
    pub request: TokenKeyRequest,
    /// Signs the tokens that the aggregator takes.
    pub origin: Arc<Origin>,
}

impl RecipeKey {
    /// The hash of the request's canonical JSON.
    pub fn id(&self) -> EntryId {
        request_id(&self.request)
    }
}

/// The hash of a request's canonical JSON, by which the host finds a key that it made before.
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
    if request.leader == *issuer || request.helper == *issuer {
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

/// Checks that no key in `made` is for the other aggregator of the same recipe. The nonce tells
/// which requests belong to one recipe.
///
/// An author may change the nonce, and gains nothing: devices and aggregators refuse a recipe with
/// one issuer. The check tells an honest author early.
pub fn check_one_role<'a>(
    request: &TokenKeyRequest,
    mut made: impl Iterator<Item = &'a TokenKeyRequest>,
) -> Result<(), AuthorRefusal> {
    let same_recipe = |other: &TokenKeyRequest| {
        other.author.key == request.author.key && other.nonce == request.nonce
    };
    match made.any(|other| same_recipe(other) && other.role != request.role) {
        true => Err(AuthorRefusal::BothRoles),
        false => Ok(()),
    }
}

/// The key, endorsed by the operator: what goes into `parties.tokens` of the recipe. Deterministic:
/// Ed25519 uses no randomness.
pub fn produce_token_key(key: &RecipeKey, operator: &NoteKey) -> EndorsedKey {
    operator.endorse(&TokenKeyStatement {
        role: key.request.role,
        aggregator: key.request.aggregator(),
        author: &key.request.author.key,
        issuer: operator.name(),
        public_key: &EndorsedKey::key_text(key.origin.token_key().spki()),
        expires: key.origin.expires().0,
    })
}
