//! What an issuer publishes about itself (rate-limited tokens, section "Configuration"): its window
//! and its encapsulation keys.
//!
//! A device may only use a key that the issuer shows to everybody: an individual key would mark it.
//! The window tells how long token keys live. If that were longer than the time over which the
//! attester counts, a device could get a second token for a key.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use sotto_wire::Decode;
use sotto_wire::token::EncapsulationKey;

use super::issuer_client::{Failures, IssuerClient};
use crate::environment::{Instant, instant};
use crate::shutdown::Shutdown;

/// The shortest time between two requests: devices must not be able to make us query an issuer all
/// the time.
const MIN_PAUSE: Duration = Duration::from_secs(10);
/// The age at which a directory is read again in any case.
const MAX_AGE: Duration = Duration::from_secs(300);
/// The most keys that an issuer may have.
const MAX_KEYS: usize = 64;

/// The ids of an issuer's encapsulation keys.
pub(super) type KeyIds = Arc<[[u8; 32]]>;

/// The newest directory of one issuer.
pub(super) struct Directory {
    client: Arc<IssuerClient>,
    /// The attester's own window.
    window_s: u64,
    refused: Arc<Failures>,
    key_ids: Mutex<Option<KeyIds>>,
    /// When the issuer was last asked. Locked while a request is in progress.
    asked: tokio::sync::Mutex<Option<Instant>>,
}

impl Directory {
    pub(super) fn new(client: Arc<IssuerClient>, window_s: u64, refused: Arc<Failures>) -> Self {
        Self { client, window_s, refused, key_ids: Mutex::default(), asked: Default::default() }
    }

    /// The keys of the issuer; `None` if it has published none, or is not used.
    pub(super) fn key_ids(&self) -> Option<KeyIds> {
        self.key_ids.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the directory, unless that was done a moment ago. Callers that come while it is being
    /// read wait for the result.
    pub(super) async fn refresh(&self, min_age: Duration) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|asked| instant() - asked < min_age.max(MIN_PAUSE)) {
            return;
        }
        let answer = self.client.directory().await;
        *asked = Some(instant());
        // An issuer that is unreachable for a while has not changed its keys.
        let Ok(body) = answer else { return };
        let read = read(&body, self.window_s);
        self.refused.note(self.client.name(), read.as_ref().err().copied());
        *self.key_ids.lock().unwrap_or_else(PoisonError::into_inner) = read.ok();
    }
}

/// Keeps directories fresh.
pub(super) async fn keep(directories: Vec<Arc<Directory>>, mut shutdown: Shutdown) {
    loop {
        for directory in &directories {
            let min_age = if directory.key_ids().is_some() { MAX_AGE } else { MIN_PAUSE };
            let Some(()) = shutdown.or(directory.refresh(min_age)).await else { return };
        }
        if shutdown.begins_within(MIN_PAUSE).await {
            return;
        }
    }
}

/// The ids of the keys in a directory, if its issuer can be used.
fn read(body: &[u8], window_s: u64) -> Result<KeyIds, &'static str> {
    const NOT_ONE: &str = "its directory does not parse";
    let directory: Value = serde_json::from_slice(body).map_err(|_| NOT_ONE)?;
    let window = directory.get("issuer-policy-window").and_then(Value::as_u64).ok_or(NOT_ONE)?;
    if window > window_s {
        return Err(
            "its token keys live longer than this attester counts: make window_s longer, or theirs shorter",
        );
    }
    let keys = directory.get("encap-keys").and_then(Value::as_array).ok_or(NOT_ONE)?;
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err("its directory has no encapsulation keys, or too many");
    }
    let id = |key: &Value| {
        let bytes = URL_SAFE_NO_PAD.decode(key.as_str()?.trim_end_matches('=')).ok()?;
        EncapsulationKey::from_bytes(&bytes).ok().map(|key| key.id())
    };
    keys.iter().map(id).collect::<Option<Vec<_>>>().map(KeyIds::from).ok_or(NOT_ONE)
}
