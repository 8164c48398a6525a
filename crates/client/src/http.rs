//! The included transport: HTTP/1.1 over TCP or TLS, using `ureq`.
//!
//! Connections are kept alive and shared by all threads. Redirects are not followed: a report or a
//! credential goes only where the task says.

use std::fmt;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use ureq::config::AutoHeaderValue;
use ureq::http::header::HeaderValue;
use ureq::http::uri::{Scheme, Uri};
use ureq::http::{self, Request};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::transport::{HttpRequest, HttpResponse, Method, Transport, TransportError};

/// How an [`HttpTransport`] behaves.
#[derive(Clone)]
pub struct HttpOptions {
    /// How long connecting may take, including TLS.
    pub connect_timeout: Duration,
    /// How long a whole exchange may take.
    pub request_timeout: Duration,
    /// How many idle connections are kept for each host.
    pub max_idle_connections: usize,
    /// Whether plain `http` may be used to other machines. Reports and aggregates are sealed
    /// anyway, but credentials are not, and anyone on the path can replace the HPKE keys that a
    /// device fetches.
    pub insecure_http: bool,
    /// PEM certificates of the authorities to trust instead of the public ones.
    pub ca_certificates_pem: Option<Vec<u8>>,
    /// The cryptography provider for TLS. Without one, the process default is used.
    pub crypto_provider: Option<Arc<CryptoProvider>>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            max_idle_connections: 16,
            insecure_http: false,
            ca_certificates_pem: None,
            crypto_provider: None,
        }
    }
}

/// [`Transport`] over the network.
pub struct HttpTransport {
    /// For `http`, without a proxy, which would be another machine.
    plain: ureq::Agent,
    /// Only for `https`; through the proxy that the environment names, if any.
    tls: ureq::Agent,
    insecure_http: bool,
    has_provider: bool,
}

impl HttpTransport {
    /// Fails only if `options` has certificates that cannot be read.
    pub fn new(options: HttpOptions) -> Result<Self, TransportError> {
        let mut tls = TlsConfig::builder();
        if let Some(pem) = &options.ca_certificates_pem {
            let authorities = certificates(pem).filter(|found| !found.is_empty());
            let authorities = authorities.ok_or(TransportError::InvalidCertificates)?;
            tls = tls.root_certs(RootCerts::new_with_certs(&authorities));
        }
        let has_provider = options.crypto_provider.is_some();
        if let Some(provider) = &options.crypto_provider {
            tls = tls.unversioned_rustls_crypto_provider(provider.clone());
        }
        let plain = config(&options).proxy(None).build().new_agent();
        let tls = config(&options).https_only(true).tls_config(tls.build()).build().new_agent();
        Ok(Self { plain, tls, insecure_http: options.insecure_http, has_provider })
    }

    /// The agent for a URL, if the URL is allowed at all.
    fn agent(&self, uri: &Uri) -> Result<&ureq::Agent, TransportError> {
        let (Some(scheme), Some(host)) = (uri.scheme(), uri.host()) else {
            return Err(TransportError::InvalidUrl);
        };
        if *scheme == Scheme::HTTPS {
            // `ureq` panics without a provider.
            if !self.has_provider && CryptoProvider::get_default().is_none() {
                return Err(TransportError::NoCryptoProvider);
            }
            Ok(&self.tls)
        } else if *scheme != Scheme::HTTP {
            Err(TransportError::InvalidUrl)
        } else if self.insecure_http || is_loopback(host) {
            Ok(&self.plain)
        } else {
            Err(TransportError::InsecureHttp)
        }
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpTransport");
        shown.field("insecure_http", &self.insecure_http).finish_non_exhaustive()
    }
}

impl Transport for HttpTransport {
    fn send(&self, request: &HttpRequest<'_>) -> Result<HttpResponse, TransportError> {
        let uri: Uri = request.url.parse().map_err(|_| TransportError::InvalidUrl)?;
        let agent = self.agent(&uri)?;
        let mut builder = Request::builder().method(request.method.as_str()).uri(uri);
        for (name, value) in &request.headers {
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| TransportError::InvalidRequest(format!("bad value of {name}")))?;
            value.set_sensitive(true);
            builder = builder.header(*name, value);
        }
        let built = match request.method {
            Method::Post => builder.body(request.body).map(|request| agent.run(request)),
            Method::Get | Method::Delete => builder.body(()).map(|request| agent.run(request)),
        };
        let response = built.map_err(|error| TransportError::InvalidRequest(error.to_string()))?;
        read(response.map_err(transport_error)?, request.response_limit)
    }
}

/// What both agents have in common.
fn config(options: &HttpOptions) -> ureq::config::ConfigBuilder<ureq::typestate::AgentScope> {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        // Nothing that could tell one device from another.
        .user_agent(AutoHeaderValue::None)
        .timeout_connect(Some(options.connect_timeout))
        .timeout_global(Some(options.request_timeout))
        .max_idle_connections_per_host(options.max_idle_connections)
        .max_idle_connections(options.max_idle_connections.saturating_mul(2))
}

/// The certificates in a PEM file, which may contain other things; `None` if it is not PEM.
pub(crate) fn certificates(pem: &[u8]) -> Option<Vec<Certificate<'static>>> {
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Some(certificate)),
        Ok(_) => None,
        Err(_) => Some(None),
    };
    parse_pem(pem).filter_map(certificate).collect()
}

/// Whether `host`, as written in a URL, is this machine.
fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

fn read(
    mut response: http::Response<ureq::Body>,
    limit: usize,
) -> Result<HttpResponse, TransportError> {
    let status = response.status().as_u16();
    let headers = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())))
        .collect();
    // `ureq` fails when the limit is reached, even at the end of the body.
    let limit = (limit as u64).saturating_add(1);
    let body = response.body_mut().with_config().limit(limit).read_to_vec();
    Ok(HttpResponse { status, headers, body: body.map_err(transport_error)? })
}

/// What the system says if no connection can be made.
const NO_CONNECTION: [ErrorKind; 4] = [
    ErrorKind::ConnectionRefused,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::NetworkDown,
];

fn transport_error(error: ureq::Error) -> TransportError {
    match error {
        ureq::Error::Timeout(_) => TransportError::Timeout,
        ureq::Error::BodyExceedsLimit(_) | ureq::Error::LargeResponseHeader(..) => {
            TransportError::ResponseTooLong
        }
        ureq::Error::Rustls(error) => TransportError::Tls(error.to_string()),
        ureq::Error::Tls(error) => TransportError::Tls(error.to_owned()),
        ureq::Error::Io(error) => {
            let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            match tls {
                Some(tls) => TransportError::Tls(tls.to_string()),
                None if NO_CONNECTION.contains(&error.kind()) => {
                    TransportError::NoConnection(error.to_string())
                }
                None => TransportError::Unreachable(error.to_string()),
            }
        }
        ureq::Error::HostNotFound => TransportError::NoConnection("no such host".into()),
        ureq::Error::ConnectionFailed => TransportError::NoConnection("connection failed".into()),
        // The server was killed in the middle of an answer.
        ureq::Error::Protocol(error) => TransportError::Unreachable(error.to_string()),
        other => TransportError::InvalidRequest(other.to_string()),
    }
}

#[cfg(test)]
mod tests;
