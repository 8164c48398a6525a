//! The files of a public log, over a [`Transport`].

use std::sync::Arc;

use sotto_protocol::log::{Fetch, FetchError};

use crate::transport::{HttpRequest, Transport};

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
        let request = HttpRequest::get(format!("{}/{path}", self.base), limit);
        let unread = |error| FetchError::new(format!("the log at {}: {error}", self.base));
        let response = self.transport.send(&request).map_err(unread)?;
        match response.status {
            200 => Ok(Some(response.body)),
            404 | 410 => Ok(None),
            status => Err(FetchError::new(format!("{path}: the log answers {status}"))),
        }
    }
}
