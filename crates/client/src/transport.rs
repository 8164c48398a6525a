//! How a request reaches an aggregator and how its answer comes back.
//!
//! One blocking call per exchange, on plain structs, so that others (an oblivious relay, an
//! application's own network stack, a script in a test) can replace
//! [`HttpTransport`](crate::HttpTransport). A transport does not retry, follow redirects or judge
//! status codes: the caller does.

use std::fmt;
use std::time::Duration;

use zeroize::Zeroizing;

/// Carries one request to its URL, and returns the answer.
pub trait Transport: Send + Sync {
    /// Sends `request` and waits for the whole answer. Any status is an answer.
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError>;
}

/// The methods that DAP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

impl Method {
    /// The name in HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Delete => "DELETE",
        }
    }
}

/// A request as a [`Transport`] gets it.
pub struct HttpRequest<'a> {
    /// The method.
    pub method: Method,
    /// The absolute URL.
    pub url: String,
    /// Header names, in lower case, and values. The values may be credentials: they are wiped on
    /// drop.
    pub headers: Vec<(&'static str, Zeroizing<String>)>,
    /// The body; empty except for POST.
    pub body: &'a [u8],
    /// The longest response body that is read.
    pub response_limit: usize,
}

impl<'a> HttpRequest<'a> {
    /// A GET without headers.
    pub fn get(url: String, response_limit: usize) -> Self {
        Self { method: Method::Get, url, headers: Vec::new(), body: &[], response_limit }
    }

    /// A POST of `body`, which has this media type.
    pub fn post(url: String, media_type: &str, body: &'a [u8], response_limit: usize) -> Self {
        let headers = vec![("content-type", Zeroizing::new(media_type.to_owned()))];
        Self { method: Method::Post, url, headers, body, response_limit }
    }
}

/// Shows neither header values (they may be credentials) nor the body.
impl fmt::Debug for HttpRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_len", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Header names and values. Names are case-insensitive.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Whether the body has this media type, with any parameters.
    pub(crate) fn is_media_type(&self, expected: &str) -> bool {
        let announced = self.header("content-type").unwrap_or_default();
        let bare = announced.split(';').next().unwrap_or_default();
        bare.trim().eq_ignore_ascii_case(expected)
    }

    /// The seconds of a `Retry-After` header (RFC 9110 §10.2.3). A date is ignored.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header("retry-after")?.trim();
        seconds.parse().ok().map(Duration::from_secs)
    }
}

/// Why there is no answer. Contains no credential, and no address except a relay's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The URL is not an absolute `http` or `https` one.
    #[error("the URL is not an absolute http or https URL")]
    InvalidUrl,
    /// Plain `http` to another machine.
    #[error("plain http to another machine is not allowed")]
    InsecureHttp,
    /// `https`, but the host provided no cryptography provider.
    #[error("https needs a cryptography provider, and none is installed")]
    NoCryptoProvider,
    /// The certificate authorities to trust could not be read.
    #[error("no certificate could be read from the PEM file")]
    InvalidCertificates,
    /// TLS failed, for instance because the certificate is not trusted.
    #[error("TLS: {0}")]
    Tls(String),
    /// The exchange took too long. It may have happened anyway.
    #[error("timed out")]
    Timeout,
    /// No connection: nothing was sent.
    #[error("no connection: {0}")]
    NoConnection(String),
    /// The connection broke. The exchange may have happened anyway.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The answer is longer than the request allowed.
    #[error("the answer is too long")]
    ResponseTooLong,
    /// The host of the transport does not wait any longer. The exchange may have happened anyway.
    #[error("gave up waiting for an answer")]
    GaveUp,
    /// The request could not be built.
    #[error("the request could not be made: {0}")]
    InvalidRequest(String),
    /// No relay may carry the request.
    #[error("there is no relay for this request")]
    NoRelay,
    /// The relay, or the gateway behind it, refused in clear: the request was not opened.
    #[error("{}", refusal_words(*status))]
    Relay {
        /// The status.
        status: u16,
        /// When to retry, if it says so.
        retry_after: Option<Duration>,
    },
    /// The gateway does not have the key that the request was sealed to. A newer key must come from
    /// the log.
    #[error("the gateway does not have the key that the request was sealed to")]
    GatewayKey,
    /// The gateway finds the request's date too far from its own time. It does not say what its
    /// time is: that could be used to tell devices apart.
    #[error(
        "the gateway's clock and this device's differ by more than a few minutes: set this device's clock"
    )]
    Clock,
    /// The relay's response is not an answer to this request.
    #[error("the answer cannot be used: {0}")]
    BadAnswer(String),
    /// Every relay failed. This is the last error.
    #[error("relay {relay}: {error}")]
    AtRelay {
        /// The relay, as the trust file names it.
        relay: String,
        /// What went wrong there.
        error: Box<TransportError>,
    },
}

/// What a relay's status means to the sender.
fn refusal_words(status: u16) -> String {
    let why = match status {
        404 => "it does not serve this operator's gateway, or the gateway is not where it thinks",
        429 => "too many requests: try later",
        502..=504 => "it does not reach the gateway: try later",
        _ => "the request was not passed on",
    };
    format!("HTTP status {status}: {why}")
}

impl TransportError {
    /// Whether not a byte of the request was sent.
    pub(crate) fn nothing_was_sent(&self) -> bool {
        match self {
            Self::NoConnection(_) => true,
            Self::AtRelay { error, .. } => error.nothing_was_sent(),
            _ => false,
        }
    }

    /// Whether another attempt may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Timeout | Self::NoConnection(_) | Self::Unreachable(_) => true,
            Self::Relay { status, .. } => is_transient(*status),
            Self::AtRelay { error, .. } => error.is_transient(),
            _ => false,
        }
    }

    /// The minimum wait before another attempt, if anyone on the path gave one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Relay { retry_after, .. } => *retry_after,
            Self::AtRelay { error, .. } => error.retry_after(),
            _ => None,
        }
    }
}

/// Statuses after which the same request is sent again: overload, and internal errors of the
/// server. Unknown statuses count as the first of their class (RFC 9110 §15).
pub(crate) fn is_transient(status: u16) -> bool {
    match status {
        501 | 505 => false,
        408 | 425 | 429 | 500..=599 => true,
        _ => false,
    }
}
