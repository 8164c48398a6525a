//! What the operator of an issuer decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sotto_crypto::Secret;
use sotto_crypto::note::NoteKey;
use sotto_wire::VerifierKey;

use crate::auth::AuthToken;
use crate::config::{HttpConfig, HttpFile, no_secret, processors};
use crate::rotating::EncapsulationKeys;
use crate::settings::settings;

settings! {
    /// The issuer signs tokens blindly, and endorses the token keys that recipes contain. The file holds
    /// the attester's token: keep it at mode 0600.
    #[derive(Debug)]
    pub struct IssuerFile {
        [group] pub http: HttpFile = HttpFile::on_port(8087),
        /// The folder of token keys and origin secrets. Lost keys cannot be recovered: back it up.
        ["data_dir"] pub data_dir: PathBuf = "issuer-data".into(),
        /// The file of the operator's key (`sotto keys signer`), which devices and aggregators pin. Its
        /// name is the issuer's.
        ["key"] pub key: PathBuf = "operator.key".into(),
        /// Key files (`sotto keys new`), or folders of them, to which requests are sealed. The files, and
        /// new ones in a folder, are read again when they change; this list is not. If none is listed, the
        /// issuer makes a hybrid key and an X25519 key in data_dir/encapsulation-keys. Devices use the keys
        /// in the operator's newest key set in the log (`sotto keys publish --encapsulation-key`).
        ["encapsulation_keys"] pub encapsulation_keys: Vec<PathBuf>,
        [group] pub rules: IssuerRules,
        /// The attester that may ask for tokens on behalf of devices. Required. There is one, with one
        /// database: with two, each device would have two votes.
        ["attester"] pub attester: Option<IssuerAttesterTable>,
    }
}

settings! {
    /// The attester, as it is written in the file.
    #[derive(Debug)]
    pub struct IssuerAttesterTable {
        /// The operator of the attester.
        ["operator", required "\"attester.example\""] pub operator: String,
        /// The secret that both know (`sotto keys secret`).
        ["token", required "\"...\""] pub token: Secret<String> = no_secret(),
    }
}

settings! {
    /// Whom an issuer serves, and how much.
    #[derive(Debug)]
    pub struct IssuerRules {
        /// Who may ask for token keys: the public keys that sign recipes (`sotto keys signer`).
        ["authors"] pub authors: Vec<VerifierKey>,
        /// No token key lives longer than this, in seconds. A recipe, with the grace for late reports,
        /// must fit. The attester's window must be at least as long. Keys that were made under a longer
        /// window issue nothing until the rest of their life fits.
        ["window_s"] pub window_s: u64 = 30 * 24 * 3600,
        /// Token keys of one author that may live at once. A recipe takes one, and another at the other
        /// issuer.
        ["max_live_keys"] pub max_live_keys: usize = 1000,
        /// Makes the keys of both aggregators of a recipe. One issuer can then invent devices, and only
        /// devices and aggregators with insecure_single_attester in their trust files take part.
        ["insecure_both_roles"] pub insecure_both_roles: bool = false,
        /// How long an expired key is kept. Nothing is signed with it, but a clock that runs ahead and
        /// is set back must not have destroyed the keys of recipes.
        ["key_grace_s"] pub key_grace: Duration = Duration::from_secs(24 * 3600),
        /// Threads for cryptography. One per processor unless set. A token takes about 0.4 ms.
        ["cpu_threads", example "2"] pub cpu_threads: usize = processors(),
        /// Batches of requests that may be worked on or wait at once; further ones are refused.
        [loaded] pub max_batches: usize = 64,
    }
}

/// An issuer.
#[derive(Debug)]
pub struct IssuerConfig {
    /// How it is reached.
    pub http: HttpConfig,
    /// The operator's key, which devices and aggregators pin. It endorses token keys. Its name is
    /// the issuer's.
    pub operator: NoteKey,
    /// The keys to which the inner parts of requests are sealed. They belong in the operator's
    /// logged key set.
    pub encapsulation_keys: Arc<EncapsulationKeys>,
    /// The attester that may request tokens on behalf of devices. There is one, with one database:
    /// each attester counts separately, so a device known to two of them would have two votes in
    /// every recipe.
    pub attester: IssuerAttester,
    /// Whom it serves, and how much.
    pub rules: IssuerRules,
}

impl IssuerConfig {
    /// An issuer that listens at `listen`, with no authors. Everything else has a default.
    pub fn new(
        listen: SocketAddr,
        operator: NoteKey,
        encapsulation_keys: Arc<EncapsulationKeys>,
        attester: IssuerAttester,
    ) -> Self {
        let (http, rules) = (HttpConfig::new(listen), IssuerRules::default());
        Self { http, operator, encapsulation_keys, attester, rules }
    }
}

/// The attester that an issuer answers.
#[derive(Debug)]
pub struct IssuerAttester {
    /// For messages to the operator.
    pub name: String,
    /// The token that it sends.
    pub token: AuthToken,
}
