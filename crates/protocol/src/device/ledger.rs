//! What a device has spent: in this period, and in its whole life.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use sotto_dp::filter::{Charge, Filter};
use sotto_dp::{Adjacency, Error, Event, Shape};

use super::state::{AuditLine, DeviceState, MAX_AUDIT_LINES};
use crate::admission::{Check, Silence};
use crate::trust::{BudgetFile, Trust};

/// What has been spent, and when the period ends. The end is fixed when the period begins. A new
/// period length takes effect with the next period: otherwise a change of settings would be a new
/// budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ledger {
    ends: u64,
    /// What this period has spent.
    pub(super) filter: Filter,
    /// The odometer: what the device has spent in its life. Its period never changes. Absent only in
    /// states of version 2: see [`rebuilt`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lifetime: Option<Filter>,
}

impl Ledger {
    /// What the device has spent in its life.
    pub(super) fn lifetime(&self, audit: &[AuditLine]) -> Result<Filter, Error> {
        self.lifetime.clone().map_or_else(|| rebuilt(&self.filter, audit), Ok)
    }
}

/// The ledger after a charge, or why it cannot pay. Nothing is spent until it is committed.
pub(super) fn charge(
    state: &DeviceState,
    charge: &Charge,
    trust: &Trust,
) -> Result<Ledger, Silence> {
    let refuse = |reason: &dyn Display| Silence::new(Check::Ledger, reason.to_string());
    let (mut filter, mut lifetime, period, ends) =
        open(state, trust).map_err(|error| refuse(&error))?;
    filter.charge(period, charge).map_err(|refused| refuse(&refused))?;
    lifetime.charge(lifetime.period(), charge).map_err(|refused| {
        Silence::new(Check::Lifetime, format!("in this device's whole life {refused}"))
    })?;
    Ok(Ledger { ends, filter, lifetime: Some(lifetime) })
}

/// Both filters under the budgets of the trust file, and the period that a charge belongs to. Periods
/// are numbered consecutively, whatever their length.
fn open(state: &DeviceState, trust: &Trust) -> Result<(Filter, Filter, u64, u64), Error> {
    let next_end = trust.period_end(state.time);
    let Some(ledger) = &state.ledger else {
        let (filter, lifetime) =
            (Filter::new(trust.budget(), 0)?, Filter::new(trust.lifetime(), 0)?);
        return Ok((filter, lifetime, 0, next_end));
    };
    let over = state.time >= ledger.ends;
    let period = ledger.filter.period() + u64::from(over);
    let ends = if over { next_end } else { ledger.ends };
    let filter = ledger.filter.clone().with_budget(trust.budget())?;
    let lifetime = ledger.lifetime(&state.audit)?.with_budget(trust.lifetime())?;
    Ok((filter, lifetime, period, ends))
}

/// The odometer of a state from before there was one: never less than what was spent, if the budget
/// of a period was never larger than it is now. Its cap is the default until the next charge.
///
/// The history has what each recipe was charged, but not its delta: each earlier period counts with
/// the largest sum of deltas that its filter admits. If the history may have lost lines, each earlier
/// period counts as one black box of its whole budget, and this period with its sums.
fn rebuilt(filter: &Filter, audit: &[AuditLine]) -> Result<Filter, Error> {
    let (budget, earlier) = (filter.budget(), filter.period());
    let black_box = |epsilon, delta: f64| Event::ApproximateDp { epsilon, delta: delta.min(1.0) };
    let cap = BudgetFile::default().lifetime();
    let (mut lifetime, mut of) = (filter.clone().with_budget(cap)?, Vec::new());
    if audit.len() < MAX_AUDIT_LINES {
        lifetime = Filter::new(cap, 0)?;
        let charged = audit.iter().filter_map(|line| line.epsilon_micro);
        of.extend(charged.map(|micro| black_box((micro as f64 / 1e6).next_up(), 0.0)));
        of.push(black_box(
            0.0,
            (0.5 * budget.delta * earlier as f64 + filter.delta_spent()).next_up(),
        ));
    } else if earlier > 0 {
        let period = Box::new(black_box(budget.epsilon, budget.delta));
        of.push(Event::Repeated { times: earlier, of: period });
    }
    lifetime.add(&Charge::of_event(&Event::Composed { of }, Adjacency::Replace, Shape::Vector)?);
    Ok(lifetime)
}
