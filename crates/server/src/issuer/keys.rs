//! The encapsulation keys of an issuer, which may be replaced while it serves.

use std::sync::{Arc, PoisonError, RwLock};

use sotto_crypto::HpkeKeypair;
use sotto_protocol::Fault;
use sotto_protocol::issuer::EncapsulationKeyring;
use sotto_wire::token::EncapsulationKey;

/// The encapsulation keys of an issuer, the preferred one first. Shared between the issuer and whoever replaces
/// them.
#[derive(Debug)]
pub struct EncapsulationKeys {
    current: RwLock<Arc<EncapsulationKeyring>>,
}

impl EncapsulationKeys {
    /// At least one key, their ids distinct.
    pub fn new(keys: Vec<HpkeKeypair>) -> Result<Self, Fault> {
        Ok(Self { current: RwLock::new(Arc::new(EncapsulationKeyring::new(&keys)?)) })
    }

    /// Puts other keys in their place. Requests to a key that is gone are refused: a key must stay for as long
    /// as devices may still find it in a logged key set.
    pub fn replace(&self, keys: Vec<HpkeKeypair>) -> Result<(), Fault> {
        let ring = Arc::new(EncapsulationKeyring::new(&keys)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }

    /// The public halves, most preferred first.
    pub fn keys(&self) -> Vec<EncapsulationKey> {
        self.current().keys()
    }

    pub(super) fn current(&self) -> Arc<EncapsulationKeyring> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}
