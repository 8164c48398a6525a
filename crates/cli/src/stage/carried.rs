//! Counts what devices send through the relay, as the relay itself could.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sotto_client::{HttpRequest, HttpResponse, Transport, TransportError};

use crate::workers::lock;

/// A transport that counts requests by the length of their bodies.
pub(crate) struct Carried {
    inner: Arc<dyn Transport>,
    lengths: Mutex<BTreeMap<usize, u64>>,
}

impl Carried {
    pub(crate) fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner, lengths: Mutex::default() }
    }

    /// How many requests had which length.
    pub(crate) fn lengths(&self) -> BTreeMap<usize, u64> {
        lock(&self.lengths).clone()
    }
}

impl Transport for Carried {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        *lock(&self.lengths).entry(request.body.len()).or_default() += 1;
        self.inner.send(request)
    }
}

/// A device's transports: one to each attester, and one to the relay for everything else.
pub(crate) struct Branching {
    pub(crate) attesters: [Arc<Carried>; 2],
    pub(crate) attester_urls: [String; 2],
    pub(crate) relay: Arc<Carried>,
}

impl Transport for Branching {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let attesters = self.attester_urls.iter().zip(&self.attesters);
        let attester = attesters.into_iter().find(|(url, _)| request.url.starts_with(*url));
        attester.map_or(&self.relay, |(_, attester)| attester).send(request)
    }
}
