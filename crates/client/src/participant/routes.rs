//! The routes of a device to the log and to the leaders: through relays, or directly if an insecure
//! setting allows it.

use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_protocol::device::Pending;
use sotto_protocol::shuffle;
use sotto_protocol::trust::Trust;
use sotto_wire::{HpkeConfig, KeyName};

use super::host::Host;
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

/// The transport to the leader of a stored answer; `None` if no relay may carry it any more.
///
/// It uses one relay, drawn at random: if it fails, so does this send. Another relay at the same
/// moment would show the leader the same report twice.
pub(super) fn to_leader(
    pending: &Pending,
    host: &Host,
    trust: &Trust,
    rng: &mut dyn CryptoRng,
) -> Option<Arc<dyn Transport>> {
    if trust.settings().insecure_direct {
        return Some(Arc::clone(&host.transport));
    }
    let route = pending.route.as_ref()?;
    let mut relays: Vec<&str> =
        trust.relays().filter(|url| route.relays.iter().any(|known| known == url)).collect();
    shuffle(&mut relays, rng);
    let relay = relays.first()?;
    Some(through(host, [*relay].into_iter(), &route.gateway, vec![route.key.clone()]))
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
