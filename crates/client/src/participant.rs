//! A device that takes part: it reads the log, decides, stores and sends, in the only safe order.
//!
//! Privacy depends on the order, so a host cannot choose it: [`Participant::pass`] runs all steps.
//!
//! 1. deliver the answers of earlier passes: the same bytes, whatever the log says today
//! 2. read the log and check every open recipe ([`Log`])
//! 3. request the tokens that are due, of every recipe, before anything is decided
//! 4. decide: consider, charge the ledger, toss the coin, make the report
//! 5. deliver
//!
//! Every decision is made in `sotto_protocol::device`, and each step is durable before the next
//! one.

mod deliver;
mod host;
mod log;
mod routes;
mod tokens;

use std::fmt;
use std::sync::Arc;

use rand_core::CryptoRng;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Silence, WatchError};
use sotto_protocol::device::tokens::Live;
use sotto_protocol::device::{self, DeviceStore, PassError, Pending, StateError, follow};
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

pub use self::deliver::Delivery;
pub use self::host::{Host, HostError};
pub use self::log::Log;
pub use self::routes::RouteError;
pub use self::tokens::{TokenFailure, TokenRound, TokensError};

/// One device: its host, what it trusts, its state, and the log.
pub struct Participant<S> {
    host: Host,
    trust: Arc<Trust>,
    store: S,
    log: Log,
    frozen_at: Option<Moment>,
}

/// What a pass did. It tells which recipes were considered, never which were answered.
#[derive(Debug)]
pub struct PassReport {
    /// Considered and charged in this pass.
    pub considered: Vec<EntryId>,
    /// Not considered, and why.
    pub silent: Vec<(EntryId, Silence)>,
    /// The outcome of the token requests; `None` if the host has no attestor, or no attester is
    /// pinned.
    pub tokens: Option<TokenRound>,
    delivery: Delivery,
}

/// Why a pass ended early. Nothing is lost: committed changes stay, and the next pass continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParticipantError {
    /// The log cannot be read or believed.
    #[error(transparent)]
    Log(#[from] WatchError),
    /// No token could be requested.
    #[error(transparent)]
    Tokens(TokensError),
    /// The decision could not be made.
    #[error(transparent)]
    Decision(PassError),
    /// The state could not be stored.
    #[error(transparent)]
    State(#[from] StateError),
    /// The host cannot determine its conditions or attributes.
    #[error(transparent)]
    Host(HostError),
}

impl<S: DeviceStore> Participant<S> {
    /// A device with this state that reads this log.
    pub fn new(host: Host, trust: Arc<Trust>, store: S, log: Log) -> Self {
        Self { host, trust, store, log, frozen_at: None }
    }

    /// Decides as if the time were always `time`; the network uses the host's clock. For simulated
    /// fleets whose answers must fall into one window.
    #[must_use]
    pub fn frozen_at(mut self, time: Moment) -> Self {
        self.frozen_at = Some(time);
        self
    }

    /// One pass: deliver, read the log, request tokens, decide, deliver.
    pub fn pass(&mut self) -> Result<PassReport, ParticipantError> {
        let mut rng = (self.host.random)();
        let earlier = self.deliver(&mut *rng)?;
        let (frozen_at, clock) = (self.frozen_at, &self.host.clock);
        let now = || frozen_at.unwrap_or_else(|| clock());
        self.log.refresh(self.store.state(), &self.trust, &now)?;
        let tokens = self.request_tokens(&mut *rng)?;
        // Evaluated only now: reading the log and requesting tokens must not depend on it.
        let conditions_met = (self.host.conditions)().map_err(ParticipantError::Host)?;
        let attributes = (self.host.attributes)().map_err(ParticipantError::Host)?;
        let host = device::Host { conditions_met, attributes: &attributes };
        let (now, watch) = (self.now(), self.log.watch());
        let decided = device::pass(&mut self.store, watch, &self.trust, &host, now, &mut *rng)?;
        let later = self.deliver(&mut *rng)?;
        let device::Pass { considered, silent } = decided;
        Ok(PassReport { considered, silent, tokens, delivery: earlier.then(later) })
    }

    /// The log, as far as it was read.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The answers that are not delivered yet. For tests and simulated fleets: a real host must
    /// neither look at them nor store them.
    pub fn insecure_pending(&self) -> impl Iterator<Item = &Pending> {
        self.store.state().pending().map(|(_, pending)| pending)
    }

    /// The parts it was made from, for the next device of a simulated fleet.
    pub fn into_parts(self) -> (Host, S, Log) {
        (self.host, self.store, self.log)
    }

    fn now(&self) -> Moment {
        self.frozen_at.unwrap_or_else(|| (self.host.clock)())
    }

    fn deliver(&mut self, rng: &mut dyn CryptoRng) -> Result<Delivery, StateError> {
        let routes =
            routes::to_leaders(&self.host, self.store.state(), self.log.watch(), &self.trust);
        deliver::deliver(&mut self.store, &routes, &self.host.retry, rng)
    }

    /// Requests the tokens that are due. If the attester does not answer, the pass continues:
    /// tokens that the device already holds can be used.
    fn request_tokens(
        &mut self,
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<TokenRound>, ParticipantError> {
        let attester = self.trust.tokens().and_then(|tokens| tokens.attester.as_ref());
        let (Some(attester), Some(attestor)) = (attester, self.host.attestor.as_deref()) else {
            return Ok(None);
        };
        let now = self.now();
        let view = follow(&mut self.store, self.log.watch(), &self.trust, now)?;
        let live = Live { view: &view, recipes: self.log.recipes() };
        let transport = self.host.transport.as_ref();
        let client = tokens::AttesterClient::new(attester, attestor, transport, &self.trust, now);
        Ok(Some(client.fetch(&mut self.store, &live, rng)?))
    }
}

impl From<TokensError> for ParticipantError {
    fn from(error: TokensError) -> Self {
        match error {
            TokensError::State(error) => Self::State(error),
            other => Self::Tokens(other),
        }
    }
}

impl From<PassError> for ParticipantError {
    fn from(error: PassError) -> Self {
        match error {
            PassError::State(error) => Self::State(error),
            other => Self::Decision(other),
        }
    }
}

impl PassReport {
    /// What happened to stored answers, and so whether this device has answered. For tests and
    /// simulated fleets: a real host must neither look at it nor store it.
    pub fn insecure_delivery(&self) -> Delivery {
        self.delivery
    }
}

impl<S> fmt::Debug for Participant<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant").field("log", &self.log).finish_non_exhaustive()
    }
}
