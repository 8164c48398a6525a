//! A device that takes part: it reads the log, decides, stores and sends, in the only safe order.
//!
//! Privacy depends on the order, so a host cannot choose it: [`Participant::pass`] runs all steps.
//!
//! A pass either reads or sends, at random, so that nobody who sees both can link them by time:
//!
//! - A pass that **reads**: read the log and check every open recipe ([`Log`]); request the tokens
//!   that are due, of every recipe, and fetch the models of all open rounds, before anything is
//!   decided; decide: consider, charge the ledger,
//!   toss the coin, make the report or cover, and draw when to send it.
//! - A pass that **sends**: send one answer that is due, the same bytes, whatever the log says today.
//!
//! Passes happen at random times ([`Participant::pause`]). With `spread_s = 0` in the trust file,
//! which is for tests, a pass does all of it at once.
//!
//! Every decision is made in `sotto_protocol::device`, and each step is durable before the next
//! one.

mod deliver;
mod host;
mod log;
mod routes;
mod tokens;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand_core::CryptoRng;
use sotto_protocol::Moment;
use sotto_protocol::admission::{Silence, WatchError};
use sotto_protocol::device::tokens::Snapshot;
use sotto_protocol::device::{
    self, AuditLine, DeviceStore, Errand, PassError, Pending, StateError, follow, next_pass,
    next_pass_after_round,
};
use sotto_protocol::token::AttestError;
use sotto_protocol::trust::Trust;
use sotto_wire::EntryId;

pub use self::deliver::Delivery;
pub use self::host::{Host, HostError};
pub use self::log::Log;
pub use self::routes::RouteError;
pub use self::tokens::{TokenFailure, TokenRound};
use crate::model_files::ModelFileError;
use crate::relay::Clock;
use crate::training::{DeviceLearner, Trainer};

/// One device: its host, what it trusts, its state, and the log.
pub struct Participant<S> {
    host: Host,
    trust: Arc<Trust>,
    store: S,
    log: Log,
    /// The time of decisions.
    clock: Clock,
    /// When the last pass began, if it read a round of a series.
    saw_round: Option<Instant>,
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
    /// The rounds whose models are missing, and why. The next pass tries again.
    pub models_missing: Vec<(EntryId, ModelFileError)>,
    /// What happened to stored answers, and so whether this device has answered. For tests and
    /// simulated fleets: a real host must neither look at it nor store it.
    pub insecure_delivery: Delivery,
}

/// Why a pass ended early. Nothing is lost: committed changes stay, and the next pass continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParticipantError {
    /// The log cannot be read or believed.
    #[error(transparent)]
    Log(#[from] WatchError),
    /// The log cannot be believed, so no token is requested.
    #[error(transparent)]
    Tokens(#[from] Silence),
    /// The device cannot attest.
    #[error(transparent)]
    Attest(#[from] AttestError),
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
        let clock = Arc::clone(&host.clock);
        Self { host, trust, store, log, clock, saw_round: None }
    }

    /// Decides as if the time were always `time`; the network uses the host's clock. For simulated
    /// fleets whose answers must fall into one window.
    #[must_use]
    pub fn frozen_at(mut self, time: Moment) -> Self {
        self.clock = Arc::new(move || time);
        self
    }

    /// How long to wait before the next pass. It is drawn at random, anew each time: passes at
    /// regular times would be a fingerprint. The time after which it ends does not depend on what the
    /// last pass had to compute.
    pub fn pause(&self) -> Duration {
        let mut rng = (self.host.random)();
        match self.saw_round {
            Some(began) => next_pass_after_round(began.elapsed(), &mut *rng),
            None => next_pass(&mut *rng),
        }
    }

    /// One pass: it reads, or it sends.
    pub fn pass(&mut self) -> Result<PassReport, ParticipantError> {
        let began = Instant::now();
        let mut rng = (self.host.random)();
        let errand = Errand::draw(&self.trust, &mut *rng);
        let mut report = PassReport {
            considered: Vec::new(),
            silent: Vec::new(),
            tokens: None,
            models_missing: Vec::new(),
            insecure_delivery: Delivery::default(),
        };
        let read = match errand {
            Errand::Send => Ok(()),
            Errand::Read | Errand::Both => self.read(&mut report, &mut *rng),
        };
        // What is due is sent even if the log cannot be read.
        let most = match errand {
            Errand::Read => 0,
            Errand::Send => 1,
            Errand::Both => usize::MAX,
        };
        let saw_round = errand != Errand::Send && self.log.has_round();
        self.saw_round = saw_round.then_some(began);
        let Self { host, trust, store, clock, .. } = self;
        report.insecure_delivery = deliver::deliver(store, host, trust, most, clock(), &mut *rng)?;
        read?;
        Ok(report)
    }

    /// Reads the log, requests tokens and decides.
    fn read(
        &mut self,
        report: &mut PassReport,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), ParticipantError> {
        self.log.refresh(self.store.state(), &self.trust, &*self.clock)?;
        report.tokens = self.request_tokens(rng)?;
        // Evaluated only now: reading the log and requesting tokens must not depend on it.
        let conditions_met = (self.host.conditions)().map_err(ParticipantError::Host)?;
        // Without the conditions no recipe is considered. Models can be large, and the network costly.
        if conditions_met {
            let (host, trust, state) = (&self.host, &*self.trust, self.store.state());
            report.models_missing = self.log.fetch_models(state, host, trust, &*self.clock, rng);
        }
        let attributes = (self.host.attributes)().map_err(ParticipantError::Host)?;
        let Log { watch, models, .. } = &mut self.log;
        let trainer = self.host.trainer.as_deref().map(|trainer| trainer as &dyn Trainer);
        let learner = DeviceLearner::new(models, trainer);
        let learner = Some(&learner as &dyn device::Learner);
        let host = device::Host { conditions_met, attributes: &attributes, learner };
        let now = (self.clock)();
        let device::Pass { considered, silent } =
            device::pass(&mut self.store, watch, &self.trust, &host, now, rng)?;
        (report.considered, report.silent) = (considered, silent);
        Ok(())
    }

    /// The log, as far as it was read.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The device's history, oldest first: which recipes were considered, never which were answered.
    pub fn audit(&self) -> &[AuditLine] {
        self.store.state().audit()
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

    /// Requests the tokens that are due. If an attester does not answer, the pass continues:
    /// tokens that the device already holds can be used.
    fn request_tokens(
        &mut self,
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<TokenRound>, ParticipantError> {
        let pinned = self.trust.tokens().is_some_and(|tokens| tokens.leader.attester.is_some());
        let Some(attestor) = self.host.attestor.as_deref().filter(|_| pinned) else {
            return Ok(None);
        };
        let (trust, now) = (&*self.trust, (self.clock)());
        let view = follow(&mut self.store, &mut self.log.watch, trust, now)?;
        let log = Snapshot { view: &view, recipes: self.log.recipes(), trust, now };
        let transport = self.host.transport.as_ref();
        let client = tokens::AttesterClient { attestor, transport, log };
        client.fetch(&mut self.store, rng).map(Some)
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
