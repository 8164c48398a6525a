//! What the operator of an issuer decides.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sotto_crypto::note::NoteKey;
use sotto_wire::VerifierKey;

use crate::auth::AuthToken;
use crate::config::HttpConfig;
use crate::rotating::EncapsulationKeys;

/// An issuer.
#[derive(Debug)]
pub struct IssuerConfig {
    /// How it is reached.
    pub http: HttpConfig,
    /// The operator's key, which devices and aggregators pin: it endorses token keys. Its name is the issuer's.
    pub operator: NoteKey,
    /// The keys that the inner parts of requests are sealed to. They belong into the operator's logged key set.
    pub encapsulation_keys: Arc<EncapsulationKeys>,
    /// Who may ask for tokens on behalf of devices. There is one, with one database: each attester counts for itself, so
    /// that a device known to two of them would have two tokens of every origin, and two votes in every recipe.
    pub attester: IssuerAttester,
    /// Who may ask for token keys, by the keys that sign recipes.
    pub authors: Vec<VerifierKey>,
    /// The policy window in seconds: no token key lives longer. The attester must remember at least as long. Keys that were made
    /// under a longer window issue nothing until what is left of their life fits into this one.
    pub window_s: u64,
    /// Token keys of one author that may live at once.
    pub max_live_keys: usize,
    /// How long an expired key stays on disk. Nothing is issued with it; but a clock that runs ahead and is
    /// set back must not have cost the recipes their keys.
    pub key_grace: Duration,
    /// Threads for cryptography.
    pub cpu_threads: usize,
    /// Batches of requests that may be worked on or wait at once; further ones are turned away.
    pub max_batches: usize,
}

impl IssuerConfig {
    /// The policy window, unless the operator says otherwise: 30 days.
    pub const DEFAULT_WINDOW_S: u64 = 30 * 24 * 3600;

    /// Token keys of one author that may live at once, unless the operator says otherwise.
    pub const DEFAULT_MAX_LIVE_KEYS: usize = 1000;

    /// How long an expired key stays, unless the operator says otherwise.
    pub const DEFAULT_KEY_GRACE: Duration = Duration::from_secs(24 * 3600);

    /// An issuer that listens at `listen`, with no authors. Everything else has a default.
    pub fn new(
        listen: SocketAddr,
        operator: NoteKey,
        encapsulation_keys: Arc<EncapsulationKeys>,
        attester: IssuerAttester,
    ) -> Self {
        Self {
            http: HttpConfig::new(listen),
            operator,
            encapsulation_keys,
            attester,
            authors: Vec::new(),
            window_s: Self::DEFAULT_WINDOW_S,
            max_live_keys: Self::DEFAULT_MAX_LIVE_KEYS,
            key_grace: Self::DEFAULT_KEY_GRACE,
            cpu_threads: thread::available_parallelism().map_or(1, usize::from),
            max_batches: 64,
        }
    }
}

/// The attester that an issuer answers.
#[derive(Debug)]
pub struct IssuerAttester {
    /// For the operator's messages.
    pub name: String,
    /// What it shows.
    pub token: AuthToken,
}
