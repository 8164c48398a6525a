//! The transport that hides where a request comes from: sealed to a gateway, carried by a relay
//! (RFC 9458).
//!
//! The relay learns the device's address, the gateway and a size class; the gateway learns the
//! request. Each attempt, including a retry, goes through a randomly chosen relay and is sealed
//! with a fresh key, so nothing links two attempts. What the relay or the gateway says in clear is
//! not authenticated: it can only make an attempt fail. If a relay fails, another is tried, and if
//! a key is refused, the next key, if there is one.
//!
//! `sotto_protocol::device` decides which gateway key to trust; `sotto_protocol::oblivious` seals
//! and pads.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rand_core::CryptoRng;
use sotto_protocol::oblivious::{
    Awaited, InnerRequest, InnerResponse, ObliviousError, produce_request, relay_url,
};
use sotto_protocol::{Moment, shuffle};
use sotto_wire::ohttp::{
    DATE_PROBLEM, KEY_PROBLEM, REQUEST_MEDIA_TYPE, RESPONSE_MEDIA_TYPE, RESPONSE_OVERHEAD,
};
use sotto_wire::size_class::SizeClass;
use sotto_wire::{HpkeConfig, KeyName};

use crate::problem::is_problem;
use crate::transport::{HttpRequest, HttpResponse, Transport, TransportError};

/// Returns the current time.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Returns a generator for each exchange.
pub type Random = Arc<dyn Fn() -> Box<dyn CryptoRng> + Send + Sync>;

/// Room for the status and the fields of an answer, in addition to its body.
pub(crate) const MAX_RESPONSE_HEAD: usize = 4 * 1024;

/// A [`Transport`] to everything behind one gateway, through relays.
pub struct RelayTransport {
    inner: Arc<dyn Transport>,
    relays: Vec<String>,
    gateway: KeyName,
    /// The first one is used.
    keys: RwLock<Vec<HpkeConfig>>,
    clock: Clock,
    random: Random,
}

impl RelayTransport {
    /// Reaches the gateway of the operator `gateway`, which holds one of `keys`, most likely the
    /// first, through one of `relays`, which `inner` reaches.
    pub fn new(
        inner: Arc<dyn Transport>,
        relays: Vec<String>,
        gateway: KeyName,
        keys: Vec<HpkeConfig>,
        clock: Clock,
        random: Random,
    ) -> Self {
        Self { inner, relays, gateway, keys: RwLock::new(keys), clock, random }
    }

    /// Seals to the first of these keys from now on, and to the next if one is refused.
    pub fn use_keys(&self, keys: Vec<HpkeConfig>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// Drops a key that the gateway does not have. Returns whether there is another.
    fn refused(&self, key: &HpkeConfig) -> bool {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.len() > 1 {
            keys.retain(|other| other != key);
        }
        keys.first().is_some_and(|first| first != key)
    }

    /// One attempt with this key, through the first relay that works. The order is random: no relay
    /// is preferred, so none sees more of a device than the others.
    fn attempt(
        &self,
        request: &HttpRequest<'_>,
        key: &HpkeConfig,
        rng: &mut dyn CryptoRng,
    ) -> Result<HttpResponse, TransportError> {
        let mut failed = TransportError::NoRelay;
        let mut relays: Vec<&String> = self.relays.iter().collect();
        shuffle(&mut relays, rng);
        for relay in relays {
            let (body, awaited) = self.seal(request, key, rng)?;
            let (url, limit) = (relay_url(relay, &self.gateway), request.response_limit);
            let outer = HttpRequest::post(url, REQUEST_MEDIA_TYPE, &body, sealed_limit(limit));
            match self.inner.send(&outer).and_then(|answer| open(&answer, awaited)) {
                Ok(answer) => return finish(answer, limit),
                Err(TransportError::GatewayKey) => return Err(TransportError::GatewayKey),
                Err(error) => {
                    let (relay, error) = (relay.to_owned(), Box::new(error));
                    failed = TransportError::AtRelay { relay, error };
                }
            }
        }
        Err(failed)
    }

    fn seal(
        &self,
        request: &HttpRequest<'_>,
        key: &HpkeConfig,
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
        produce_request(&inner, key, (self.clock)(), rng).map_err(|error| match error {
            ObliviousError::InvalidUrl => TransportError::InvalidUrl,
            other => TransportError::InvalidRequest(other.to_string()),
        })
    }
}

impl Transport for RelayTransport {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let mut rng = (self.random)();
        loop {
            let key = self.keys.read().unwrap_or_else(PoisonError::into_inner).first().cloned();
            let key = key.ok_or(TransportError::GatewayKey)?;
            match self.attempt(request, &key, &mut *rng) {
                Err(TransportError::GatewayKey) if self.refused(&key) => {}
                outcome => return outcome,
            }
        }
    }
}

/// Shows no relay: which relays a device uses is private.
impl fmt::Debug for RelayTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayTransport").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

/// The longest sealed answer that can hold a body of `limit` bytes: a gateway pads to the smallest
/// class that fits.
fn sealed_limit(limit: usize) -> usize {
    let length = limit.saturating_add(MAX_RESPONSE_HEAD + RESPONSE_OVERHEAD);
    SizeClass::holding(length).unwrap_or(SizeClass::MAX_RESPONSE).bytes()
}

/// The answer for the caller.
fn finish(answer: InnerResponse, limit: usize) -> Result<HttpResponse, TransportError> {
    if answer.content.len() > limit {
        return Err(TransportError::ResponseTooLong);
    }
    let InnerResponse { status, fields: headers, content: body } = answer;
    let response = HttpResponse { status, headers, body };
    if status == 400 && is_problem(&response, DATE_PROBLEM) {
        return Err(TransportError::Clock);
    }
    Ok(response)
}

/// Opens the answer inside the relay's response.
fn open(outer: &HttpResponse, awaited: Awaited) -> Result<InnerResponse, TransportError> {
    let bad = |reason: &str| Err(TransportError::BadAnswer(reason.to_owned()));
    match outer.status {
        200 if outer.is_media_type(RESPONSE_MEDIA_TYPE) => {
            let opened = awaited.consume_response(&outer.body);
            opened.map_err(|error| TransportError::BadAnswer(error.to_string()))
        }
        200..300 => bad("it is not an encapsulated response"),
        400..500 if is_problem(outer, KEY_PROBLEM) => Err(TransportError::GatewayKey),
        status => Err(TransportError::Relay { status, retry_after: outer.retry_after() }),
    }
}
