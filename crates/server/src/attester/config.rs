//! What the operator of an attester decides.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sotto_protocol::attester::Attestation;
use sotto_wire::KeyName;
use sotto_wire::token::MAX_TOKEN_BATCH;

use crate::auth::AuthToken;
use crate::config::HttpConfig;

/// An attester. How it counts is said where its database is opened.
#[derive(Debug)]
pub struct AttesterConfig {
    /// How it is reached.
    pub http: HttpConfig,
    /// Its operator. Devices sign the name with every request.
    pub operator: KeyName,
    /// Where requests may go, and nowhere else.
    pub issuers: Vec<IssuerPeer>,
    /// Ways to tell devices. The first that knows the kind of evidence decides.
    pub attestations: Vec<Arc<dyn Attestation>>,
    /// Requests in one message to an issuer.
    pub max_batch: usize,
    /// Messages that one issuer works on at once. While they are away, the next gathers.
    pub batches_in_flight: usize,
    /// Requests that are worked on at once. More are told to come again.
    pub max_waiting: usize,
    /// How long an issuer may take over an answer.
    pub issuer_timeout: Duration,
    /// PEM certificates that may vouch for issuers, beside those of the operating system.
    pub issuer_certificates: Option<Vec<u8>>,
    /// Threads for cryptography.
    pub cpu_threads: usize,
}

impl AttesterConfig {
    /// Requests that are worked on at once, unless the operator says otherwise.
    pub const DEFAULT_MAX_WAITING: usize = 4096;

    /// How long an issuer may take, unless the operator says otherwise.
    pub const DEFAULT_ISSUER_TIMEOUT: Duration = Duration::from_secs(10);

    /// An attester that listens at `listen`. Everything else has a default, but for ways to tell devices.
    pub fn new(listen: SocketAddr, operator: KeyName, issuers: Vec<IssuerPeer>) -> Self {
        Self {
            http: HttpConfig::new(listen),
            operator,
            issuers,
            attestations: Vec::new(),
            max_batch: MAX_TOKEN_BATCH,
            batches_in_flight: 2,
            max_waiting: Self::DEFAULT_MAX_WAITING,
            issuer_timeout: Self::DEFAULT_ISSUER_TIMEOUT,
            issuer_certificates: None,
            cpu_threads: thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// An issuer that requests may go to.
#[derive(Clone, Debug)]
pub struct IssuerPeer {
    /// Its operator. Devices name it in their requests.
    pub name: KeyName,
    /// Under which its resources lie.
    pub url: String,
    /// Shown to the issuer with every batch.
    pub token: Arc<AuthToken>,
}
