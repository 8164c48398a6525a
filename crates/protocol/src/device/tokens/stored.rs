//! What a device stores about the tokens of a recipe, and how that changes.

use std::fmt;

use serde::{Deserialize, Serialize};
use sotto_wire::{EntryId, KeyName, Role};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::super::state::{DeviceState, SeenKeySet};
use crate::base64url;
use crate::token::TokenAttempt;

/// The seed of the device's client secrets, made once per state: each attester knows the device by
/// a key made from it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
#[serde(transparent)]
pub struct ClientSeed(#[serde(with = "base64url")] pub(super) [u8; 32]);

/// The tokens of one recipe, or of one participation in a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::device) struct RecipeTokens {
    /// After this they are useless and may be forgotten.
    closes: u64,
    pub(super) stage: Stage,
}

/// The progress of a recipe's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Stage {
    /// To be requested at this time.
    Due { at: u64 },
    /// The requests are made. From now on only these bytes are sent.
    Asked(Box<Asked>),
    /// Taken when the recipe was considered.
    Spent {},
}

/// Tokens that have been requested.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    /// The nonce of both tokens.
    #[serde(with = "base64url")]
    pub(super) nonce: Zeroizing<[u8; 32]>,
    pub(super) leader: Progress,
    /// Absent if the helper cannot check tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) helper: Option<Progress>,
}

/// The progress of one token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Progress {
    /// No answer yet.
    Waiting(Request),
    /// Held. It may be used from a time that was drawn when it arrived.
    Granted {
        #[serde(with = "base64url")]
        token: Zeroizing<Vec<u8>>,
        from: u64,
    },
    /// The attester says that this device already got one. It is not requested again.
    Withheld {},
}

impl Progress {
    /// From when the token may be used, if it is held.
    pub(super) fn usable_from(&self) -> Option<u64> {
        match self {
            Self::Granted { from, .. } => Some(*from),
            Self::Waiting(_) | Self::Withheld {} => None,
        }
    }
}

/// A request, and the issuer's key set that it is sealed to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    pub(super) attempt: TokenAttempt,
    /// The number of the key set.
    pub(super) seq: u64,
}

/// One durable step towards tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum TokenChange {
    /// The times of the requests were drawn.
    Planned(Planned),
    /// Requests were made. They are durable before their first byte is sent.
    Requested(Box<Requested>),
    /// A token was granted.
    Granted {
        /// The recipe.
        recipe: EntryId,
        /// Whose token.
        role: Role,
        /// The token.
        token: TokenBytes,
        /// When it may be used.
        from: u64,
    },
    /// A token is withheld for good.
    Withheld {
        /// The recipe.
        recipe: EntryId,
        /// Whose token.
        role: Role,
    },
}

/// The plan for recipes seen for the first time.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// The first plan makes the seed.
    pub(super) seed: Option<ClientSeed>,
    /// Each with its closing time and the time of its requests.
    pub(super) recipes: Vec<(EntryId, u64, u64)>,
}

/// Requests, and the issuers' key sets that they are sealed to.
#[derive(Clone, Debug, PartialEq)]
pub struct Requested {
    pub(super) key_sets: Vec<(KeyName, SeenKeySet)>,
    pub(super) recipes: Vec<(EntryId, Asked)>,
}

/// An encoded token. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenBytes(pub(super) Zeroizing<Vec<u8>>);

impl RecipeTokens {
    /// Whether the recipe has closed.
    pub(in crate::device) fn is_over(&self, now: u64) -> bool {
        self.closes <= now
    }

    /// Forgets the tokens: they are now in a ticket, or lost.
    pub(in crate::device) fn spend(&mut self) {
        self.stage = Stage::Spent {};
    }

    pub(super) fn asked(&self) -> Option<&Asked> {
        match &self.stage {
            Stage::Asked(asked) => Some(asked),
            Stage::Due { .. } | Stage::Spent {} => None,
        }
    }
}

impl Asked {
    pub(super) fn progress(&self, role: Role) -> Option<&Progress> {
        match role {
            Role::Leader => Some(&self.leader),
            Role::Helper => self.helper.as_ref(),
            _ => None,
        }
    }

    pub(super) fn progress_mut(&mut self, role: Role) -> Option<&mut Progress> {
        match role {
            Role::Leader => Some(&mut self.leader),
            Role::Helper => self.helper.as_mut(),
            _ => None,
        }
    }
}

impl DeviceState {
    pub(in crate::device) fn apply_tokens(&mut self, change: TokenChange) {
        match change {
            TokenChange::Planned(Planned { seed, recipes }) => {
                if self.client_seed.is_none() {
                    self.client_seed = seed;
                }
                for (recipe, closes, at) in recipes {
                    let planned = RecipeTokens { closes, stage: Stage::Due { at } };
                    self.tokens.entry(recipe).or_insert(planned);
                }
            }
            TokenChange::Requested(requested) => {
                self.key_sets.extend(requested.key_sets);
                for (recipe, asked) in requested.recipes {
                    if let Some(tokens) = self.tokens.get_mut(&recipe) {
                        tokens.stage = Stage::Asked(Box::new(asked));
                    }
                }
            }
            TokenChange::Granted { recipe, role, token, from } => {
                self.answer(&recipe, role, Progress::Granted { token: token.0, from });
            }
            TokenChange::Withheld { recipe, role } => {
                self.answer(&recipe, role, Progress::Withheld {});
            }
        }
    }

    /// Records the answer to a waiting request.
    fn answer(&mut self, recipe: &EntryId, role: Role, answer: Progress) {
        let Some(tokens) = self.tokens.get_mut(recipe) else { return };
        let Stage::Asked(asked) = &mut tokens.stage else { return };
        if let Some(progress @ Progress::Waiting(_)) = asked.progress_mut(role) {
            *progress = answer;
        }
    }
}

impl fmt::Debug for ClientSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSeed([redacted])")
    }
}

impl fmt::Debug for TokenBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenBytes([redacted])")
    }
}

/// Omits the nonce, which holds the report's id.
impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("leader", &self.leader).field("helper", &self.helper).finish()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting(_) => "Waiting",
            Self::Granted { .. } => "Granted",
            Self::Withheld {} => "Withheld",
        })
    }
}
