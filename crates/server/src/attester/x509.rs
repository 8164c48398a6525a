//! Attestation by X.509 device certificates under manufacturers' roots (RFC 5280).
//!
//! The device signs with the key of its certificate. Its identity is the manufacturer, by the name
//! that the operator of the attester gave it, together with the attribute `serialNumber` of the
//! subject. The identity is never the certificate: a renewed one, under another intermediate or
//! with another key, is the same device. Nor is it the root: a device chooses the intermediates
//! that it sends, and with cross-signed ones it also chooses the root, so it would be as many
//! devices as there are paths. So all roots of a manufacturer belong under one name. A manufacturer
//! must neither give one number to two devices nor two numbers to one device.
//!
//! A certificate must be for what the manufacturer's device certificates are for ([`purpose`]): the
//! same authority may certify other things.
//!
//! Revocation uses lists that the operator provides ([`revocation`]). Without `require_crl` they
//! are used as far as they go: an expired list still revokes, and a certificate whose issuer has no
//! list passes. With it, both cases are refused.

mod purpose;
mod revocation;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use sotto_protocol::attester::{Attestation, AttestationRefusal, DeviceIdentity};
use sotto_protocol::{Fault, Moment};
use sotto_wire::Decode;
use sotto_wire::token::evidence::{AttestationEvidence, X509Evidence};
use webpki::aws_lc_rs as algorithms;
use webpki::{
    EndEntityCert, Error, ExpirationPolicy, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy, VerifiedPath, anchor_from_trusted_cert,
};
use x509_parser::prelude::{FromDer, X509Certificate};

pub use self::purpose::Purpose;
use self::revocation::RevocationLists;
use crate::rotating::Rotating;

/// Paths to a root that are tried for one request. An honest chain has one.
const MAX_PATHS: usize = 8;

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
    /// The manufacturers whose devices are accepted.
    pub manufacturers: Vec<Manufacturer>,
    /// PEM: revocation lists. Of several lists of one authority, the newest counts.
    pub crls: Vec<u8>,
    /// Refuses devices whose revocation status is unknown.
    pub require_crl: bool,
}

/// A manufacturer of devices: whoever assigns their numbers.
#[derive(Clone, Debug)]
pub struct Manufacturer {
    /// Part of every identity: under another name, all its devices are new devices and get second
    /// tokens.
    pub name: String,
    /// PEM: all its roots. If one of them is listed under another name, a device under both counts
    /// twice.
    pub roots: Vec<u8>,
    /// What it states in the certificates of devices. A list: all of it.
    pub purposes: Vec<Purpose>,
}

/// Attestation by device certificates.
pub struct X509Attestation {
    anchors: Vec<TrustAnchor<'static>>,
    /// In the order of the anchors.
    roots: Vec<Root>,
    crls: Rotating<RevocationLists>,
    require_crl: bool,
}

struct Root {
    manufacturer: Arc<str>,
    purposes: Arc<[Purpose]>,
    certificate: CertificateDer<'static>,
}

impl X509Attestation {
    /// Reads roots and revocation lists. A root under two names is an error: a device under it
    /// would count twice.
    pub fn new(config: &X509Config) -> Result<Self, Fault> {
        let crls = Rotating::holding(RevocationLists::read(&config.crls)?);
        let (anchors, roots) = (Vec::new(), Vec::new());
        let mut all = Self { anchors, roots, crls, require_crl: config.require_crl };
        for manufacturer in &config.manufacturers {
            all.add(manufacturer)?;
        }
        if all.roots.is_empty() {
            return Err(Fault("no manufacturers are configured".into()));
        }
        Ok(all)
    }

