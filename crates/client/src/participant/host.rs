//! What the application brings: network, clock, randomness, attestation, conditions and attributes.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use getrandom::SysRng;
use rand_core::{CryptoRng, UnwrapErr};
use sotto_protocol::Moment;
use sotto_protocol::expression::Attributes;
use sotto_protocol::token::Attestor;

use crate::relay::{Clock, Random};
use crate::retry::RetryPolicy;
use crate::transport::Transport;

/// Why a host cannot tell its conditions or attributes.
pub type HostError = Box<dyn std::error::Error + Send + Sync>;

/// What the application brings to a [`Participant`](crate::Participant).
pub struct Host {
    /// Reaches the relays and the attester; log and leaders too if the trust file exposes the
    /// device.
    pub transport: Arc<dyn Transport>,
    /// Tells the time.
    pub clock: Clock,
    /// Gives a generator for each pass, and for each request through a relay.
    pub random: Random,
    /// Shows the attester which device this is. Without it no tokens are requested.
    pub attestor: Option<Box<dyn Attestor + Send>>,
    /// Whether now is a good time: idle, charging. It must not depend on the data.
    pub conditions: Box<dyn FnMut() -> Result<bool, HostError> + Send>,
    /// What recipes may read about the device.
    pub attributes: Box<dyn FnMut() -> Result<Attributes, HostError> + Send>,
    /// How often the upload of an answer is tried in one delivery.
    pub retry: RetryPolicy,
}

impl Host {
    /// With the system's clock and randomness. Any time is a good time, nothing is attested, and
    /// there are no attributes.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            clock: Arc::new(now),
            random: Arc::new(|| Box::new(UnwrapErr(SysRng)) as Box<dyn CryptoRng>),
            attestor: None,
            conditions: Box::new(|| Ok(true)),
            attributes: Box::new(|| Ok(Attributes::new())),
            retry: RetryPolicy::default(),
        }
    }
}

/// Without a clock it is 1970: every gateway refuses that, and nothing is sent.
fn now() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
