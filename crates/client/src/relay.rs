//! The transport that hides where a request comes from: sealed to a gateway, carried by a relay (RFC 9458).
//!
//! The relay learns the device's address, the gateway and a size class; the gateway learns the request. Each exchange goes
//! through a relay drawn anew and is sealed with a fresh key, a repeated one too, so nothing links two of them.
//! What the relay or the gateway says in clear is not authenticated: it can fail an exchange, and nothing else.
//!
//! Which gateway key is to be believed is decided in `sotto_protocol::device`; sealing and padding are
//! `sotto_protocol::oblivious`'s.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rand_core::CryptoRng;
use sotto_protocol::oblivious::{
    Awaited, InnerRequest, InnerResponse, ObliviousError, produce_request, relay_url,
};
use sotto_protocol::{Moment, uniform_below};
use sotto_wire::ohttp::{
    DATE_PROBLEM, KEY_PROBLEM, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE, RESPONSE_OVERHEAD,
};
use sotto_wire::size_class::SizeClass;
use sotto_wire::{HpkeConfig, KeyName, PROBLEM_MEDIA_TYPE};
use zeroize::Zeroizing;

use crate::problem::problem_type;
use crate::transport::{HttpRequest, HttpResponse, Method, Transport, TransportError};

/// What the time is.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Gives a generator for each exchange.
pub type Random = Arc<dyn Fn() -> Box<dyn CryptoRng> + Send + Sync>;

/// Room for the status and the fields of an answer, beside its body.
const MAX_RESPONSE_HEAD: usize = 4 * 1024;

/// [`Transport`] to whatever lies behind one gateway, through relays.
pub struct RelayTransport {
    inner: Arc<dyn Transport>,
    relays: Vec<String>,
    gateway: KeyName,
    key: RwLock<HpkeConfig>,
    clock: Clock,
    random: Random,
}

impl RelayTransport {
    /// Reaches the gateway of the operator `gateway`, which holds `key`, through one of `relays`, which `inner` reaches.
    pub fn new(
        inner: Arc<dyn Transport>,
        relays: Vec<String>,
        gateway: KeyName,
        key: HpkeConfig,
        clock: Clock,
        random: Random,
    ) -> Self {
        Self { inner, relays, gateway, key: RwLock::new(key), clock, random }
    }

    /// Seals to this key from now on.
    pub fn use_key(&self, key: HpkeConfig) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// One of the relays. None is preferred, so none sees more of a device than the others.
    fn relay(&self, rng: &mut dyn CryptoRng) -> Result<&str, TransportError> {
        let index = uniform_below(self.relays.len() as u64, rng);
        let relay = usize::try_from(index).ok().and_then(|index| self.relays.get(index));
        relay.map(String::as_str).ok_or(TransportError::NoRelay)
    }

    fn seal(
        &self,
        request: &HttpRequest<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Vec<u8>, Awaited), TransportError> {
        let fields: Vec<(&str, &str)> =
            request.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let inner = InnerRequest {
            method: request.method.as_str(),
            url: &request.url,
            fields: &fields,
            content: request.body,
        };
        let key = self.key.read().unwrap_or_else(PoisonError::into_inner).clone();
        produce_request(&inner, &key, (self.clock)(), rng).map_err(|error| match error {
            ObliviousError::InvalidUrl => TransportError::InvalidUrl,
            other => TransportError::InvalidRequest(other.to_string()),
        })
    }
}

impl Transport for RelayTransport {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let mut rng = (self.random)();
        let url = relay_url(self.relay(&mut *rng)?, &self.gateway);
        let (body, awaited) = self.seal(request, &mut *rng)?;
        let outer = HttpRequest {
            method: Method::Post,
            url,
            headers: vec![("content-type", Zeroizing::new(REQUEST_MEDIA_TYPE.to_owned()))],
            body: &body,
            response_limit: sealed_limit(request.response_limit),
        };
        let answer = open(&self.inner.send(&outer)?, awaited)?;
        if answer.content.len() > request.response_limit {
            return Err(TransportError::ResponseTooLong);
        }
        let InnerResponse { status, fields: headers, content: body } = answer;
        let response = HttpResponse { status, headers, body };
        if status == 400 && is_problem(&response, DATE_PROBLEM) {
            return Err(TransportError::Clock);
        }
        Ok(response)
    }
}

/// Shows no relay: which ones a device uses is its own affair.
impl fmt::Debug for RelayTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayTransport").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

/// The longest sealed answer that can hold a body of `limit` bytes: a gateway pads to the smallest class that fits.
fn sealed_limit(limit: usize) -> usize {
    let length = limit.saturating_add(MAX_RESPONSE_HEAD + RESPONSE_OVERHEAD);
    SizeClass::holding(length).unwrap_or(SizeClass::MAX_RESPONSE).bytes()
}

/// The answer within what the relay brought.
fn open(outer: &HttpResponse, awaited: Awaited) -> Result<InnerResponse, TransportError> {
    let bad = |reason: &str| Err(TransportError::BadAnswer(reason.to_owned()));
    match outer.status {
        200 if is_media_type(outer, RESPONSE_MEDIA_TYPE) => {
            let opened = awaited.consume_response(&outer.body);
            opened.map_err(|error| TransportError::BadAnswer(error.to_string()))
        }
        200..300 => bad("it is no encapsulated response"),
        400..500 if is_problem(outer, KEY_PROBLEM) => Err(TransportError::GatewayKey),
        status => Err(TransportError::Relay { status, retry_after: outer.retry_after() }),
    }
}

fn is_problem(response: &HttpResponse, expected: &str) -> bool {
    is_media_type(response, PROBLEM_MEDIA_TYPE) && problem_type(response) == expected
}

/// Whether the body is announced as this, with whatever parameters.
fn is_media_type(response: &HttpResponse, expected: &str) -> bool {
    let announced = response.header("content-type").unwrap_or_default();
    let bare = announced.split(';').next().unwrap_or_default();
    bare.trim().eq_ignore_ascii_case(expected)
}
