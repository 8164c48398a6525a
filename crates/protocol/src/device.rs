//! The device that decides for itself: what it checks, what it charges, when it answers.
//!
//! A host fetches, keeps and sends; every decision is made here, by pure functions over a [`DeviceState`]:
//!
//! ```text
//! View::open          the checkpoint: pinned log key, witness quorum
//! advance             never behind the stored checkpoint            -> commit Change::Seen
//!                     a newer key of the log's gateway              -> commit Change::LogGateway
//! Library::admit      one recipe with its proofs: all that is the same for every device
//! tokens              asked for at random times, for every recipe   -> commit Change::Tokens
//! consider            what this device adds, and the ledger         -> commit Change::Considered
//! toss                the coin, once; the exact report bytes        -> commit Change::Answered
//!                     send the same bytes until they are taken      -> commit Change::Delivered
//! ```
//!
//! Each change is durable before the next step. After a crash a recipe that is considered but has no bytes stays
//! silent: a second toss would raise the rate. [`toss`] consumes the [`Ticket`] that only [`consider`] gives, so a
//! host cannot toss twice either.
//!
//! Any failed check is [`Silence`]: nothing is sent, not even an error. The reason is for the person in front of the
//! device and for tests.

mod consider;
mod evidence;
mod gateway;
mod library;
mod pass;
mod state;
pub mod tokens;

pub(crate) use self::consider::check_fresh;
pub use self::consider::{Consideration, Host, Ticket, advance, consider, toss};
pub(crate) use self::evidence::ProvedKeySet;
pub use self::evidence::{Admitted, Evidence, Offer, View};
pub use self::gateway::{leader_gateway_key, log_gateway_keys};
pub use self::library::Library;
pub use self::pass::{Pass, PassError, follow, pass};
pub use self::state::{
    AuditLine, Change, DeviceState, DeviceStore, MemoryState, Pending, SeenKeySet, StateError,
};

/// What a device checks, in this order. What depends on the log and the recipe alone comes first, because a fleet
/// shares it; the order among the rest is that of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The entry is a recipe in canonical form, within its limits.
    Canonical,
    /// The author signed it, and is one that this device listens to.
    AuthorSignature,
    /// The log's tree holds it.
    Inclusion,
    /// A pinned log signed the checkpoint.
    LogKey,
    /// Enough witnesses cosigned the checkpoint.
    WitnessQuorum,
    /// The checkpoint is neither old nor from the future.
    Freshness,
    /// It has been in the log for long enough.
    MinimumAge,
    /// The log is an extension of what this device saw before.
    Consistency,
    /// The author has not used the name for another recipe.
    NameReuse,
    /// The task follows from the recipe, and its expressions are valid.
    Derivation,
    /// The aggregators' keys come from their newest logged key sets.
    KeySets,
    /// The token keys are endorsed by the pinned issuer, for this recipe's author and aggregators.
    TokenKeys,
    /// Leader, helper, relay, issuer and attester are distinct operators, and pinned.
    Operators,
    /// Batch and population are large enough, the rate is small enough.
    Floors,
    /// The recipe is open now.
    Open,
    /// A device without history waits for the next period.
    FreshState,
    /// It has not been considered before.
    Once,
    /// This device holds its tokens for the recipe.
    Token,
    /// The host's conditions (idle, charging) are met.
    Conditions,
    /// The predicate is allowed, its audience certified, and this device in it.
    Targeting,
    /// The epsilon that the device computes is at most the claim.
    Claim,
    /// The ledger can pay.
    Ledger,
}

impl Check {
    /// All, in order.
    pub const ALL: [Self; 22] = [
        Self::Canonical,
        Self::AuthorSignature,
        Self::Inclusion,
        Self::LogKey,
        Self::WitnessQuorum,
        Self::Freshness,
        Self::MinimumAge,
        Self::Consistency,
        Self::NameReuse,
        Self::Derivation,
        Self::KeySets,
        Self::TokenKeys,
        Self::Operators,
        Self::Floors,
        Self::Open,
        Self::FreshState,
        Self::Once,
        Self::Token,
        Self::Conditions,
        Self::Targeting,
        Self::Claim,
        Self::Ledger,
    ];

    /// A short name, for people and machines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Canonical => "canonical",
            Self::AuthorSignature => "author_signature",
            Self::Inclusion => "inclusion",
            Self::LogKey => "log_key",
            Self::WitnessQuorum => "witness_quorum",
            Self::Freshness => "freshness",
            Self::MinimumAge => "minimum_age",
            Self::Consistency => "consistency",
            Self::NameReuse => "name_reuse",
            Self::Derivation => "derivation",
            Self::KeySets => "key_sets",
            Self::TokenKeys => "token_keys",
            Self::Operators => "operators",
            Self::Floors => "floors",
            Self::Open => "open",
            Self::FreshState => "fresh_state",
            Self::Once => "once",
            Self::Token => "token",
            Self::Conditions => "conditions",
            Self::Targeting => "targeting",
            Self::Claim => "claim",
            Self::Ledger => "ledger",
        }
    }
}

/// The device does nothing, because of this check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", check.name())]
pub struct Silence {
    /// The check that failed.
    pub check: Check,
    /// Why, in words.
    pub reason: String,
}

impl Silence {
    pub(crate) fn new(check: Check, reason: impl Into<String>) -> Self {
        Self { check, reason: reason.into() }
    }
}
