//! The demo's recipe.

use anyhow::{Result, anyhow};
use sotto_crypto::note::NoteKey;
use sotto_protocol::Moment;
use sotto_protocol::recipe::{judgement_to_claim, set_claim};
use sotto_wire::recipe::{PartiesDraft, When, Who};
use sotto_wire::{BatchMode, EntryId, Recipe};

use crate::demo::Plan;
use crate::output::WithHint;
use crate::recipe_file;
use crate::signer_file;

/// One hour: long enough that the demo fits into one unit.
const WINDOW_S: u64 = 3_600;

/// The recipe of the question, with the demo's parties, times and sizes, and the claim that follows
/// from them.
pub(super) fn recipe(
    plan: &Plan,
    author: &NoteKey,
    parties: PartiesDraft,
    certified_by: Option<EntryId>,
    now: Moment,
) -> Result<Recipe> {
    let mut draft = plan.question.draft.clone();
    let mut targeting = draft.who.targeting.take();
    if let (Some(targeting), Some(certified)) = (&mut targeting, certified_by) {
        targeting.certified = certified;
    }
    let certified = targeting.is_some().then_some(plan.devices());
    draft.who = Who { population: plan.devices(), targeting };
    let opens = now.0 - now.0 % WINDOW_S;
    // All devices may answer in one unit.
    let max_window_s = 24 * WINDOW_S;
    let closes = opens + max_window_s;
    draft.when = When { opens, closes, window_s: WINDOW_S, max_window_s };
    draft.sampling = plan.sampling;
    draft.min_batch = plan.min_batch_size;
    draft.batch_mode = BatchMode::TimeInterval;
    draft.parties = Some(parties);
    let mut recipe = recipe_file::complete(draft, signer_file::public(author))?;
    if let Some(judged) = judgement_to_claim(&recipe, certified)? {
        let published = sotto_dp::published(judged.epsilon);
        let published =
            published.map_err(|_| anyhow!("no finite epsilon holds for so few devices"));
        set_claim(&mut recipe, published.hint("ask more devices")?)?;
    }
    Ok(recipe)
}
