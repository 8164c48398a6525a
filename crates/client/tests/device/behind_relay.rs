//! A relay with a gateway and a target behind it, as one transport that records what each of them
//! saw.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use sotto_client::{
    Clock, Host, HttpRequest, HttpResponse, Method, Random, RelayTransport, Transport,
    TransportError,
};
use sotto_crypto::HpkeKeypair;
use sotto_protocol::Moment;
use sotto_protocol::gateway::{
    GatewayKeyring, InnerRefusal, OuterRefusal, ReplayWindow, consume_request,
};
use sotto_testing::recipe::NOW;
use sotto_testing::world::World;
use sotto_wire::bhttp::{Field, Request, Response};
use sotto_wire::ohttp::{DATE_PROBLEM, KEY_PROBLEM, RESPONSE_MEDIA_TYPE};

pub(crate) type Reply = Result<HttpResponse, TransportError>;

/// A request as the relay sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outer {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) response_limit: usize,
}

/// A request as the gateway opens it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inner {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) content: Vec<u8>,
}

type Target = Box<dyn Fn(&Inner) -> HttpResponse + Send + Sync>;

pub(crate) struct BehindRelay {
    keys: Mutex<GatewayKeyring>,
    window: Mutex<ReplayWindow>,
    target: Target,
    /// What happens to the next requests before they reach the gateway.
    before: Mutex<VecDeque<Reply>>,
    outer: Mutex<Vec<Outer>>,
    inner: Mutex<Vec<Inner>>,
}

impl BehindRelay {
    pub(crate) fn new(
        keys: &[HpkeKeypair],
        target: impl Fn(&Inner) -> HttpResponse + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            keys: Mutex::new(GatewayKeyring::new(keys).unwrap()),
            window: Mutex::new(ReplayWindow::new(1_800, 1_000, [7; 16])),
            target: Box::new(target),
            before: Mutex::default(),
            outer: Mutex::default(),
            inner: Mutex::default(),
        })
    }

    /// Gives the gateway these keys from now on.
    pub(crate) fn rotate(&self, keys: &[HpkeKeypair]) {
        *self.keys.lock().unwrap() = GatewayKeyring::new(keys).unwrap();
    }

    /// Makes the relay answer the next request itself.
    pub(crate) fn interfere(&self, reply: Reply) {
        self.before.lock().unwrap().push_back(reply);
    }

    pub(crate) fn outer(&self) -> Vec<Outer> {
        self.outer.lock().unwrap().clone()
    }

    pub(crate) fn inner(&self) -> Vec<Inner> {
        self.inner.lock().unwrap().clone()
    }

    fn gateway(&self, body: &[u8]) -> HttpResponse {
        let opened = match consume_request(&self.keys.lock().unwrap(), body) {
            Ok(opened) => opened,
            Err(refusal) => return refused(refusal),
        };
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let now = Moment(NOW);
        let admitted = opened.decode().and_then(|request| {
            self.window.lock().unwrap().admit(&opened, &request, now)?;
            Ok(inner(&request))
        });
        let answer = match admitted {
            Err(refusal) => {
                let (status, kind) = match refusal {
                    InnerRefusal::Date => (400, DATE_PROBLEM),
                    InnerRefusal::Malformed | InnerRefusal::Replayed => (400, "about:blank"),
                    InnerRefusal::Full => (503, "about:blank"),
                };
                let body = format!("{{\"type\": \"{kind}\"}}").into_bytes();
                let headers = vec![("content-type".into(), "application/problem+json".into())];
                HttpResponse { status, headers, body }
            }
            Ok(request) => {
                let answer = (self.target)(&request);
                self.inner.lock().unwrap().push(request);
                answer
            }
        };
        let (_, responder) = opened.into_parts();
        sealed(responder.respond(&response(&answer), &mut rng).unwrap())
    }
}

impl Transport for BehindRelay {
    fn send(&self, request: &HttpRequest<'_>) -> Reply {
        let header = |(name, value): &(&str, zeroize::Zeroizing<String>)| {
            (name.to_string(), value.to_string())
        };
        self.outer.lock().unwrap().push(Outer {
            method: request.method,
            url: request.url.clone(),
            headers: request.headers.iter().map(header).collect(),
            body: request.body.to_vec(),
            response_limit: request.response_limit,
        });
        if let Some(reply) = self.before.lock().unwrap().pop_front() {
            return reply;
        }
        let answer = self.gateway(request.body);
        if answer.body.len() > request.response_limit {
            return Err(TransportError::ResponseTooLong);
        }
        Ok(answer)
    }
}

pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: &[u8]) -> HttpResponse {
    let header = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    HttpResponse { status, headers: headers.iter().map(header).collect(), body: body.to_vec() }
}

pub(crate) fn sealed(body: Vec<u8>) -> HttpResponse {
    answer(200, &[("Content-Type", RESPONSE_MEDIA_TYPE)], &body)
}

/// A refusal in clear.
pub(crate) fn refused(refusal: OuterRefusal) -> HttpResponse {
    let kind = match refusal {
        OuterRefusal::UnknownKey => KEY_PROBLEM,
        OuterRefusal::Malformed => "about:blank",
    };
    let body = format!(r#"{{"type":"{kind}"}}"#);
    answer(400, &[("content-type", "application/problem+json")], body.as_bytes())
}

/// A device's clock that stands still.
pub(crate) fn clock(now: u64) -> Clock {
    Arc::new(move || Moment(now))
}

/// A different generator for each exchange.
pub(crate) fn random() -> Random {
    let exchanges = AtomicU64::new(0);
    Arc::new(move || {
        let number = exchanges.fetch_add(1, Ordering::Relaxed);
        Box::new(ChaCha20Rng::seed_from_u64(number))
    })
}

/// A host of this world.
pub(crate) fn host(world: &World, transport: Arc<dyn Transport>) -> Host {
    let mut host = Host::new(transport);
    (host.clock, host.random) = (clock(NOW), random());
    let (conditions_met, attributes) = (world.conditions_met, world.attributes.clone());
    host.conditions = Box::new(move || Ok(conditions_met));
    host.attributes = Box::new(move || Ok(attributes.clone()));
    host
}

/// A transport to the target through this relay.
pub(crate) fn through(relay: &Arc<BehindRelay>, key: &HpkeKeypair) -> RelayTransport {
    RelayTransport::new(
        Arc::<BehindRelay>::clone(relay),
        vec!["https://relay.example/".to_owned()],
        "leader.example".parse().unwrap(),
        vec![key.config().clone()],
        clock(NOW),
        random(),
    )
}

fn inner(request: &Request<'_>) -> Inner {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    Inner {
        method: request.method.to_owned(),
        url: format!("{}://{}{}", request.scheme, request.authority, request.path),
        fields: request.fields.iter().map(|f| (f.name.to_owned(), text(f.value))).collect(),
        content: request.content.to_vec(),
    }
}

fn response(answer: &HttpResponse) -> Response<'_> {
    Response {
        informational: Vec::new(),
        status: answer.status,
        fields: answer
            .headers
            .iter()
            .map(|(name, value)| Field { name, value: value.as_bytes() })
            .collect(),
        content: answer.body.as_slice().into(),
        trailers: Vec::new(),
    }
}
