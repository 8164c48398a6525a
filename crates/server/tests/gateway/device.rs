//! A device that talks to a gateway directly, in place of a relay, and leaders with a gateway.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use reqwest::{Client, StatusCode};
use serde_json::Value;
use sotto_crypto::HpkeKeypair;
use sotto_crypto::ohttp::seal_request;
use sotto_protocol::Moment;
use sotto_protocol::oblivious::{Awaited, InnerRequest, InnerResponse, produce_request};
use sotto_server::{GatewayConfig, GatewayKeys};
use sotto_wire::bhttp::{Request, Response};
use sotto_wire::size_class::SizeClass;
use sotto_wire::{BatchMode, HpkeConfig, MediaType, TaskId};

use crate::background::client;
use crate::server::harness::{Pair, Setup, keypair, moment};

/// The origin by which devices know the leader.
pub(crate) const LEADER: &str = "https://leader.example";
/// The length of every refusal and acknowledgement.
pub(crate) const SMALLEST: usize = 4096;
/// The id of the gateway's key.
pub(crate) const GATEWAY_KEY: u8 = 77;

static SEED: AtomicU64 = AtomicU64::new(1);

pub(crate) fn gateway_keys() -> Arc<GatewayKeys> {
    Arc::new(GatewayKeys::new(vec![keypair(GATEWAY_KEY)]).unwrap())
}

pub(crate) fn gateway_config() -> GatewayConfig {
    GatewayConfig::new(gateway_keys())
}

/// A leader with a gateway, and its helper.
pub(crate) fn setup() -> Setup {
    let mut setup = Setup::new(BatchMode::TimeInterval);
    setup.leader.server.gateway =
        Some(GatewayConfig { origin: Some(LEADER.to_owned()), ..gateway_config() });
    setup
}

/// A connection to one gateway.
pub(crate) struct Channel {
    pub(crate) http: Client,
    pub(crate) url: String,
    pub(crate) key: HpkeConfig,
    rng: Mutex<ChaCha20Rng>,
}

/// An answer as the relay sees it.
#[derive(Debug)]
pub(crate) struct Outer {
    pub(crate) status: StatusCode,
    pub(crate) media_type: String,
    pub(crate) retry_after: bool,
    /// The names of all fields, in order.
    names: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl Outer {
    /// The type and detail of a problem.
    pub(crate) fn problem(&self) -> (String, String) {
        assert_eq!(self.media_type, "application/problem+json");
        problem(&self.body, self.status.as_u16())
    }
}

impl Channel {
    /// A connection to the gateway at `url`, which has no trailing slash.
    pub(crate) fn new(url: impl Into<String>, key: &HpkeKeypair) -> Self {
        // Devices must not share randomness: the gateway would take their requests for replays.
        let seed = SEED.fetch_add(1, Ordering::Relaxed);
        let rng = Mutex::new(ChaCha20Rng::seed_from_u64(seed));
        Self { http: client(None), url: url.into(), key: key.config().clone(), rng }
    }

    pub(crate) fn to_leader(pair: &Pair) -> Self {
        Self::new(format!("{}gateway", pair.leader.url), &keypair(GATEWAY_KEY))
    }

    pub(crate) async fn post(&self, body: Vec<u8>) -> Outer {
        self.post_as("message/ohttp-req", body).await
    }

    pub(crate) async fn post_as(&self, media_type: &str, body: Vec<u8>) -> Outer {
        let request = self.http.post(&self.url).header("content-type", media_type);
        let response = request.body(body).send().await.unwrap();
        let headers = response.headers();
        let mut names: Vec<_> = headers.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        Outer {
            names,
            status: response.status(),
            media_type: headers["content-type"].to_str().unwrap().to_owned(),
            retry_after: headers.contains_key("retry-after"),
            body: response.bytes().await.unwrap().into(),
        }
    }

    pub(crate) fn seal(&self, request: &InnerRequest<'_>) -> (Vec<u8>, Awaited) {
        self.seal_at(request, moment())
    }

    pub(crate) fn seal_at(&self, request: &InnerRequest<'_>, now: Moment) -> (Vec<u8>, Awaited) {
        let mut rng = self.rng.lock().unwrap();
        produce_request(request, &self.key, now, &mut *rng).unwrap()
    }

    /// One exchange, which must look like all others from the outside.
    pub(crate) async fn ask(&self, request: &InnerRequest<'_>) -> InnerResponse {
        let (body, awaited) = self.seal(request);
        open(self.post(body).await, awaited)
    }

    /// Seals a message that no device sends.
    pub(crate) async fn ask_raw(&self, message: &[u8]) -> RawAnswer {
        let (body, opener) = {
            let mut rng = self.rng.lock().unwrap();
            seal_request(&self.key, message, &mut *rng).unwrap()
        };
        let outer = self.post(body).await;
        check_outer(&outer);
        let opened = opener.open(&outer.body).unwrap();
        let response = Response::decode(&opened).unwrap();
        RawAnswer {
            outer_len: outer.body.len(),
            status: response.status,
            date: response.field("date").map(<[u8]>::to_vec),
            content: response.content.to_vec(),
        }
    }
}

/// The answer to a request that no device sends.
pub(crate) struct RawAnswer {
    pub(crate) outer_len: usize,
    pub(crate) status: u16,
    pub(crate) date: Option<Vec<u8>>,
    pub(crate) content: Vec<u8>,
}

pub(crate) fn encoded(request: &Request<'_>) -> Vec<u8> {
    let mut message = Vec::new();
    request.encode(&mut message);
    message
}

fn check_outer(outer: &Outer) {
    assert_eq!(outer.status, StatusCode::OK, "{:?}", String::from_utf8_lossy(&outer.body));
    assert_eq!(outer.media_type, "message/ohttp-res");
    assert_eq!(outer.names, ["content-length", "content-type", "date"]);
    assert!(SizeClass::of_exact(outer.body.len()).is_some(), "{}", outer.body.len());
}

pub(crate) fn open(outer: Outer, awaited: Awaited) -> InnerResponse {
    check_outer(&outer);
    awaited.consume_response(&outer.body).unwrap()
}

/// The type and detail of a problem document with this status.
pub(crate) fn problem(document: &[u8], status: u16) -> (String, String) {
    let document: Value = serde_json::from_slice(document).unwrap();
    assert_eq!(document["status"], status);
    let text = |name: &str| document[name].as_str().unwrap().to_owned();
    (text("type"), text("detail"))
}

pub(crate) fn field<'a>(response: &'a InnerResponse, name: &str) -> Option<&'a str> {
    response.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The URL for reports of a task.
pub(crate) fn reports_url(task_id: &TaskId) -> String {
    format!("{LEADER}/tasks/{task_id}/reports")
}

pub(crate) fn upload<'a>(url: &'a str, report: &'a [u8]) -> InnerRequest<'a> {
    const FIELDS: &[(&str, &str)] = &[("content-type", MediaType::UploadReq.as_str())];
    InnerRequest { method: "POST", url, fields: FIELDS, content: report }
}

pub(crate) fn read(url: &str) -> InnerRequest<'_> {
    InnerRequest { method: "GET", url, fields: &[], content: &[] }
}