    fn add(&mut self, manufacturer: &Manufacturer) -> Result<(), Fault> {
        let name: Arc<str> = manufacturer.name.as_str().into();
        let purposes: Arc<[Purpose]> = manufacturer.purposes.as_slice().into();
        if purposes.is_empty() {
            return Err(Fault(format!(
                "what certificates of {name:?} are for is not configured: give extended_key_usage or policy, or \
                 insecure_any_purpose = true"
            )));
        }
        let unusable = || Fault(format!("the roots of {name:?} are not PEM certificates"));
        let before = self.roots.len();
        for certificate in CertificateDer::pem_slice_iter(&manufacturer.roots) {
            let certificate = certificate.map_err(|_| unusable())?;
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|_| unusable())?.to_owned();
            let key = &anchor.subject_public_key_info;
            let mut others = self.anchors.iter().zip(&self.roots);
            let other = others.find(|(other, root)| {
                other.subject_public_key_info == *key && root.manufacturer != name
            });
            if let Some((_, other)) = other {
                let other = &other.manufacturer;
                return Err(Fault(format!("{name:?} and {other:?} have a root in common")));
            }
            self.anchors.push(anchor);
            let (manufacturer, purposes) = (Arc::clone(&name), Arc::clone(&purposes));
            self.roots.push(Root { manufacturer, purposes, certificate });
        }
        if self.roots.len() == before { Err(unusable()) } else { Ok(()) }
    }

    /// Replaces the revocation lists (PEM). If they cannot be read, the old ones stay.
    pub fn reload_crls(&self, pem: &[u8]) -> Result<(), Fault> {
        self.crls.set(RevocationLists::read(pem)?);
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
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now.0));
        let crls = self.crls.current();
        let paths = Cell::new(0);
        let check = |path: &VerifiedPath<'_>| {
            paths.set(paths.get() + 1);
            if paths.get() > MAX_PATHS {
                return Err(Error::MaximumPathBuildCallsExceeded);
            }
            self.check_purpose(path, leaf)?;
            self.check_revocation(path, &crls, now)
        };
        let path = device
            .verify_for_usage(
                CERTIFICATE_ALGORITHMS,
                &self.anchors,
                intermediates,
                now,
                DeviceUsage,
                None,
                Some(&check),
            )
            .map_err(|error| untrusted(&error))?;
        device
            .verify_signature(algorithm, message, evidence.signature())
            .map_err(|_| AttestationRefusal::Signature)?;
        let root = self.root(path.anchor()).ok_or(AttestationRefusal::Untrusted)?;
        device_identity(&root.manufacturer, leaf)
    }

    fn root(&self, anchor: &TrustAnchor<'_>) -> Option<&Root> {
        let is_it = |known: &TrustAnchor<'_>| {
            known.subject == anchor.subject
                && known.subject_public_key_info == anchor.subject_public_key_info
        };
        self.anchors.iter().zip(&self.roots).find(|(known, _)| is_it(known)).map(|(_, root)| root)
    }

    /// Checks that a path is for what the certificates of its manufacturer's devices are for.
    fn check_purpose(
        &self,
        path: &VerifiedPath<'_>,
        leaf: &CertificateDer<'_>,
    ) -> Result<(), Error> {
        let root = self.root(path.anchor()).ok_or(Error::UnknownIssuer)?;
        let intermediates: Vec<_> =
            path.intermediate_certificates().map(|certificate| certificate.der()).collect();
        let fits = |purpose: &Purpose| {
            let below = intermediates.iter().map(AsRef::as_ref);
            purpose.fits(std::iter::once(leaf.as_ref()).chain(below))
        };
        if root.purposes.iter().all(fits) {
            return Ok(());
        }
        let (required, present) = (KeyUsage::client_auth(), Vec::new());
        Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
    }

    /// Checks a path against the lists of its own authorities: verifies it again, with these lists
    /// and only its own certificates.
    fn check_revocation(
        &self,
        path: &VerifiedPath<'_>,
        crls: &RevocationLists,
        now: UnixTime,
    ) -> Result<(), Error> {
        let root = self.root(path.anchor()).ok_or(Error::UnknownIssuer)?;
        let intermediates: Vec<_> =
            path.intermediate_certificates().map(|certificate| certificate.der()).collect();
        let authorities = intermediates.iter().chain([&root.certificate]).map(AsRef::as_ref);
        let lists = crls.of(authorities);
        let (status, expiration) = if self.require_crl {
            (UnknownStatusPolicy::Deny, ExpirationPolicy::Enforce)
        } else {
            (UnknownStatusPolicy::Allow, ExpirationPolicy::Ignore)
        };
        let options = match RevocationOptionsBuilder::new(&lists) {
            Ok(options) => options,
            Err(_) if self.require_crl => return Err(Error::UnknownRevocationStatus),
            Err(_) => return Ok(()),
        };
        let options = options
            .with_depth(RevocationCheckDepth::Chain)
            .with_status_policy(status)
            .with_expiration_policy(expiration)
            .build();
        let anchors = std::slice::from_ref(path.anchor());
        path.end_entity()
            .verify_for_usage(
                CERTIFICATE_ALGORITHMS,
                anchors,
                &intermediates,
                now,
                DeviceUsage,
                Some(options),
                None,
            )
            .map(|_| ())
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

/// Leaves extended key usages to [`Purpose`], which knows the manufacturer.
struct DeviceUsage;

impl ExtendedKeyUsageValidator for DeviceUsage {
    fn validate(&self, _: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        Ok(())
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

/// The device that a certificate names.
fn device_identity(
    manufacturer: &str,
    leaf: &CertificateDer<'_>,
) -> Result<DeviceIdentity, AttestationRefusal> {
    let (_, certificate) =
        X509Certificate::from_der(leaf).map_err(|_| AttestationRefusal::Malformed)?;
    let subject = certificate.subject();
    let mut numbers = subject.iter_attributes().filter(|attribute| {
        *attribute.attr_type() == x509_parser::oid_registry::OID_X509_SERIALNUMBER
    });
    let number = numbers.next().ok_or(AttestationRefusal::NoIdentity)?.attr_value().data;
    // With two numbers, a device could choose its identity.
    if number.is_empty() || numbers.next().is_some() {
        return Err(AttestationRefusal::NoIdentity);
    }
    let mut hash = Context::new(&SHA256);
    hash.update(b"sotto x509 device v1\0");
    hash.update(&(manufacturer.len() as u64).to_be_bytes());
    hash.update(manufacturer.as_bytes());
    hash.update(number);
    Ok(identity(hash))
}

/// The identity for a SHA-256 hash.
pub(super) fn identity(hash: Context) -> DeviceIdentity {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(hash.finish().as_ref());
    DeviceIdentity::new(bytes)
}
