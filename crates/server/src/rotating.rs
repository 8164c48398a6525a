//! Keys that are replaced while a server uses them.

use std::sync::{Arc, PoisonError, RwLock};

use sotto_crypto::HpkeKeypair;
use sotto_protocol::Fault;
use sotto_protocol::gateway::GatewayKeyring;
use sotto_protocol::issuer::EncapsulationKeyring;
use sotto_wire::HpkeConfig;
use sotto_wire::token::EncapsulationKey;

/// A value that is replaced while requests use it. Each request uses the value that was current
/// when it arrived, and never waits for a change.
#[derive(Debug, Default)]
pub struct Rotating<T> {
    current: RwLock<Arc<T>>,
}

/// The keys of a gateway. Shared between the gateway and whoever replaces them.
pub type GatewayKeys = Rotating<GatewayKeyring>;

/// The encapsulation keys of an issuer. Shared between the issuer and whoever replaces them.
pub type EncapsulationKeys = Rotating<EncapsulationKeyring>;

/// Keys for one purpose, as the protocol uses them.
pub trait Keyring: Sized {
    /// At least one key, their ids distinct, the preferred one first.
    fn of(keys: &[HpkeKeypair]) -> Result<Self, Fault>;
}

impl Keyring for GatewayKeyring {
    fn of(keys: &[HpkeKeypair]) -> Result<Self, Fault> {
        Self::new(keys)
    }
}

impl Keyring for EncapsulationKeyring {
    fn of(keys: &[HpkeKeypair]) -> Result<Self, Fault> {
        Self::new(keys)
    }
}

impl<R: Keyring> Rotating<R> {
    /// At least one key, their ids distinct, the preferred one first.
    pub fn new(keys: Vec<HpkeKeypair>) -> Result<Self, Fault> {
        Ok(Self::holding(R::of(&keys)?))
    }

    /// Replaces the keys. Requests that are already open are still answered; later ones to a
    /// removed key are refused. So a key must stay for as long as devices may still use it.
    pub fn replace(&self, keys: Vec<HpkeKeypair>) -> Result<(), Fault> {
        self.set(R::of(&keys)?);
        Ok(())
    }
}

impl<T> Rotating<T> {
    pub(crate) fn holding(value: T) -> Self {
        Self { current: RwLock::new(Arc::new(value)) }
    }

    pub(crate) fn set(&self, value: T) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }

    pub(crate) fn current(&self) -> Arc<T> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the value, or a copy if requests still use the current one.
    pub(crate) fn change(&self, change: impl FnOnce(&mut T))
    where
        T: Clone,
    {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut current));
    }
}

impl GatewayKeys {
    /// The public halves, most preferred first.
    pub fn configs(&self) -> Vec<HpkeConfig> {
        self.current().configs()
    }
}

impl EncapsulationKeys {
    /// The public halves, most preferred first.
    pub fn keys(&self) -> Vec<EncapsulationKey> {
        self.current().keys()
    }
}
