//! The demo's recipe.

use anyhow::{Result, anyhow};
use sotto_crypto::note::NoteKey;
use sotto_protocol::Moment;
use sotto_protocol::recipe::{judgement_to_claim, set_claim};
use sotto_wire::recipe::{Aggregator, PartiesDraft, TokensDraft, When, Who};
use sotto_wire::{BatchMode, EntryId, HpkeConfig, KeyName, KeySet, Recipe};

use crate::demo::Plan;
use crate::output::WithHint;
use crate::recipe_file;
use crate::signer_file;

/// One hour: long enough that the demo fits into one unit.
const WINDOW_S: u64 = 3_600;

/// The people behind the demo.
pub(super) const LEADER: &str = "leader.demo";
pub(super) const HELPER: &str = "helper.demo";

/// The addresses that the recipe names.
pub(super) struct Places<'a> {
    pub(super) leader_url: String,
    pub(super) helper_url: String,
    pub(super) collector: &'a HpkeConfig,
    pub(super) log: &'a KeyName,
    /// The result that certifies the audience of a targeted recipe.
    pub(super) certified: Option<EntryId>,
}

/// The recipe of the question, with the demo's parties, times and sizes, and the claim that follows
/// from them.
pub(super) fn recipe(
    plan: &Plan,
    author: &NoteKey,
    places: Places<'_>,
    now: Moment,
) -> Result<Recipe> {
    let mut draft = plan.question.draft.clone();
    let aggregator =
        |operator: &str, url| anyhow::Ok(Aggregator { operator: operator.parse()?, url });
    let mut targeting = draft.who.targeting.take();
    if let (Some(targeting), Some(certified)) = (&mut targeting, places.certified) {
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
    draft.parties = Some(PartiesDraft {
        leader: aggregator(LEADER, places.leader_url)?,
        helper: aggregator(HELPER, places.helper_url)?,
        collector_hpke_config: KeySet::config_text(places.collector),
        log: places.log.to_string(),
        tokens: TokensDraft::InsecureNone,
    });
    let mut recipe = recipe_file::complete(draft, signer_file::public(author))?;
    if let Some(judged) = judgement_to_claim(&recipe, certified)? {
        let published = sotto_dp::published(judged.epsilon);
        let published =
            published.map_err(|_| anyhow!("no finite epsilon holds for so few devices"));
        set_claim(&mut recipe, published.hint("ask more devices")?)?;
    }
    Ok(recipe)
}
