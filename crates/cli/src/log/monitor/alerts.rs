//! The report of one reading of the log.

use std::path::PathBuf;

use sotto_crypto::note;
use sotto_protocol::log::Misbehaviour;
use sotto_protocol::trust::Trust;
use sotto_protocol::{MAX_CLOCK_SKEW_S, Moment};
use sotto_wire::Note;

/// News and alerts, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The size of the log.
    pub(super) size: u64,
    /// What is new, in words.
    pub(super) news: Vec<String>,
    /// What is wrong, in words.
    pub(super) alerts: Vec<String>,
    /// Proofs of what is wrong.
    pub(super) evidence: Vec<Misbehaviour>,
    /// Where the proofs were written.
    pub(super) files: Vec<PathBuf>,
}

impl Report {
    /// Adds a piece of news.
    pub(super) fn news(&mut self, words: impl Into<String>) {
        self.news.push(words.into());
    }

    /// Adds an alert, with a proof if there is one.
    pub(super) fn alert(&mut self, words: impl Into<String>, proof: Option<Misbehaviour>) {
        self.alerts.push(words.into());
        self.evidence.extend(proof);
    }

    /// Checks whether devices would accept the checkpoint: it has a quorum and is fresh.
    pub(super) fn check_witnesses(&mut self, newest: &Note, trust: &Trust, now: Moment) {
        match note::quorum(newest, trust.policy()) {
            Err(error) => self.alert(format!("no device believes the checkpoint: {error}"), None),
            Ok(time) if time.fresh > now.0.saturating_add(MAX_CLOCK_SKEW_S) => {
                self.alert("the witnesses' time is ahead of this machine's clock", None);
            }
            Ok(time) => {
                let (age, allowed) =
                    (now.0.saturating_sub(time.fresh), trust.settings().max_checkpoint_age_s);
                if age > allowed / 2 {
                    let words = format!("the checkpoint is {age} s old; devices allow {allowed} s");
                    self.alert(words, None);
                }
            }
        }
    }
}
