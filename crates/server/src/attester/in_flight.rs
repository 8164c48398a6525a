//! Which requests of a device are being worked on.
//!
//! The alias of a request is known only when the issuer has done its work, so a device could have any number of requests
//! worked on for one token: it gets a few at once. And the same bytes twice at once would be told about in two ways, if the
//! issuer's keys change in between: a device that hears that its request is no good must be able to rely on it that no other copy
//! of it is granted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sotto_protocol::attester::DeviceIdentity;

use super::request::Refusal;

/// Requests of one device that are worked on at once.
const MAX_PER_DEVICE: usize = 8;

/// All requests that are worked on, by device: the digests of their bytes.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<DeviceIdentity, Vec<[u8; 32]>>>);

/// A request that is worked on, until this is dropped.
pub(super) struct Flight {
    all: Arc<InFlight>,
    device: DeviceIdentity,
    digest: [u8; 32],
}

impl InFlight {
    /// Takes a request on.
    pub(super) fn enter(
        self: &Arc<Self>,
        device: DeviceIdentity,
        digest: [u8; 32],
    ) -> Result<Flight, Refusal> {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = devices.entry(device).or_default();
        if requests.contains(&digest) {
            return Err(Refusal::InFlight);
        }
        // Never on an empty entry, which would stay.
        if requests.len() >= MAX_PER_DEVICE {
            return Err(Refusal::DeviceBusy);
        }
        requests.push(digest);
        Ok(Flight { all: Arc::clone(self), device, digest })
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut devices = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(requests) = devices.get_mut(&self.device) {
            requests.retain(|digest| *digest != self.digest);
            if requests.is_empty() {
                devices.remove(&self.device);
            }
        }
    }
}
