//! Which entries a log accepts.
//!
//! A log does not judge recipes: devices and monitors do. It accepts entries that are well-formed,
//! are signed by the parties that the entry names, come from signers on its list, and do not
//! contradict what it already holds. These rules keep the log small and readable; a device relies
//! on none of them. Pure: what the log already holds comes through [`Held`].

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};
use sotto_crypto::note;
use sotto_wire::{Entry, EntryContent, EntryId, PublicKey, Receipt, Recipe, Role, Signer};

/// What an entry is about: (author, recipe name), the rounds of a series, an operator's keys, or an
/// operator's releases of one recipe. Of two entries with the same subject the log accepts the second only if its rank is
/// higher. A receipt's number is bounded, so this also bounds how many receipts there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// A hash of what the entry is about.
    pub key: [u8; 32],
    /// 0 for a recipe, so that a name is used only once; the number of a round; the sequence number
    /// for a key set or a receipt.
    pub rank: u64,
}

/// The subject of an entry, if it has one. Results have none: a population may be measured again.
pub fn subject(entry: &Entry) -> Option<Subject> {
    let hash = |kind: u8, signer: &Signer, name: &[u8]| -> [u8; 32] {
        let hash = Sha256::new().chain_update([kind]).chain_update(signer.key.as_bytes());
        hash.chain_update(name).finalize().into()
    };
    match entry.content() {
        EntryContent::Recipe(recipe) => Some(match recipe.round() {
            None => Subject { key: hash(0, &recipe.author, recipe.name.as_bytes()), rank: 0 },
            Some(round) => {
                let series = recipe.series_id();
                Subject { key: hash(3, &recipe.author, series.as_bytes()), rank: round.index }
            }
        }),
        EntryContent::KeySet(set) => {
            let name = set.operator.name.as_str().as_bytes();
            Some(Subject { key: hash(1, &set.operator, name), rank: set.seq })
        }
        EntryContent::Result(_) => None,
        EntryContent::Receipt(receipt) => {
            let recipe = receipt.recipe.as_bytes();
            Some(Subject { key: hash(2, &receipt.operator, recipe), rank: receipt.seq })
        }
    }
}

/// The rules of one log.
#[derive(Clone, Debug)]
pub struct AdmissionRules {
    /// The log's origin, which a recipe must name.
    pub origin: String,
    /// Who may have entries.
    pub signers: Signers,
}

/// Who may have entries in a log.
#[derive(Clone, Debug)]
pub enum Signers {
    /// These keys.
    Listed(BTreeSet<PublicKey>),
    /// Anybody. Strangers can then fill the disk.
    InsecureOpen,
}

/// What the log already holds.
pub trait Held {
    /// Why the lookup failed.
    type Error;

    /// The index of the entry with this id.
    fn index_of(&self, id: &EntryId) -> Result<Option<u64>, Self::Error>;

    /// The recipe with this id.
    fn recipe(&self, id: &EntryId) -> Result<Option<Recipe>, Self::Error>;

    /// The rank of the last entry with this subject.
    fn last_rank(&self, subject: &[u8; 32]) -> Result<Option<u64>, Self::Error>;
}

/// An entry that the log accepts, or already has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// To be appended.
    New,
    /// It is already there, at this index.
    Known(u64),
}

/// Why a log does not accept an entry.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refused {
    /// A signature is missing or wrong.
    #[error("the signature by {0} is missing or wrong")]
    Signature(String),
    /// The note has signatures beyond those that its kind requires.
    #[error("the entry has a signature that it does not need")]
    ExtraSignature,
    /// A signer is not on the log's list.
    #[error("{0} may not have entries in this log")]
    NotListed(String),
    /// The recipe names another log.
    #[error("the recipe is for the log {0}")]
    OtherLog(String),
    /// The name is taken, or the sequence number is not new.
    #[error("{}", Self::OUTDATED)]
    Outdated,
    /// The recipe of a receipt is not in the log.
    #[error("the recipe of the receipt is not in this log")]
    UnknownRecipe,
    /// The recipe of a receipt names another operator in this role.
    #[error("the recipe names another operator as its {}", .0.as_str())]
    OtherOperator(Role),
}

impl Refused {
    /// The text for all kinds of entry that can be outdated.
    const OUTDATED: &str = "the author has another recipe of this name, or a round of the series \
                            with this or a higher number, or the operator a key set or a receipt \
                            with this or a higher sequence number";
}

/// Why there is no decision, or why the entry is refused.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError<E> {
    /// The entry is refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The lookup in the log failed.
    #[error(transparent)]
    Held(E),
}

/// Decides about one entry.
pub fn admit<H: Held>(
    rules: &AdmissionRules,
    entry: &Entry,
    held: &H,
) -> Result<Admitted, AdmitError<H::Error>> {
    check_entry(rules, entry)?;
    if let Some(index) = held.index_of(&entry.id()).map_err(AdmitError::Held)? {
        return Ok(Admitted::Known(index));
    }
    if let Some(receipt) = entry.receipt() {
        let recipe = held.recipe(&receipt.recipe).map_err(AdmitError::Held)?;
        check_receipt(receipt, recipe.as_ref())?;
    }
    if let Some(subject) = subject(entry) {
        let last = held.last_rank(&subject.key).map_err(AdmitError::Held)?;
        if last.is_some_and(|last| subject.rank <= last) {
            return Err(Refused::Outdated.into());
        }
    }
    Ok(Admitted::New)
}

/// The rules that need only the entry itself.
pub fn check_entry(rules: &AdmissionRules, entry: &Entry) -> Result<(), Refused> {
    let signers: Vec<&Signer> = match entry.content() {
        EntryContent::Recipe(recipe) => {
            if recipe.parties.log != rules.origin {
                return Err(Refused::OtherLog(recipe.parties.log.clone()));
            }
            vec![&recipe.author]
        }
        EntryContent::KeySet(set) => vec![&set.operator],
        EntryContent::Result(result) => vec![&result.leader, &result.helper],
        EntryContent::Receipt(receipt) => vec![&receipt.operator],
    };
    for signer in &signers {
        if let Signers::Listed(listed) = &rules.signers
            && !listed.contains(&signer.key)
        {
            return Err(Refused::NotListed(signer.name.to_string()));
        }
        note::verify(entry.note(), &signer.verifier())
            .map_err(|_| Refused::Signature(signer.name.to_string()))?;
    }
    // Each signer has one verified signature, so any more are somebody else's or repeated. A
    // stranger could use them to put unsigned bytes into the log.
    if entry.note().signatures().len() > signers.len() {
        return Err(Refused::ExtraSignature);
    }
    Ok(())
}

/// Whether a log accepts a receipt, given the recipe that it holds under the receipt's id.
pub fn check_receipt(receipt: &Receipt, recipe: Option<&Recipe>) -> Result<(), Refused> {
    let parties = &recipe.ok_or(Refused::UnknownRecipe)?.parties;
    let named = match receipt.role {
        Role::Helper => &parties.helper,
        _ => &parties.leader,
    };
    match named.operator == receipt.operator.name {
        true => Ok(()),
        false => Err(Refused::OtherOperator(receipt.role)),
    }
}
