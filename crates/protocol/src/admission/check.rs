//! The checks by name, and the rejection that names one.

/// What a device checks, in this order. Checks that depend only on the log and the recipe come
/// first: a fleet shares them, and aggregators make them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The entry is a recipe in canonical form, within its limits.
    Canonical,
    /// The author signed it, and this device accepts the author.
    AuthorSignature,
    /// The log's tree holds it.
    Inclusion,
    /// A pinned log signed the checkpoint.
    LogKey,
    /// Enough witnesses cosigned the checkpoint.
    WitnessQuorum,
    /// The checkpoint is neither old nor from the future.
    Freshness,
    /// It has been in the log long enough.
    MinimumAge,
    /// The log is an extension of what this device saw before.
    Consistency,
    /// It is the newest round of a series whose header the log holds.
    Round,
    /// The author has not used the name for another recipe.
    NameReuse,
    /// The task follows from the recipe, and its expressions are valid.
    Derivation,
    /// The aggregators' keys and URLs come from their newest logged key sets.
    KeySets,
    /// The token keys are endorsed by the pinned issuer, for this recipe's author and aggregators.
    TokenKeys,
    /// Leader, helper, relay, issuer and attester are distinct operators, and pinned.
    Operators,
    /// Batch and population are large enough, and the rate is small enough.
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
    /// The model of the round is at hand, and is the one that the round names.
    Model,
    /// The predicate is allowed, its audience is certified, and this device is in it.
    Targeting,
    /// The epsilon that the device computes is at most the claim.
    Claim,
    /// The ledger can pay for it from the period's budget.
    Ledger,
    /// It stays below the cap on what the device spends in its life.
    Lifetime,
}

impl Check {
    /// All checks, in order.
    pub const ALL: [Self; 25] = [
        Self::Canonical,
        Self::AuthorSignature,
        Self::Inclusion,
        Self::LogKey,
        Self::WitnessQuorum,
        Self::Freshness,
        Self::MinimumAge,
        Self::Consistency,
        Self::Round,
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
        Self::Model,
        Self::Targeting,
        Self::Claim,
        Self::Ledger,
        Self::Lifetime,
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
            Self::Round => "round",
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
            Self::Model => "model",
            Self::Targeting => "targeting",
            Self::Claim => "claim",
            Self::Ledger => "ledger",
            Self::Lifetime => "lifetime",
        }
    }
}

/// The recipe, or the whole log, is ignored because of this check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", check.name())]
pub struct Silence {
    /// The check that failed.
    pub check: Check,
    /// Why, for people.
    pub reason: String,
}

impl Silence {
    pub(crate) fn new(check: Check, reason: impl Into<String>) -> Self {
        Self { check, reason: reason.into() }
    }
}
