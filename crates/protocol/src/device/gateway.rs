//! The keys of the log's gateway, behind which a device reads the log.
//!
//! A key that only some devices use would tell them apart. So each key comes from the newest logged
//! key set of a pinned operator, under the same rules as every other key. The first key of the
//! log's own gateway is pinned: without it the log cannot be read.

use sotto_crypto::hpke::usable;
use sotto_wire::HpkeConfig;

use super::consider::{check_key_set, check_taken};
use super::state::{Change, DeviceState, SeenGateway};
use crate::Moment;
use crate::admission::{Check, ProvedKeySet, Silence, View};
use crate::trust::Trust;

/// The keys of the log's gateway with which this device reads the log, in order of preference: the
/// newest logged key that it has seen, unless that key has ended, is of a suite that this device no
/// longer uses, or belongs to an operator other than the pinned one; then the pinned keys. Empty if
/// no gateway is pinned.
///
/// A device that was offline while the key changed can learn the new key only from the log. So it
/// falls back to the pinned keys, which are the same for all. Whoever refuses the newer key only
/// makes the device look like one that has never read the log, and learns nothing else.
pub fn log_gateway_keys(state: &DeviceState, trust: &Trust, now: Moment) -> Vec<HpkeConfig> {
    let Some(pinned) = trust.log_gateway() else { return Vec::new() };
    let operator = trust.operator(&pinned.operator);
    let seen = state.log_gateway.as_ref().filter(|seen| {
        operator.is_some_and(|operator| seen.operator.is(operator))
            && now.0.max(state.time) < seen.not_after
    });
    let seen = seen.map(|seen| seen.config.clone()).into_iter().collect();
    let mut keys = usable(seen, trust.settings().require_post_quantum);
    let others = pinned.configs.iter().filter(|config| !keys.contains(config)).cloned();
    let others: Vec<_> = others.collect();
    keys.extend(others);
    keys
}

/// Takes a newer key of the log's gateway, if there is one. Returns `None` if there is nothing new.
pub(super) fn advance_log_gateway(
    state: &DeviceState,
    set: &ProvedKeySet,
    view: &View,
    trust: &Trust,
    now: Moment,
) -> Result<Option<Change>, Silence> {
    view.check_fresh(trust, now)?;
    check_taken(state, &view.checkpoint().origin, view)?;
    let (_, seen) = check_key_set(state, set, trust, now)?;
    let missing =
        || Silence::new(Check::KeySets, format!("the log: {}", trust.unusable("gateway key")));
    let config = set.gateway.clone().ok_or_else(missing)?;
    let (operator, not_after) = (set.operator.clone(), set.not_after);
    let gateway = SeenGateway { operator, not_after, config };
    let is_new = state.log_gateway.as_ref() != Some(&gateway);
    Ok(is_new.then_some(Change::LogGateway { set: seen, gateway }))
}
