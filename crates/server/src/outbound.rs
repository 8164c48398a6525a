//! Requests to other servers: the one HTTP client of all roles.
//!
//! [`client`] sends what it is given and a `host` field, nothing else: no user agent, no cookies,
//! no redirects, no proxy from the environment. The relay and the standalone gateway forward
//! requests with it. [`HttpClient`] sends our own requests: small bodies, and answers with bounded
//! time and length.
//!
//! A URL that the operator wrote into the configuration may lead anywhere. One that a recipe names
//! leads to public addresses only ([`Reach`], [`addresses`]).

mod addresses;

use std::error::Error;
use std::io::{self, ErrorKind::TimedOut};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ACCEPT, HeaderValue};
use axum::http::request::Builder;
use axum::http::{HeaderMap, Method, Request, StatusCode, Uri};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sotto_protocol::Fault;
use sotto_wire::HttpUrl;
use tokio::net::TcpStream;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt, service_fn};

use crate::environment::{self, Instant, timeout_at};

/// The client, for bodies of one kind.
pub(crate) type OutboundClient<B> = Client<Connector, B>;
type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<TokioIo<TcpStream>>, BoxError>;

/// The longest wait for a connection, with its TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// We close idle connections before one of our servers would, so that few requests meet a
/// connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// The bytes of an answer that a connection may buffer before they are read.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// The addresses to which a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Whatever the URL says: the operator wrote it.
    Anywhere,
    /// Public ones only.
    Public,
}

impl Reach {
    fn allows(self, address: IpAddr) -> bool {
        self == Self::Anywhere || addresses::is_public(address)
    }

    /// The addresses of a host to which a connection may be opened. These very addresses are then
    /// connected to: the name is not looked up again.
    async fn resolve(self, name: Name) -> Result<std::vec::IntoIter<SocketAddr>, BoxError> {
        let mut addresses: Vec<SocketAddr> = GaiResolver::new().oneshot(name).await?.collect();
        addresses.retain(|address| self.allows(address.ip()));
        if addresses.is_empty() {
            return Err(NotPublic.into());
        }
        Ok(addresses.into_iter())
    }
}

/// No address of the host is public.
#[derive(Debug, thiserror::Error)]
#[error("the host has no public address")]
struct NotPublic;

/// Makes a client. `certificates` (PEM) are trusted as roots in addition to those of the operating
/// system.
///
/// A request is sent at most once. If a kept connection turns out to be closed before any byte of
/// the request was written, another connection is used. That is not a repetition (RFC 9458 §6.5
/// forbids those).
pub(crate) fn client<B>(
    reach: Reach,
    timeout: Duration,
    certificates: Option<&[u8]>,
) -> Result<OutboundClient<B>, Fault>
where
    B: Body + Send,
    B::Data: Send,
{
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault(error.to_string()))?
        .with_root_certificates(roots(certificates)?)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new_with_resolver(service_fn(move |name| reach.resolve(name)));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let patience = timeout.min(CONNECT_TIMEOUT);
    tcp.set_connect_timeout(Some(patience));
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    let connector = service_fn(move |uri: Uri| {
        // An address in the URL itself is not looked up.
        let allowed = literal(&uri).is_none_or(|address| reach.allows(address));
        let connection = environment::timeout(patience, https.clone().oneshot(uri));
        async move {
            if !allowed {
                return Err(NotPublic.into());
            }
            connection.await.unwrap_or_else(|_| Err(io::Error::from(TimedOut).into()))
        }
    });
    Ok(Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http1_max_buf_size(CONNECTION_BUFFER)
        .build(BoxCloneSyncService::new(connector)))
}

/// Sends our own requests.
#[derive(Clone, Debug)]
pub(crate) struct HttpClient(OutboundClient<Full<Bytes>>);

impl HttpClient {
    /// Waits for a connection no longer than `timeout`, and at most 5 seconds. `certificates` (PEM)
    /// are trusted as roots in addition to those of the operating system.
    pub(crate) fn new(timeout: Duration, certificates: Option<&[u8]>) -> Result<Self, Fault> {
        Ok(Self(client(Reach::Anywhere, timeout, certificates)?))
    }

    /// The same for URLs that the operator did not write: it connects to public addresses only.
    pub(crate) fn public(timeout: Duration, certificates: Option<&[u8]>) -> Result<Self, Fault> {
        Ok(Self(client(Reach::Public, timeout, certificates)?))
    }

