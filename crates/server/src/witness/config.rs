//! What the operator of a witness decides.

use std::net::SocketAddr;
use std::path::PathBuf;

use sotto_wire::VerifierKey;

use crate::config::{HttpConfig, HttpFile};
use crate::settings::settings;

settings! {
    /// The witness cosigns checkpoints of logs that only ever grow.
    #[derive(Debug)]
    pub struct WitnessFile {
        /// The public keys of the logs that it cosigns (`sotto keys signer`). Required.
        ["logs", example "[\"log.example+1a2b3c4d+AT...\"]"] pub logs: Vec<VerifierKey>,
        /// The file of the key that cosigns (`sotto keys signer`). Use it for nothing else.
        ["key"] pub key: PathBuf = "witness.key".into(),
        [group] pub http: HttpFile = HttpFile::on_port(8083),
        /// The folder of the last checkpoint of each log. NEVER restore an old copy: the witness would
        /// cosign a second history.
        ["data_dir"] pub data_dir: PathBuf = "witness-data".into(),
    }
}

/// A witness. Its key is the one with which its folder was opened.
#[derive(Debug)]
pub struct WitnessConfig {
    /// How it is reached.
    pub http: HttpConfig,
    /// The keys of the logs that it serves.
    pub logs: Vec<VerifierKey>,
}

impl WitnessConfig {
    /// A witness that listens at `listen` for these logs.
    pub fn new(listen: SocketAddr, logs: Vec<VerifierKey>) -> Self {
        Self { http: HttpConfig::new(listen), logs }
    }
}
