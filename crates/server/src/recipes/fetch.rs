//! The files of a public log, for a blocking reader, fetched by an async client.
//!
//! The reader runs on a separate thread and asks for files; whoever waits for that thread fetches
//! them. So the reader fails as soon as nobody waits for it any more, and a shutdown never waits
//! for the log.

use std::time::Duration;

use axum::http::{Method, StatusCode};
use bytes::Bytes;
use sotto_protocol::log::{Fetch, FetchError};
use sotto_wire::HttpUrl;
use tokio::sync::{mpsc, oneshot};

use crate::environment::instant;
use crate::outbound::{self, HttpClient, TransportError, peer_url};

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

/// The reader's side.
#[derive(Debug)]
pub(super) struct LogFiles {
    asks: mpsc::UnboundedSender<Ask>,
}

/// The reader's side, and the receiver of its requests.
pub(super) fn bridge() -> (LogFiles, mpsc::UnboundedReceiver<Ask>) {
    let (asks, asked) = mpsc::unbounded_channel();
    (LogFiles { asks }, asked)
}

impl Fetch for LogFiles {
    fn fetch(&mut self, path: &str, limit: usize) -> Answer {
        let ended = |_| FetchError::new("reading the log was aborted");
        let (answer, answered) = oneshot::channel();
        let ask = Ask { path: path.to_owned(), limit, answer };
        self.asks.send(ask).map_err(|_| FetchError::new("reading the log was aborted"))?;
        answered.blocking_recv().map_err(ended)?
    }
}

/// Fetches files from the log's URL.
#[derive(Debug)]
pub(super) struct LogClient {
    http: HttpClient,
    base: HttpUrl,
}

impl LogClient {
    /// `certificates` (PEM) are trusted as roots for the log, in addition to those of the operating
    /// system. What the log serves is proved by its content, so plain HTTP is harmless.
    pub(super) fn new(url: &str, certificates: Option<&[u8]>) -> Result<Self, String> {
        let http = HttpClient::new(TIMEOUT, certificates).map_err(|fault| fault.to_string())?;
        Ok(Self { http, base: peer_url(url).map_err(|reason| format!("the log: {reason}"))? })
    }

    /// Answers a request of the reader.
    pub(super) async fn answer(&self, ask: Ask) {
        let answer = self.file(&ask.path, ask.limit).await;
        let _ = ask.answer.send(answer);
    }

    async fn file(&self, path: &str, limit: usize) -> Answer {
        let failed = |error| match error {
            TransportError::TooLong => FetchError::too_long(path, limit),
            TransportError::Late => FetchError::new(format!("{path}: no answer in time")),
            TransportError::Unreachable | TransportError::NotPublic => {
                FetchError::new(format!("{path}: no connection"))
            }
            TransportError::Broken => FetchError::new(format!("{path}: the answer broke off")),
        };
        let url = self.base.below(path).map_err(|_| failed(TransportError::Unreachable))?;
        let request = outbound::request(Method::GET, &url);
        let answer = self.http.send(request, Bytes::new(), instant() + TIMEOUT).await;
        let answer = answer.map_err(failed)?;
        match answer.status {
            StatusCode::OK => Ok(Some(answer.read(limit).await.map_err(failed)?.into())),
            StatusCode::NOT_FOUND | StatusCode::GONE => Ok(None),
            status => Err(FetchError::new(format!("{path}: the log answers {status}"))),
        }
    }
}
