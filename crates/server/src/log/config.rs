//! What the operator of a log decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use sotto_protocol::log::admit::Signers;
use sotto_wire::{TlogPolicy, VerifierKey};

use crate::config::{HttpConfig, HttpFile};
use crate::gateway::{GatewayConfig, GatewayTable};
use crate::settings::settings;

settings! {
    /// The log publishes recipes and key sets as plain files, cosigned by witnesses.
    #[derive(Debug)]
    pub struct LogFile {
        /// The witnesses, where they are, and how many of them must cosign before anything is published
        /// (C2SP tlog-policy). Its one log line is this log's own key. Required.
        ["policy", example "\"\"\"\nlog log.example+1a2b3c4d+AT...\nwitness alpha alpha.example+5e6f7a8b+BA... https://alpha.example/\nwitness beta beta.example+9c0d1e2f+BB... https://beta.example/\nwitness gamma gamma.example+3a4b5c6d+BC... https://gamma.example/\ngroup most 2 alpha beta gamma\nquorum most\n\"\"\""]
        pub policy: Option<TlogPolicy>,
        /// The public keys of the authors and operators who may submit entries (`sotto keys signer`).
        /// Required, unless submission is open.
        ["submitters"] pub submitters: Vec<VerifierKey>,
        /// Accepts entries from everybody. Strangers can then fill the disk.
        ["insecure_open_submission"] pub insecure_open_submission: bool,
        /// The file of the key that signs the log (`sotto keys signer`). Its name is the log's origin.
        ["key"] pub key: PathBuf = "log.key".into(),
        [group] pub http: HttpFile = log_http(HttpFile::on_port(8082).http.listen).into(),
        /// The folder of the log. Any web server may serve data_dir/public. NEVER go back to an old
        /// copy: the log would learn that from its witnesses and stop for good.
        ["data_dir"] pub data_dir: PathBuf = "log-data".into(),
        [group] pub log: LogConfig,
        /// Lets devices read the log through a relay, so that the log does not see who they are.
        ["gateway"] pub gateway: Option<GatewayTable>,
    }
}

settings! {
    /// A log. Its key, and so its origin, is the one with which its folder was opened.
    #[derive(Debug)]
    pub struct LogConfig {
        /// How long the first entry of a batch waits for others.
        ["batch_delay_ms"] pub batch_delay: Duration = Duration::from_millis(200),
        /// Entries in one batch.
        ["max_batch"] pub max_batch: usize = 256,
        /// After how long an unchanged tree is cosigned again. Must be well below the age of a checkpoint
        /// that devices accept.
        ["refresh_s"] pub refresh: Duration = Duration::from_secs(600),
        /// How long a witness may take to answer.
        ["witness_timeout_s"] pub witness_timeout: Duration = Duration::from_secs(5),
        /// How it is reached.
        [loaded] pub http: HttpConfig,
        /// The witnesses, where they are, and how many must cosign before anything is published. Its
        /// one log is this one.
        [loaded] pub policy: TlogPolicy,
        /// Whose entries the log takes.
        [loaded] pub submitters: Signers = Signers::Listed(Default::default()),
        /// PEM certificates that may vouch for witnesses, beside those of the operating system.
        [loaded] pub witness_certificates: Option<Vec<u8>>,
        /// The pause after witnesses failed to make a quorum. It doubles with each further time.
        [loaded] pub min_backoff: Duration = Duration::from_millis(500),
        /// The longest pause.
        [loaded] pub max_backoff: Duration = Duration::from_secs(30),
        /// Serves the files of the log through relays.
        [loaded] pub gateway: Option<GatewayConfig>,
    }
}

/// Its gateway needs as much as one of its own.
fn log_http(listen: SocketAddr) -> HttpConfig {
    HttpConfig { max_memory: 288 * 1024 * 1024, ..HttpConfig::new(listen) }
}

impl LogConfig {
    /// A log that listens at `listen`. Everything else has a default.
    pub fn new(listen: SocketAddr, policy: TlogPolicy, submitters: Signers) -> Self {
        Self { http: log_http(listen), policy, submitters, ..Self::default() }
    }
}
