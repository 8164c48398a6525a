//! The certificate of a listener. It is replaced while connections use it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::TlsConfig;
use crate::error::BindError;
use crate::rotating::Rotating;

/// A certificate with its key, ready for handshakes.
#[derive(Debug)]
pub struct Certified {
    config: Arc<rustls::ServerConfig>,
    /// The last second of its validity, POSIX.
    expires: i64,
}

/// The certificate of a listener. Shared between the listener and whoever renews it: open
/// connections keep theirs, each handshake takes the current one.
pub type Certificates = Rotating<Certified>;

impl Certificates {
    pub(crate) fn load(config: &TlsConfig) -> Result<Self, BindError> {
        Ok(Self::holding(Certified::new(config)?))
    }

    /// Replaces the certificate. On an error, such as a key of another certificate, the old one
    /// stays.
    pub fn renew(&self, config: &TlsConfig) -> Result<(), BindError> {
        self.set(Certified::new(config)?);
        Ok(())
    }

    /// The last second of its validity, POSIX.
    pub fn expires(&self) -> i64 {
        self.current().expires
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.current().config))
    }
}

impl Certified {
    fn new(config: &TlsConfig) -> Result<Self, BindError> {
        let unusable = |reason: &dyn ToString| BindError::Certificate(reason.to_string());
        let certificates = CertificateDer::pem_slice_iter(&config.certificate_chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| unusable(&error))?;
        let Some(first) = certificates.first() else {
            return Err(unusable(&"there is no certificate in the chain"));
        };
        let (_, parsed) =
            x509_parser::parse_x509_certificate(first).map_err(|error| unusable(&error))?;
        let expires = parsed.validity().not_after.timestamp();
        let key = PrivateKeyDer::from_pem_slice(config.private_key.expose())
            .map_err(|_| unusable(&"the private key is not a PEM key"))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
            .map_err(|error| unusable(&error))?;
        server.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(server), expires })
    }
}
