//! An issuer on loopback that can be stopped and restarted, with an author and an attester.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use reqwest::{RequestBuilder, Response, StatusCode};
use sotto_crypto::blind_rsa::{TokenKey, TokenVerifier};
use sotto_crypto::key_blinding::{ClientSecret, PublicKey};
use sotto_crypto::note::NoteKey;
use sotto_crypto::rate_limited::{CLIENT_CONTEXT, issuer_origin_alias};
use sotto_server::{AuthToken, EncapsulationKeys, Issuer, IssuerAttester, IssuerConfig};
use sotto_store::IssuerDb;
use sotto_testing::asking::{Asked, ask, ask_for};
use sotto_testing::keys::{key, keypair, rng, signer};
use sotto_testing::log::note;
use sotto_wire::recipe::{EndorsedKey, TokenKeyRequest};
use sotto_wire::token::{
    IssuerAnswer, IssuerAnswerBatch, REQUEST_BATCH_MEDIA_TYPE, REQUEST_MEDIA_TYPE, ShortOpaque,
    TokenRequestBatch,
};
use sotto_wire::{Decode, Encode, HpkeConfig, Role};

use crate::background::{self, LOOPBACK, client};

pub(crate) const ATTESTER_TOKEN: &str = "token-of-the-attester";
pub(crate) fn author() -> NoteKey {
    key("author.example")
}

pub(crate) fn operator() -> NoteKey {
    key("issuer.example")
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(crate) fn config() -> IssuerConfig {
    let keys = EncapsulationKeys::new(vec![keypair(1)]).unwrap();
    let token = AuthToken::bearer(ATTESTER_TOKEN).unwrap();
    let attester = IssuerAttester { name: "attester.example".into(), token };
    let mut config = IssuerConfig::new(LOOPBACK, operator(), Arc::new(keys), attester);
    config.http.admin_listen = Some(LOOPBACK);
    config.rules.authors = vec![author().verifier()];
    config
}

/// An issuer that runs in the background.
pub(crate) type Server = background::Server<Issuer>;

impl Server {
    pub(crate) async fn start(folder: &Path, config: IssuerConfig) -> Self {
        Self::run(Issuer::bind(config, IssuerDb::open(folder).unwrap()).await.unwrap())
    }

    pub(crate) fn resource(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    pub(crate) async fn metric(&self, name: &str) -> Option<u64> {
        self.counted(name).await.map(|count| count as u64)
    }

    pub(crate) async fn ask_for_keys(&self, note: Vec<u8>) -> Response {
        client(None).post(self.resource("token-keys")).body(note).send().await.unwrap()
    }

    pub(crate) async fn key(&self, request: &TokenKeyRequest) -> EndorsedKey {
        let response = self.ask_for_keys(signed(request, &author())).await;
        assert_eq!(response.status(), StatusCode::OK);
        serde_json::from_slice(&response.bytes().await.unwrap()).unwrap()
    }

    /// A POST without authentication.
    pub(crate) fn post(&self, path: &str, media_type: &str, body: Vec<u8>) -> RequestBuilder {
        client(None).post(self.resource(path)).header("content-type", media_type).body(body)
    }

    pub(crate) async fn one(&self, body: &[u8]) -> Response {
        let request = self.post("token-request", REQUEST_MEDIA_TYPE, body.to_vec());
        request.bearer_auth(ATTESTER_TOKEN).send().await.unwrap()
    }

    pub(crate) async fn batch(&self, bodies: &[Vec<u8>]) -> Vec<IssuerAnswer> {
        let requests = bodies.iter().map(|body| ShortOpaque::new(&body[..]).unwrap()).collect();
        let body = TokenRequestBatch::new(requests).unwrap().to_bytes();
        let request = self.post("token-requests", REQUEST_BATCH_MEDIA_TYPE, body);
        let response = request.bearer_auth(ATTESTER_TOKEN).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let answers = response.bytes().await.unwrap();
        IssuerAnswerBatch::from_bytes(&answers).unwrap().into_answers()
    }
}

/// A request for the leader's key, which expires in an hour.
pub(crate) fn request(nonce: &str) -> TokenKeyRequest {
    TokenKeyRequest {
        author: signer(&author()),
        leader: "leader.example".parse().unwrap(),
        helper: "helper.example".parse().unwrap(),
        role: Role::Leader,
        expires: now() + 3600,
        nonce: format!("nonce-of-a-request-{nonce}"),
        participations: None,
    }
}

pub(crate) fn signed(request: &TokenKeyRequest, by: &NoteKey) -> Vec<u8> {
    note(&request.text(), &[by]).to_bytes()
}

pub(crate) fn token_key(key: &EndorsedKey) -> TokenKey {
    TokenKey::parse_spki(&key.spki().unwrap()).unwrap()
}

/// A device that sends requests with this randomness.
pub(crate) struct Device {
    client: ClientSecret,
    config: HpkeConfig,
}

impl Device {
    pub(crate) fn new(seed: u64) -> Self {
        let client = ClientSecret::generate(&mut rng(seed));
        Self { client, config: keypair(1).config().clone() }
    }

    pub(crate) fn ask(&self, key: &EndorsedKey, seed: u64) -> Asked {
        ask(&self.client, &token_key(key), &self.config, &mut rng(seed))
    }

    /// For a participation in a series.
    pub(crate) fn ask_for(&self, key: &EndorsedKey, participation: u32, seed: u64) -> Asked {
        let key = token_key(key);
        let origin = key.participation_name(participation);
        ask_for(&self.client, &key, &origin, &self.config, &mut rng(seed))
    }

    /// Checks an answer as the device and its attester do. Returns the alias that the attester
    /// counts by.
    pub(crate) fn finish(
        &self,
        key: &EndorsedKey,
        asked: &Asked,
        index_key: &[u8; 32],
        response: &[u8],
    ) -> [u8; 64] {
        let key = token_key(key);
        let blind_sig = asked.response.open(response).unwrap();
        let token = asked.unblinder.finalize(&key, &asked.input, &blind_sig).unwrap();
        TokenVerifier::new(&key).unwrap().verify(&asked.input, &token).unwrap();
        let index_key = PublicKey::parse(index_key).unwrap();
        let index_result = index_key.unblind(&asked.request_blind, CLIENT_CONTEXT);
        issuer_origin_alias(&index_result, &self.client.public_key())
    }

    pub(crate) fn finish_answer(
        &self,
        key: &EndorsedKey,
        asked: &Asked,
        answer: &IssuerAnswer,
    ) -> [u8; 64] {
        match answer {
            IssuerAnswer::Issued { index_key, limit: 1, response } => {
                self.finish(key, asked, index_key, response)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The files of an issuer's keys.
pub(crate) fn key_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("keys")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}
