//! What the application provides: network, clock, randomness, attestation, conditions and
//! attributes.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use getrandom::SysRng;
use rand_core::{CryptoRng, UnwrapErr};
use sotto_protocol::Moment;
use sotto_protocol::expression::Attributes;
use sotto_protocol::token::Attestor;

use crate::relay::{Clock, Random};
use crate::training::Trainer;
use crate::transport::Transport;

/// Why a host cannot determine its conditions or attributes.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// What the application provides to a [`Participant`](crate::Participant).
pub struct Host {
    /// Reaches the relays and the attester, and also the log and the leaders if the trust file
    /// allows direct access.
    pub transport: Arc<dyn Transport>,
    /// Returns the current time.
    pub clock: Clock,
    /// Returns a generator for each pass, and for each request through a relay.
    pub random: Random,
    /// Shows the attester which device this is. Without it no tokens are requested.
    pub attestor: Option<Box<dyn Attestor + Send>>,
    /// What it brings to train models. Without it no model is fetched, and no round of a training is
    /// answered. A discovery of words needs only attributes.
    pub trainer: Option<Box<dyn Trainer + Send>>,
    /// Whether now is a good time: idle, charging. It must not depend on the data.
    pub conditions: Box<dyn FnMut() -> Result<bool, HostError> + Send>,
    /// What recipes may read about the device.
    pub attributes: Box<dyn FnMut() -> Result<Attributes, HostError> + Send>,
}

impl Host {
    /// A host with the system's clock and randomness. Its conditions are always met, it has no
    /// attestor, trains nothing, and has no attributes.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            clock: Arc::new(now),
            random: Arc::new(|| Box::new(UnwrapErr(SysRng)) as Box<dyn CryptoRng>),
            attestor: None,
            trainer: None,
            conditions: Box::new(|| Ok(true)),
            attributes: Box::new(|| Ok(Attributes::new())),
        }
    }
}

/// If the clock fails, the time is 1970: every gateway rejects that, and nothing is sent.
fn now() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
