//! A client for requests that are handed on: from the relay to gateways, from a gateway to its targets.
//!
//! It sends what it is given and a `host`, nothing else: no user agent, no cookies, no redirects, no proxy of
//! the environment. [`crate::peer`] has the client for requests of our own.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use hyper::body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::Url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use sotto_protocol::Fault;

use crate::tasks::is_exposed;

/// The client, for bodies of one kind.
pub(crate) type OutboundClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// The longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections end before a server of ours ends them, so that few requests meet a connection that is
/// just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);
/// The bytes of an answer that a connection may buffer before they are asked for.
const CONNECTION_BUFFER: usize = 64 * 1024;

/// Makes a client. `certificates` (PEM) may vouch for servers beside those of the operating system.
///
/// A request is sent at most once. If a kept connection turns out to be closed before a byte of the request
/// was written, another connection is taken, which is no repetition (RFC 9458 §6.5 forbids those).
pub(crate) fn client<B>(
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
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(timeout.min(CONNECT_TIMEOUT)));
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .http1_max_buf_size(CONNECTION_BUFFER)
        .build(https))
}

/// Where requests go. Plain HTTP away from loopback needs `insecure_http`.
pub(crate) fn target(url: &str, insecure_http: bool) -> Result<Uri, &'static str> {
    let parsed =
        Url::parse(url).map_err(|_| "its URL does not parse: write it like https://host/path")?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err("its URL does not begin with https://");
    }
    let has_more = parsed.query().is_some() || parsed.fragment().is_some();
    if has_more || !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("its URL has a query, a fragment or credentials");
    }
    if is_exposed(&parsed) && !insecure_http {
        return Err(
            "its URL is plain http to another machine: use https, or start with --insecure-http",
        );
    }
    parsed.as_str().parse().map_err(|_| "its URL does not parse: write it like https://host/path")
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
        assert_eq!(target("https://a.example", false).unwrap(), "https://a.example/");
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
}
