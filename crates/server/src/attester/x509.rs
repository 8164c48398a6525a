//! Attestation by X.509 device certificates under manufacturers' roots (RFC 5280).
//!
//! The device signs with the key of its certificate. Its identity is the manufacturer's root together with the attribute
//! `serialNumber` of the subject, never the certificate: a renewed certificate, under another intermediate or with another
//! key, is the same device. So the roots must not sign two devices with one number, and must not give one device two.
//!
//! Revocation is by lists that the operator provides. Without `require_crl` they are what is known: a list that has
//! expired still revokes, and a certificate whose issuer has no list passes. With it, either is a refusal.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256, digest};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, SignatureVerificationAlgorithm, TrustAnchor,
    UnixTime,
};
use sotto_protocol::attester::{Attestation, AttestationRefusal, DeviceIdentity};
use sotto_protocol::{Fault, Moment};
use sotto_wire::Decode;
use sotto_wire::token::evidence::{AttestationEvidence, X509Evidence};
use webpki::aws_lc_rs as algorithms;
use webpki::{
    CertRevocationList, EndEntityCert, Error, ExpirationPolicy, ExtendedKeyUsageValidator,
    KeyPurposeIdIter, KeyUsage, OwnedCertRevocationList, RequiredEkuNotFoundContext,
    RevocationCheckDepth, RevocationOptions, RevocationOptionsBuilder, UnknownStatusPolicy,
    VerifiedPath, anchor_from_trusted_cert,
};
use x509_parser::prelude::{FromDer, X509Certificate};

/// What certificates may be signed with.
static CERTIFICATE_ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    algorithms::ED25519,
    algorithms::ECDSA_P256_SHA256,
    algorithms::ECDSA_P256_SHA384,
    algorithms::ECDSA_P384_SHA256,
    algorithms::ECDSA_P384_SHA384,
    algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
    algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
    algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
    algorithms::RSA_PKCS1_2048_8192_SHA256,
    algorithms::RSA_PKCS1_2048_8192_SHA384,
    algorithms::RSA_PKCS1_2048_8192_SHA512,
];

/// The algorithm of a signature scheme of TLS (RFC 8446 §4.2.3).
fn scheme_algorithm(scheme: u16) -> Option<&'static dyn SignatureVerificationAlgorithm> {
    Some(match scheme {
        0x0807 => algorithms::ED25519,
        0x0403 => algorithms::ECDSA_P256_SHA256,
        0x0503 => algorithms::ECDSA_P384_SHA384,
        0x0804 => algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
        0x0805 => algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
        0x0806 => algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        0x0401 => algorithms::RSA_PKCS1_2048_8192_SHA256,
        0x0501 => algorithms::RSA_PKCS1_2048_8192_SHA384,
        0x0601 => algorithms::RSA_PKCS1_2048_8192_SHA512,
        _ => return None,
    })
}

/// What an operator decides about device certificates.
#[derive(Clone, Debug, Default)]
pub struct X509Config {
    /// PEM: the manufacturers' roots.
    pub roots: Vec<u8>,
    /// PEM: revocation lists.
    pub crls: Vec<u8>,
    /// Refuses devices of which it is not known whether they were revoked.
    pub require_crl: bool,
}

/// Device certificates.
pub struct X509Attestation {
    roots: Vec<TrustAnchor<'static>>,
    crls: RwLock<Arc<[CertRevocationList<'static>]>>,
    require_crl: bool,
}

impl X509Attestation {
    /// Reads roots and revocation lists.
    pub fn new(config: &X509Config) -> Result<Self, Fault> {
        let unusable = || Fault("the manufacturers' roots are not PEM certificates".into());
        let mut roots = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(&config.roots) {
            let certificate = certificate.map_err(|_| unusable())?;
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|_| unusable())?;
            roots.push(anchor.to_owned());
        }
        if roots.is_empty() {
            return Err(unusable());
        }
        let crls = RwLock::new(read_crls(&config.crls)?);
        Ok(Self { roots, crls, require_crl: config.require_crl })
    }

    /// Replaces the revocation lists (PEM). If they cannot be read, the old ones stay.
    pub fn reload_crls(&self, pem: &[u8]) -> Result<(), Fault> {
        let crls = read_crls(pem)?;
        *self.crls.write().unwrap_or_else(PoisonError::into_inner) = crls;
        Ok(())
    }

    fn identify_device(
        &self,
        evidence: &X509Evidence<'_>,
        message: &[u8],
        now: Moment,
    ) -> Result<DeviceIdentity, AttestationRefusal> {
        let algorithm = scheme_algorithm(evidence.scheme()).ok_or(AttestationRefusal::Signature)?;
        let chain = evidence.chain().iter().map(|bytes| CertificateDer::from(bytes.as_ref()));
        let chain: Vec<_> = chain.collect();
        let (leaf, intermediates) = chain.split_first().ok_or(AttestationRefusal::Malformed)?;
        let device = EndEntityCert::try_from(leaf).map_err(|_| AttestationRefusal::Malformed)?;
        let crls = Arc::clone(&self.crls.read().unwrap_or_else(PoisonError::into_inner));
        let crls: Vec<_> = crls.iter().collect();
        let path = device
            .verify_for_usage(
                CERTIFICATE_ALGORITHMS,
                &self.roots,
                intermediates,
                UnixTime::since_unix_epoch(Duration::from_secs(now.0)),
                DeviceUsage,
                self.revocation(&crls)?,
                None,
            )
            .map_err(|error| untrusted(&error))?;
        device
            .verify_signature(algorithm, message, evidence.signature())
            .map_err(|_| AttestationRefusal::Signature)?;
        device_identity(&path, leaf)
    }

