//! The files of a public log, for a reader that blocks, by a client that does not.
//!
//! The reader runs on a thread of its own and asks; whoever waits for that thread answers. So the reader
//! ends with an error as soon as nobody waits for it any more, and a shutdown never waits for the log.

use std::time::Duration;

use reqwest::{Certificate, Client, StatusCode};
use sotto_protocol::log::{Fetch, FetchError};
use tokio::sync::{mpsc, oneshot};

/// How long one file may take.
const TIMEOUT: Duration = Duration::from_secs(20);

type Answer = Result<Option<Vec<u8>>, FetchError>;

/// A file that the reader waits for.
#[derive(Debug)]
pub(super) struct Ask {
    path: String,
    limit: usize,
    answer: oneshot::Sender<Answer>,
}

/// The reader's end.
#[derive(Debug)]
pub(super) struct LogFiles {
    asks: mpsc::UnboundedSender<Ask>,
}

/// The reader's end, and the questions that come from it.
pub(super) fn bridge() -> (LogFiles, mpsc::UnboundedReceiver<Ask>) {
    let (asks, asked) = mpsc::unbounded_channel();
    (LogFiles { asks }, asked)
}

impl Fetch for LogFiles {
    fn fetch(&mut self, path: &str, limit: usize) -> Answer {
        let ended = |_| FetchError::new("the reading was given up");
        let (answer, answered) = oneshot::channel();
        let ask = Ask { path: path.to_owned(), limit, answer };
        self.asks.send(ask).map_err(|_| FetchError::new("the reading was given up"))?;
        answered.blocking_recv().map_err(ended)?
    }
}

/// Fetches files from the log's address.
#[derive(Debug)]
pub(super) struct LogClient {
    http: Client,
    base: String,
}

impl LogClient {
    /// `certificates` (PEM) may vouch for the log beside those of the operating system. What the log
    /// serves is proved by its content, so plain HTTP does no harm.
    pub(super) fn new(url: &str, certificates: Option<&[u8]>) -> Result<Self, String> {
        // Another part of the process may have chosen one.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let builder = || {
            Client::builder()
                .connect_timeout(Duration::from_secs(5))
                .timeout(TIMEOUT)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
        };
        let certificates = match certificates {
            Some(pem) => Certificate::from_pem_bundle(pem)
                .map_err(|_| "the log's certificates are not PEM certificates".to_owned())?,
            None => Vec::new(),
        };
        let http = builder()
            .tls_certs_merge(certificates)
            .build()
            .or_else(|_| builder().tls_certs_only([]).build())
            .map_err(|error| error.to_string())?;
        Ok(Self { http, base: url.trim_end_matches('/').to_owned() })
    }

    /// Answers a question of the reader.
    pub(super) async fn answer(&self, ask: Ask) {
        let answer = self.file(&ask.path, ask.limit).await;
        let _ = ask.answer.send(answer);
    }

    async fn file(&self, path: &str, limit: usize) -> Answer {
        let failed = |error: reqwest::Error| FetchError::new(format!("{path}: {}", word(&error)));
        let request = self.http.get(format!("{}/{path}", self.base));
        let mut response = request.send().await.map_err(failed)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(None),
            status => return Err(FetchError::new(format!("{path}: the log answers {status}"))),
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(failed)? {
            if bytes.len() + chunk.len() > limit {
                return Err(FetchError::too_long(path, limit));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(Some(bytes))
    }
}

/// What went wrong, without the address.
fn word(error: &reqwest::Error) -> &'static str {
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the answer broke off"
    }
}
