//! The certified audience of a targeted recipe.

use anyhow::Result;
use sotto_protocol::Moment;
use sotto_protocol::expression::Expression;
use sotto_wire::recipe::FORMAT_VERSION;
use sotto_wire::{Entry, EntryId, EntryKind, PopulationResult};

use crate::demo::Plan;
use crate::signer_file;
use crate::stage::operators::Keys;

/// What is said about a targeted recipe.
pub(super) const CAVEAT: &str = "The operators certify how many devices the predicate selects, \
                                 because the demo knows it; real ones sign what an earlier recipe \
                                 measured.";

/// The result by which both operators certify the devices of the demo; `None` if the recipe asks
/// all devices.
pub(super) fn certified(plan: &Plan, keys: &Keys, now: Moment) -> Result<Option<Entry>> {
    let draft = &plan.question.draft;
    let Some(targeting) = &draft.who.targeting else { return Ok(None) };
    let predicate = Expression::compile(&targeting.predicate, &draft.attributes)
        .map_err(|error| anyhow::anyhow!("the predicate: {}", error.reason))?;
    let attributes = draft.attributes.clone().into_iter();
    let result = PopulationResult {
        version: FORMAT_VERSION,
        // No recipe measured it.
        recipe: EntryId::new([0; 32]),
        predicate: targeting.predicate.clone(),
        attributes: attributes
            .filter(|(name, _)| predicate.attributes().contains(name.as_str()))
            .collect(),
        population: plan.devices(),
        measured_at: now.0,
        leader: signer_file::public(&keys.leader),
        helper: signer_file::public(&keys.helper),
    };
    let entry = signer_file::sign(EntryKind::Result, result.to_json(), &keys.leader)?;
    let second = keys.helper.sign(entry.note().text());
    Ok(Some(Entry::from_note(entry.note().clone().with_signature(second))?))
}
