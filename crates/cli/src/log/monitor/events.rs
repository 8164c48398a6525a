//! The events of one reading of the log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sotto_crypto::note;
use sotto_protocol::log::Misbehaviour;
use sotto_protocol::trust::Trust;
use sotto_protocol::{MAX_CLOCK_SKEW_S, Moment};
use sotto_wire::Note;

use crate::log::about::About;
use crate::log::findings::Party;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EventKind {
    /// A recipe.
    Recipe,
    /// A key set.
    KeySet,
    /// A certified population.
    Result,
    /// A receipt of a release.
    Receipt,
    /// A release that broke the rules of its recipe.
    ReleaseRule,
    /// The two operators say different things about a release.
    ReceiptsDiffer,
    /// Only one of the two operators has a receipt of a release.
    ReceiptMissing,
    /// An entry that cannot be parsed.
    Unreadable,
    /// A recipe differs from the author's last one.
    Change,
    /// A recipe does not keep its promise.
    BadRecipe,
    /// An author used a name twice.
    NameReuse,
    /// The log contradicts itself.
    SplitView,
    /// The log shows fewer entries than before.
    Smaller,
    /// The checkpoint is not one that devices believe.
    Checkpoint,
    /// The keys that an aggregator serves.
    ServedKeys,
    /// Something that was proved before.
    Remembered,
    /// A proof could not be written.
    ProofNotWritten,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Event {
    pub(super) kind: EventKind,
    /// Whether something is wrong.
    pub(super) alert: bool,
    #[serde(flatten)]
    pub(super) about: About,
    /// Whom it speaks against, if anybody.
    pub(super) against: Option<Party>,
    /// The operators of whom one is to blame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) blamed_operators: Vec<String>,
    /// The operators against whom nothing here speaks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cleared_operators: Vec<String>,
    pub(super) words: String,
}

impl Event {
    /// A piece of news.
    fn new(kind: EventKind, about: &About, words: String) -> Self {
        let (about, nobody) = (about.clone(), Vec::new());
        Self {
            kind,
            alert: false,
            about,
            against: None,
            blamed_operators: nobody.clone(),
            cleared_operators: nobody,
            words,
        }
    }
}

/// The events, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The size of the log.
    pub(super) size: u64,
    pub(super) events: Vec<Event>,
    /// Proofs of what is wrong.
    pub(super) evidence: Vec<Misbehaviour>,
    /// Where the proofs were written.
    pub(super) files: Vec<PathBuf>,
    /// Why the hook failed.
    pub(super) hook_failures: Vec<String>,
    /// How many events the hook has not accepted yet.
    pub(super) pending: usize,
}

impl Report {
    /// Adds a piece of news.
    pub(super) fn news(&mut self, kind: EventKind, about: &About, words: impl Into<String>) {
        self.add(Event::new(kind, about, words.into()));
    }

    /// Adds an alert.
    pub(super) fn alert(
        &mut self,
        kind: EventKind,
        about: &About,
        against: Option<Party>,
        words: impl Into<String>,
    ) {
        self.add(Event { alert: true, against, ..Event::new(kind, about, words.into()) });
    }

    /// Adds an alert against operators: those of whom one is to blame, and those who are not.
    pub(super) fn accuse(
        &mut self,
        kind: EventKind,
        about: &About,
        [blamed_operators, cleared_operators]: [Vec<String>; 2],
        words: String,
    ) {
        let against = Some(Party::Operator);
        let event = Event::new(kind, about, words);
        self.add(Event { alert: true, against, blamed_operators, cleared_operators, ..event });
    }

    fn add(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Whether there is an alert.
    pub(super) fn has_alert(&self) -> bool {
        self.events.iter().any(|event| event.alert)
    }

    /// Checks whether devices would accept the checkpoint: it has a quorum and is fresh.
    pub(super) fn check_witnesses(&mut self, newest: &Note, trust: &Trust, now: Moment) {
        let (against, words) = match note::quorum(newest, trust.policy()) {
            Err(error) => (Some(Party::Log), format!("no device believes the checkpoint: {error}")),
            Ok(time) if time.fresh > now.0.saturating_add(MAX_CLOCK_SKEW_S) => {
                (None, "the witnesses' time is ahead of this machine's clock".to_owned())
            }
            Ok(time) => {
                let (age, allowed) =
                    (now.0.saturating_sub(time.fresh), trust.settings().max_checkpoint_age_s);
                if age <= allowed / 2 {
                    return;
                }
                let words = format!("the checkpoint is {age} s old; devices allow {allowed} s");
                (Some(Party::Log), words)
            }
        };
        self.alert(EventKind::Checkpoint, &About::default(), against, words);
    }
}
