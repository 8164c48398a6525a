//! Several questions, one budget: what the ledger of a device that answers all others has left.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use sotto_dp::Adjacency;
use sotto_dp::filter::{Budget, Charge, Filter};
use sotto_protocol::recipe::Assessment;
use sotto_wire::recipe::Privacy;

use crate::output::WithHint;
use crate::recipe_file;

/// The delta of a period, as trust files have it by default.
const DELTA: f64 = 1e-6;

/// The largest epsilon, in millionths, that a device can still pay after these recipes at the delta of
/// this claim, by its own ledger; `None` if there are no others.
pub(super) fn left(others: &[PathBuf], budget: f64, claim: &Privacy) -> Result<Option<u64>> {
    if others.is_empty() {
        return Ok(None);
    }
    let budget = Budget { epsilon: budget, delta: DELTA, adjacency: Adjacency::Replace };
    let mut ledger = Filter::new(budget, 0).context("--budget cannot be used")?;
    for path in others {
        let loaded = recipe_file::load(path)?;
        let assessed = Assessment::certified(loaded.recipe, loaded.audience);
        let assessed = assessed.map_err(|silence| anyhow!("{}: {silence}", path.display()))?;
        let Some(cost) = assessed.cost() else { continue };
        ledger
            .charge(0, &cost.charge)
            .map_err(|refused| anyhow!("{}: {refused}", path.display()))
            .hint("these recipes together are more than --budget: leave one out, or raise it")?;
    }
    let Privacy::Claim { delta, .. } = claim else { return Ok(None) };
    let affords = |micro: u64| {
        let epsilon = micro as f64 / 1e6;
        let charge = Charge::replacing(epsilon, delta.to_f64(), Adjacency::Replace);
        charge.is_ok_and(|charge| ledger.may_afford(0, &charge).is_ok())
    };
    let (mut low, mut high) = (0, (budget.epsilon * 1e6) as u64 + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        *(if affords(middle) { &mut low } else { &mut high }) = middle;
    }
    ensure!(low > 0, "the other recipes leave nothing of the budget");
    Ok(Some(low))
}
