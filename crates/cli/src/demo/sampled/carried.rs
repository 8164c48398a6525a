//! Counts what devices send through the relay: what it could count itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use sotto_client::{HttpRequest, HttpResponse, Transport, TransportError};

use crate::workers::lock;

/// A transport that keeps count of the bodies' lengths.
pub(super) struct Carried {
    inner: Arc<dyn Transport>,
    lengths: Mutex<BTreeMap<usize, u64>>,
}

impl Carried {
    pub(super) fn new(inner: Arc<dyn Transport>) -> Self {
        Self { inner, lengths: Mutex::default() }
    }

    /// How many requests had which length.
    pub(super) fn lengths(&self) -> BTreeMap<usize, u64> {
        lock(&self.lengths).clone()
    }
}

impl Transport for Carried {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        *lock(&self.lengths).entry(request.body.len()).or_default() += 1;
        self.inner.send(request)
    }
}
