//! The routes of a device to the log and to the leaders: through relays, or directly if an insecure
//! setting allows it.

use std::sync::Arc;

use sotto_protocol::device::{DeviceState, leader_gateway_key};
use sotto_protocol::trust::Trust;
use sotto_wire::{EntryId, HpkeConfig, KeyName};

use super::host::Host;
use super::log::Log;
use crate::relay::RelayTransport;
use crate::transport::Transport;

/// Why a device cannot read the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The trust file pins no gateway of the log.
    #[error(
        "the trust file names no log_gateway: the log could only be read directly, and would see \
         this device's address"
    )]
    NoLogGateway,
}

/// The transport for reads of the log; `None` if they go directly. It starts with the pinned keys.
pub(super) fn to_log(
    host: &Host,
    trust: &Trust,
) -> Result<Option<Arc<RelayTransport>>, RouteError> {
    if trust.settings().insecure_direct {
        return Ok(None);
    }
    let gateway = trust.log_gateway().ok_or(RouteError::NoLogGateway)?;
    Ok(Some(through(host, trust.log_relays(), &gateway.operator, gateway.configs.clone())))
}

/// The route to the leader of a recipe; `None` if the recipe is not in the newest view that the
/// device has taken, or its leader has no gateway key there that this device may use.
pub(super) fn to_leader(
    id: &EntryId,
    host: &Host,
    state: &DeviceState,
    log: &Log,
    trust: &Trust,
) -> Option<Arc<dyn Transport>> {
    if trust.settings().insecure_direct {
        return Some(Arc::clone(&host.transport));
    }
    let (view, admitted) = (log.watch.view()?, log.recipes().get(id)?.as_ref().ok()?);
    let key = leader_gateway_key(state, admitted, view, trust, (host.clock)()).ok()?;
    let recipe = admitted.assessment.recipe();
    let (relays, gateway) = (trust.relays_for(recipe), &recipe.parties.leader.operator);
    Some(through(host, relays, gateway, vec![key.clone()]))
}

fn through<'a>(
    host: &Host,
    relays: impl Iterator<Item = &'a str>,
    gateway: &KeyName,
    keys: Vec<HpkeConfig>,
) -> Arc<RelayTransport> {
    Arc::new(RelayTransport::new(
        Arc::clone(&host.transport),
        relays.map(str::to_owned).collect(),
        gateway.clone(),
        keys,
        Arc::clone(&host.clock),
        Arc::clone(&host.random),
    ))
}
