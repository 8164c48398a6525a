//! How a device shows an attester which device it is. A host with a hardware key implements its own
//! [`Attestor`].

use std::borrow::Cow;
use std::fmt;

use ed25519_dalek::pkcs8::DecodePrivateKey;
use ed25519_dalek::{Signer, SigningKey};
use sotto_protocol::token::{AttestError, Attestor};
use sotto_wire::Encode;
use sotto_wire::token::evidence::{self, AttestationEvidence, X509Evidence};
use ureq::tls::Certificate;

use crate::http;

/// `ed25519` in TLS (RFC 8446, section "Signature Algorithms").
const ED25519: u16 = 0x0807;

/// A name that anybody may claim. Attesters accept it only with a setting named
/// `insecure_attestation`. Holds the evidence.
#[derive(Clone)]
pub struct InsecureName(Vec<u8>);

/// A certificate from the device's manufacturer, whose key is an Ed25519 key in a file.
pub struct DeviceCertificate {
    /// The device's own certificate first.
    chain: Vec<Certificate<'static>>,
    key: SigningKey,
}

impl InsecureName {
    /// A name of 1 to 64 bytes.
    pub fn new(name: impl Into<String>) -> Result<Self, AttestError> {
        let name = name.into();
        let name = evidence::InsecureName::new(name.as_bytes()).map_err(failed)?;
        Ok(Self(AttestationEvidence::Insecure(name).to_bytes()))
    }
}

impl Attestor for InsecureName {
    fn attest(&self, _message: &[u8]) -> Result<Vec<u8>, AttestError> {
        Ok(self.0.clone())
    }
}

impl DeviceCertificate {
    /// From PEM: the certificates, the device's own first and without the root, and its key in
    /// PKCS#8.
    pub fn from_pem(certificates: &[u8], key: &str) -> Result<Self, AttestError> {
        let key = SigningKey::from_pkcs8_pem(key)
            .map_err(|_| failed("the key is not an Ed25519 key in PKCS#8 and PEM"))?;
        let chain = http::certificates(certificates)
            .ok_or_else(|| failed("the certificates are not in PEM"))?;
        let certificate = Self { chain, key };
        // Evidence that is too long or empty fails here, not when a token is due.
        certificate.attest(b"")?;
        Ok(certificate)
    }
}

impl Attestor for DeviceCertificate {
    fn attest(&self, message: &[u8]) -> Result<Vec<u8>, AttestError> {
        let signature = self.key.sign(message).to_bytes();
        let chain = self.chain.iter().map(|certificate| Cow::Borrowed(certificate.der())).collect();
        let evidence =
            X509Evidence::new(chain, ED25519, Cow::Borrowed(&signature)).map_err(failed)?;
        Ok(AttestationEvidence::X509(evidence).to_bytes())
    }
}

impl fmt::Debug for InsecureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InsecureName([redacted])")
    }
}

impl fmt::Debug for DeviceCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceCertificate").finish_non_exhaustive()
    }
}

fn failed(why: impl ToString) -> AttestError {
    AttestError(why.to_string())
}
