//! Which requests of a device are in progress.
//!
//! The alias of a request is known only after the issuer has done its work, so a device could have
//! any number of requests in progress for one token. It is therefore limited to a few at once.
//! Also, if the same bytes were in progress twice, they could get two different answers when the
//! issuer's keys change in between. A device that is told that its request is invalid must be able
//! to rely on no other copy of it being granted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sotto_protocol::attester::DeviceIdentity;

use super::request::Refusal;

/// Requests of one device that may be in progress at once.
const MAX_PER_DEVICE: usize = 8;

/// All requests in progress, by device: the digests of their bytes.
#[derive(Default)]
pub(super) struct InFlight(Mutex<HashMap<DeviceIdentity, Vec<[u8; 32]>>>);

/// A request in progress, until this is dropped.
pub(super) struct Flight {
    all: Arc<InFlight>,
    device: DeviceIdentity,
    digest: [u8; 32],
}

impl InFlight {
    /// Adds a request.
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
        // This never returns with an empty entry, which would stay in the map.
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