    fn revocation<'a>(
        &self,
        crls: &'a [&'a CertRevocationList<'a>],
    ) -> Result<Option<RevocationOptions<'a>>, AttestationRefusal> {
        let (status, expiration) = if self.require_crl {
            (UnknownStatusPolicy::Deny, ExpirationPolicy::Enforce)
        } else {
            (UnknownStatusPolicy::Allow, ExpirationPolicy::Ignore)
        };
        match RevocationOptionsBuilder::new(crls) {
            Ok(options) => Ok(Some(
                options
                    .with_depth(RevocationCheckDepth::Chain)
                    .with_status_policy(status)
                    .with_expiration_policy(expiration)
                    .build(),
            )),
            Err(_) if self.require_crl => Err(AttestationRefusal::UnknownRevocation),
            Err(_) => Ok(None),
        }
    }
}

impl Attestation for X509Attestation {
    fn identify(
        &self,
        evidence: &[u8],
        message: &[u8],
        now: Moment,
    ) -> Result<DeviceIdentity, AttestationRefusal> {
        match AttestationEvidence::from_bytes(evidence) {
            Ok(AttestationEvidence::X509(evidence)) => {
                self.identify_device(&evidence, message, now)
            }
            Ok(AttestationEvidence::Insecure(_)) => Err(AttestationRefusal::Kind),
            Err(_) => Err(AttestationRefusal::Malformed),
        }
    }
}

impl std::fmt::Debug for X509Attestation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("X509Attestation").field("roots", &self.roots.len()).finish_non_exhaustive()
    }
}

/// Certificates without an extended key usage, with `clientAuth` or with `anyExtendedKeyUsage`.
struct DeviceUsage;

const CLIENT_AUTH: &[usize] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];
const ANY_USAGE: &[usize] = &[2, 5, 29, 37, 0];

impl ExtendedKeyUsageValidator for DeviceUsage {
    fn validate(&self, usages: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let mut present = Vec::new();
        for usage in usages {
            present.push(usage?.to_decoded_oid());
        }
        let fits = |usage: &Vec<usize>| usage == CLIENT_AUTH || usage == ANY_USAGE;
        if present.is_empty() || present.iter().any(fits) {
            return Ok(());
        }
        let required = KeyUsage::client_auth();
        Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
    }
}

fn untrusted(error: &Error) -> AttestationRefusal {
    match error {
        Error::CertExpired { .. } | Error::CertNotValidYet { .. } => AttestationRefusal::Expired,
        Error::CertRevoked => AttestationRefusal::Revoked,
        Error::UnknownRevocationStatus | Error::CrlExpired { .. } => {
            AttestationRefusal::UnknownRevocation
        }
        _ => AttestationRefusal::Untrusted,
    }
}

/// The device that a certificate is about.
fn device_identity(
    path: &VerifiedPath<'_>,
    leaf: &CertificateDer<'_>,
) -> Result<DeviceIdentity, AttestationRefusal> {
    let (_, certificate) =
        X509Certificate::from_der(leaf).map_err(|_| AttestationRefusal::Malformed)?;
    let subject = certificate.subject();
    let mut numbers = subject.iter_attributes().filter(|attribute| {
        *attribute.attr_type() == x509_parser::oid_registry::OID_X509_SERIALNUMBER
    });
    let number = numbers.next().ok_or(AttestationRefusal::NoIdentity)?.attr_value().data;
    // With two numbers a device could choose which one it is.
    if number.is_empty() || numbers.next().is_some() {
        return Err(AttestationRefusal::NoIdentity);
    }
    let anchor = path.anchor();
    let mut hash = Context::new(&SHA256);
    hash.update(b"sotto x509 device v1\0");
    hash.update(digest(&SHA256, &anchor.subject).as_ref());
    hash.update(digest(&SHA256, &anchor.subject_public_key_info).as_ref());
    hash.update(number);
    Ok(identity(hash))
}

/// The identity that a SHA-256 hash is.
pub(super) fn identity(hash: Context) -> DeviceIdentity {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.finish().as_ref());
    DeviceIdentity::new(bytes)
}

fn read_crls(pem: &[u8]) -> Result<Arc<[CertRevocationList<'static>]>, Fault> {
    let unusable = || Fault("the revocation lists are not PEM revocation lists".into());
    let mut crls = Vec::new();
    for crl in CertificateRevocationListDer::pem_slice_iter(pem) {
        let crl = crl.map_err(|_| unusable())?;
        let crl = OwnedCertRevocationList::from_der(&crl).map_err(|_| unusable())?;
        crls.push(CertRevocationList::from(crl));
    }
    if crls.is_empty() && !pem.trim_ascii().is_empty() {
        return Err(unusable());
    }
    Ok(crls.into())
}
