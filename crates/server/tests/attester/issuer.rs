//! An issuer that follows a script.
//!
//! The format of what devices seal is the issuer's own choice here: the first byte of
//! `encrypted_token_request` names the origin.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::key_blinding::PublicKey;
use sotto_crypto::rate_limited::ISSUER_CONTEXT;
use sotto_wire::token::{
    ANSWER_BATCH_MEDIA_TYPE, EncapsulationKey, IssuerAnswer, IssuerAnswerBatch, TokenRequest,
    TokenRequestBatch,
};
use sotto_wire::{Decode, Encode, HpkeConfigId};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Between attester and issuer.
pub(crate) const TOKEN: &str = "attester-to-issuer";

/// What the issuer does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Honest,
    /// Answers 503.
    Down,
    /// Leaves out one of the answers.
    Short,
    /// Answers with something else.
    Foreign,
    /// Answers with index keys of small order.
    SmallOrder,
    /// Grants two tokens.
    LimitTwo,
    /// Answers with responses that are a byte too long.
    Long,
    /// Refuses each request with this status.
    Refuses(u16),
}

pub(crate) struct Script {
    pub(crate) mood: Mood,
    pub(crate) window_s: u64,
    pub(crate) keys: Vec<EncapsulationKey>,
    /// Bodies of every batch, in the order of the batch.
    pub(crate) batches: Vec<Vec<Vec<u8>>>,
    pub(crate) directories: usize,
    /// Responses made so far. No two are the same.
    responses: u64,
}

#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) addr: SocketAddr,
    script: Arc<Mutex<Script>>,
    /// A batch is answered when a permit is added.
    pub(crate) answers: Arc<Semaphore>,
}

/// An encapsulation key, the same in every run.
pub(crate) fn encapsulation_key(id: u8) -> EncapsulationKey {
    use rand_chacha::rand_core::SeedableRng;
    let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(id.into());
    let keypair = HpkeKeypair::generate(HpkeConfigId::new(id), &mut rng);
    EncapsulationKey::from(keypair.config())
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script {
            mood: Mood::Honest,
            window_s: 1000,
            keys: vec![encapsulation_key(1)],
            batches: Vec::new(),
            directories: 0,
            responses: 0,
        };
        let issuer = Self {
            addr: listener.local_addr().unwrap(),
            script: Arc::new(Mutex::new(script)),
            answers: Arc::new(Semaphore::new(1 << 20)),
        };
        let router = Router::new()
            .route("/.well-known/private-token-issuer-directory", get(directory))
            .route("/token-requests", post(token_requests))
            .with_state(issuer.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        issuer
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.addr)
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    /// Requests answered or refused so far.
    pub(crate) fn requests(&self) -> usize {
        self.script().batches.iter().map(Vec::len).sum()
    }
}

async fn directory(State(issuer): State<Issuer>) -> Response {
    let mut script = issuer.script();
    script.directories += 1;
    let keys = script.keys.iter().map(|key| URL_SAFE_NO_PAD.encode(key.to_bytes()));
    let directory = serde_json::json!({
        "issuer-policy-window": script.window_s,
        "issuer-request-uri": "/token-request",
        "encap-keys": keys.collect::<Vec<_>>(),
    });
    directory.to_string().into_response()
}

async fn token_requests(State(issuer): State<Issuer>, headers: HeaderMap, body: Bytes) -> Response {
    if headers["authorization"] != format!("Bearer {TOKEN}") {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let batch = TokenRequestBatch::from_bytes(&body).unwrap();
    let bodies: Vec<_> = batch.requests().iter().map(|body| body.as_bytes().to_vec()).collect();
    issuer.script().batches.push(bodies.clone());
    issuer.answers.acquire().await.unwrap().forget();
    let mut script = issuer.script();
    let mut answers: Vec<_> = bodies.iter().map(|body| script.answer(body)).collect();
    match script.mood {
        Mood::Down => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
        Mood::Foreign => return "an error page".into_response(),
        Mood::Short => answers.push(IssuerAnswer::Refused { status: 400 }),
        _ => {}
    }
    let answers = IssuerAnswerBatch::new(answers).unwrap().to_bytes();
    ([("content-type", ANSWER_BATCH_MEDIA_TYPE)], answers).into_response()
}

impl Script {
    fn answer(&mut self, body: &[u8]) -> IssuerAnswer {
        if let Mood::Refuses(status) = self.mood {
            return IssuerAnswer::Refused { status };
        }
        let request = TokenRequest::from_bytes(body).unwrap();
        let request_key = PublicKey::parse(&request.request_key).unwrap();
        let origin = [request.encrypted_token_request.as_bytes()[0]; 32];
        let mut index_key = *request_key.blind(&origin, ISSUER_CONTEXT).as_bytes();
        if self.mood == Mood::SmallOrder {
            index_key = [0; 32];
        }
        self.responses += 1;
        let mut response = vec![0x5a; 288];
        response[..8].copy_from_slice(&self.responses.to_be_bytes());
        if self.mood == Mood::Long {
            response.push(0);
        }
        let limit = if self.mood == Mood::LimitTwo { 2 } else { 1 };
        IssuerAnswer::Issued { index_key, limit, response }
    }
}
