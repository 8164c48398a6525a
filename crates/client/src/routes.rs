//! The ways of a device: through relays to the log and to the leaders, or directly where its owner allows that by name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sotto_protocol::admission::Watch;
use sotto_protocol::device::{DeviceState, leader_gateway_key, log_gateway_keys};
use sotto_protocol::log::Fetch;
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

use crate::relay::{Clock, Random, RelayTransport};
use crate::transport::Transport;

/// Why a device cannot read the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The trust file pins no gateway of the log.
    #[error(
        "the trust file names no log_gateway: only the log itself could be asked, which would see this device's address"
    )]
    NoLogGateway,
}

/// Makes the ways, all over one transport.
#[derive(Clone)]
pub struct Routes {
    inner: Arc<dyn Transport>,
    clock: Clock,
    random: Random,
}

/// The way to the log.
#[derive(Clone)]
pub struct LogRoute {
    transport: Arc<dyn Transport>,
    /// The same, if it leads through relays.
    relay: Option<Arc<RelayTransport>>,
    clock: Clock,
}

impl Routes {
    /// Ways over `inner`, which reaches relays, or everybody if the way is direct.
    pub fn new(inner: Arc<dyn Transport>, clock: Clock, random: Random) -> Self {
        Self { inner, clock, random }
    }

    /// The way to the log.
    pub fn to_log(&self, state: &DeviceState, trust: &Trust) -> Result<LogRoute, RouteError> {
        let clock = Arc::clone(&self.clock);
        if trust.insecure_direct() {
            return Ok(LogRoute { transport: Arc::clone(&self.inner), relay: None, clock });
        }
        let gateway = trust.log_gateway().ok_or(RouteError::NoLogGateway)?;
        let keys = log_gateway_keys(state, trust, clock());
        let relay = Arc::new(RelayTransport::new(
            Arc::clone(&self.inner),
            trust.log_relays().map(str::to_owned).collect(),
            gateway.operator().clone(),
            keys,
            Arc::clone(&self.clock),
            Arc::clone(&self.random),
        ));
        Ok(LogRoute { transport: Arc::<RelayTransport>::clone(&relay), relay: Some(relay), clock })
    }

    /// The ways to the leaders of the answers that are not delivered yet, by recipe. One without a way waits: its recipe is not in
    /// the newest view that the device has taken, or its leader has no gateway key there that this device may use.
    pub fn to_leaders<F: Fetch>(
        &self,
        state: &DeviceState,
        watch: &Watch<F>,
        trust: &Trust,
    ) -> BTreeMap<EntryId, Arc<dyn Transport>> {
        let route = |id| Some((id, self.to_leader(&id, state, watch, trust)?));
        state.pending().filter_map(|(id, _)| route(id)).collect()
    }

    fn to_leader<F: Fetch>(
        &self,
        id: &EntryId,
        state: &DeviceState,
        watch: &Watch<F>,
        trust: &Trust,
    ) -> Option<Arc<dyn Transport>> {
        if trust.insecure_direct() {
            return Some(Arc::clone(&self.inner));
        }
        let (view, admitted) = (watch.view()?, watch.recipes().get(id)?.as_ref().ok()?);
        let key = leader_gateway_key(state, admitted, view, trust, (self.clock)()).ok()?;
        let recipe = admitted.assessment.recipe();
        Some(Arc::new(RelayTransport::new(
            Arc::clone(&self.inner),
            trust.relays_for(recipe).map(str::to_owned).collect(),
            recipe.parties.leader.operator.clone(),
            vec![key.clone()],
            Arc::clone(&self.clock),
            Arc::clone(&self.random),
        )))
    }
}

impl LogRoute {
    /// What [`HttpLog`](crate::HttpLog) reads through.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.transport)
    }

    /// Takes the keys that the device would begin with now. To be called before the log is read: a pass may have found a newer
    /// one, and one may be over.
    pub fn renew(&self, state: &DeviceState, trust: &Trust) {
        if let Some(relay) = &self.relay {
            relay.use_keys(log_gateway_keys(state, trust, (self.clock)()));
        }
    }
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes").finish_non_exhaustive()
    }
}

impl fmt::Debug for LogRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogRoute").field("relay", &self.relay).finish_non_exhaustive()
    }
}
