//! The keys of a gateway, which may be replaced while it serves.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Fault;
use sotto_protocol::gateway::GatewayKeyring;
use sotto_wire::HpkeConfig;

/// The keys of a gateway, the preferred one first. Shared between the gateway and whoever replaces them.
#[derive(Debug)]
pub struct GatewayKeys {
    current: RwLock<Arc<Ring>>,
}

impl GatewayKeys {
    /// At least one key, their ids distinct.
    pub fn new(keys: Vec<HpkeKeypair>) -> Result<Self, Fault> {
        Ok(Self { current: RwLock::new(Arc::new(Ring::new(&keys)?)) })
    }

    /// Puts other keys in their place. Requests that are open already are answered; later ones to a key that
    /// is gone are refused. So a key must stay for as long as devices may still use it.
    pub fn replace(&self, keys: Vec<HpkeKeypair>) -> Result<(), Fault> {
        let ring = Arc::new(Ring::new(&keys)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = ring;
        Ok(())
    }

    /// The public halves, most preferred first.
    pub fn configs(&self) -> Vec<HpkeConfig> {
        self.current().ring.configs()
    }

    pub(super) fn current(&self) -> Arc<Ring> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The keys between two replacements.
#[derive(Debug)]
pub(super) struct Ring {
    ring: GatewayKeyring,
    key_list: Bytes,
}

impl Ring {
    fn new(keys: &[HpkeKeypair]) -> Result<Self, Fault> {
        let ring = GatewayKeyring::new(keys)?;
        let key_list = ring.key_list().into();
        Ok(Self { ring, key_list })
    }

    pub(super) fn ring(&self) -> &GatewayKeyring {
        &self.ring
    }

    /// As `application/ohttp-keys`.
    pub(super) fn key_list(&self) -> Bytes {
        self.key_list.clone()
    }
}
