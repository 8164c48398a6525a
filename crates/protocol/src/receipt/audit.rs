//! What receipts prove: releases that break the rules of their recipe, and operators who contradict
//! themselves or each other.
//!
//! Left to the caller: that the entry is in the log, and that the operator signed it.

use serde::{Deserialize, Serialize};
use sotto_wire::recipe::Recipe;
use sotto_wire::{BatchMode, Receipt, Role};

use crate::MAX_CLOCK_SKEW_S;
use crate::recipe::windows::Span;

/// How long the other operator's receipt may take before it counts as missing. Both are due at the
/// same time, and are sent again until the log accepts them.
pub const PATIENCE_S: u64 = 2 * 86_400;

/// What is wrong with a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The interval is not within the recipe's time, or not made of its windows.
    Outside,
    /// The interval is longer than `max_window_s`.
    TooLong,
    /// The batch was below the minimum batch size, however the count was rounded.
    BelowMinimum,
    /// It was public before the release was due.
    Early,
    /// It names a batch, but the recipe has intervals, or the other way round.
    OtherMode,
    /// The same operator has said before that it released this batch, or part of this interval: in
    /// this entry.
    Again(u64),
    /// The other operator says something else about the same batch: in this entry.
    Differs(u64),
    /// The other operator has said nothing for [`PATIENCE_S`].
    Missing,
}

impl Finding {
    /// What it is, after "the release ...".
    pub fn words(self) -> String {
        match self {
            Self::Outside => "is not made of the recipe's windows".to_owned(),
            Self::TooLong => "covers more time than the recipe allows".to_owned(),
            Self::BelowMinimum => "was below the minimum batch".to_owned(),
            Self::Early => "was public before it was due".to_owned(),
            Self::OtherMode => "is not of the recipe's batch mode".to_owned(),
            Self::Again(index) => format!("repeats the one of entry {index}"),
            Self::Differs(index) => format!("differs from the one of entry {index}"),
            Self::Missing => "has no receipt of the other operator".to_owned(),
        }
    }
}

/// A receipt in the log, signed by the operator that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// Its index.
    pub index: u64,
    /// When it was public at the latest, by the witnesses.
    pub public_s: u64,
    /// What it says.
    pub receipt: Receipt,
    /// Whether it was reported that the other operator says nothing.
    #[serde(default)]
    pub reported: bool,
}

/// The receipts of one recipe, in the order of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Releases(Vec<Seen>);

impl Releases {
    /// Adds a receipt, and says what is wrong with it.
    pub fn add(&mut self, recipe: &Recipe, seen: Seen) -> Vec<Finding> {
        let mut findings = broken_rules(recipe, &seen);
        for other in &self.0 {
            let (one, two) = (&other.receipt, &seen.receipt);
            if !is_about_the_same(one, two) {
                continue;
            }
            if one.role == two.role {
                findings.push(Finding::Again(other.index));
            } else if (one.start, one.end, one.count) != (two.start, two.end, two.count) {
                findings.push(Finding::Differs(other.index));
            }
        }
        self.0.push(seen);
        findings
    }

    /// The receipts for which that of the other operator is missing at this time, each once.
    pub fn missing(&mut self, time_s: u64) -> Vec<Seen> {
        let is_alone = |seen: &Seen| {
            let mut others = self.0.iter().filter(|other| other.receipt.role != seen.receipt.role);
            !others.any(|other| is_about_the_same(&other.receipt, &seen.receipt))
        };
        let is_late = |seen: &Seen| time_s >= seen.public_s.saturating_add(PATIENCE_S);
        let late: Vec<bool> =
            self.0.iter().map(|seen| !seen.reported && is_late(seen) && is_alone(seen)).collect();
        let mut missing = Vec::new();
        for (seen, _) in self.0.iter_mut().zip(late).filter(|(_, late)| *late) {
            seen.reported = true;
            missing.push(seen.clone());
        }
        missing
    }

    /// Whether the operator in this role has written any.
    pub fn any_by(&self, role: Role) -> bool {
        self.0.iter().any(|seen| seen.receipt.role == role)
    }
}

/// Whether two receipts of a recipe are about one batch, or about intervals that overlap.
fn is_about_the_same(one: &Receipt, other: &Receipt) -> bool {
    match (one.batch, other.batch) {
        (None, None) => one.start < other.end && other.start < one.end,
        (one, other) => one == other,
    }
}

fn broken_rules(recipe: &Recipe, seen: &Seen) -> Vec<Finding> {
    let (when, receipt) = (recipe.answer_times(), &seen.receipt);
    let span = Span { start: receipt.start, end: receipt.end };
    let is_whole = |time: u64| time.is_multiple_of(when.window_s.max(1));
    let is_inside = when.opens <= span.start && span.end <= when.closes;
    let is_selected = recipe.aggregation.batch_mode == BatchMode::LeaderSelected;
    let rules = [
        (Finding::Outside, !is_inside || !is_whole(span.start) || !is_whole(span.end)),
        (Finding::TooLong, span.end.saturating_sub(span.start) > when.max_window_s),
        (Finding::BelowMinimum, !receipt.may_reach(recipe.aggregation.min_batch)),
        (Finding::Early, seen.public_s.saturating_add(MAX_CLOCK_SKEW_S) < span.due()),
        (Finding::OtherMode, receipt.batch.is_some() != is_selected),
    ];
    rules.into_iter().filter(|(_, broken)| *broken).map(|(finding, _)| finding).collect()
}
