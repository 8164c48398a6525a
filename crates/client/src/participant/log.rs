//! The public log as a device reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Admitted, Silence, Watch, WatchError};
use sotto_protocol::device::{DeviceState, log_gateway_keys};
use sotto_protocol::log::Fetch;
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

use super::host::Host;
use super::routes::{self, RouteError};
use crate::log::HttpLog;
use crate::model_files::ModelFileError;
use crate::relay::RelayTransport;
use crate::training::Models;
use crate::transport::Transport;

/// The newest view of a log, with every open recipe admitted or rejected. Each device reads its
/// own; a simulated fleet may share one.
pub struct Log {
    pub(super) watch: Watch<Box<dyn Fetch + Send>>,
    /// The models of open rounds.
    pub(super) models: Models,
    /// The transport for reads, if they go through relays.
    relay: Option<Arc<RelayTransport>>,
    shared_for_s: u64,
    read_at: Option<Moment>,
}

impl Log {
    /// The log at `url`: read through relays, or directly if the trust file allows that.
    pub fn at(url: &str, host: &Host, trust: &Trust) -> Result<Self, RouteError> {
        let relay = routes::to_log(host, trust)?;
        let fetch = match &relay {
            Some(relay) => HttpLog::new(url, Arc::<RelayTransport>::clone(relay)),
            None => HttpLog::new(url, Arc::clone(&host.transport)),
        };
        Ok(Self { relay, ..Self::from_files(fetch) })
    }

    /// A log whose files come from elsewhere, for example from a folder.
    pub fn from_files(files: impl Fetch + Send + 'static) -> Self {
        let watch = Watch::new(Box::new(files) as Box<dyn Fetch + Send>);
        Self { watch, models: Models::default(), relay: None, shared_for_s: 0, read_at: None }
    }

    /// Reads the log again only after this many seconds. For simulated devices that share one view.
    #[must_use]
    pub fn shared_for(mut self, seconds: u64) -> Self {
        self.shared_for_s = seconds;
        self
    }

    /// The open recipes, admitted or not.
    pub fn recipes(&self) -> &BTreeMap<EntryId, Result<Arc<Admitted>, Silence>> {
        self.watch.recipes()
    }

    /// Whether a round of a series is open.
    pub(super) fn has_round(&self) -> bool {
        let mut open = self.recipes().values().flatten();
        open.any(|admitted| admitted.assessment.recipe().round().is_some())
    }

    /// The name of an open recipe.
    pub fn name(&self, recipe: &EntryId) -> Option<String> {
        self.watch.name(recipe)
    }

    /// Takes the newest view of the log.
    pub(super) fn refresh(
        &mut self,
        state: &DeviceState,
        trust: &Trust,
        now: &dyn Fn() -> Moment,
    ) -> Result<(), WatchError> {
        let age = self.read_at.map(|read_at| now().0.saturating_sub(read_at.0));
        if age.is_some_and(|age| age < self.shared_for_s) {
            return Ok(());
        }
        // An earlier pass may have found a newer key of the log's gateway, and an old key may have
        // ended.
        if let Some(relay) = &self.relay {
            relay.use_keys(log_gateway_keys(state, trust, now()));
        }
        // A long log is read in parts.
        while let Err(error) = self.watch.refresh(trust, now()) {
            if !matches!(error, WatchError::Behind { .. }) {
                return Err(error);
            }
        }
        self.read_at = Some(now());
        Ok(())
    }

    /// Fetches the models of all open rounds that the application can train, and the lists of all
    /// open discoveries, over the route by which the log is read. So what is fetched depends on the log and on the application, and neither on
    /// the data nor on a coin. Returns the rounds whose models are missing, and why.
    pub(super) fn fetch_models(
        &mut self,
        state: &DeviceState,
        host: &Host,
        trust: &Trust,
        now: &dyn Fn() -> Moment,
        rng: &mut dyn CryptoRng,
    ) -> Vec<(EntryId, ModelFileError)> {
        let rounds = self.watch.recipes().iter().filter_map(|(id, admitted)| {
            let recipe = admitted.as_ref().ok()?.assessment.recipe();
            recipe.round()?;
            let series = recipe.series.as_ref()?;
            let can = match &series.training {
                None => series.discovery.is_some(),
                Some(training) => host.trainer.as_ref().is_some_and(|it| it.knows(&training.model)),
            };
            can.then_some((*id, recipe))
        });
        let relay = match &self.relay {
            Some(relay) => Ok(Some(Arc::clone(relay))),
            None => routes::to_log(host, trust),
        };
        let transport: Arc<dyn Transport> = match relay {
            Ok(Some(relay)) => {
                relay.use_keys(log_gateway_keys(state, trust, now()));
                relay
            }
            Ok(None) => Arc::clone(&host.transport),
            Err(error) => return rounds.map(|(id, _)| (id, error.into())).collect(),
        };
        self.models.fetch(rounds, &*transport, now, rng)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("relay", &self.relay).finish_non_exhaustive()
    }
}
