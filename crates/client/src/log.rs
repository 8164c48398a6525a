//! The files of a public log, over a [`Transport`].

use std::sync::Arc;

use sotto_protocol::log::{Fetch, FetchError};

use crate::transport::{HttpRequest, Method, Transport};

/// A log at a URL. Every file is public and the same for everybody; nothing that identifies the
/// reader is sent.
#[derive(Clone)]
pub struct HttpLog {
    transport: Arc<dyn Transport>,
    base: String,
}

impl HttpLog {
    /// The log whose files are below `url`.
    pub fn new(url: &str, transport: Arc<dyn Transport>) -> Self {
        Self { transport, base: url.trim_end_matches('/').to_owned() }
    }
}

impl Fetch for HttpLog {
    fn fetch(&mut self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, FetchError> {
        let request = HttpRequest {
            method: Method::Get,
            url: format!("{}/{path}", self.base),
            headers: Vec::new(),
            body: &[],
            response_limit: limit,
        };
        let response = self.transport.send(&request);
        let response = response
            .map_err(|error| FetchError::new(format!("the log at {}: {error}", self.base)))?;
        match response.status {
            200 => Ok(Some(response.body)),
            404 | 410 => Ok(None),
            status => Err(FetchError::new(format!("{path}: the log answers {status}"))),
        }
    }
}

impl std::fmt::Debug for HttpLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpLog").field("base", &self.base).finish_non_exhaustive()
    }
}
