//! What the operators say about releases, and whether it can be true.

use std::collections::BTreeSet;

use sotto_crypto::note;
use sotto_protocol::log::admit::check_receipt;
use sotto_protocol::receipt::audit::{Finding, PATIENCE_S, Releases, Seen};
use sotto_protocol::trust::Trust;
use sotto_wire::{Entry, KeyName, Receipt, Recipe, Role};

use super::events::{EventKind, Report};
use super::state::{MonitorState, recipe};
use crate::log::about::{About, Release};
use crate::log::findings::Party;

/// Whom a finding speaks against.
struct Blame<'a> {
    /// One of these.
    blamed: Vec<&'a KeyName>,
    /// None of these.
    cleared: Vec<&'a KeyName>,
}

impl MonitorState {
    /// Reads a receipt that was public at this time at the latest.
    pub(super) fn read_receipt(
        &mut self,
        receipt: &Receipt,
        entry: &Entry,
        about: &About,
        (trust, time_s): (&Trust, u64),
        report: &mut Report,
    ) {
        let (kind, operator) = (EventKind::Receipt, &receipt.operator.name);
        let index = about.index.unwrap_or_default();
        let head = format!("{index}: receipt {} of {operator}", receipt.seq);
        if trust.operator(operator).is_none() {
            let words = format!("{head}: an operator that the trust file does not pin");
            report.news(kind, about, words);
            return;
        }
        // Anyone can make a key with this name, so this speaks against nobody we know.
        if !self.is_by_operator(receipt, entry, trust) {
            let words = format!("{head}: not signed by a key that the operator has published");
            report.alert(kind, about, None, words);
            return;
        }
        let found = self.ids.get(&receipt.recipe).and_then(|key| self.recipes.get(key));
        let found = found.and_then(|entry| recipe(entry));
        let recipe = match (&found, check_receipt(receipt, found.as_ref())) {
            (Some(recipe), Ok(())) => recipe,
            // A log must not publish it.
            (_, checked) => {
                let why = checked.err().map(|refused| refused.to_string()).unwrap_or_default();
                report.alert(kind, about, Some(Party::Log), format!("{head}: {why}"));
                return;
            }
        };
        let head = format!("{head} for {}", recipe.name);
        let said = about.release.as_ref().map(Release::words).unwrap_or_default();
        report.news(kind, about, format!("{head}: {said}"));
        let seen = Seen { index, public_s: time_s, receipt: receipt.clone(), reported: false };
        for finding in self.receipts.entry(receipt.recipe).or_default().add(recipe, seen) {
            let kind = match finding {
                Finding::Differs(_) => EventKind::ReceiptsDiffer,
                _ => EventKind::ReleaseRule,
            };
            let blame = Blame::of(finding, receipt.role, recipe);
            let words = format!("{head}: the release {}. {}", finding.words(), blame.words());
            report.accuse(kind, about, blame.names(), words);
        }
    }

    /// Looks for releases of which only one operator has a receipt. That the other one writes none
    /// at all is no alert.
    pub(super) fn find_missing(&mut self, time_s: u64, report: &mut Report) {
        let mut writers: BTreeSet<KeyName> = BTreeSet::new();
        for (id, releases) in &self.receipts {
            let found = self.ids.get(id).and_then(|key| self.recipes.get(key));
            let Some(recipe) = found.and_then(|entry| recipe(entry)) else { continue };
            for role in
                [Role::Leader, Role::Helper].into_iter().filter(|role| releases.any_by(*role))
            {
                writers.insert(operator(&recipe, role).clone());
            }
        }
        let missing = |releases: &mut Releases| releases.missing(time_s);
        let missing: Vec<Seen> = self.receipts.values_mut().flat_map(missing).collect();
        for Seen { index, receipt, .. } in missing {
            let found = self.ids.get(&receipt.recipe).and_then(|key| self.recipes.get(key));
            let Some(recipe) = found.and_then(|entry| recipe(entry)) else { continue };
            let other = operator(&recipe, other(receipt.role));
            let (about, kind) = (About::receipt(index, &receipt), EventKind::ReceiptMissing);
            let said = about.release.as_ref().map(Release::words).unwrap_or_default();
            let (name, days) = (&recipe.name, PATIENCE_S / 86_400);
            let head = format!(
                "{index}: release of {name}: {said}: {other} logged no receipt of it in {days} days"
            );
            if writers.contains(other) {
                let blame = Blame::of(Finding::Missing, receipt.role, &recipe);
                report.accuse(kind, &about, blame.names(), format!("{head}. {}", blame.words()));
            } else {
                report.news(kind, &about, format!("{head}, nor of any other: it may write none"));
            }
        }
    }

    /// Whether the operator signed a receipt: with the key that is pinned, or with the one for
    /// receipts in one of its key sets.
    fn is_by_operator(&self, receipt: &Receipt, entry: &Entry, trust: &Trust) -> bool {
        let signer = &receipt.operator;
        let sets = self.key_sets.get(signer.name.as_str()).into_iter().flatten();
        let is_named = sets.into_iter().any(|set| set.receipt_key == Some(signer.key));
        let is_pinned = trust.operator(&signer.name).is_some_and(|pinned| signer.is(pinned));
        (is_named || is_pinned) && note::verify(entry.note(), &signer.verifier()).is_ok()
    }
}

impl<'a> Blame<'a> {
    fn of(finding: Finding, role: Role, recipe: &'a Recipe) -> Self {
        let (one, two) = (operator(recipe, role), operator(recipe, other(role)));
        match finding {
            Finding::Differs(_) | Finding::Missing => {
                Self { blamed: vec![one, two], cleared: Vec::new() }
            }
            _ => Self { blamed: vec![one], cleared: vec![two] },
        }
    }

    fn names(&self) -> [Vec<String>; 2] {
        [&self.blamed, &self.cleared].map(|names| names.iter().map(|n| n.to_string()).collect())
    }

    fn words(&self) -> String {
        match (&self.blamed[..], &self.cleared[..]) {
            ([one], [other]) => format!(
                "{one} is to blame: it signed this. Nothing here speaks against {other}, the author \
                 or the log"
            ),
            _ => {
                let names: Vec<&str> = self.blamed.iter().map(|name| name.as_str()).collect();
                format!(
                    "One of {} is to blame, and the log does not say which. Nothing here speaks \
                     against the author or the log",
                    names.join(" and ")
                )
            }
        }
    }
}

fn operator(recipe: &Recipe, role: Role) -> &KeyName {
    match role {
        Role::Helper => &recipe.parties.helper.operator,
        _ => &recipe.parties.leader.operator,
    }
}

fn other(role: Role) -> Role {
    if role == Role::Helper { Role::Leader } else { Role::Helper }
}
