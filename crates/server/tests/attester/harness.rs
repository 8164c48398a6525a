//! An attester on loopback, and devices that send it requests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::Value;
use sotto_crypto::key_blinding::ClientSecret;
use sotto_crypto::rate_limited::CLIENT_CONTEXT;
use sotto_protocol::attester::Attestation;
use sotto_server::{Attester, AttesterConfig, AuthToken, InsecureAttestation, IssuerPeer};
use sotto_store::{AttesterDb, AttesterDbOptions};
use sotto_wire::token::evidence::{AttestationEvidence, InsecureName};
use sotto_wire::token::{
    REQUEST_MEDIA_TYPE, ShortOpaque, TOKEN_TYPE, TokenRequest, attestation_message, byte_sequence,
    header,
};
use sotto_wire::{Encode, KeyName};

use crate::attester::issuer::{Issuer, TOKEN, encapsulation_key};
use crate::background::{self, LOOPBACK, client};

pub(crate) const OPERATOR: &str = "attester.example";
pub(crate) const ISSUER: &str = "issuer.example";

pub(crate) fn config(issuer: &Issuer) -> AttesterConfig {
    let peer = IssuerPeer {
        name: ISSUER.parse().unwrap(),
        url: issuer.url(),
        token: Arc::new(AuthToken::bearer(TOKEN).unwrap()),
    };
    let mut config = AttesterConfig::new(LOOPBACK, OPERATOR.parse().unwrap(), vec![peer]);
    config.http.admin_listen = Some(LOOPBACK);
    config.attestations = vec![Arc::new(InsecureAttestation)];
    config.issuer_timeout = Duration::from_secs(20);
    config
}

/// A database with windows that are longer than any test.
pub(crate) fn database(dir: &Path) -> AttesterDb {
    let options = AttesterDbOptions { window_s: 1 << 40, ..AttesterDbOptions::default() };
    AttesterDb::open(dir, &options, &mut ChaCha20Rng::seed_from_u64(3)).unwrap()
}

/// An attester that runs in the background.
pub(crate) type Server = background::Server<Attester>;

impl Server {
    pub(crate) async fn start(config: AttesterConfig, dir: &Path) -> Self {
        Self::run(Attester::bind(config, database(dir)).await.unwrap())
    }

    pub(crate) async fn metric(&self, name: &str) -> u64 {
        self.counted(name).await.unwrap() as u64
    }

    pub(crate) async fn refused(&self, reason: &str) -> u64 {
        self.metric(&format!("sotto_attester_refused_total{{reason=\"{reason}\"}}")).await
    }

    pub(crate) async fn ask(&self, request: &Request) -> Answer {
        request.send(self.addr).await
    }
}

/// An attester with its folder and its issuer.
pub(crate) struct AttesterAndIssuer {
    pub(crate) issuer: Issuer,
    pub(crate) server: Server,
    pub(crate) folder: PathBuf,
    _keep: tempfile::TempDir,
}

impl AttesterAndIssuer {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut AttesterConfig)) -> Self {
        let issuer = Issuer::start().await;
        let keep = tempfile::tempdir().unwrap();
        let folder = keep.path().to_owned();
        let mut config = config(&issuer);
        change(&mut config);
        let server = Server::start(config, &folder).await;
        Self { issuer, server, folder, _keep: keep }
    }

    pub(crate) async fn attesting(attestation: Arc<dyn Attestation>) -> Self {
        Self::with(|config| config.attestations = vec![attestation]).await
    }
}

/// A device with its keys.
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) secret: ClientSecret,
    rng: ChaCha20Rng,
}

/// What a device sends. Tests change it as they like.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) issuer: String,
    pub(crate) body: Vec<u8>,
    pub(crate) media_type: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media_type: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The detail of a problem document.
    pub(crate) fn detail(&self) -> String {
        assert_eq!(self.media_type, "application/problem+json");
        let document: Value = serde_json::from_slice(&self.body).unwrap();
        document["detail"].as_str().unwrap().to_owned()
    }

    /// The type of a problem document.
    pub(crate) fn problem(&self) -> String {
        let document: Value = serde_json::from_slice(&self.body).unwrap();
        document["type"].as_str().unwrap().to_owned()
    }

    pub(crate) fn token(&self) -> &[u8] {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(
            (self.status, self.media_type.as_str()),
            (200, "application/private-token-response"),
            "{text}"
        );
        &self.body
    }
}

impl Device {
    pub(crate) fn new(name: &str) -> Self {
        let seed = name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(257) ^ u64::from(byte));
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        Self { name: name.to_owned(), secret: ClientSecret::generate(&mut rng), rng }
    }

    pub(crate) fn request(&mut self, origin: u8) -> Request {
        self.request_for(origin, [origin; 32], 1)
    }

    /// A request under a client alias and an encapsulation key.
    pub(crate) fn request_for(&mut self, origin: u8, alias: [u8; 32], key: u8) -> Request {
        let name = InsecureName::new(self.name.clone().into_bytes()).unwrap();
        let evidence = AttestationEvidence::Insecure(name).to_bytes();
        self.attested_request(origin, alias, key, |_| evidence)
    }

    /// A request with evidence over its message.
    pub(crate) fn attested_request(
        &mut self,
        origin: u8,
        alias: [u8; 32],
        key: u8,
        attest: impl FnOnce(&[u8]) -> Vec<u8>,
    ) -> Request {
        let mut blind = [0; 32];
        self.rng.fill_bytes(&mut blind);
        let mut sealed = vec![0; 371];
        self.rng.fill_bytes(&mut sealed);
        sealed[0] = origin;
        let client_key = *self.secret.public_key().as_bytes();
        let mut request = TokenRequest {
            token_type: TOKEN_TYPE,
            request_key: *self.secret.public_key().blind(&blind, CLIENT_CONTEXT).as_bytes(),
            issuer_encap_key_id: encapsulation_key(key).id(),
            encrypted_token_request: ShortOpaque::new(sealed).unwrap(),
            request_signature: [0; 64],
        };
        request.request_signature =
            self.secret.sign_blinded(&blind, CLIENT_CONTEXT, &request.signed_message());
        let body = request.to_bytes();
        let [attester, issuer] = [OPERATOR, ISSUER].map(|name| name.parse::<KeyName>().unwrap());
        let message = attestation_message(&attester, &issuer, &client_key, &alias, &blind, &body);
        let evidence = attest(&message);
        let headers = vec![
            (header::CLIENT, byte_sequence(&client_key)),
            (header::ORIGIN_ALIAS, byte_sequence(&alias)),
            (header::REQUEST_BLIND, byte_sequence(&blind)),
            (header::ATTESTATION, byte_sequence(&evidence)),
        ];
        Request { issuer: ISSUER.to_owned(), body, media_type: REQUEST_MEDIA_TYPE, headers }
    }
}

impl Request {
    pub(crate) async fn send(&self, addr: SocketAddr) -> Answer {
        let url = format!("http://{addr}/token-request?issuer={}", self.issuer);
        let mut request = client(None).post(url).header("content-type", self.media_type);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = request.body(self.body.clone()).send().await.unwrap();
        let field = |name| Some(response.headers().get(name)?.to_str().unwrap().to_owned());
        Answer {
            status: response.status().as_u16(),
            media_type: field("content-type").unwrap_or_default(),
            retry_after: field("retry-after"),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    /// The same request with another value of a header.
    pub(crate) fn with(mut self, name: &str, value: &[u8]) -> Self {
        for (known, text) in &mut self.headers {
            if *known == name {
                *text = byte_sequence(value);
            }
        }
        self
    }
}