    /// Sends a request and waits for the head of its answer. The deadline covers the whole answer.
    pub(crate) async fn send(
        &self,
        request: Builder,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Answer, TransportError> {
        let request = request.body(Full::new(body)).map_err(|_| TransportError::Unreachable)?;
        let answer = timeout_at(deadline, self.0.request(request)).await;
        let answer = answer.map_err(|_| TransportError::Late)?;
        let answer = answer.map_err(|error| match &error {
            _ if is_timeout(&error) => TransportError::Late,
            _ if causes::<NotPublic>(&error).next().is_some() => TransportError::NotPublic,
            _ if error.is_connect() => TransportError::Unreachable,
            _ => TransportError::Broken,
        })?;
        let (head, body) = answer.into_parts();
        Ok(Answer { status: head.status, headers: head.headers, body, deadline })
    }
}

/// One of our own requests, still without a body and without fields for the resource.
pub(crate) fn request(method: Method, url: &HttpUrl) -> Builder {
    let any = HeaderValue::from_static("*/*");
    Request::builder().method(method).uri(url.as_str()).header(ACCEPT, any)
}

/// An answer whose body has not been read yet.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    deadline: Instant,
}

impl Answer {
    /// The body, of at most `limit` bytes.
    pub(crate) async fn read(self, limit: usize) -> Result<Bytes, TransportError> {
        let body = timeout_at(self.deadline, Limited::new(self.body, limit).collect()).await;
        let body = body.map_err(|_| TransportError::Late)?;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => TransportError::TooLong,
            false => TransportError::Broken,
        })?;
        Ok(body.to_bytes())
    }
}

/// Why there is no answer. The library's error may contain the peer's address, so only its kind is
/// passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportError {
    /// No connection.
    Unreachable,
    /// No public address, where only those are connected to.
    NotPublic,
    /// No answer in time.
    Late,
    /// The answer broke off, or is not HTTP.
    Broken,
    /// The answer is longer than its limit.
    TooLong,
}

impl TransportError {
    /// The name in log output and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "connect",
            Self::NotPublic => "no_public_address",
            Self::Late => "timeout",
            Self::Broken | Self::TooLong => "broken_answer",
        }
    }
}

/// The address in a URL that has one instead of a name.
fn literal(uri: &Uri) -> Option<IpAddr> {
    uri.host()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Whether the operating system or the connector timed out.
fn is_timeout(error: &(dyn Error + 'static)) -> bool {
    causes::<io::Error>(error).any(|error| error.kind() == TimedOut)
}

/// The error and its causes that are of this type.
fn causes<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a T> {
    let chain =
        std::iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| (*error).source());
    chain.filter_map(|error| error.downcast_ref())
}

/// What is wrong with the URL of a peer, for the operator.
pub(crate) const EXPOSED: &str =
    "its URL is plain http to another machine: use https, or start with --insecure-http";

/// The URL of a peer. Paths are added to it, so it has no query.
pub(crate) fn peer_url(url: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse_setting(url).map_err(|error| format!("its URL {error}"))?;
    match url.query() {
        Some(_) => Err("its URL has a query: leave out what begins with ?".to_owned()),
        None => Ok(url),
    }
}

/// Where requests go. Plain HTTP to another machine needs `insecure_http`.
pub(crate) fn target(url: &str, insecure_http: bool) -> Result<HttpUrl, String> {
    let url = peer_url(url)?;
    if url.is_exposed() && !insecure_http { Err(EXPOSED.to_owned()) } else { Ok(url) }
}

fn roots(certificates: Option<&[u8]>) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    let system = roots.len();
    for certificate in CertificateDer::pem_slice_iter(certificates.unwrap_or_default()) {
        let unusable = |_| Fault("the peers' certificates are not PEM certificates".into());
        let certificate = certificate.map_err(unusable)?;
        roots
            .add(certificate)
            .map_err(|_| Fault("a peer's certificate cannot be used as a root".into()))?;
    }
    if certificates.is_some() && roots.len() == system {
        return Err(Fault(
            "there is no PEM certificate among those that may vouch for peers".into(),
        ));
    }
    if roots.is_empty() {
        tracing::warn!("the operating system has no root certificates: no HTTPS to peers");
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_plain_urls_of_http() {
        assert_eq!(target("https://a.example", false).unwrap().as_str(), "https://a.example/");
        assert_eq!(target("HTTPS://A.example/B", false).unwrap().as_str(), "https://a.example/B");
        assert!(target("http://127.0.0.1:80/gateway", false).is_ok());
        assert!(target("http://[::1]/gateway", false).is_ok());
        assert!(target("http://a.example/gateway", false).is_err());
        assert!(target("http://a.example/gateway", true).is_ok());
        for bad in
            ["", "a.example", "ftp://a.example", "https://a/?x", "https://a/#x", "https://u:p@a/"]
        {
            assert!(target(bad, true).is_err(), "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_finish_the_handshake_is_given_up_soon() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", silent.local_addr().unwrap());
        let url = HttpUrl::parse(&url).unwrap();
        let http = HttpClient::new(Duration::from_secs(60), None).unwrap();
        let start = Instant::now();
        let deadline = start + Duration::from_secs(60);
        let outcome = http.send(request(Method::GET, &url), Bytes::new(), deadline).await;
        assert_eq!(outcome.err(), Some(TransportError::Late));
        assert_eq!(start.elapsed().as_secs(), CONNECT_TIMEOUT.as_secs());
    }
}
