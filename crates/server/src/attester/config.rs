//! What the operator of an attester decides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sotto_crypto::Secret;
use sotto_protocol::attester::Attestation;
use sotto_store::AttesterDbOptions;
use sotto_wire::KeyName;
use sotto_wire::token::MAX_TOKEN_BATCH;

use crate::auth::AuthToken;
use crate::config::{HttpConfig, HttpFile, no_secret, processors};
use crate::settings::settings;

settings! {
    /// The attester knows devices, and gets each of them one token per recipe and aggregator. The file
    /// holds the tokens of issuers: keep it at mode 0600.
    #[derive(Debug)]
    pub struct AttesterFile {
        [group] pub attester: AttesterConfig,
        /// The issuers to which requests may go. Devices name the operator. Required.
        ["issuers"] pub issuers: Vec<IssuerPeerTable>,
        [group] pub http: HttpFile = HttpFile::on_port(8086),
        /// The folder of what it has granted. Do not restore an old copy: it has forgotten grants, and
        /// devices would get second tokens.
        ["data_dir"] pub data_dir: PathBuf = "attester-data".into(),
        /// The length of a window, fixed when the database is made. Grants count in the window in which
        /// they are made and in the next. Not shorter than the window of any issuer.
        ["window_s"] pub window_s: u64 = AttesterDbOptions::default().window_s,
        /// Origins for which one device may have tokens in two windows.
        ["max_aliases_per_device"] pub max_aliases_per_device: u64 =
            AttesterDbOptions::default().max_aliases_per_device,
        /// Believes the name that a device gives itself. For development: anybody can pretend to be any
        /// number of devices.
        ["insecure_attestation"] pub insecure_attestation: bool,
        /// Identifies devices by certificates of their manufacturers. A device is its manufacturer's
        /// name here and the serialNumber of its certificate's subject.
        ["x509"] pub x509: Option<X509Table>,
    }
}

settings! {
    /// How devices are identified by certificates, as it is written in the file.
    #[derive(Debug)]
    pub struct X509Table {
        /// Revocation lists, PEM. They are read again when they change. Of several lists of one
        /// authority the newest counts.
        ["crls", example "[\"manufacturer.crl.pem\"]"] pub crls: Vec<PathBuf>,
        /// Refuses a device if no current list covers its certificate, or an intermediate one.
        ["require_crl"] pub require_crl: bool,
        /// The manufacturers whose devices are known. All roots of one manufacturer belong under one
        /// name: under two names one device would count as two.
        ["manufacturers", required] pub manufacturers: Vec<ManufacturerTable>,
    }
}

settings! {
    /// A manufacturer, as it is written in the file.
    #[derive(Debug)]
    pub struct ManufacturerTable {
        /// Part of the identity of each device. A new name makes all devices new.
        ["name", required "\"Example Devices\""] pub name: String,
        /// Root certificates, PEM.
        ["roots", required "[\"root.pem\"]"] pub roots: Vec<PathBuf>,
        /// The extended key usage that the manufacturer gives to devices and to nothing else, as numbers
        /// with dots. This or policy is required; with both, a certificate must have both.
        ["extended_key_usage", example "\"1.3.6.1.4.1.32473.1.1\""] pub extended_key_usage: Option<String>,
        /// The certificate policy under which the manufacturer certifies devices and nothing else, as
        /// numbers with dots. Intermediate certificates must have it too, or anyPolicy.
        ["policy", example "\"1.3.6.1.4.1.32473.1.2\""] pub policy: Option<String>,
        /// Takes every certificate under the roots for a device, if it may identify clients: whatever
        /// else the manufacturer certifies counts as devices.
        ["insecure_any_purpose"] pub insecure_any_purpose: bool,
    }
}

settings! {
    /// An issuer, as it is written in the file.
    #[derive(Debug)]
    pub struct IssuerPeerTable {
        /// The operator of the issuer.
        ["operator", required "\"issuer.example\""] pub operator: String,
        /// The URL of the issuer.
        ["url", required "\"https://issuer.example/\""] pub url: String,
        /// The secret that both know (`sotto keys secret`).
        ["token", required "\"...\""] pub token: Secret<String> = no_secret(),
    }
}

settings! {
    /// An attester. How it counts is set where its database is opened.
    #[derive(Debug)]
    pub struct AttesterConfig {
        /// The name of its operator, as devices pin it. Devices sign it with every request, so evidence
        /// for one attester is worthless at another. Required.
        ["operator", example "\"attester.example\""] pub operator: Option<KeyName>,
        /// Requests that are worked on at once. Further ones get 503.
        ["max_waiting"] pub max_waiting: usize = 4096,
        /// How long an issuer may take to answer.
        ["issuer_timeout_s"] pub issuer_timeout: Duration = Duration::from_secs(10),
        /// Threads for cryptography. One per processor unless set.
        ["cpu_threads", example "2"] pub cpu_threads: usize = processors(),
        /// How it is reached.
        [loaded] pub http: HttpConfig,
        /// Where requests may go, and nowhere else.
        [loaded] pub issuers: Vec<IssuerPeer>,
        /// Kinds of attestation. The first that knows the kind of evidence decides.
        [loaded] pub attestations: Vec<Arc<dyn Attestation>>,
        /// Requests in one message to an issuer.
        [loaded] pub max_batch: usize = MAX_TOKEN_BATCH,
        /// Messages that one issuer works on at once. Meanwhile the next one fills.
        [loaded] pub batches_in_flight: usize = 2,
        /// PEM certificates that may vouch for issuers, beside those of the operating system.
        [loaded] pub issuer_certificates: Option<Vec<u8>>,
    }
}

impl AttesterConfig {
    /// An attester that listens at `listen`. Everything else has a default, except attestations.
    pub fn new(listen: SocketAddr, operator: KeyName, issuers: Vec<IssuerPeer>) -> Self {
        let http = HttpConfig::new(listen);
        Self { http, operator: Some(operator), issuers, ..Self::default() }
    }
}

/// An issuer that requests may go to.
#[derive(Clone, Debug)]
pub struct IssuerPeer {
    /// The issuer's operator. Devices name it in their requests.
    pub name: KeyName,
    /// The URL under which its resources are.
    pub url: String,
    /// Sent to the issuer with every batch.
    pub token: Arc<AuthToken>,
}
